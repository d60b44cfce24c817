import { errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { ProviderError, toProviderError } from './transport.ts';
import { readMember, readProviderId } from './user-data.ts';

/** Claims of a logout token, which ends the provider's session `sid`, or all sessions of the user if `sid` is null. */
type LogoutToken = { jti: string } & (
  | { sid: string; sub: string | null }
  | { sid: null; sub: string }
);

/** Verifies a logout token and returns its claims, or the reason for its rejection. */
export type LogoutTokenCheck = (token: string) => Promise<LogoutToken | { rejection: string }>;

const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout';

/** Accepted `typ` headers. Older providers send the generic type or none. */
const ACCEPTED_TYPES = new Set([undefined, 'jwt', 'logout+jwt', 'application/logout+jwt']);

/** Asymmetric signature algorithms. RFC 7518 §3.1, RFC 8037, RFC 9864. */
const ASYMMETRIC_ALGORITHM_PATTERN = /^(?:RS|PS|ES)(?:256|384|512)$|^(?:EdDSA|Ed25519)$/;

const MAX_AGE_SECONDS = 300;
const CLOCK_TOLERANCE_SECONDS = 30;

/** jose error codes that concern the provider's keys instead of the token. */
const KEY_ERROR_CODES = new Set(['ERR_JOSE_GENERIC', 'ERR_JWKS_INVALID', 'ERR_JWKS_TIMEOUT']);

/**
 * Creates a check of logout tokens with the provider's published keys. OpenID Connect Back-Channel Logout 1.0 §2.6.
 * @param algorithms ID token algorithms from discovery; RS256 by default. Symmetric algorithms are ignored.
 * @returns A function that throws ProviderError `unavailable` if the keys cannot be fetched.
 */
export function createLogoutTokenCheck(
  keys: JWTVerifyGetKey,
  {
    algorithms,
    ...identity
  }: { issuer: string; audience: string; algorithms: readonly string[] | undefined },
): LogoutTokenCheck {
  const options = {
    ...identity,
    algorithms: (algorithms ?? ['RS256']).filter((name) => ASYMMETRIC_ALGORITHM_PATTERN.test(name)),
    requiredClaims: ['iat', 'exp'],
    maxTokenAge: MAX_AGE_SECONDS,
    clockTolerance: CLOCK_TOLERANCE_SECONDS,
  };
  return async (token) => {
    try {
      const { payload, protectedHeader } = await jwtVerify(token, keys, options);
      if (!ACCEPTED_TYPES.has(protectedHeader.typ?.toLowerCase())) return { rejection: 'typ' };
      return readClaims(payload);
    } catch (error) {
      if (error instanceof errors.JOSEError && !KEY_ERROR_CODES.has(error.code)) {
        const claim = 'claim' in error ? ` ${String(error.claim)}` : '';
        return { rejection: error.code + claim };
      }
      throw new ProviderError('unavailable', toProviderError(error).message);
    }
  };
}

function readClaims(claims: JWTPayload): Awaited<ReturnType<LogoutTokenCheck>> {
  if (Object.hasOwn(claims, 'nonce')) return { rejection: 'nonce' };
  if (!isLogoutEvent(claims['events'])) return { rejection: 'events' };
  const jti = readProviderId(claims.jti);
  if (jti === undefined) return { rejection: 'jti' };
  // A malformed `sid` must not end all sessions of the user.
  const [sub, sid] = [claims.sub ?? null, claims['sid'] ?? null].map((claim) =>
    claim === null ? null : readProviderId(claim),
  );
  if (sub === undefined) return { rejection: 'sub' };
  if (sid === undefined) return { rejection: 'sid' };
  if (sid !== null) return { jti, sid, sub };
  return sub === null ? { rejection: 'neither sub nor sid' } : { jti, sid, sub };
}

function isLogoutEvent(events: unknown): boolean {
  const event = readMember(events, LOGOUT_EVENT);
  return typeof event === 'object' && event !== null && !Array.isArray(event);
}
