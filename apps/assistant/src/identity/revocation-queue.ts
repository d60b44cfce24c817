import type { Logger } from '@oselya/kit';
import type { EndedSession } from './auth-sessions.sql.ts';
import type { Revocation } from './token-revocation.ts';

/** Calls to the provider in progress at once; the rest of it is for those who sign in. */
const PARALLEL = 4;

/** How many sessions wait at most; one holds a few kilobytes. */
const MAX_WAITING = 10_000;

/** Revokes the tokens of many ended sessions, without anybody waiting for it. */
export type RevocationQueue = ReturnType<typeof createRevocationQueue>;

/**
 * A provider that is slow, or down, takes up to IDP_TIMEOUT_MS for each of the sessions that ended at
 * once. So whoever ended them is answered first, and their tokens are revoked a few at a time. It is a
 * courtesy to the provider: the sessions are gone from the database already, and the tokens with them.
 * What waits when the process ends is not revoked, nor what does not fit.
 */
export function createRevocationQueue({ revoke, log }: { revoke: Revocation; log: Logger }) {
  const waiting: EndedSession[] = [];
  const working = new Set<Promise<void>>();

  async function work(): Promise<void> {
    for (let session = waiting.shift(); session !== undefined; session = waiting.shift()) {
      await revoke(session);
    }
  }

  return {
    /** Takes sessions in; it never fails and does not wait. */
    add(sessions: readonly EndedSession[]): void {
      const room = MAX_WAITING - waiting.length;
      waiting.push(...sessions.slice(0, room));
      if (sessions.length > room) {
        log.warn({ sessions: sessions.length - room }, 'too many ended sessions to revoke at once');
      }
      while (working.size < PARALLEL && waiting.length > 0) {
        const worker = work().finally(() => working.delete(worker));
        working.add(worker);
      }
    },
    /** Begins nothing more, and waits for the calls in progress. */
    async close(): Promise<void> {
      waiting.length = 0;
      await Promise.all(working);
    },
  };
}
