import { compactVerify, createRemoteJWKSet, customFetch, type RemoteJWKSetOptions } from 'jose';
import type { CustomFetch } from 'openid-client';
import type { MeasureRequest } from './measure-request.ts';
import { ProviderError, toProviderError } from './provider-error.ts';

/** Verifies who signed the ID tokens of an OpenID provider; what they say is judged by openid-client. */
export type IdTokenCheck = {
  /** Asks for the provider's keys, unless that was done in the last minutes. */
  prepare(): Promise<void>;
  /**
   * Verifies an ID token, where there is one. The provider is asked for its keys once more where the
   * token names one that is not known, so that a rotation needs no restart.
   */
  verify(idToken: string | undefined): Promise<void>;
};

/** How long a key counts that the provider may have taken back. */
const KEYS_MAX_AGE_MS = 5 * 60 * 1000;

/** RFC 7517 §8.5.2. */
const KEY_SET_TYPES = 'application/jwk-set+json, application/json';

/**
 * Verifies ID tokens with the provider's published keys, so with signatures that only it can make:
 * neither `none` nor an HMAC is one. OpenID Connect Core §3.1.3.7; RFC 8725 §3.1.
 *
 * `enableNonRepudiationChecks` of openid-client does the same but for its keys: it fetches them when
 * the answer is there, and not twice a minute. At a refresh the refresh token is spent by then, so that
 * an outage of the keys alone, or keys rotated at that moment, would cost the session.
 * @param keySet The provider's `jwks_uri`; without one no ID token is right.
 * @returns Functions that throw ProviderError `unavailable`, whatever is wrong: an answer that cannot be
 * trusted says nothing about anybody's token.
 */
export function createIdTokenCheck(keySet: URL | undefined, means: KeyMeans): IdTokenCheck {
  if (keySet === undefined) return { prepare: async () => {}, verify: refuse };
  let fetchedAt = -Infinity;
  const keys = remoteKeys(keySet, means, {
    // Their age is `prepare`'s business, which comes before anything is spent.
    cacheMaxAge: Infinity,
    // Key ids come in the token endpoint's answers alone, so that no stranger can make it ask.
    cooldownDuration: 0,
  });

  return {
    async prepare() {
      if (Date.now() - fetchedAt < KEYS_MAX_AGE_MS) return;
      await unlessUnusable(() => keys.reload());
      fetchedAt = Date.now();
    },
    async verify(idToken) {
      if (idToken === undefined) return;
      await unlessUnusable(async () => {
        const { payload } = await compactVerify(idToken, keys);
        refuseFuture(JSON.parse(new TextDecoder().decode(payload)));
      });
    },
  };
}

/** How far the provider's clock may be ahead, as for the expiry of ID tokens. OpenID Connect Core §3.1.3.7. */
const CLOCK_TOLERANCE_SECONDS = 30;

function refuseFuture({ iat }: { iat?: unknown }): void {
  if (typeof iat !== 'number' || iat <= Date.now() / 1000 + CLOCK_TOLERANCE_SECONDS) return;
  throw new ProviderError(
    'unavailable',
    'an ID token was issued in the future: set the clocks of this machine and of the provider',
  );
}

/** How the provider's keys are fetched. */
type KeyMeans = { transport: CustomFetch; measure: MeasureRequest };

/** The provider's keys, which anybody's token may name: one that is not known is asked for twice a minute at most. */
export const publicKeys = (keySet: URL, means: KeyMeans) =>
  remoteKeys(keySet, means, { cacheMaxAge: KEYS_MAX_AGE_MS, cooldownDuration: 30_000 });

function remoteKeys(
  keySet: URL,
  { transport, measure }: KeyMeans,
  bounds: Pick<RemoteJWKSetOptions, 'cacheMaxAge' | 'cooldownDuration'>,
) {
  return createRemoteJWKSet(keySet, {
    ...bounds,
    [customFetch]: (url) => {
      const headers = { accept: KEY_SET_TYPES };
      const options = { method: 'GET', headers, body: null, redirect: 'manual' } as const;
      return measure('keys', () => transport(url, options));
    },
  });
}

async function refuse(idToken: string | undefined): Promise<void> {
  if (idToken === undefined) return;
  throw new ProviderError('unavailable', 'there are no keys to verify an ID token with');
}

/** A status such as 403 is no refusal of a token here: it was asked for keys only. */
async function unlessUnusable(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    throw new ProviderError('unavailable', toProviderError(error).message);
  }
}
