import { prepare } from '@oselya/db';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import type { AuthSession, Lifetime } from './auth-sessions.sql.ts';

/** How a session is looked up. */
export type SessionRules = Lifetime & {
  /** How old user data may be; with 0 it is never fresh. IDP_USER_MAX_AGE_SECONDS. */
  userMaxAgeSeconds: number;
};

type Row = {
  id: string;
  user_id: string;
  access_token_enc: string;
  refresh_token_enc: string;
  token_version: number;
  email: string | null;
  display_name: string | null;
  role: string | null;
  permissions: string | null;
  access_generation: number | null;
  is_expired: boolean;
  lease: AuthSession['refreshLease'];
  is_last_use_old: boolean;
  read_at: Date;
  is_user_fresh: boolean;
};

/** Selects a session by its cookie ($1) unless its lifetime ($2) or idle time ($3), in days, is over. */
const LIVING_SESSION = `
  from user_auth_sessions s left join svc_users u on u.id = s.user_id
  where s.id = $1 and s.created_at > now() - make_interval(days => $2)
    and ($3 = 0 or coalesce(s.last_used_at, s.created_at) > now() - make_interval(days => $3))`;

/** Each request with a cookie runs it. */
const statement = prepare<Row>(
  `select s.id, s.user_id, s.access_token_enc, s.refresh_token_enc, s.token_version,
     u.email, u.display_name, u.role, u.permissions, u.access_generation,
     coalesce(s.expires_at <= now(), false) as is_expired,
     case when s.refresh_lease_until is null then 'none'
       when s.refresh_lease_until > now() then 'held' else 'abandoned' end as lease,
     coalesce(s.last_used_at < now() - interval '1 minute', true) as is_last_use_old,
     now() as read_at,
     coalesce(s.checked_generation = u.access_generation
       and s.user_checked_at > now() - make_interval(secs => $4), false) as is_user_fresh
   ${LIVING_SESSION}`,
);

/** Finds a session by the value of its cookie, unless its lifetime is over. */
export async function findSession(
  db: Kysely<Tables>,
  id: string,
  { lifetimeDays, idleDays, userMaxAgeSeconds }: SessionRules,
): Promise<AuthSession | undefined> {
  const [row] = await statement(db, [id, lifetimeDays, idleDays, userMaxAgeSeconds]);
  if (row === undefined) return undefined;
  const { email, display_name, role, permissions } = row;
  const hasUser = email !== null && role !== null && permissions !== null;
  return {
    id: row.id,
    userId: row.user_id,
    accessTokenEnc: row.access_token_enc,
    refreshTokenEnc: row.refresh_token_enc,
    tokenVersion: row.token_version,
    isAccessTokenExpired: row.is_expired,
    refreshLease: row.lease,
    isLastUseOld: row.is_last_use_old,
    cachedUser: hasUser ? { email, display_name, role, permissions } : undefined,
    accessGeneration: row.access_generation ?? 0,
    readAt: row.read_at,
    isUserFresh: row.is_user_fresh,
  };
}

const generationStatement = prepare<{ generation: number }>(
  `select coalesce(u.access_generation, 0) as generation ${LIVING_SESSION}`,
);

/** Returns the generation of the cached access of a session's user; undefined when the session has ended. */
export async function findGeneration(
  db: Kysely<Tables>,
  id: string,
  { lifetimeDays, idleDays }: SessionRules,
): Promise<number | undefined> {
  const [row] = await generationStatement(db, [id, lifetimeDays, idleDays]);
  return row?.generation;
}
