import { createLogger } from '@oselya/kit';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { createAnnounce } from '../../src/chat/announce.ts';
import { createCollector } from '../../src/collector/client.ts';
import { createDigests } from '../../src/digests/digests.ts';
import { createDigestMetrics } from '../../src/digests/metrics.ts';
import { openStage } from '../chat/stage.ts';
import { startScriptedFeed } from '../helpers/scripted-feed.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';

/** What somebody who keeps searches may do. */
export const KEEPER = ['svc.tools.use', 'svc.profiles.use'] as const;

/** An assistant with a scripted feed of changes, and processes that read it as a test tells them to. */
export async function openDigestStage() {
  const feed = await startScriptedFeed();
  const stage = await openStage({ COLLECTOR_URL: feed.url });
  const { db } = stage;

  let next = 1;
  return {
    ...stage,
    feed,

    /** A new listing, with an id that no other test has. */
    add: (facts: Parameters<typeof feed.add>[1] = {}): number => {
      const id = next;
      next += 1;
      feed.add(id, facts);
      return id;
    },

    /**
     * A process that reads and tells when it is told to; the sockets of the stage's app are another one's.
     * @param dies Whether it ends within the transaction of its next digest.
     * @param onOutcome Is waited for after each attempt to tell.
     * @param searchesAtOnce As of `readFeed`.
     * @param mostWaitedSeconds As of `tellDue`.
     */
    reader({
      dies = () => false,
      onOutcome = () => undefined,
      searchesAtOnce,
      mostWaitedSeconds,
    }: {
      dies?: () => boolean;
      onOutcome?: (outcome: string) => Promise<void> | void;
      searchesAtOnce?: number;
      mostWaitedSeconds?: number;
    } = {}) {
      const registry = new Registry();
      const lines: string[] = [];
      const announce = createAnnounce(db);
      const digests = createDigests({
        db,
        collector: createCollector({ url: feed.url, apiKey: '' }),
        announce: async (session, compose) => {
          const outcome = await announce(session, async (trx) => {
            const composed = await compose(trx);
            if (dies()) throw new Error('The process was killed');
            return composed;
          });
          await onOutcome(outcome);
          return outcome;
        },
        lifetime: { lifetimeDays: 30, idleDays: 7 },
        searchesAtOnce,
        mostWaitedSeconds,
        metrics: createDigestMetrics(registry),
        log: createLogger({
          level: 'info',
          service: 'reader',
          destination: { write: (line) => lines.push(line) },
        }),
      });
      return {
        ...digests,
        lines,
        /** The value of a metric, over all of its labels. */
        async metric(name: string): Promise<number> {
          const found = await registry.getSingleMetric(name)?.get();
          return (found?.values ?? []).reduce((sum, { value }) => sum + value, 0);
        },
        /** Reads all that there is, and tells what may be told. */
        async pass(): Promise<void> {
          await digests.read();
          await digests.tell();
        },
      };
    },

    /** Keeps a search, in a session of its own. */
    async keep(
      userId: string,
      { search = { city: 'Львів' }, name = 'Пошук', every = 60 }: Partial<Keep> = {},
    ): Promise<{ id: string; sessionId: string }> {
      const session = await db
        .insertInto('conversation_sessions')
        .values({ user_id: userId, profile_id: 'default', name })
        .returning('id')
        .executeTakeFirstOrThrow();
      const values = { user_id: userId, name, search: JSON.stringify(search) };
      const saved = await db
        .insertInto('saved_searches')
        .values({ ...values, session_id: session.id, every_minutes: every })
        .returning('id')
        .executeTakeFirstOrThrow();
      return { id: saved.id, sessionId: session.id };
    },

    /**
     * Lets time pass: without an age so much that the next digest may come, whatever it waits for, and what is to
     * be told in it is looked at again.
     */
    async later(age = '8 days'): Promise<void> {
      await sql`update saved_searches set told_at = told_at - ${age}::interval`.execute(db);
      await sql`update saved_search_hits set found_at = found_at - ${age}::interval
        where told_at is null`.execute(db);
    },

    /** Lets the lease of a process that has gone run out. */
    async leaseEnds(): Promise<void> {
      await sql`update collector_feed set lease_until = now() - interval '1 second'`.execute(db);
    },

    /** Lets the time of the next digest come, and what waits for it stay as recent as it is. */
    async due(): Promise<void> {
      await sql`update saved_searches set told_at = now() - interval '8 days'`.execute(db);
    },

    /** Does something while work waits for the collector to say what a search finds. */
    async whileAsked(work: () => Promise<void>, meanwhile: () => Promise<void>): Promise<void> {
      const asked = gate();
      feed.gate = asked.opened;
      const before = feed.waiting;
      const working = work();
      try {
        await until(() => feed.waiting > before);
        await meanwhile();
      } finally {
        feed.gate = undefined;
        asked.open();
      }
      await working;
    },

    /** The ids of the listings that a session was told of, in the order of its messages. */
    told: async (sessionId: string): Promise<number[][]> => {
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

/** From the least to the greatest. */
export const sorted = (ids: readonly number[]): number[] =>
  ids.toSorted((one, other) => one - other);

type Keep = { search: object; name: string; every: number };
