import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import {
  addRevocations,
  claimRevocations,
  type ClaimedRevocation,
  deleteRevocation,
} from './revocation-queue.sql.ts';
import type { Revocation } from './token-revocation.ts';

/** Calls to the provider in progress at once; the rest of its capacity is for sign-ins. */
const PARALLEL = 4;

/** Attempts at one session's tokens: the last is half an hour after the first, at the default timeout. */
const MAX_ATTEMPTS = 6;

/** How often a process looks for what is due again, and for what a crashed process left. */
const POLL_MS = 30_000;

/** Revokes the tokens of ended sessions at the provider, while nobody waits for it. */
export type RevocationQueue = ReturnType<typeof createRevocationQueue>;

/**
 * Makes the queue. The tokens wait in the database, encrypted as before, so that they outlive the process
 * that ended the session; any process revokes them. A provider that does not answer is asked again, after
 * about a minute and then after twice as long each time, and given up after the last attempt: it is a
 * courtesy, the session itself ended in the same transaction that added its tokens.
 */
export function createRevocationQueue({
  db,
  revoke,
  log,
  providerTimeoutMs,
}: {
  db: Kysely<Tables>;
  revoke: Revocation;
  log: Pick<Logger, 'warn'>;
  providerTimeoutMs: number;
}) {
  // Discovery, keys and the call itself end before another process claims the row.
  const retrySeconds = Math.max(60, (4 * providerTimeoutMs) / 1000);
  const closing = new AbortController();
  let isWoken = false;
  let working: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  function wake(): void {
    isWoken = true;
    working ??= work();
  }

  async function work(): Promise<void> {
    while (isWoken && !closing.signal.aborted) {
      isWoken = false;
      try {
        await revokeAllDue();
      } catch (error) {
        log.warn({ err: error }, 'the tokens of ended sessions could not be read, and wait');
      }
    }
    working = undefined;
  }

  async function revokeAllDue(): Promise<void> {
    while (!closing.signal.aborted) {
      const claimed = await claimRevocations(db, { limit: PARALLEL, retrySeconds });
      if (claimed.length === 0) return;
      await Promise.all(claimed.map(handle));
    }
  }

  async function handle(claimed: ClaimedRevocation): Promise<void> {
    try {
      const isSettled = await revoke(claimed);
      const isLast = claimed.attempts >= MAX_ATTEMPTS;
      if (isSettled || isLast) await deleteRevocation(db, claimed);
      if (!isSettled && isLast)
        log.warn('the tokens of an ended session are not revoked: given up');
    } catch (error) {
      log.warn({ err: error }, 'revoked tokens could not be deleted, and are revoked once more');
    }
  }

  return {
    /** Adds the tokens of sessions, in the transaction that ends them; `wake` follows its commit. */
    add: addRevocations,
    /** Begins to revoke what is due; it does not wait for it. */
    wake,
    /** Revokes from now on also what other processes left. */
    start(): void {
      timer = setInterval(wake, POLL_MS).unref();
      wake();
    },
    /** Begins nothing more, and waits for the calls in progress. */
    async close(): Promise<void> {
      closing.abort();
      clearInterval(timer);
      await working;
    },
  };
}
