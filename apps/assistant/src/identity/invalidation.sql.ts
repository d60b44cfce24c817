import { type Insertable, type Kysely, sql, type Transaction } from 'kysely';
import type { Role } from '../access/permissions.ts';
import type { Sweep } from '../upkeep.ts';
import type { Tables } from '../tables.ts';
import { type EndedSession, endedColumns } from './auth-sessions.sql.ts';

/**
 * Ends sessions and clears cached access, so that it holds for every process and for what is in flight:
 *
 * - a request finds no row, or one whose cached access is out of date;
 * - a refresh only updates, so that it brings no session back;
 * - a sign-in stores its session under a lock shared with others of its kind and looks for what was
 *   invalidated since it began (`invalidatedSince`), while an invalidation holds that lock alone;
 * - live sockets hear of it by a notification that comes with the commit (`sockets/live-users.ts`).
 *
 * Specification 000, Auth session and Cached role and permissions; Contract 3, Webhooks.
 */

/** Any number will do, as long as every process takes the same one: "sign" in ASCII. */
const LOCK_KEY = 0x7369676e;

/** Deletes invalidations that no sign-in can be older than: the provider's calls are bounded. */
export const sweepInvalidations: Sweep = (limit) => sql`
  delete from invalidations where id in (
    select id from invalidations where created_at < now() - interval '1 hour'
    limit ${limit} for update skip locked
  )`;

/** The channel of `sockets/live-users.ts`; the payload is the user's id, or empty for everybody. */
export const USER_CHANNEL = 'assistant_user_changed';

/** Ends all sessions of a user, sign-ins in flight included, and gives what they held. */
export async function endSessions(
  trx: Transaction<Tables>,
  { userId }: { userId: string },
): Promise<EndedSession[]> {
  await invalidate(trx, 'sessions', { userId });
  return trx
    .deleteFrom('user_auth_sessions')
    .where('user_id', '=', userId)
    .returning(endedColumns)
    .execute();
}

/** One session at the provider; its user is null where the provider names none. */
export type ProviderSession = { providerSessionId: string; userId: string | null };

/** Ends what belongs to one session at the provider, sign-ins in flight included, and gives what it held. */
export async function endProviderSession(
  trx: Transaction<Tables>,
  { providerSessionId, userId }: ProviderSession,
): Promise<EndedSession[]> {
  await note(trx, {
    kind: 'sessions',
    user_id: userId,
    provider_session_id: providerSessionId,
  });
  let query = trx
    .deleteFrom('user_auth_sessions')
    .where('provider_session_id', '=', providerSessionId);
  if (userId !== null) query = query.where('user_id', '=', userId);
  const ended = await query.returning(endedColumns).execute();
  for (const user of new Set(ended.map((session) => session.userId))) {
    await tellUserChanged(trx, user);
  }
  return ended;
}

/**
 * Ends all sessions of everybody, sign-ins in flight included. What they held is not read: of 200,000
 * sessions it would take 600 MB.
 * @returns How many there were.
 */
export async function endAllSessions(trx: Transaction<Tables>): Promise<number> {
  await invalidate(trx, 'sessions', 'everybody');
  const result = await trx.deleteFrom('user_auth_sessions').executeTakeFirst();
  return Number(result.numDeletedRows);
}

/**
 * Clears what is cached of a user's, or everybody's, role and permissions: it is the least that
 * anybody has until the next request fetches it. What was asked of the provider before is not stored.
 */
export async function clearAccess(
  trx: Transaction<Tables>,
  whose: { userId: string } | 'everybody',
): Promise<void> {
  await invalidate(trx, 'access', whose);
  await setAccess(trx, whose, { role: 'user', permissions: '[]' });
}

/**
 * Sets the cached role of a user, until the next fetch from the provider. Specification 000, Admin
 * endpoints; Contract 3, Answers.
 * @returns The role before; nothing where there is no such user.
 */
export async function setCachedRole(
  trx: Transaction<Tables>,
  userId: string,
  role: Role,
): Promise<string | undefined> {
  // The invalidation comes first: a sign-in takes its lock before the user's row as well.
  await invalidate(trx, 'access', { userId });
  const user = await trx
    .selectFrom('svc_users')
    .select('role')
    .where('id', '=', userId)
    .forUpdate()
    .executeTakeFirst();
  if (user !== undefined) await setAccess(trx, { userId }, { role });
  return user?.role;
}

async function setAccess(
  trx: Transaction<Tables>,
  whose: { userId: string } | 'everybody',
  access: { role: string; permissions?: string },
): Promise<void> {
  let query = trx.updateTable('svc_users').set((eb) => ({
    ...access,
    access_generation: eb('access_generation', '+', 1),
    updated_at: sql<Date>`now()`,
  }));
  if (whose !== 'everybody') query = query.where('id', '=', whose.userId);
  await query.execute();
}

async function invalidate(
  trx: Transaction<Tables>,
  kind: 'sessions' | 'access',
  whose: { userId: string } | 'everybody',
): Promise<void> {
  const userId = whose === 'everybody' ? null : whose.userId;
  await note(trx, { kind, user_id: userId });
  await tellUserChanged(trx, userId);
}

/** Notes an invalidation, for sign-ins in flight to find. */
async function note(
  trx: Transaction<Tables>,
  invalidation: Insertable<Tables['invalidations']>,
): Promise<void> {
  await sql`select pg_advisory_xact_lock(${LOCK_KEY})`.execute(trx);
  await trx.insertInto('invalidations').values(invalidation).execute();
}

/** Tells every process that something of a user's, or of everybody's where it is null, changed. */
export async function tellUserChanged(db: Kysely<Tables>, userId: string | null): Promise<void> {
  await sql`select pg_notify(${USER_CHANNEL}, ${userId ?? ''})`.execute(db);
}

/** The latest invalidation at a moment, for `invalidatedSince`; the moment is the database's. */
export type Moment = { readAt: Date; latest: number };

/** Takes the moment, for `invalidatedSince` to look back to. */
export async function latestInvalidation(db: Kysely<Tables>): Promise<Moment> {
  const { rows } = await sql<Moment>`
    select now() as "readAt", coalesce(max(id), 0) as latest from invalidations`.execute(db);
  const [moment] = rows;
  if (moment === undefined) throw new Error('An aggregate has one row');
  return moment;
}

/**
 * What was invalidated of a user since a moment. Until the transaction ends nothing more is. It comes
 * first in its transaction, as in those that invalidate: all take locks in one order.
 */
export async function invalidatedSince(
  trx: Transaction<Tables>,
  {
    userId,
    providerSessionId,
    began,
  }: { userId: string; providerSessionId: string | undefined; began: Moment },
): Promise<Set<'sessions' | 'access'>> {
  await sql`select pg_advisory_xact_lock_shared(${LOCK_KEY})`.execute(trx);
  const rows = await trx
    .selectFrom('invalidations')
    .select('kind')
    .distinct()
    .where('id', '>', began.latest)
    .where((where) => where.or([where('user_id', 'is', null), where('user_id', '=', userId)]))
    .where((where) =>
      where.or([
        where('provider_session_id', 'is', null),
        where('provider_session_id', '=', providerSessionId ?? null),
      ]),
    )
    .execute();
  return new Set(rows.map(({ kind }) => kind));
}
