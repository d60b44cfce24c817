import type { Suite } from './suite.ts';

/** Suites by name. Each suite is imported when it runs, so the list loads no peers. */
export const suites: ReadonlyMap<string, Suite> = new Map([
  [
    'auth',
    {
      summary: 'requests of signed-in users: the assistant, better-auth and @fastify/session',
      run: async (context) => (await import('./auth/auth.ts')).measureAuth(context),
    },
  ],
  [
    'ingest',
    {
      summary: 'payloads taken in: the collector, pgbench, graphile-worker and pg-boss',
      run: async (context) => (await import('./ingest/ingest.ts')).measureIngest(context),
    },
  ],
  [
    'queue',
    {
      summary: 'jobs that do nothing, pickup and fairness: the collector, graphile-worker, pg-boss',
      run: async (context) => (await import('./queue/queue.ts')).measureQueue(context),
    },
  ],
  [
    'pipeline',
    {
      summary: 'the collector’s worker: jobs, calls to the model, and how busy its slots are',
      run: async (context) => (await import('./pipeline/pipeline.ts')).measurePipeline(context),
    },
  ],
  [
    'search',
    {
      summary: 'full-text, similar and hybrid searches in 100,000 and 1,000,000 listings',
      run: async (context) => (await import('./search/search.ts')).measureSearch(context),
    },
  ],
  [
    'soak',
    {
      summary:
        'half an hour of payloads, jobs and searches at an even rate: what gets slower or larger',
      run: async (context) => (await import('./soak/soak.ts')).measureSoak(context),
    },
  ],
  [
    'chat',
    {
      summary: 'answers over a thousand sockets, token by token: the assistant and a bare relay',
      run: async (context) => (await import('./chat/chat.ts')).measureChat(context),
    },
  ],
  [
    'inventory',
    {
      summary:
        'a million endpoints validated: oselya inventory, JSON.parse alone, ajv-cli, @jirutka/ajv-cli',
      run: async (context) => (await import('./inventory/inventory.ts')).measureInventory(context),
    },
  ],
]);
