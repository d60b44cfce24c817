import type { ResolvedUser, User } from '../access/permissions.ts';
import {
  type AuthSession,
  findAccessGeneration,
  findAuthSession,
  recordAuthSessionUse,
} from './auth-sessions.ts';
import type { IdentityDeps } from './deps.ts';
import {
  createProviderUnavailableError,
  isRejection,
  toRequestError,
} from './provider/transport.ts';
import {
  createSingleFlight,
  createTokenRefresh,
  type EndRejectedSession,
} from './token-refresh.ts';
import { UnreadableTokenError } from './token-vault.ts';
import { isSameUser, readCachedUser, saveUser } from './users.ts';

/** Result of resolving an auth session. An `unreadable` row is kept, because the correct key could still decrypt it. */
export type Resolution =
  | ({ status: 'signed-in' } & ResolvedUser)
  | { status: 'unknown' }
  | { status: 'unreadable' };

/**
 * Resolves an auth session by its ID.
 * @param knownUser Earlier result, which is returned again if the auth session and its generation are still current.
 */
export type ResolveSession = (sessionId: string, knownUser?: ResolvedUser) => Promise<Resolution>;

/** Maximum number of attempts to resolve a user. An attempt is repeated if access is invalidated during its fetch. */
const MAX_FETCHES = 5;

/**
 * Creates the function that resolves auth sessions for routes and sockets. It refreshes an expired access token and
 * fetches stale user data. Afterwards it reads the generation again, because access may be revoked during the fetch.
 * Specification 000, Per-request resolution; Contract 3, User data; docs/adr/0006-revocation.md.
 * @returns A function that throws `provider_unavailable`, `user_without_email` or `sign_in_not_configured`.
 */
export function createSessionResolver(
  deps: IdentityDeps,
  endRejectedSession: EndRejectedSession,
): ResolveSession {
  const { db, log, provider, vault, config } = deps;
  const refresh = createTokenRefresh(deps, endRejectedSession);
  const shareFetch = createSingleFlight<User>();

  async function resolveUser(sessionId: string): Promise<ResolvedUser | undefined> {
    for (let fetches = 0; fetches < MAX_FETCHES; fetches += 1) {
      const session = await findAuthSession(db, sessionId, config);
      if (session === undefined) return undefined;
      if (session.isUserFresh && !session.isAccessTokenExpired && session.cachedUser) {
        if (session.isLastUseOld) await recordAuthSessionUse(db, sessionId);
        const user = readCachedUser(session.user_id, session.cachedUser);
        return { user, generation: session.accessGeneration };
      }
      const fetchedUser = await fetchWithRefresh(session);
      if (fetchedUser === undefined) return undefined;
      const generation = await findAccessGeneration(db, sessionId, config);
      if (generation === undefined) return undefined;
      if (generation === fetchedUser.generation) return fetchedUser;
    }
    throw createProviderUnavailableError();
  }

  /** Fetches the user. Refreshes a rejected token once, and ends the auth session if the new token is rejected too. */
  async function fetchWithRefresh(session: AuthSession): Promise<ResolvedUser | undefined> {
    if (!session.isAccessTokenExpired) {
      const user = await fetchUser(session);
      if (user !== undefined) return user;
    }
    const refreshedSession = await refresh(session);
    if (refreshedSession === undefined) return undefined;
    const user = await fetchUser(refreshedSession);
    if (user === undefined) await endRejectedSession(refreshedSession);
    return user;
  }

  /** Fetches the user and stores changed data. Returns undefined for a rejected token or a different user. */
  async function fetchUser(session: AuthSession): Promise<ResolvedUser | undefined> {
    const { accessGeneration: generation } = session;
    const accessToken = await vault.open(session, 'access_token_enc');
    // A request after a revocation must not share the response of an earlier request.
    const flightKey = `${session.id} ${session.token_version} ${generation}`;
    let user: User;
    try {
      user = await shareFetch(flightKey, () => provider.fetchUser(accessToken));
    } catch (error) {
      if (isRejection(error)) return undefined;
      throw toRequestError(error);
    }
    if (user.id !== session.user_id) return undefined;
    if (session.cachedUser === undefined || !isSameUser(session.cachedUser, user)) {
      const isCurrent = (storedGeneration: number) => storedGeneration === generation;
      await db.transaction().execute((trx) => saveUser(trx, user, isCurrent));
    }
    const canReuseUser = config.IDP_USER_MAX_AGE_SECONDS > 0;
    if (canReuseUser || session.isLastUseOld) {
      // The age starts before the fetch, so a change at the provider takes effect within IDP_USER_MAX_AGE_SECONDS.
      const userCheck = { at: session.readAt, generation };
      await recordAuthSessionUse(db, session.id, canReuseUser ? userCheck : undefined);
    }
    return { user, generation };
  }

  return async (sessionId, knownUser) => {
    try {
      const isStillCurrent =
        knownUser !== undefined &&
        (await findAccessGeneration(db, sessionId, config)) === knownUser.generation;
      const resolvedUser = isStillCurrent ? knownUser : await resolveUser(sessionId);
      return resolvedUser === undefined
        ? { status: 'unknown' }
        : { status: 'signed-in', ...resolvedUser };
    } catch (error) {
      if (!(error instanceof UnreadableTokenError)) throw error;
      log.error({ err: error }, 'a session cannot be read');
      return { status: 'unreadable' };
    }
  };
}
