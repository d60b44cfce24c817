import { setTimeout as sleep } from 'node:timers/promises';
import { publicSessionId, whereAuthSessionActive } from './auth-sessions.ts';
import type { IdentityDeps } from './deps.ts';
import type { EndReason } from './metrics.ts';
import { ProviderError } from './provider/transport.ts';
import { type EndedAuthSession, endAuthSession } from './revocation.ts';
import type { EndRejectedSession } from './token-refresh.ts';
import { queueTokenRevocation } from './token-revocation.ts';

const DISCOVERY_WAIT_MS = 1000;

/** Creates the functions that end one auth session. `wakeRevocation` starts the revocation of queued tokens. */
export function createSignOutService(
  { db, log, metrics, provider, vault, config }: IdentityDeps,
  wakeRevocation: () => void,
) {
  async function endSession(
    id: string,
    audit: Parameters<typeof endAuthSession>[2],
    reason: EndReason,
  ): Promise<EndedAuthSession | undefined> {
    const session = await db.transaction().execute(async (trx) => {
      const endedSession = await endAuthSession(trx, { id }, audit);
      if (endedSession !== undefined) await queueTokenRevocation(trx, [endedSession]);
      return endedSession;
    });
    if (session === undefined) return undefined;
    metrics.countEnded(reason);
    log.info({ user_id: session.user_id, reason }, 'signed out');
    wakeRevocation();
    return session;
  }

  async function buildLogoutUrl({ id_token_enc, ...row }: EndedAuthSession): Promise<string> {
    if (id_token_enc === null) return provider.buildEndSessionUrl(undefined);
    return provider.buildEndSessionUrl(await vault.open({ ...row, id_token_enc }, 'id_token_enc'));
  }

  const endRejectedSession: EndRejectedSession = async ({ id, user_id, token_version }, lease) => {
    const fencedSession = { id, token_version, lease };
    const endedSession = await db
      .transaction()
      .execute((trx) => endAuthSession(trx, fencedSession, { action: 'session_rejected' }));
    if (endedSession === undefined) return false;
    metrics.countEnded('refused');
    log.info({ user_id }, 'signed out: the provider rejects the tokens');
    return true;
  };

  return {
    /**
     * Ends the auth session of a cookie. With IDP_END_SESSION, returns the URL that ends the provider's session, unless
     * the auth session has already ended or the URL cannot be built within a second.
     */
    async signOut(sessionId: string): Promise<string | undefined> {
      const session = await endSession(sessionId, { action: 'signed_out' }, 'signed_out');
      if (session === undefined || !config.IDP_END_SESSION) return undefined;
      try {
        return await Promise.race([buildLogoutUrl(session), rejectAfterTimeout()]);
      } catch (error) {
        log.warn({ err: error }, 'signed out here, but not at the provider');
        return undefined;
      }
    },

    /** Ends an auth session of a user by its public ID. Returns undefined if the user does not have this session. */
    async endOwnSession(userId: string, publicId: string): Promise<EndedAuthSession | undefined> {
      const session = await db
        .selectFrom('user_auth_sessions as s')
        .select('s.id')
        .where('s.user_id', '=', userId)
        .where(whereAuthSessionActive(config))
        .where(publicSessionId, '=', publicId)
        .executeTakeFirst();
      if (session === undefined) return undefined;
      const audit = { action: 'sign_in_ended', details: { sign_in: publicId } } as const;
      return endSession(session.id, audit, 'ended');
    },

    endRejectedSession,
  };
}

async function rejectAfterTimeout(): Promise<never> {
  await sleep(DISCOVERY_WAIT_MS, undefined, { ref: false });
  throw new ProviderError('unavailable', `discovery takes longer than ${DISCOVERY_WAIT_MS} ms`);
}
