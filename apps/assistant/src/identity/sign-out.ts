import { setTimeout as sleep } from 'node:timers/promises';
import type { IdentityDeps } from './deps.ts';
import type { EndReason } from './metrics.ts';
import { ProviderError } from './provider/transport.ts';
import { type EndedSession, endSession } from './revocation.ts';
import { findOwnSession } from './auth-sessions.ts';
import type { EndRejected } from './token-refresh.ts';
import { queueTokenRevocation } from './token-revocation.ts';

/** The longest wait of a sign-out for discovery. */
const DISCOVERY_WAIT_MS = 1000;

/**
 * Ends single sessions at once; their tokens are revoked at the provider after the answer.
 * @param wakeRevocation Begins to revoke queued tokens.
 */
export function createSignOut(
  { db, log, metrics, provider, vault, rules, config }: IdentityDeps,
  wakeRevocation: () => void,
) {
  async function end(
    find: { id: string } | { userId: string; publicId: string },
    audit: Parameters<typeof endSession>[2],
    reason: EndReason,
  ): Promise<EndedSession | undefined> {
    const session = await db.transaction().execute(async (trx) => {
      const id = 'id' in find ? find.id : await findOwnSession(trx, find, rules);
      const ended = id === undefined ? undefined : await endSession(trx, { id }, audit);
      if (ended !== undefined) await queueTokenRevocation(trx, [ended]);
      return ended;
    });
    if (session === undefined) return undefined;
    metrics.countEnded(reason);
    log.info({ user_id: session.userId, reason }, 'signed out');
    wakeRevocation();
    return session;
  }

  return {
    /**
     * Ends the session of a cookie.
     * @returns With IDP_END_SESSION, the address that ends the browser's session at the provider too.
     */
    async signOut(sessionId: string): Promise<string | undefined> {
      const session = await end({ id: sessionId }, { action: 'signed_out' }, 'signed_out');
      if (session === undefined || !config.IDP_END_SESSION) return undefined;
      try {
        const { idTokenEnc } = session;
        const idToken =
          idTokenEnc === null ? undefined : await vault.open(idTokenEnc, session, 'id_token_enc');
        return await Promise.race([provider.endSessionUrl(idToken), rejectAfterTimeout()]);
      } catch (error) {
        log.warn({ err: error }, 'signed out here, but not at the provider');
        return undefined;
      }
    },

    /** Ends a sign-in of a user by its public id. Returns undefined if the user has no such sign-in. */
    endOwn(userId: string, publicId: string): Promise<EndedSession | undefined> {
      const audit = { action: 'sign_in_ended', details: { sign_in: publicId } } as const;
      return end({ userId, publicId }, audit, 'ended');
    },

    endRejected: (async (session) => {
      const ended = await db
        .transaction()
        .execute((trx) => endSession(trx, session, { action: 'session_rejected' }));
      if (ended === undefined) return false;
      metrics.countEnded('refused');
      log.info({ user_id: session.userId }, 'signed out: the provider rejects the tokens');
      return true;
    }) satisfies EndRejected,
  };
}

async function rejectAfterTimeout(): Promise<never> {
  await sleep(DISCOVERY_WAIT_MS, undefined, { ref: false });
  throw new ProviderError('unavailable', `discovery takes longer than ${DISCOVERY_WAIT_MS} ms`);
}
