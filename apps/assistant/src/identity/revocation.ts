import { notify } from '@oselya/db';
import { type Insertable, type Kysely, type Selectable, sql, type Transaction } from 'kysely';
import type { Role } from '../access/permissions.ts';
import { type AuditAction, recordAudit } from '../admin/audit.ts';
import type { Tables } from '../tables.ts';
import type { Sweep } from '../upkeep.ts';

// docs/adr/0006-revocation.md explains how revocations reach requests, refreshes, sign-ins and sockets in flight.

/** Advisory lock: shared by sign-ins that store an auth session, exclusive for invalidations. ASCII of "sign". */
const INVALIDATION_LOCK_KEY = 0x7369676e;

/** Channel of revocations. The payload is a user ID, or empty for all users. */
export const USER_CHANNEL = 'assistant_user_changed';

const endedSessionColumns = [
  'id',
  'user_id',
  'access_token_enc',
  'refresh_token_enc',
  'id_token_enc',
] as const;

export type EndedAuthSession = Pick<
  Selectable<Tables['user_auth_sessions']>,
  (typeof endedSessionColumns)[number]
>;

/**
 * Ends one auth session and records its end in the audit trail.
 * @param session.token_version Optional fence: an auth session with newer tokens is not ended.
 * @param session.lease Optional fence: an auth session under a different refresh lease is not ended.
 */
export async function endAuthSession(
  trx: Transaction<Tables>,
  session: { id: string; token_version?: number; lease?: string | undefined },
  { action, details = {} }: { action: AuditAction; details?: Readonly<Record<string, string>> },
): Promise<EndedAuthSession | undefined> {
  let query = trx.deleteFrom('user_auth_sessions').where('id', '=', session.id);
  if (session.token_version !== undefined) {
    query = query.where('token_version', '=', session.token_version);
  }
  if (session.lease !== undefined) query = query.where(whereLeaseIs(session.lease));
  const endedSession = await query.returning(endedSessionColumns).executeTakeFirst();
  if (endedSession === undefined) return undefined;
  const { user_id: userId } = endedSession;
  const actorId = action === 'session_rejected' ? null : userId;
  await recordAudit(trx, { action, actorId, userId, details });
  await notify<Tables>(trx, USER_CHANNEL, userId);
  return endedSession;
}

/** Builds the SQL condition that an auth session is still under the refresh lease with this expiry. */
export const whereLeaseIs = (lease: string) =>
  sql<boolean>`refresh_lease_until = ${lease}::timestamptz`;

/** Ends all auth sessions of a user, including sign-ins in flight. */
export async function endUserSessions(
  trx: Transaction<Tables>,
  userId: string,
): Promise<EndedAuthSession[]> {
  await invalidate(trx, { kind: 'sessions', user_id: userId });
  return trx
    .deleteFrom('user_auth_sessions')
    .where('user_id', '=', userId)
    .returning(endedSessionColumns)
    .execute();
}

/** Session at the provider. `userId` is null if the provider names no user. */
export type ProviderSession = { providerSessionId: string; userId: string | null };

/**
 * Ends the auth sessions and sign-ins in flight of a session at the provider.
 * @returns The number of ended auth sessions.
 */
export async function endProviderSession(
  trx: Transaction<Tables>,
  { providerSessionId, userId }: ProviderSession,
): Promise<number> {
  const invalidation = { user_id: userId, provider_session_id: providerSessionId };
  await recordInvalidation(trx, { kind: 'sessions', ...invalidation });
  let query = trx
    .deleteFrom('user_auth_sessions')
    .where('provider_session_id', '=', providerSessionId);
  if (userId !== null) query = query.where('user_id', '=', userId);
  const endedRows = await query.returning('user_id').execute();
  for (const id of new Set(endedRows.map(({ user_id }) => user_id))) {
    await notify<Tables>(trx, USER_CHANNEL, id);
  }
  return endedRows.length;
}

/** Ends the auth sessions of all users. Does not load their tokens, because 200,000 auth sessions take 600 MB. */
export async function endAllSessions(trx: Transaction<Tables>): Promise<number> {
  await invalidate(trx, { kind: 'sessions', user_id: null });
  const { numDeletedRows } = await trx.deleteFrom('user_auth_sessions').executeTakeFirst();
  return Number(numDeletedRows);
}

/** Clears the cached role and permissions of one user or of all users until the next fetch from the provider. */
export async function clearAccess(
  trx: Transaction<Tables>,
  users: { userId: string } | 'all-users',
): Promise<void> {
  const userId = users === 'all-users' ? null : users.userId;
  await invalidate(trx, { kind: 'access', user_id: userId });
  await setAccess(trx, userId, { role: 'user', permissions: '[]' });
}

/** Sets the cached role of a user until the next fetch. Returns the earlier role, or undefined for an unknown user. */
export async function setCachedRole(
  trx: Transaction<Tables>,
  userId: string,
  role: Role,
): Promise<string | undefined> {
  // Sign-ins also acquire the invalidation lock before the user's row, so the two cannot deadlock.
  await invalidate(trx, { kind: 'access', user_id: userId });
  const user = await trx
    .selectFrom('svc_users')
    .select('role')
    .where('id', '=', userId)
    .forUpdate()
    .executeTakeFirst();
  if (user !== undefined) await setAccess(trx, userId, { role });
  return user?.role;
}

async function setAccess(
  trx: Transaction<Tables>,
  userId: string | null,
  access: { role: string; permissions?: string },
): Promise<void> {
  let query = trx.updateTable('svc_users').set((eb) => ({
    ...access,
    access_generation: eb('access_generation', '+', 1),
    updated_at: sql<Date>`now()`,
  }));
  if (userId !== null) query = query.where('id', '=', userId);
  await query.execute();
}

type Invalidation = Insertable<Tables['invalidations']>;

async function invalidate(trx: Transaction<Tables>, invalidation: Invalidation): Promise<void> {
  await recordInvalidation(trx, invalidation);
  await notify<Tables>(trx, USER_CHANNEL, invalidation.user_id ?? '');
}

async function recordInvalidation(trx: Transaction<Tables>, row: Invalidation): Promise<void> {
  await sql`select pg_advisory_xact_lock(${INVALIDATION_LOCK_KEY})`.execute(trx);
  await trx.insertInto('invalidations').values(row).execute();
}

/** Position in the invalidation log, with its time on the database clock. */
export type InvalidationCursor = { readAt: Date; latestId: number };

/** Returns the current end of the invalidation log. */
export async function readInvalidationCursor(db: Kysely<Tables>): Promise<InvalidationCursor> {
  return db
    .selectFrom('invalidations')
    .select(sql<Date>`now()`.as('readAt'))
    .select(sql<number>`coalesce(max(id), 0)`.as('latestId'))
    .executeTakeFirstOrThrow();
}

/**
 * Returns the kinds of invalidations after a cursor that affect a sign-in, and blocks new ones until the transaction
 * ends. Call it first in the transaction, because invalidations acquire the same lock before any row.
 */
export async function findInvalidationsSince(
  trx: Transaction<Tables>,
  { latestId }: InvalidationCursor,
  userId: string,
  providerSessionId: string | null,
): Promise<Set<'sessions' | 'access'>> {
  await sql`select pg_advisory_xact_lock_shared(${INVALIDATION_LOCK_KEY})`.execute(trx);
  const { rows } = await sql<{ kind: 'sessions' | 'access' }>`
    select distinct kind from invalidations
    where id > ${latestId} and (user_id is null or user_id = ${userId})
      and (provider_session_id is null or provider_session_id = ${providerSessionId})`.execute(trx);
  return new Set(rows.map(({ kind }) => kind));
}

/** Deletes invalidations that are older than any sign-in in flight. */
export const sweepInvalidations: Sweep = (limit) => sql`
  delete from invalidations where id in (
    select id from invalidations where created_at < now() - interval '1 hour'
    limit ${limit} for update skip locked
  )`;
