import { errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { readProviderId } from './user-id.ts';
import { ProviderError, toProviderError } from './provider-error.ts';

/** Whose sessions the provider ended: one of its sessions where it names that, else all of the user's. */
export type LogoutToken = { jti: string } & (
  | { sid: string; sub: string | null }
  | { sid: null; sub: string }
);

/** Why a logout token does not count. It is for the log. */
export type LogoutTokenRejection = { rejection: string };

/** Verifies logout tokens. */
export type LogoutTokenCheck = (token: string) => Promise<LogoutToken | LogoutTokenRejection>;

const EVENT = 'http://schemas.openid.net/event/backchannel-logout';

/** Typed as what it is, or with the type of any JWT, as older providers do; never as another kind of token. */
const TYPES = new Set([undefined, 'jwt', 'logout+jwt', 'application/logout+jwt']);

/** Signatures that only the provider can make. RFC 7518 §3.1, RFC 8037, RFC 9864. */
const ASYMMETRIC = /^(?:RS|PS|ES)(?:256|384|512)$|^(?:EdDSA|Ed25519)$/;

/** How long ago a token may have been issued, as a webhook's; and how far the clocks may be apart. */
const MAX_AGE_SECONDS = 300;
const CLOCK_TOLERANCE_SECONDS = 30;

/** The provider's keys are at fault, not the token. */
const KEY_FAULTS = new Set(['ERR_JOSE_GENERIC', 'ERR_JWKS_INVALID', 'ERR_JWKS_TIMEOUT']);

/**
 * Verifies logout tokens with the provider's published keys. OpenID Connect Back-Channel Logout 1.0 §2.6.
 * @param algorithms Those that discovery lists for ID tokens; what is not asymmetric does not count.
 * @returns A function that throws ProviderError `unavailable` where the keys cannot be had.
 */
export function createLogoutTokenCheck(
  keys: JWTVerifyGetKey,
  {
    issuer,
    clientId,
    algorithms = ['RS256'],
  }: { issuer: string; clientId: string; algorithms: readonly string[] | undefined },
): LogoutTokenCheck {
  const options = {
    issuer,
    audience: clientId,
    algorithms: algorithms.filter((name) => ASYMMETRIC.test(name)),
    requiredClaims: ['iat', 'exp'],
    maxTokenAge: MAX_AGE_SECONDS,
    clockTolerance: CLOCK_TOLERANCE_SECONDS,
  };
  return async (token) => {
    try {
      const { payload, protectedHeader } = await jwtVerify(token, keys, options);
      if (!TYPES.has(protectedHeader.typ?.toLowerCase())) return { rejection: 'typ' };
      return readClaims(payload);
    } catch (error) {
      if (error instanceof errors.JOSEError && !KEY_FAULTS.has(error.code)) {
        const claim = 'claim' in error ? ` ${String(error.claim)}` : '';
        return { rejection: error.code + claim };
      }
      throw new ProviderError('unavailable', toProviderError(error).message);
    }
  };
}

function readClaims(claims: JWTPayload): LogoutToken | LogoutTokenRejection {
  if (Object.hasOwn(claims, 'nonce')) return { rejection: 'nonce' };
  if (!isLogout(claims['events'])) return { rejection: 'events' };
  const jti = readProviderId(claims.jti);
  if (jti === undefined) return { rejection: 'jti' };
  // One that cannot be read must not turn into "all sessions of the user".
  const [sub, sid] = [claims.sub ?? null, claims['sid'] ?? null].map((it) =>
    it === null ? null : readProviderId(it),
  );
  if (sub === undefined) return { rejection: 'sub' };
  if (sid === undefined) return { rejection: 'sid' };
  if (sid !== null) return { jti, sid, sub };
  return sub === null ? { rejection: 'neither sub nor sid' } : { jti, sid, sub };
}

function isLogout(events: unknown): boolean {
  if (typeof events !== 'object' || events === null || !Object.hasOwn(events, EVENT)) return false;
  const event: unknown = Reflect.get(events, EVENT);
  return typeof event === 'object' && event !== null && !Array.isArray(event);
}
