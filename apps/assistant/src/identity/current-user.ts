import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { User } from '../access/user.ts';
import type { Tables } from '../tables.ts';
import { type AuthSession, noteUse } from './auth-sessions.sql.ts';
import type { EndRefused } from './end-refused.ts';
import { findSession, type SessionRules } from './find-session.sql.ts';
import { isRefusal, outageAsProblem } from './provider/provider-error.ts';
import type { Provider } from './provider/provider.ts';
import type { SessionTokens } from './session-tokens.ts';
import { singleFlight } from './single-flight.ts';
import { UnreadableTokenError } from './token-vault.ts';
import { readCachedUser, saysTheSame } from './users.ts';
import { saveUser } from './save-user.sql.ts';

type CurrentUserOptions = {
  db: Kysely<Tables>;
  log: Logger;
  provider: Provider;
  tokens: SessionTokens;
  refresh: (session: AuthSession) => Promise<AuthSession | undefined>;
  endRefused: EndRefused;
  rules: SessionRules;
};

/** How a session was resolved: `unreadable` rows are kept, since the right key would read them. */
export type Resolution =
  | { status: 'signed-in'; user: User }
  | { status: 'unknown' }
  | { status: 'unreadable' };

/**
 * Resolves a session to its user: finds the row, decrypts the access token, refreshes it when it has
 * expired, fetches the user's data unless it is fresh enough, and keeps the user record current. It
 * knows nothing of HTTP, so whatever carries the cookie can use it. Where nothing changed it takes one
 * statement, and one more once a minute or with each fetch that may be reused. Specification 000,
 * Per-request resolution; Contract 3, User data.
 * @returns A function that throws `provider_unavailable` when the provider does not answer.
 */
export function createCurrentUser({
  db,
  log,
  provider,
  tokens,
  refresh,
  endRefused,
  rules,
}: CurrentUserOptions) {
  const share = singleFlight<User>();

  async function resolve(sessionId: string): Promise<User | undefined> {
    const found = await findSession(db, sessionId, rules);
    if (found === undefined) return undefined;
    if (found.isUserFresh && !found.isAccessTokenExpired && found.cachedUser !== undefined) {
      await tokens.checkAccessToken(found);
      if (found.isLastUseOld) await noteUse(db, sessionId);
      return readCachedUser(found.userId, found.cachedUser);
    }
    const session = found.isAccessTokenExpired ? await refresh(found) : found;
    if (session === undefined) return undefined;
    const isRenewed = session !== found;
    return (await identify(session)) ?? (isRenewed ? end(session) : retry(session));
  }

  /** The provider refuses a token that it said was valid: one refresh may mend that. */
  async function retry(session: AuthSession): Promise<User | undefined> {
    const renewed = await refresh(session);
    if (renewed === undefined) return undefined;
    return (await identify(renewed)) ?? end(renewed);
  }

  async function end(session: AuthSession): Promise<undefined> {
    await endRefused(session);
  }

  /** Gives nothing where the provider refuses the token, or names somebody else for it. */
  async function identify(session: AuthSession): Promise<User | undefined> {
    const user = await fetchUser(session);
    if (user === undefined || user.id !== session.userId) return undefined;
    await keepRecord(session, user);
    const isReused = rules.userMaxAgeSeconds > 0;
    if (isReused || session.isLastUseOld) {
      // Its age counts from before the provider was asked, and under what was cleared until then.
      const checked = { at: session.readAt, generation: session.accessGeneration };
      await noteUse(db, session.id, isReused ? checked : undefined);
    }
    return user;
  }

  async function keepRecord({ cachedUser, accessGeneration }: AuthSession, user: User) {
    if (cachedUser !== undefined && saysTheSame(cachedUser, user)) return;
    const isCurrent = (generation: number) => generation === accessGeneration;
    await db.transaction().execute((trx) => saveUser(trx, user, isCurrent));
  }

  async function fetchUser(session: AuthSession): Promise<User | undefined> {
    const accessToken = await tokens.openAccessToken(session);
    // Whoever asks after a clearing must not share an answer from before it.
    const flight = `${session.id} ${session.tokenVersion} ${session.accessGeneration}`;
    try {
      return await share(flight, () => provider.fetchUser(accessToken));
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
