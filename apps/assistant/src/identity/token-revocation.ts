import type { Logger } from '@oselya/kit';
import type { EndedSession } from './auth-sessions.sql.ts';
import { isRefusal, ProviderError } from './provider/provider-error.ts';
import type { Provider } from './provider/provider.ts';
import type { SessionTokens } from './session-tokens.ts';

/**
 * Revokes the tokens of a session that is deleted already.
 * @returns Whether that is final; false when the provider did not answer and may be asked again.
 */
export type Revocation = (session: EndedSession) => Promise<boolean>;

/**
 * Tells the provider that the tokens of an ended session are of no more use, as far as it listens:
 * what fails goes to the log only. It takes IDP_TIMEOUT_MS at most, twice that where discovery is
 * still to be done. RFC 7009.
 */
export function createRevocation({
  log,
  provider,
  tokens,
}: {
  log: Logger;
  provider: Provider;
  tokens: SessionTokens;
}): Revocation {
  async function revoke(token: string, kind: 'access_token' | 'refresh_token'): Promise<void> {
    if (token !== '') await provider.revoke(token, kind);
  }

  return async (session) => {
    const results = await Promise.allSettled([
      tokens.openRefreshToken(session).then((token) => revoke(token, 'refresh_token')),
      tokens.openAccessToken(session).then((token) => revoke(token, 'access_token')),
    ]);
    let isSettled = true;
    for (const result of results) {
      if (result.status === 'fulfilled') continue;
      log.warn({ err: result.reason }, 'a token could not be revoked at the provider');
      if (isOutage(result.reason)) isSettled = false;
    }
    return isSettled;
  };
}

const isOutage = (error: unknown) => error instanceof ProviderError && !isRefusal(error);
