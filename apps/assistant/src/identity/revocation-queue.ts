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

/** Attempts for the tokens of one session. At the default timeout the last is half an hour after the first. */
const MAX_ATTEMPTS = 6;

/** How often a process claims rows that are due again, or that a crashed process left. */
const POLL_MS = 30_000;

/** Revokes the tokens of ended sessions at the provider in the background. */
export type RevocationQueue = ReturnType<typeof createRevocationQueue>;

/**
 * Creates the queue. Its tokens stay encrypted in the database, so that any process can revoke them. A provider
 * that does not answer is asked again after a minute, then after twice as long each time, up to `MAX_ATTEMPTS`.
 * The session does not wait for that: it ended in the transaction that added its tokens.
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
        log.warn({ err: error }, 'the tokens of ended sessions could not be claimed yet');
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
      if (!isSettled && isLast) log.warn('gave up revoking the tokens of an ended session');
    } catch (error) {
      log.warn({ err: error }, 'revoked tokens could not be deleted and will be revoked again');
    }
  }

  return {
    /** Adds the tokens of sessions in the transaction that ends them; call `wake` after its commit. */
    add: addRevocations,
    /** Starts to revoke the tokens that are due, and returns at once. */
    wake,
    /** Starts to poll for tokens that other processes left. */
    start(): void {
      timer = setInterval(wake, POLL_MS).unref();
      wake();
    },
    /** Claims no more, and waits for the calls in progress. */
    async close(): Promise<void> {
      closing.abort();
      clearInterval(timer);
      await working;
    },
  };
}
