import { createPreparedStatement } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import type { Sweep } from '../upkeep.ts';
import type { CachedUser } from './users.ts';

/** An auth session that has not expired, with the cached data of its user. Specification 000, Auth session record. */
export type AuthSession = {
  id: string;
  userId: string;
  accessTokenEnc: string;
  refreshTokenEnc: string;
  /** Number of refreshes, which fences writes of a stale lease holder. */
  tokenVersion: number;
  isAccessTokenExpired: boolean;
  /** State of the refresh lease. A lease expires if its holder crashes. */
  refreshLease: 'free' | 'held' | 'expired';
  isLastUseOld: boolean;
  cachedUser: CachedUser | undefined;
  /** The generation of the user's cached access at `readAt`. */
  accessGeneration: number;
  /** Time at which the row was read, by the database's clock. */
  readAt: Date;
  /** Whether `cachedUser` is recent enough to skip a fetch. */
  isUserFresh: boolean;
};

/** The encrypted tokens of an auth session. */
export type SealedTokens = {
  accessTokenEnc: string;
  /** Encrypted refresh token. Encrypts an empty text if the provider issued none. */
  refreshTokenEnc: string;
  expiresInSeconds: number | undefined;
  /** The provider's `sid`. Undefined leaves the column unchanged. */
  providerSessionId?: string | undefined;
  idTokenEnc?: string | undefined;
};

/** The lifetime of sign-ins: SVC_AUTH_COOKIE_MAX_AGE_DAYS and SVC_AUTH_IDLE_DAYS. */
export type AuthSessionLifetime = {
  lifetimeDays: number;
  /** Days without use after which a sign-in expires. 0 disables the limit. */
  idleDays: number;
};

/** The rules for finding auth sessions. */
export type AuthSessionRules = AuthSessionLifetime & {
  /** IDP_USER_MAX_AGE_SECONDS. 0 means that user data is never fresh. */
  userMaxAgeSeconds: number;
};

/** Builds the SQL condition that an auth session `s` has not expired. The server also enforces the cookie's lifetime. */
export const whereAuthSessionActive = ({
  lifetimeDays,
  idleDays,
}: AuthSessionLifetime) => sql<boolean>`(
  s.created_at > now() - make_interval(days => ${lifetimeDays})
  and (${idleDays} = 0
    or coalesce(s.last_used_at, s.created_at) > now() - make_interval(days => ${idleDays})))`;

/** Selects an auth session by its cookie ($1) unless its lifetime ($2, days) or idle time ($3, days) has passed. */
const FROM_SESSION = `
  from user_auth_sessions s left join svc_users u on u.id = s.user_id
  where s.id = $1 and s.created_at > now() - make_interval(days => $2)
    and ($3 = 0 or coalesce(s.last_used_at, s.created_at) > now() - make_interval(days => $3))`;

type Row = Omit<AuthSession, 'cachedUser'> & {
  [Column in keyof CachedUser]: CachedUser[Column] | null;
};

const sessionStatement = createPreparedStatement<Row>(
  `select s.id, s.user_id as "userId", s.access_token_enc as "accessTokenEnc",
     s.refresh_token_enc as "refreshTokenEnc", s.token_version as "tokenVersion",
     u.email, u.display_name, u.role, u.permissions,
     coalesce(u.access_generation, 0) as "accessGeneration",
     coalesce(s.expires_at <= now(), false) as "isAccessTokenExpired",
     case when s.refresh_lease_until is null then 'free'
       when s.refresh_lease_until > now() then 'held' else 'expired' end as "refreshLease",
     coalesce(s.last_used_at < now() - interval '1 minute', true) as "isLastUseOld",
     now() as "readAt",
     coalesce(s.checked_generation = u.access_generation
       and s.user_checked_at > now() - make_interval(secs => $4), false) as "isUserFresh"
   ${FROM_SESSION}`,
);

/** Finds an auth session by the value of its cookie. Ignores expired ones. */
export async function findAuthSession(
  db: Kysely<Tables>,
  id: string,
  { lifetimeDays, idleDays, userMaxAgeSeconds }: AuthSessionRules,
): Promise<AuthSession | undefined> {
  const [row] = await sessionStatement(db, [id, lifetimeDays, idleDays, userMaxAgeSeconds]);
  if (row === undefined) return undefined;
  const { email, display_name, role, permissions, ...session } = row;
  const hasUser = email !== null && role !== null && permissions !== null;
  return {
    ...session,
    cachedUser: hasUser ? { email, display_name, role, permissions } : undefined,
  };
}

const generationStatement = createPreparedStatement<{ generation: number }>(
  `select coalesce(u.access_generation, 0) as generation ${FROM_SESSION}`,
);

/** Returns the access generation of an auth session's user, or undefined if the auth session has ended. */
export async function findAccessGeneration(
  db: Kysely<Tables>,
  id: string,
  { lifetimeDays, idleDays }: AuthSessionLifetime,
): Promise<number | undefined> {
  const [row] = await generationStatement(db, [id, lifetimeDays, idleDays]);
  return row?.generation;
}

/** Returns the IDs of those auth sessions that exist and have not expired. */
export async function findActiveAuthSessions(
  db: Kysely<Tables>,
  ids: readonly string[],
  lifetime: AuthSessionLifetime,
): Promise<Set<string>> {
  const { rows } = await sql<{ id: string }>`
    select s.id from user_auth_sessions s
    where s.id = any(${ids}) and ${whereAuthSessionActive(lifetime)}`.execute(db);
  return new Set(rows.map(({ id }) => id));
}

/** SQL of the public ID of an auth session `s`: 16 hex digits of the SHA-256 of its secret ID. */
export const publicSessionId = sql<string>`left(encode(sha256(convert_to(s.id, 'UTF8')), 'hex'), 16)`;

/** Finds the ID of a user's auth session by its public ID. Ignores expired ones. */
export async function findOwnAuthSession(
  db: Kysely<Tables>,
  { userId, publicId }: { userId: string; publicId: string },
  lifetime: AuthSessionLifetime,
): Promise<string | undefined> {
  const row = await db
    .selectFrom('user_auth_sessions as s')
    .select('s.id')
    .where('s.user_id', '=', userId)
    .where(whereAuthSessionActive(lifetime))
    .where(publicSessionId, '=', publicId)
    .executeTakeFirst();
  return row?.id;
}

/** The time of a user data fetch, and the access generation at that time. */
export type UserCheck = { at: Date; generation: number };

/** The client of a sign-in, for the user's list of sign-ins. */
export type ClientInfo = { userAgent: string | null; address: string | null };

/** Stores a new auth session. */
export async function addAuthSession(
  db: Kysely<Tables>,
  session: { id: string; userId: string; checked: UserCheck | undefined; client: ClientInfo },
  tokens: SealedTokens,
): Promise<void> {
  await db
    .insertInto('user_auth_sessions')
    .values({
      id: session.id,
      user_id: session.userId,
      ...buildTokenColumns(tokens),
      user_checked_at: session.checked?.at ?? null,
      checked_generation: session.checked?.generation ?? null,
      user_agent: session.client.userAgent,
      address: session.client.address,
    })
    .execute();
}

/** Builds the column values of tokens. `expires_at` is null if the provider sent no expiry. */
export const buildTokenColumns = (tokens: SealedTokens) => ({
  access_token_enc: tokens.accessTokenEnc,
  refresh_token_enc: tokens.refreshTokenEnc,
  expires_at:
    tokens.expiresInSeconds === undefined
      ? null
      : sql<Date>`now() + make_interval(secs => ${tokens.expiresInSeconds})`,
  ...(tokens.providerSessionId !== undefined && { provider_session_id: tokens.providerSessionId }),
  ...(tokens.idTokenEnc !== undefined && { id_token_enc: tokens.idTokenEnc }),
});

/** Records the use of an auth session, and optionally a fetch of its user's data. */
export async function recordAuthSessionUse(
  db: Kysely<Tables>,
  id: string,
  checked?: UserCheck,
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

/** Creates the sweep that deletes expired auth sessions. */
export const sweepAuthSessions =
  (lifetime: AuthSessionLifetime): Sweep =>
  (limit) =>
    sql`
    delete from user_auth_sessions where id in (
      select s.id from user_auth_sessions s where not ${whereAuthSessionActive(lifetime)}
      limit ${limit} for update skip locked
    )`;
