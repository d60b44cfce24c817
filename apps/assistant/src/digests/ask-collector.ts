import { setTimeout as sleep } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import { CollectorError } from '../collector/client.ts';
import type { Tables } from '../tables.ts';
import { claimFeed } from './feed.sql.ts';

/** How long one request to the collector may take. */
const REQUEST_MS = 20_000;

/** How long, and how often, the collector may put a request off before it is given up. */
const LONGEST_WAIT_SECONDS = 60;
const MOST_WAITS = 10;

/** For how long the collector may still put requests off that share this, in all. */
export type Patience = { secondsLeft: number };

/** Another process reads the feed by now, and tells what was found. */
export class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError';
}

/**
 * Asks the collector, and again where it says that it was asked too often; the lease on the feed is renewed with each
 * try.
 * @param who.holder Names this process.
 * @param who.patience Of this request with others; without it each request is waited for as often as `MOST_WAITS` says.
 * @throws CollectorError, LeaseLostError, or the signal's reason.
 */
export async function askCollector<Result>(
  { db, holder, patience }: { db: Kysely<Tables>; holder: string; patience?: Patience },
  ask: (signal: AbortSignal) => Promise<Result>,
  signal: AbortSignal,
): Promise<Result> {
  for (let waits = 0; ; waits += 1) {
    signal.throwIfAborted();
    if ((await claimFeed(db, holder)) === undefined) throw new LeaseLostError();
    try {
      return await ask(AbortSignal.any([signal, AbortSignal.timeout(REQUEST_MS)]));
    } catch (error) {
      signal.throwIfAborted();
      const isTooOften = error instanceof CollectorError && error.status === 429;
      const seconds = isTooOften ? (error.retryAfterSeconds ?? 1) : Infinity;
      const longest = Math.min(LONGEST_WAIT_SECONDS, patience?.secondsLeft ?? Infinity);
      if (seconds > longest || waits === MOST_WAITS) throw error;
      if (patience !== undefined) patience.secondsLeft -= seconds;
      await sleep(seconds * 1000, undefined, { signal });
    }
  }
}
