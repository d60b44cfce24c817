import { until } from '@oselya/testing';
import { watchDatabase } from '@oselya/testing/database';
import { createLogger } from '@oselya/kit';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { createCollectorClient } from '../../src/collector/client.ts';
import { createDigestService } from '../../src/saved-searches/digests.ts';
import { createDigestMetrics } from '../../src/saved-searches/metrics.ts';
import { openStage } from '../conversations/stage.ts';
import { startScriptedFeed } from '../helpers/scripted-feed.ts';
import { createGate } from '../helpers/scripted-model.ts';

/** Permissions of a user with saved searches. */
export const DIGEST_PERMISSIONS = ['svc.tools.use', 'svc.profiles.use'] as const;

/** Opens an assistant with a scripted change feed. */
export async function openDigestStage() {
  const feed = await startScriptedFeed();
  const stage = await openStage({ COLLECTOR_URL: feed.url });
  const { db } = stage;

  let nextListingId = 1;
  return {
    ...stage,
    feed,

    /** Adds a listing with an ID that no other test uses. */
    addListing: (fields: Parameters<typeof feed.add>[1] = {}): number => {
      const id = nextListingId;
      nextListingId += 1;
      feed.add(id, fields);
      return id;
    },

    /**
     * Creates a processor of saved searches that runs on demand.
     * @param shouldFail Returns whether the transaction of a digest fails.
     */
    createReader({ shouldFail = () => false }: { shouldFail?: () => boolean } = {}) {
      const registry = new Registry();
      const lines: string[] = [];
      const { runPass, run } = createDigestService({
        db: watchDatabase(db, {
          after(text) {
            if (shouldFail() && text.includes('chat_turn_events')) throw new Error('A kill');
          },
        }),
        collector: createCollectorClient({ url: feed.url, apiKey: '' }),
        config: { SVC_AUTH_COOKIE_MAX_AGE_DAYS: 30, SVC_AUTH_IDLE_DAYS: 7 },
        metrics: createDigestMetrics(registry),
        log: createLogger({
          level: 'info',
          service: 'reader',
          destination: { write: (line) => lines.push(line) },
        }),
      });
      return {
        lines,
        run,
        runPass: () => runPass(new AbortController().signal),
        /** Returns the value of a metric, summed over its labels. */
        async readMetric(name: string): Promise<number> {
          const metric = await registry.getSingleMetric(name)?.get();
          return (metric?.values ?? []).reduce((sum, { value }) => sum + value, 0);
        },
      };
    },

    /** Saves a search with a new session. */
    async saveSearch(
      userId: string,
      { search = { city: 'Львів' }, name = 'Пошук', every = 60 }: Partial<SavedSearchOptions> = {},
    ): Promise<{ id: string; sessionId: string }> {
      const session = await db
        .insertInto('conversation_sessions')
        .values({ user_id: userId, profile_id: 'default', name })
        .returning('id')
        .executeTakeFirstOrThrow();
      const values = { user_id: userId, name, search: JSON.stringify(search) };
      const savedSearch = await db
        .insertInto('saved_searches')
        .values({ ...values, session_id: session.id, every_minutes: every })
        .returning('id')
        .executeTakeFirstOrThrow();
      return { id: savedSearch.id, sessionId: session.id };
    },

    /** Moves the times of the last digests into the past, which makes the next digests due. */
    async ageDigests(age = '8 days'): Promise<void> {
      await sql`update saved_searches set told_at = told_at - ${age}::interval`.execute(db);
    },

    /** Expires the lease of a dead process. */
    async expireLease(): Promise<void> {
      await sql`update collector_feed set lease_until = now() - interval '1 second'`.execute(db);
    },

    /** Runs `meanwhile` while `work` waits for matches from the collector. */
    async whileRequested(
      work: () => Promise<unknown>,
      meanwhile: () => Promise<void>,
    ): Promise<void> {
      const matchGate = createGate();
      feed.gate = matchGate.opened;
      const earlierCount = feed.waiting;
      const workPromise = work();
      try {
        await until(() => feed.waiting > earlierCount);
        await meanwhile();
      } finally {
        feed.gate = undefined;
        matchGate.open();
      }
      await workPromise;
    },

    /** Returns the IDs of the listings in each digest of a session. */
    listReported: async (sessionId: string): Promise<number[][]> => {
      const rows = await db
        .selectFrom('conversation_messages')
        .select('content')
        .where('session_id', '=', sessionId)
        .where('kept', 'is not', null)
        .orderBy('position')
        .execute();
      return rows.map(({ content }) =>
        Array.from(String(content).matchAll(/#(\d+)/g), ([, id]) => Number(id)),
      );
    },
  };
}

export const sortIds = (ids: readonly number[]): number[] => ids.toSorted((a, b) => a - b);

type SavedSearchOptions = { search: object; name: string; every: number };
