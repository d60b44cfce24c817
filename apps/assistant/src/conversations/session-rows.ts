import { type Kysely, type RawBuilder, sql, type SqlBool, type Transaction } from 'kysely';
import { type AccessScope, whereInScope } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import { buildTimeOrder, type Position } from '../pages.ts';
import type { Tables } from '../tables.ts';

/** Channel for changes, deletions and cancellations in a session. The payload is the session ID. */
export const SESSION_CHANNEL = 'assistant_sessions';

/** Sort order by last activity. The indexes contain the same expression. */
const activityOrder = buildTimeOrder('last_active', 'created_at');

/** Columns of a session summary, with defaults for rows from an older system. */
export const summaryColumns = [
  sql<string>`conversation_sessions.id`.as('session_id'),
  sql<string>`coalesce(profile_id, '')`.as('profile_id'),
  sql<string | null>`user_id`.as('user_id'),
  sql<string>`coalesce(name, '')`.as('name'),
  sql<number>`(select count(*) from conversation_messages
    where conversation_messages.session_id = conversation_sessions.id)`.as('message_count'),
  sql<boolean>`coalesce(pinned, false)`.as('pinned'),
  sql<Date>`coalesce(created_at, last_active, timestamptz 'epoch')`.as('created_at'),
  sql<Date>`coalesce(last_active, created_at, timestamptz 'epoch')`.as('last_active'),
] as const;

/** A session summary. Specification 000, Session summary item. */
export type SessionSummary = {
  session_id: string;
  profile_id: string;
  /** ID of the owner. Null for an unassigned session from an older system. */
  user_id: string | null;
  name: string;
  message_count: number;
  pinned: boolean;
  created_at: Date;
  last_active: Date;
};

/** A session ID with the reader's access scope. */
export type SessionKey = { sessionId: string; scope: AccessScope };

/** Returns the SQL condition that a row of `conversation_sessions` is in an access scope. */
export function whereOwnerInScope(scope: AccessScope): RawBuilder<SqlBool> {
  return whereInScope(scope, 'conversation_sessions.user_id');
}

/** Returns the SQL condition that a column's session ID is in an access scope. */
export function whereSessionInScope(scope: AccessScope, column: string): RawBuilder<SqlBool> {
  return sql<SqlBool>`exists (
    select from conversation_sessions
    where conversation_sessions.id = ${sql.ref(column)} and ${whereOwnerInScope(scope)})`;
}

/**
 * Locks a session, so that only one transaction at a time changes its turns. Rows that reference the session, such as
 * steps, can still be inserted.
 * @returns The owner; undefined if the access scope has no such session.
 */
export function lockSession(
  trx: Transaction<Tables>,
  { sessionId, scope }: SessionKey,
): Promise<{ user_id: string | null } | undefined> {
  return trx
    .selectFrom('conversation_sessions')
    .select('user_id')
    .where('id', '=', sessionId)
    .where(whereOwnerInScope(scope))
    .forNoKeyUpdate()
    .executeTakeFirst();
}

/**
 * Returns the owner, profile and name of a session. A missing profile or name is empty.
 * @throws ProblemError `session_not_found` or `session_not_yours`.
 */
export async function requireSession(
  db: Kysely<Tables>,
  { sessionId, scope }: SessionKey,
): Promise<{ userId: string | null; profileId: string; name: string }> {
  const row = await db
    .selectFrom('conversation_sessions')
    .select([
      'user_id as userId',
      sql<string>`coalesce(profile_id, '')`.as('profileId'),
      sql<string>`coalesce(name, '')`.as('name'),
      whereOwnerInScope(scope).as('isInScope'),
    ])
    .where('id', '=', sessionId)
    .executeTakeFirst();
  if (row === undefined) throw problem('session_not_found');
  if (row.isInScope !== true) throw problem('session_not_yours');
  return row;
}

/** Query for a page of sessions. `userId` limits the page to one owner; `after` is the end of the previous page. */
export type SessionPage = {
  userId?: string | undefined;
  after?: Position | undefined;
  limit: number;
};

/** Returns sessions with their positions, most recently active first, then by descending ID. */
export async function listSessions(
  db: Kysely<Tables>,
  { scope, userId, after, limit }: SessionPage & { scope: AccessScope },
): Promise<(SessionSummary & { position: Position })[]> {
  let query = db
    .selectFrom('conversation_sessions')
    .select([...summaryColumns, activityOrder.microseconds.as('active_us')])
    .where(whereOwnerInScope(scope))
    .orderBy(activityOrder.time, 'desc')
    .orderBy('id', 'desc')
    .limit(limit);
  if (userId !== undefined) query = query.where('user_id', '=', userId);
  if (after !== undefined) query = query.where(activityOrder.isAfter(after));
  const rows = await query.execute();
  return rows.map(({ active_us, ...session }) => ({
    ...session,
    position: [active_us, session.session_id],
  }));
}

/**
 * Returns a user's sessions, ordered by ID so that activity between two pages does not change the order.
 * @param after The last ID of the previous page.
 */
export function listSessionsOfUser(
  db: Kysely<Tables>,
  { userId, after, limit }: { userId: string; after?: string | undefined; limit: number },
): Promise<SessionSummary[]> {
  let query = db
    .selectFrom('conversation_sessions')
    .select(summaryColumns)
    .where('user_id', '=', userId)
    .orderBy('id')
    .limit(limit);
  if (after !== undefined) query = query.where('id', '>', after);
  return query.execute();
}

/** Returns a session; undefined if the access scope has no such session. */
export function findSession(
  db: Kysely<Tables>,
  { sessionId, scope }: SessionKey,
): Promise<SessionSummary | undefined> {
  return db
    .selectFrom('conversation_sessions')
    .select(summaryColumns)
    .where('id', '=', sessionId)
    .where(whereOwnerInScope(scope))
    .executeTakeFirst();
}

/** Names a session that has no name yet, and then notifies {@link SESSION_CHANNEL}. */
export async function setNameIfEmpty(
  db: Kysely<Tables>,
  { sessionId, name }: { sessionId: string; name: string },
): Promise<void> {
  await sql`
    with named as (
      update conversation_sessions set name = ${name}
      where id = ${sessionId} and coalesce(name, '') = ''
      returning id
    )
    select pg_notify(${SESSION_CHANNEL}, id) from named`.execute(db);
}

/**
 * Deletes a session with its messages, steps and files, and notifies {@link SESSION_CHANNEL}.
 * @returns The owner; undefined if the access scope has no such session.
 */
export async function deleteSession(
  trx: Transaction<Tables>,
  { sessionId, scope }: SessionKey,
): Promise<{ user_id: string | null } | undefined> {
  const condition = sql<boolean>`conversation_sessions.id = ${sessionId} and ${whereOwnerInScope(scope)}`;
  return (await deleteSessions(trx, condition))[0];
}

/** Deletes all sessions of a user, as {@link deleteSession} does, and returns their number. */
export async function deleteSessionsOfUser(
  trx: Transaction<Tables>,
  userId: string,
): Promise<number> {
  const ownerCondition = sql<boolean>`conversation_sessions.user_id = ${userId}`;
  return (await deleteSessions(trx, ownerCondition)).length;
}

/** Deletes sessions, and also their rows in tables that may lack a cascading foreign key in older databases. */
async function deleteSessions(trx: Transaction<Tables>, condition: RawBuilder<boolean>) {
  const sessions = await trx
    .selectFrom('conversation_sessions')
    .select(['id', 'user_id'])
    .where(condition)
    .forUpdate()
    .execute();
  const ids = sessions.map(({ id }) => id);
  if (ids.length === 0) return [];
  const anyId = sql<string>`any(${ids}::text[])`;
  for (const table of ['conversation_messages', 'agent_steps', 'session_files'] as const) {
    await trx.deleteFrom(table).where('session_id', '=', anyId).execute();
  }
  await trx.deleteFrom('conversation_sessions').where('id', '=', anyId).execute();
  await sql`select pg_notify(${SESSION_CHANNEL}, id) from unnest(${ids}::text[]) as id`.execute(
    trx,
  );
  return sessions;
}
