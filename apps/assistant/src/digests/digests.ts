import { randomUUID } from 'node:crypto';
import type { Logger } from '@oselya/kit';
import { type Collector, CollectorError } from '../collector/client.ts';
import { claimFeed, countActive, releaseFeed } from './feed.sql.ts';
import { oneAtATime } from './one-at-a-time.ts';
import { type FeedDeps, nothingAnswered, readFeed } from './read-feed.ts';
import { tellDue, type TellDeps } from './tell.ts';

/** How soon digests that waited for answers come once these have ended: together, where several end. */
const RETELL_MS = 500;

/** What is heard in the place of a session where notifications may have been missed. */
const MISSED = '';

/** Digests of saved searches. */
export type Digests = ReturnType<typeof createDigests>;

/**
 * Reads what changed at the collector, and tells users what their saved searches found. Any number of processes may
 * do this: one of them reads and tells, and when it has gone another one goes on where it was.
 * docs/adr/0025-saved-searches.md.
 */
export function createDigests({
  log,
  ...deps
}: Omit<FeedDeps & TellDeps, 'holder' | 'answered' | 'log'> & {
  collector: Collector;
  log: Pick<Logger, 'info' | 'warn'>;
}) {
  const { db, metrics } = deps;
  const holder = randomUUID();
  const answered = nothingAnswered();
  const closing = new AbortController();
  const { signal } = closing;
  /** Sessions whose digests wait for the end of an answer, and those whose answers ended since telling began. */
  const busy = new Set<string>();
  const heard = new Set<string>();
  let isFailing = false;
  let timer: NodeJS.Timeout | undefined;
  let retellTimer: NodeJS.Timeout | undefined;

  const tell = oneAtATime(async () => {
    const place = await claimFeed(db, holder);
    metrics.noteCaughtUp(place?.caughtUpAt);
    metrics.noteSearches(place === undefined ? 0 : await countActive(db));
    busy.clear();
    heard.clear();
    if (place === undefined) return;
    await tellDue({ ...deps, holder, log }, signal, (sessionId) => {
      busy.add(sessionId);
      // Its end may have been heard before it was known that somebody waits for it.
      if (heard.has(sessionId) || heard.has(MISSED)) tellSoon();
    });
  });

  /** What has been found is not left for the next time. */
  const read = oneAtATime(async () => {
    const isReader = await readFeed({ ...deps, holder, answered, log }, signal);
    if (isReader && isFailing) log.info({}, "the collector's feed of changes is read again");
    isFailing = false;
    if (isReader) await tell();
  });

  function tellSoon(): void {
    if (retellTimer !== undefined || signal.aborted) return;
    retellTimer = setTimeout(() => {
      retellTimer = undefined;
      void quietly(tell);
    }, RETELL_MS).unref();
  }

  /** Does work of its own accord: there is nobody to whom its failure could be told. */
  async function quietly(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof CollectorError)) {
        log.warn({ err: error }, 'saved searches could not be looked after');
        return;
      }
      metrics.countFailure();
      if (isFailing) return;
      isFailing = true;
      log.warn(
        { err: error },
        "the collector's feed of changes cannot be read; saved searches go on where they are when it can",
      );
    }
  }

  return {
    /** Reads what there is to read, and tells what there is to tell, once. */
    read: () => quietly(read),
    tell: () => quietly(tell),

    /**
     * Reads and tells from now on, until it is closed.
     * @param options.pollMs How often.
     * @param options.isExclusive Whether no other process can work on the database.
     */
    start({ pollMs, isExclusive }: { pollMs: number; isExclusive: boolean }): void {
      const look = () => {
        void quietly(tell);
        void quietly(read);
      };
      timer = setInterval(look, pollMs).unref();
      // A process that was killed still has the lease, and will not come back.
      void quietly(async () => {
        if (isExclusive) await releaseFeed(db);
        if (!signal.aborted) look();
      });
    },

    /**
     * Takes a notification of `TURN_END_CHANNEL`: a digest may wait for the end of that answer.
     * @param sessionId Of the answer; empty where notifications may have been missed.
     */
    hear(sessionId: string): void {
      if (busy.has(sessionId) || (sessionId === MISSED && busy.size > 0)) tellSoon();
      else if (tell.current() !== undefined) heard.add(sessionId);
    },

    /** Ends what is being done, and lets another process go on at once. */
    async close(): Promise<void> {
      clearInterval(timer);
      clearTimeout(retellTimer);
      closing.abort();
      await Promise.allSettled([read.current(), tell.current()]);
      await quietly(() => releaseFeed(db, holder));
    },
  };
}
