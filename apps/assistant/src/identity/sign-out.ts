import { deleteSession } from './auth-sessions.ts';
import type { SignInOptions } from './sign-in.ts';

/**
 * Signs out: the session goes first, then the provider is told, as far as it listens. A provider that
 * does not answer delays the answer by IDP_TIMEOUT_MS at most, and keeps nobody signed in.
 */
export function createSignOut({ db, log, provider, tokens }: Omit<SignInOptions, 'lifetimeDays'>) {
  return async (sessionId: string): Promise<void> => {
    const session = await deleteSession(db, sessionId);
    if (session === undefined) return;
    log.info({ user_id: session.userId }, 'signed out');
    const results = await Promise.allSettled([
      tokens.openRefreshToken(session).then((token) => revoke(token, 'refresh_token')),
      tokens.openAccessToken(session).then((token) => revoke(token, 'access_token')),
    ]);
    for (const result of results) {
      if (result.status === 'rejected') {
        log.warn({ err: result.reason }, 'a token could not be revoked at the provider');
      }
    }
  };

  async function revoke(token: string, kind: 'access_token' | 'refresh_token'): Promise<void> {
    if (token !== '') await provider.revoke(token, kind);
  }
}
