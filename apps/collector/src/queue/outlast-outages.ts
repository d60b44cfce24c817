import { isDatabaseOutage } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import { pause } from '../async/repeat.ts';
import type { Tables } from '../database/tables.ts';

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
  /** How long each outage may take; as long as it does, unless told. */
  patienceMs?: number | undefined;
};

/**
 * Does work, and does it again each time that the database was out of reach for it, as soon as the database
 * answers: whoever has a job has nothing better to do than to wait, and its lease is its own for as long as
 * nobody else gets through either.
 * @param work Is told whether it was tried before: what it wrote then may have been written.
 * @throws What the work throws: a DatabaseError DATABASE_UNREACHABLE once the wait is over;
 *   RepeatedOutageError.
 */
export async function outlastOutages<Result>(
  db: Kysely<Tables>,
  work: (isAgain: boolean) => Promise<Result>,
  patience: Patience,
): Promise<Result> {
  for (let outages = 0; ; outages += 1) {
    try {
      return await work(outages > 0);
    } catch (error) {
      if (!isDatabaseOutage(error)) throw error;
      if (!(await answersInTime(db, patience))) throw error;
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
  { signal, patienceMs = Infinity }: Patience,
): Promise<boolean> {
  const deadline = performance.now() + patienceMs;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs)) {
    await pause(pauseMs, signal);
    if (signal.aborted || performance.now() > deadline) return false;
    if (await answers(db)) return true;
  }
}

async function answers(db: Kysely<Tables>): Promise<boolean> {
  try {
    await sql`select 1`.execute(db);
    return true;
  } catch (error) {
    if (isDatabaseOutage(error)) return false;
    throw error;
  }
}
