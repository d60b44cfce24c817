import type { Suite } from './suite.ts';

/** Suites by name. Each suite is imported when it runs, so listing the suites loads no peers. */
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
      summary: 'rate of accepted payloads: the collector, pgbench, graphile-worker and pg-boss',
      run: async (context) => (await import('./ingest/ingest.ts')).measureIngest(context),
    },
  ],
  [
    'queue',
    {
      summary: 'empty jobs, pickup delay and fairness: the collector, graphile-worker, pg-boss',
      run: async (context) => (await import('./queue/queue.ts')).measureQueue(context),
    },
  ],
  [
    'pipeline',
    {
      summary:
        'the collector’s worker: rate of jobs, calls to the model, and busy time of its slots',
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
    'relevance',
    {
      summary: 'right listings among the hits of 412 labelled queries, by kind of search',
      run: async (context) => (await import('./relevance/relevance.ts')).measureRelevance(context),
    },
  ],
  [
    'peers',
    {
      summary:
        'searches in 1,000,000 listings: the collector, Sphinx, Groonga, SQLite FTS5 and LanceDB',
      run: async (context) => (await import('./peers/peers.ts')).measurePeers(context),
    },
  ],
  [
    'soak',
    {
      summary:
        'half an hour of payloads, jobs and searches at a constant rate: slowdown and growth',
      run: async (context) => (await import('./soak/soak.ts')).measureSoak(context),
    },
  ],
  [
    'chat',
    {
      summary: 'latency of tokens over a thousand sockets: the assistant and a minimal relay',
      run: async (context) => (await import('./chat/chat.ts')).measureChat(context),
    },
  ],
  [
    'inventory',
    {
      summary:
        'validation of a million endpoints: oselya inventory, JSON.parse alone, ajv-cli, @jirutka/ajv-cli',
      run: async (context) => (await import('./inventory/inventory.ts')).measureInventory(context),
    },
  ],
]);
