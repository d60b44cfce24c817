import { setTimeout as sleep } from 'node:timers/promises';
import type { IdentityDeps } from './deps.ts';
import type { EndReason } from './metrics.ts';
import { ProviderError } from './provider/transport.ts';
import { type EndedAuthSession, endAuthSession } from './revocation.ts';
import { findOwnAuthSession } from './auth-sessions.ts';
import type { EndRejectedSession } from './token-refresh.ts';
import { queueTokenRevocation } from './token-revocation.ts';

/** Maximum time that a sign-out waits for discovery. */
const DISCOVERY_WAIT_MS = 1000;

/**
 * Creates the functions that end single auth sessions. Their tokens are revoked at the provider after the response.
 * @param wakeRevocation Starts the revocation of queued tokens.
 */
export function createSignOut(
  { db, log, metrics, provider, vault, rules, config }: IdentityDeps,
  wakeRevocation: () => void,
) {
  async function end(
    find: { id: string } | { userId: string; publicId: string },
    audit: Parameters<typeof endAuthSession>[2],
    reason: EndReason,
  ): Promise<EndedAuthSession | undefined> {
    const session = await db.transaction().execute(async (trx) => {
      const id = 'id' in find ? find.id : await findOwnAuthSession(trx, find, rules);
      const ended = id === undefined ? undefined : await endAuthSession(trx, { id }, audit);
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
     * Ends the auth session of a cookie.
     * @returns The URL that also ends the browser's session at the provider, if IDP_END_SESSION is set.
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

    /** Ends a sign-in of a user by its public ID. Returns undefined if the user does not have this sign-in. */
    endOwn(userId: string, publicId: string): Promise<EndedAuthSession | undefined> {
      const audit = { action: 'sign_in_ended', details: { sign_in: publicId } } as const;
      return end({ userId, publicId }, audit, 'ended');
    },

    endRejected: (async (session) => {
      const ended = await db
        .transaction()
        .execute((trx) => endAuthSession(trx, session, { action: 'session_rejected' }));
      if (ended === undefined) return false;
      metrics.countEnded('refused');
      log.info({ user_id: session.userId }, 'signed out: the provider rejects the tokens');
      return true;
    }) satisfies EndRejectedSession,
  };
}

async function rejectAfterTimeout(): Promise<never> {
  await sleep(DISCOVERY_WAIT_MS, undefined, { ref: false });
  throw new ProviderError('unavailable', `discovery takes longer than ${DISCOVERY_WAIT_MS} ms`);
}
