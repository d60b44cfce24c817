import { createPreparedStatement } from '@oselya/db';
import { type Kysely, type Selectable, sql } from 'kysely';
import type { Config } from '../config.ts';
import type { Tables } from '../tables.ts';
import type { Sweep } from '../upkeep.ts';
import type { CachedUser } from './users.ts';

/** An active auth session, with the cached data of its user. Specification 000, Auth session record. */
export type AuthSession = Pick<
  Selectable<Tables['user_auth_sessions']>,
  'id' | 'user_id' | 'access_token_enc' | 'refresh_token_enc' | 'token_version'
> & {
  isAccessTokenExpired: boolean;
  refreshLease: 'free' | 'held' | 'expired';
  isLastUseOld: boolean;
  cachedUser: CachedUser | undefined;
  /** Generation of the user's cached access at `readAt`. */
  accessGeneration: number;
  readAt: Date;
  /** Whether `cachedUser` is recent enough to skip a fetch. */
  isUserFresh: boolean;
};

export type LifetimeConfig = Pick<Config, 'SVC_AUTH_COOKIE_MAX_AGE_DAYS' | 'SVC_AUTH_IDLE_DAYS'>;

/** Builds the SQL condition that an auth session `s` has not expired. */
export const whereAuthSessionActive = ({
  SVC_AUTH_COOKIE_MAX_AGE_DAYS: lifetimeDays,
  SVC_AUTH_IDLE_DAYS: idleDays,
}: LifetimeConfig) => sql<boolean>`(
  s.created_at > now() - make_interval(days => ${lifetimeDays})
  and (${idleDays} = 0
    or coalesce(s.last_used_at, s.created_at) > now() - make_interval(days => ${idleDays})))`;

const FROM_ACTIVE_SESSION = `
  from user_auth_sessions s left join svc_users u on u.id = s.user_id
  where s.id = $1 and s.created_at > now() - make_interval(days => $2)
    and ($3 = 0 or coalesce(s.last_used_at, s.created_at) > now() - make_interval(days => $3))`;

// Unlike packages/db, the query distinguishes free leases from expired ones: a free lease ends a wait with 503, and an
// expired one is acquired.
const selectSession = createPreparedStatement<
  Omit<AuthSession, 'cachedUser'> & { [Column in keyof CachedUser]: CachedUser[Column] | null }
>(
  `select s.id, s.user_id, s.access_token_enc, s.refresh_token_enc, s.token_version,
     u.email, u.display_name, u.role, u.permissions,
     coalesce(u.access_generation, 0) as "accessGeneration",
     coalesce(s.expires_at <= now(), false) as "isAccessTokenExpired",
     case when s.refresh_lease_until is null then 'free'
       when s.refresh_lease_until > now() then 'held' else 'expired' end as "refreshLease",
     coalesce(s.last_used_at < now() - interval '1 minute', true) as "isLastUseOld",
     now() as "readAt",
     coalesce(s.checked_generation = u.access_generation
       and s.user_checked_at > now() - make_interval(secs => $4), false) as "isUserFresh"
   ${FROM_ACTIVE_SESSION}`,
);

/** Finds an active auth session by the value of its cookie. */
export async function findAuthSession(
  db: Kysely<Tables>,
  id: string,
  config: LifetimeConfig & Pick<Config, 'IDP_USER_MAX_AGE_SECONDS'>,
): Promise<AuthSession | undefined> {
  const [row] = await selectSession(db, [
    id,
    config.SVC_AUTH_COOKIE_MAX_AGE_DAYS,
    config.SVC_AUTH_IDLE_DAYS,
    config.IDP_USER_MAX_AGE_SECONDS,
  ]);
  if (row === undefined) return undefined;
  const { email, display_name, role, permissions, ...session } = row;
  const hasUser = email !== null && role !== null && permissions !== null;
  return {
    ...session,
    cachedUser: hasUser ? { email, display_name, role, permissions } : undefined,
  };
}

const selectGeneration = createPreparedStatement<{ generation: number }>(
  `select coalesce(u.access_generation, 0) as generation ${FROM_ACTIVE_SESSION}`,
);

/** Returns the access generation of an auth session's user, or undefined if the auth session has ended. */
export async function findAccessGeneration(
  db: Kysely<Tables>,
  id: string,
  config: LifetimeConfig,
): Promise<number | undefined> {
  const { SVC_AUTH_COOKIE_MAX_AGE_DAYS: lifetimeDays, SVC_AUTH_IDLE_DAYS: idleDays } = config;
  const [row] = await selectGeneration(db, [id, lifetimeDays, idleDays]);
  return row?.generation;
}

/** Returns the IDs of the active auth sessions among `ids`. */
export async function findActiveAuthSessions(
  db: Kysely<Tables>,
  ids: readonly string[],
  config: LifetimeConfig,
): Promise<Set<string>> {
  const { rows } = await sql<{ id: string }>`
    select s.id from user_auth_sessions s
    where s.id = any(${ids}) and ${whereAuthSessionActive(config)}`.execute(db);
  return new Set(rows.map(({ id }) => id));
}

/** SQL expression of the public ID of auth session `s`: 16 hex digits of the SHA-256 of its secret ID. */
export const publicSessionId = sql<string>`left(encode(sha256(convert_to(s.id, 'UTF8')), 'hex'), 16)`;

/** Records the use of an auth session, and optionally a fetch of its user's data. */
export async function recordAuthSessionUse(
  db: Kysely<Tables>,
  id: string,
  userCheck?: { at: Date; generation: number },
): Promise<void> {
  await db
    .updateTable('user_auth_sessions')
    .set({
      last_used_at: sql<Date>`now()`,
      ...(userCheck && { user_checked_at: userCheck.at, checked_generation: userCheck.generation }),
    })
    .where('id', '=', id)
    .execute();
}

/** Creates the sweep that deletes expired auth sessions. */
export const sweepAuthSessions =
  (config: LifetimeConfig): Sweep =>
  (limit) =>
    sql`
    delete from user_auth_sessions where id in (
      select s.id from user_auth_sessions s where not ${whereAuthSessionActive(config)}
      limit ${limit} for update skip locked
    )`;
