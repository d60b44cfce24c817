import type { KnownUser, User } from '../access/permissions.ts';
import type { IdentityDeps } from './deps.ts';
import { isRejection, outageAsProblem, providerUnavailable } from './provider/transport.ts';
import { type AuthSession, findGeneration, findSession, recordUse } from './auth-sessions.ts';
import { createTokenRefresh, type EndRejected, singleFlight } from './token-refresh.ts';
import { UnreadableTokenError } from './token-vault.ts';
import { isSameUser, readCachedUser, saveUser } from './users.ts';

/** The result of resolving a session. `unreadable` rows stay, because the right key would open them. */
export type Resolution =
  | ({ status: 'signed-in' } & KnownUser)
  | { status: 'unknown' }
  | { status: 'unreadable' };

/**
 * Resolves a session to its user, from the value of its cookie.
 * @param known The result of an earlier call, which is returned if the session and its generation are still current.
 */
export type ResolveSession = (sessionId: string, known?: KnownUser) => Promise<Resolution>;

/** Fetches of user data for one request; each is repeated if the cached access is cleared meanwhile. */
const MAX_FETCHES = 5;

/**
 * Creates the function that resolves sessions for routes and sockets. It refreshes an expired access token, and fetches
 * the user's data unless it is fresh. After the provider's answer it reads the row and the generation again, so that a
 * revocation in between also ends requests in flight.
 * Specification 000, Per-request resolution; Contract 3, User data; docs/adr/0006-revocation.md.
 * @returns A function that throws `provider_unavailable` when the provider does not answer, or when the access is
 *   cleared during every fetch.
 */
export function createCurrentUser(deps: IdentityDeps, endRejected: EndRejected): ResolveSession {
  const { db, log, provider, vault, rules } = deps;
  const refresh = createTokenRefresh(deps, endRejected);
  const share = singleFlight<User>();

  async function resolve(sessionId: string): Promise<KnownUser | undefined> {
    for (let fetches = 0; fetches < MAX_FETCHES; fetches += 1) {
      const session = await findSession(db, sessionId, rules);
      if (session === undefined) return undefined;
      if (session.isUserFresh && !session.isAccessTokenExpired && session.cachedUser) {
        if (session.isLastUseOld) await recordUse(db, sessionId);
        const user = readCachedUser(session.userId, session.cachedUser);
        return { user, generation: session.accessGeneration };
      }
      const fetched = await fetchWithRefresh(session);
      if (fetched === undefined) return undefined;
      const generation = await findGeneration(db, sessionId, rules);
      if (generation === undefined) return undefined;
      if (generation === fetched.generation) return fetched;
    }
    throw providerUnavailable();
  }

  /** Fetches the user; a token that is rejected before its expiry gets one refresh, and then the session ends. */
  async function fetchWithRefresh(session: AuthSession): Promise<KnownUser | undefined> {
    if (!session.isAccessTokenExpired) {
      const user = await fetchUser(session);
      if (user !== undefined) return user;
    }
    const refreshed = await refresh(session);
    if (refreshed === undefined) return undefined;
    const user = await fetchUser(refreshed);
    if (user === undefined) await endRejected(refreshed);
    return user;
  }

  /** Returns undefined if the provider rejects the token, or names another user for it. */
  async function fetchUser(session: AuthSession): Promise<KnownUser | undefined> {
    const accessToken = await vault.open(session.accessTokenEnc, session, 'access_token_enc');
    // After a revocation a request must not share an earlier answer.
    const flight = `${session.id} ${session.tokenVersion} ${session.accessGeneration}`;
    let user: User;
    try {
      user = await share(flight, () => provider.fetchUser(accessToken));
    } catch (error) {
      if (isRejection(error)) return undefined;
      throw outageAsProblem(error);
    }
    if (user.id !== session.userId) return undefined;
    await updateRecords(session, user);
    return { user, generation: session.accessGeneration };
  }

  async function updateRecords(session: AuthSession, user: User): Promise<void> {
    const { cachedUser, accessGeneration } = session;
    if (cachedUser === undefined || !isSameUser(cachedUser, user)) {
      const isCurrent = (generation: number) => generation === accessGeneration;
      await db.transaction().execute((trx) => saveUser(trx, user, isCurrent));
    }
    const isReused = rules.userMaxAgeSeconds > 0;
    if (!isReused && !session.isLastUseOld) return;
    // The age counts from the time and generation before the fetch.
    const checked = { at: session.readAt, generation: accessGeneration };
    await recordUse(db, session.id, isReused ? checked : undefined);
  }

  return async (sessionId, known) => {
    try {
      const isKnown =
        known !== undefined && (await findGeneration(db, sessionId, rules)) === known.generation;
      const current = isKnown ? known : await resolve(sessionId);
      return current === undefined ? { status: 'unknown' } : { status: 'signed-in', ...current };
    } catch (error) {
      if (!(error instanceof UnreadableTokenError)) throw error;
      log.error({ err: error }, 'a session cannot be read');
      return { status: 'unreadable' };
    }
  };
}
