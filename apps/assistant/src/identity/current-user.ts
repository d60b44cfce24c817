import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { KnownUser, User } from '../access/permissions.ts';
import type { Tables } from '../tables.ts';
import { type AuthSession, noteUse } from './auth-sessions.sql.ts';
import type { EndRefused } from './end-refused.ts';
import { findGeneration, findSession, type SessionRules } from './find-session.sql.ts';
import { isRefusal, outageAsProblem, providerUnavailable } from './provider/provider-error.ts';
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
  | ({ status: 'signed-in' } & KnownUser)
  | { status: 'unknown' }
  | { status: 'unreadable' };

/**
 * Resolves a session to its user, from the value of its cookie.
 * @param known The result of an earlier call. It is returned after one statement unless the session has ended or
 * the generation has changed since.
 */
export type ResolveSession = (sessionId: string, known?: KnownUser) => Promise<Resolution>;

/** Fetches of user data for one request, of which each is repeated when the access is cleared meanwhile. */
const MAX_FETCHES = 5;

/**
 * Creates the function that resolves sessions, for routes and sockets alike. It finds the row, decrypts the access
 * token, refreshes it when it has expired, fetches the user's data unless it is fresh, and updates the user record.
 * After the provider has answered it checks the row and the generation again, so that a revocation in between also
 * ends requests in flight.
 * Specification 000, Per-request resolution; Contract 3, User data; docs/adr/0006-revocation.md.
 * @returns A function that throws `provider_unavailable` when the provider does not answer, or when the access is
 * cleared during every fetch.
 */
export function createCurrentUser({
  db,
  log,
  provider,
  tokens,
  refresh,
  endRefused,
  rules,
}: CurrentUserOptions): ResolveSession {
  const share = singleFlight<User>();

  async function resolve(sessionId: string): Promise<KnownUser | undefined> {
    for (let fetches = 0; fetches < MAX_FETCHES; fetches += 1) {
      const found = await findSession(db, sessionId, rules);
      if (found === undefined) return undefined;
      if (found.isUserFresh && !found.isAccessTokenExpired && found.cachedUser !== undefined) {
        await tokens.checkAccessToken(found);
        if (found.isLastUseOld) await noteUse(db, sessionId);
        const user = readCachedUser(found.userId, found.cachedUser);
        return { user, generation: found.accessGeneration };
      }
      const fetched = await fetchFor(found);
      if (fetched === undefined) return undefined;
      const generation = await findGeneration(db, sessionId, rules);
      if (generation === undefined) return undefined;
      if (generation === fetched.generation) return fetched;
    }
    throw providerUnavailable();
  }

  /** Returns `known` if its session and generation are current. */
  async function resolveAgain(sessionId: string, known: KnownUser): Promise<KnownUser | undefined> {
    const generation = await findGeneration(db, sessionId, rules);
    if (generation === undefined) return undefined;
    return generation === known.generation ? known : resolve(sessionId);
  }

  /** Fetches the user from the provider; undefined when the session has ended. */
  async function fetchFor(found: AuthSession): Promise<KnownUser | undefined> {
    const session = found.isAccessTokenExpired ? await refresh(found) : found;
    if (session === undefined) return undefined;
    const isRenewed = session !== found;
    return (await identify(session)) ?? (isRenewed ? end(session) : retry(session));
  }

  /** The provider refuses a token that it said was valid: one refresh may mend that. */
  async function retry(session: AuthSession): Promise<KnownUser | undefined> {
    const renewed = await refresh(session);
    if (renewed === undefined) return undefined;
    return (await identify(renewed)) ?? end(renewed);
  }

  async function end(session: AuthSession): Promise<undefined> {
    await endRefused(session);
  }

  /** Gives nothing where the provider refuses the token, or names somebody else for it. */
  async function identify(session: AuthSession): Promise<KnownUser | undefined> {
    const user = await fetchUser(session);
    if (user === undefined || user.id !== session.userId) return undefined;
    await keepRecord(session, user);
    const isReused = rules.userMaxAgeSeconds > 0;
    if (isReused || session.isLastUseOld) {
      // Its age counts from before the provider was asked, and under what was cleared until then.
      const checked = { at: session.readAt, generation: session.accessGeneration };
      await noteUse(db, session.id, isReused ? checked : undefined);
    }
    return { user, generation: session.accessGeneration };
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

  return async (sessionId, known) => {
    try {
      const current = await (known === undefined
        ? resolve(sessionId)
        : resolveAgain(sessionId, known));
      return current === undefined ? { status: 'unknown' } : { status: 'signed-in', ...current };
    } catch (error) {
      if (!(error instanceof UnreadableTokenError)) throw error;
      log.error({ err: error }, 'a session cannot be read');
      return { status: 'unreadable' };
    }
  };
}
