import { type Kysely, sql } from 'kysely';
import type { Sweep } from '../upkeep.ts';
import type { Tables } from '../tables.ts';
import type { CachedUser } from './users.ts';

/** A living auth session, with what is cached of its user. Specification 000, Auth session record. */
export type AuthSession = {
  id: string;
  userId: string;
  accessTokenEnc: string;
  refreshTokenEnc: string;
  /** Counts refreshes: the tokens of another version are other tokens. */
  tokenVersion: number;
  isAccessTokenExpired: boolean;
  /** Whether some process is refreshing the tokens, or began to and has not been heard of since. */
  refreshLease: 'none' | 'held' | 'abandoned';
  /** Whether the time of last use is worth writing again. */
  isLastUseOld: boolean;
  cachedUser: CachedUser | undefined;
  /** How often the user's cached access was cleared, at the moment of `readAt`. */
  accessGeneration: number;
  /** When the row was read, by the database's clock. */
  readAt: Date;
  /** Whether this session's provider described the user so lately that it need not be asked again. */
  isUserFresh: boolean;
};

/** The tokens of a session, encrypted for its row. */
export type SealedTokens = {
  accessTokenEnc: string;
  /** Holds an empty text where the provider gave none. */
  refreshTokenEnc: string;
  expiresInSeconds: number | undefined;
  /** Undefined where no ID token came along; an earlier one still tells then. */
  providerSessionId?: string | undefined;
  idTokenEnc?: string | undefined;
};

/** The columns of what an ID token said. */
export const idTokenColumns = ({ providerSessionId, idTokenEnc }: SealedTokens) => ({
  ...(providerSessionId !== undefined && { provider_session_id: providerSessionId }),
  ...(idTokenEnc !== undefined && { id_token_enc: idTokenEnc }),
});

/** How long sign-ins last: SVC_AUTH_COOKIE_MAX_AGE_DAYS and SVC_AUTH_IDLE_DAYS. */
export type Lifetime = {
  lifetimeDays: number;
  /** How long one lasts that is not used; 0 is no limit. */
  idleDays: number;
};

/** The lifetime of the cookie holds here as well: a copied cookie does not outlive it. */
export const alive = ({ lifetimeDays, idleDays }: Lifetime) => {
  const isYoung = sql<boolean>`s.created_at > now() - make_interval(days => ${lifetimeDays})`;
  if (idleDays === 0) return isYoung;
  return sql<boolean>`(${isYoung}
    and coalesce(s.last_used_at, s.created_at) > now() - make_interval(days => ${idleDays}))`;
};

/** When an access token expires; null where the provider did not say. */
export const expiry = (seconds: number | undefined) =>
  seconds === undefined ? null : sql<Date>`now() + make_interval(secs => ${seconds})`;

/** Which of some sessions are there, by their ids; those whose lifetime is over are not. */
export async function livingSessions(
  db: Kysely<Tables>,
  ids: readonly string[],
  lifetime: Lifetime,
): Promise<Set<string>> {
  const { rows } = await sql<{ id: string }>`
    select s.id from user_auth_sessions s
    where s.id = any(${ids}) and ${alive(lifetime)}`.execute(db);
  return new Set(rows.map(({ id }) => id));
}

/** Deletes sessions whose lifetime is over, which nobody can use any more. */
export const sweepSessions =
  (lifetime: Lifetime): Sweep =>
  (limit) =>
    sql`
    delete from user_auth_sessions where id in (
      select s.id from user_auth_sessions s where not ${alive(lifetime)}
      limit ${limit} for update skip locked
    )`;

/** When the provider described the user, and the generation of the access that was cached then. */
export type CheckedUser = { at: Date; generation: number };

/** What tells people their sign-ins apart. */
export type ClientNote = { userAgent: string | null; address: string | null };

/** Stores a new session. */
export async function addSession(
  db: Kysely<Tables>,
  session: { id: string; userId: string } & SealedTokens & {
      checked: CheckedUser | undefined;
      client: ClientNote;
    },
): Promise<void> {
  await db
    .insertInto('user_auth_sessions')
    .values({
      id: session.id,
      user_id: session.userId,
      access_token_enc: session.accessTokenEnc,
      refresh_token_enc: session.refreshTokenEnc,
      ...idTokenColumns(session),
      expires_at: expiry(session.expiresInSeconds),
      created_at: sql<Date>`now()`,
      last_used_at: sql<Date>`now()`,
      user_checked_at: session.checked?.at ?? null,
      checked_generation: session.checked?.generation ?? null,
      user_agent: session.client.userAgent,
      address: session.client.address,
    })
    .execute();
}

/** Notes that a session was used and, where it was, that the provider described its user. */
export async function noteUse(
  db: Kysely<Tables>,
  id: string,
  checked?: CheckedUser,
): Promise<void> {
  await db
    .updateTable('user_auth_sessions')
    .set({
      last_used_at: sql<Date>`now()`,
      ...(checked && { user_checked_at: checked.at, checked_generation: checked.generation }),
    })
    .where('id', '=', id)
    .execute();
}

/** What a deleted session held, for its tokens to be revoked at the provider. */
export type EndedSession = Pick<
  AuthSession,
  'id' | 'userId' | 'accessTokenEnc' | 'refreshTokenEnc'
>;

/** The columns of an {@link EndedSession}. */
export const endedColumns = [
  'id',
  'user_id as userId',
  'access_token_enc as accessTokenEnc',
  'refresh_token_enc as refreshTokenEnc',
] as const;

/** Deletes a session and gives what it held; nothing where there was none. */
export function deleteSession(
  db: Kysely<Tables>,
  id: string,
): Promise<(EndedSession & { idTokenEnc: string | null }) | undefined> {
  return db
    .deleteFrom('user_auth_sessions')
    .where('id', '=', id)
    .returning([...endedColumns, 'id_token_enc as idTokenEnc'])
    .executeTakeFirst();
}

/** Names the tokens of a session that were read; it may have others by now. */
export type Version = Pick<AuthSession, 'id' | 'tokenVersion'>;

/**
 * Deletes a session whose tokens were refused; one that has other tokens by now stays.
 * @returns Whether there was one to delete.
 */
export async function deleteRefused(
  db: Kysely<Tables>,
  { id, tokenVersion }: Version,
): Promise<boolean> {
  const result = await db
    .deleteFrom('user_auth_sessions')
    .where('id', '=', id)
    .where('token_version', '=', tokenVersion)
    .executeTakeFirst();
  return result.numDeletedRows > 0n;
}
