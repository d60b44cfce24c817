import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { type AuthSession, deleteRefused, findSession, touchSession } from './auth-sessions.ts';
import { isRefusal, outageAsProblem } from './provider/provider-error.ts';
import type { Provider } from './provider/provider.ts';
import type { UserData } from './provider/user-data.ts';
import type { SessionTokens } from './session-tokens.ts';
import { singleFlight } from './single-flight.ts';
import { UnreadableTokenError } from './token-vault.ts';
import { isCurrent, saveUser } from './users.ts';

/** Who sends a request, as the provider describes them at this moment. */
export type CurrentUser = UserData;

type CurrentUserOptions = {
  db: Kysely<Tables>;
  log: Logger;
  provider: Provider;
  tokens: SessionTokens;
  refresh: (session: AuthSession) => Promise<AuthSession | undefined>;
  lifetimeDays: number;
};

/** How a session was resolved: `unreadable` rows are kept, since the right key would read them. */
export type Resolution =
  | { status: 'signed-in'; user: CurrentUser }
  | { status: 'unknown' }
  | { status: 'unreadable' };

/**
 * Resolves a session to its user: finds the row, decrypts the access token, refreshes it when it has
 * expired, fetches the user's data and keeps the user record current. It knows nothing of HTTP, so
 * whatever carries the cookie can use it. Specification 000, Per-request resolution.
 * @returns A function that throws `provider_unavailable` when the provider does not answer.
 */
export function createCurrentUser({
  db,
  log,
  provider,
  tokens,
  refresh,
  lifetimeDays,
}: CurrentUserOptions) {
  const share = singleFlight<UserData>();

  async function resolve(sessionId: string): Promise<CurrentUser | undefined> {
    const found = await findSession(db, sessionId, lifetimeDays);
    if (found === undefined) return undefined;
    if (found.isLastUseOld) await touchSession(db, sessionId);
    const session = found.isAccessTokenExpired ? await refresh(found) : found;
    if (session === undefined) return undefined;
    const isFresh = session !== found;
    return (await identify(session)) ?? (isFresh ? end(session) : retry(session));
  }

  /** The provider refuses a token that it said was valid: one refresh may mend that. */
  async function retry(session: AuthSession): Promise<CurrentUser | undefined> {
    const renewed = await refresh(session);
    if (renewed === undefined) return undefined;
    return (await identify(renewed)) ?? end(renewed);
  }

  async function end(session: AuthSession): Promise<undefined> {
    await deleteRefused(db, session);
    log.info({ user_id: session.userId }, 'signed out: the provider refuses the access token');
  }

  /** Gives nothing where the provider refuses the token, or names somebody else for it. */
  async function identify(session: AuthSession): Promise<CurrentUser | undefined> {
    const user = await fetchUser(session);
    if (user === undefined || user.id !== session.userId) return undefined;
    const { cachedUser } = session;
    if (cachedUser === undefined || !isCurrent(cachedUser, user)) await saveUser(db, user);
    return user;
  }

  async function fetchUser(session: AuthSession): Promise<UserData | undefined> {
    const accessToken = await tokens.openAccessToken(session);
    try {
      return await share(`${session.id} ${session.tokenVersion}`, () =>
        provider.fetchUser(accessToken),
      );
    } catch (error) {
      if (isRefusal(error)) return undefined;
      throw outageAsProblem(error);
    }
  }

  return async (sessionId: string): Promise<Resolution> => {
    try {
      const user = await resolve(sessionId);
      return user === undefined ? { status: 'unknown' } : { status: 'signed-in', user };
    } catch (error) {
      if (!(error instanceof UnreadableTokenError)) throw error;
      log.error({ err: error }, 'a session cannot be read');
      return { status: 'unreadable' };
    }
  };
}
