import { isDatabaseOutage, ping } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { countDown } from '../async/in-time.ts';
import { pause } from '../async/repeat.ts';
import type { Tables } from '../tables.ts';

/** The pause before the database is asked whether it is there: twice as long each time, to the longest. */
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5000;

/**
 * Work that failed in so many outages, after each of which the database answered others, is what brings them
 * about: a statement that the server crashes on, or that takes longer than a query may.
 */
const MOST_OUTAGES = 10;

/** The database was out of reach for the same work again and again, though it answered in between. */
export class RepeatedOutageError extends Error {
  override readonly name = 'RepeatedOutageError';
}

/** How long somebody waits for the database. */
export type Patience = {
  /** Ends the wait. */
  signal: AbortSignal;
  /**
   * What may still be waited, for all outages together: each wait takes from it. As long as they take, unless
   * given.
   */
  patience?: { leftMs: number } | undefined;
};

/**
 * Does work, and does it again each time that the database was out of reach for it, as soon as the database
 * answers: whoever has a job has nothing better to do than to wait, and its lease is its own for as long as
 * nobody else gets through either. The log says when a wait begins and when it has ended well.
 * @param work Is told whether it was tried before: what it wrote then may have been written.
 * @throws What the work throws: a DatabaseError DATABASE_UNREACHABLE once the wait is over;
 *   RepeatedOutageError.
 */
export async function outlastOutages<Result>(
  { db, log }: { db: Kysely<Tables>; log: Logger },
  work: (isAgain: boolean) => Promise<Result>,
  patience: Patience,
): Promise<Result> {
  for (let outages = 0; ; outages += 1) {
    try {
      return await work(outages > 0);
    } catch (error) {
      if (!isDatabaseOutage(error)) throw error;
      const since = performance.now();
      log.warn({ err: error }, 'the database is away, and is waited for');
      if (!(await answersInTime(db, patience))) throw error;
      const waited_ms = Math.round(performance.now() - since);
      log.info({ waited_ms }, 'the database answers again');
      if (outages + 1 === MOST_OUTAGES) {
        const message = `The database was out of reach ${MOST_OUTAGES} times for the same work`;
        throw new RepeatedOutageError(message, { cause: error });
      }
    }
  }
}

/** Waits until the database answers. Gives false where that was given up. */
async function answersInTime(
  db: Kysely<Tables>,
  { signal, patience = { leftMs: Infinity } }: Patience,
): Promise<boolean> {
  const leftMs = countDown(patience.leftMs);
  try {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs)) {
      await pause(Math.min(pauseMs, leftMs()), signal);
      if (signal.aborted || leftMs() === 0) return false;
      if (await answers(db)) return true;
    }
  } finally {
    patience.leftMs = leftMs();
  }
}

async function answers(db: Kysely<Tables>): Promise<boolean> {
  try {
    await ping(db);
    return true;
  } catch (error) {
    if (isDatabaseOutage(error)) return false;
    throw error;
  }
}
