import { randomUUID } from 'node:crypto';
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import type { Tables } from '../tables.ts';
import { newestFirst, type Position } from '../pages.ts';
import type { AccessScope } from '../access/permissions.ts';
import { isOwnerWithin } from './ownership.sql.ts';

/** Processes hear here of sessions whose summary was changed, and of those that were deleted, by their ids. */
export const SESSION_CHANNEL = 'assistant_sessions';

/** How recently a session was active. The indexes hold the same expression. */
const active = newestFirst('last_active', 'created_at');

/** What a session summary shows, with what rows of an older system lack filled in. */
const summaryColumns = [
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

/** A session as it is summarised. Specification 000, Session summary item. */
export type SessionSummary = {
  session_id: string;
  profile_id: string;
  /** Null for a session of an older system, which has no owner yet. */
  user_id: string | null;
  name: string;
  message_count: number;
  pinned: boolean;
  created_at: Date;
  last_active: Date;
};

/**
 * Sessions within reach, the most recently active first; those of one moment by id.
 * @param userId Whose only; everybody's within reach without it.
 * @param after Where the page before ended.
 * @returns At most `limit` sessions, each with its position.
 */
export async function listSessions(
  db: Kysely<Tables>,
  { reach, userId, after, limit }: SessionPage & { reach: AccessScope },
): Promise<(SessionSummary & { position: Position })[]> {
  let query = db
    .selectFrom('conversation_sessions')
    .select([...summaryColumns, active.microseconds.as('active_us')])
    .where(isOwnerWithin(reach))
    .orderBy(active.time, 'desc')
    .orderBy('id', 'desc')
    .limit(limit);
  if (userId !== undefined) query = query.where('user_id', '=', userId);
  if (after !== undefined) query = query.where(active.isAfter(after));
  const rows = await query.execute();
  return rows.map(({ active_us, ...session }) => ({
    ...session,
    position: [active_us, session.session_id],
  }));
}

/**
 * All sessions of a user, by their ids: unlike by their times none is passed over that becomes active between two pages.
 * @param after The id that the page before ended with.
 * @returns At most `limit`.
 */
export function listSessionsOf(
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

/** Sessions by their ids, whoever's they are; those that are gone are left out. */
export function findSessions(
  db: Kysely<Tables>,
  ids: readonly string[],
): Promise<SessionSummary[]> {
  return db
    .selectFrom('conversation_sessions')
    .select(summaryColumns)
    .where('id', '=', sql<string>`any(${ids}::text[])`)
    .execute();
}

/** A session within reach; nothing where there is none. */
export function findSession(
  db: Kysely<Tables>,
  { sessionId, reach }: { sessionId: string; reach: AccessScope },
): Promise<SessionSummary | undefined> {
  return db
    .selectFrom('conversation_sessions')
    .select(summaryColumns)
    .where('id', '=', sessionId)
    .where(isOwnerWithin(reach))
    .executeTakeFirst();
}

/** Which of the sessions within reach. */
export type SessionPage = {
  userId?: string | undefined;
  after?: Position | undefined;
  limit: number;
};

/** How many sessions a user owns. */
export async function countSessions(db: Kysely<Tables>, userId: string): Promise<number> {
  const { count } = await db
    .selectFrom('conversation_sessions')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow();
  return count;
}

/** Creates a session, active as of now. Specification 000, WebSocket. */
export function insertSession(
  db: Kysely<Tables>,
  { userId, profileId, name }: { userId: string; profileId: string; name: string },
): Promise<SessionSummary> {
  return db
    .insertInto('conversation_sessions')
    .values({
      id: randomUUID(),
      user_id: userId,
      profile_id: profileId,
      name,
      pinned: false,
      created_at: sql<Date>`now()`,
      last_active: sql<Date>`now()`,
    })
    .returning(summaryColumns)
    .executeTakeFirstOrThrow();
}

/**
 * Changes a session within reach, and tells of it on {@link SESSION_CHANNEL}.
 * @returns The session as it now is; nothing where there is none.
 */
export async function updateSession(
  trx: Transaction<Tables>,
  {
    sessionId,
    reach,
    changes,
  }: { sessionId: string; reach: AccessScope; changes: { name?: string; pinned?: boolean } },
): Promise<SessionSummary | undefined> {
  const session = await trx
    .updateTable('conversation_sessions')
    .set(changes)
    .where('id', '=', sessionId)
    .where(isOwnerWithin(reach))
    .returning(summaryColumns)
    .executeTakeFirst();
  if (session !== undefined) {
    await sql`select pg_notify(${SESSION_CHANNEL}, ${sessionId})`.execute(trx);
  }
  return session;
}

/** Gives a session a name, unless it has one or is gone, and tells of it on {@link SESSION_CHANNEL}. */
export async function nameUnnamed(
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
 * Deletes a session within reach with its messages, steps and files, and tells of it on {@link SESSION_CHANNEL}.
 * @param trx A transaction: the session stays locked until all of it is gone.
 * @returns Whose it was; nothing where there is none.
 */
export async function deleteSession(
  trx: Transaction<Tables>,
  { sessionId, reach }: { sessionId: string; reach: AccessScope },
): Promise<{ userId: string | null } | undefined> {
  const [session] = await deleteSessions(
    trx,
    sql<boolean>`conversation_sessions.id = ${sessionId} and ${isOwnerWithin(reach)}`,
  );
  return session && { userId: session.user_id };
}

/**
 * Deletes all sessions of a user, likewise. What comes into one meanwhile waits, and finds it gone.
 * @returns How many there were.
 */
export async function deleteSessionsOf(trx: Transaction<Tables>, userId: string): Promise<number> {
  const isTheirs = sql<boolean>`conversation_sessions.user_id = ${userId}`;
  return (await deleteSessions(trx, isTheirs)).length;
}

/** Tables are deleted from one by one: one of an older system may lack the reference, or the cascade. */
async function deleteSessions(trx: Transaction<Tables>, which: RawBuilder<boolean>) {
  const sessions = await trx
    .selectFrom('conversation_sessions')
    .select(['id', 'user_id'])
    .where(which)
    .forUpdate()
    .execute();
  const ids = sessions.map(({ id }) => id);
  if (ids.length === 0) return [];
  for (const table of ['conversation_messages', 'agent_steps', 'session_files'] as const) {
    await trx
      .deleteFrom(table)
      .where('session_id', '=', sql<string>`any(${ids}::text[])`)
      .execute();
  }
  await trx
    .deleteFrom('conversation_sessions')
    .where('id', '=', sql<string>`any(${ids}::text[])`)
    .execute();
  await sql`select pg_notify(${SESSION_CHANNEL}, id) from unnest(${ids}::text[]) as id`.execute(
    trx,
  );
  return sessions;
}
