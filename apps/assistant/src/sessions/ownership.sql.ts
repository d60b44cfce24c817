import { type Kysely, type RawBuilder, sql, type SqlBool, type Transaction } from 'kysely';
import { whereInScope, type AccessScope } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';

// What parts that keep something of a session, such as its files, need in order to know whose it is.

/** Which session, and how far whoever asks for it reaches. */
export type SessionKey = { sessionId: string; reach: AccessScope };

/** Whether a row of `conversation_sessions` is within reach, as a condition of a statement. */
export function isOwnerWithin(reach: AccessScope): RawBuilder<SqlBool> {
  return whereInScope(reach, 'conversation_sessions.user_id');
}

/**
 * Whether the session that a row belongs to is within reach, as a condition of a statement.
 * @param sessionId The column that names the session.
 */
export function isSessionWithin(reach: AccessScope, sessionId: string): RawBuilder<SqlBool> {
  return sql<SqlBool>`exists (
    select from conversation_sessions
    where conversation_sessions.id = ${sql.ref(sessionId)} and ${isOwnerWithin(reach)})`;
}

/**
 * Locks a session within reach until the transaction ends, so that what comes into it one after another
 * can be counted. Messages can be added meanwhile.
 * @returns Whose it is; nothing where there is none.
 */
export function lockSession(
  trx: Transaction<Tables>,
  { sessionId, reach }: SessionKey,
): Promise<{ user_id: string | null } | undefined> {
  return trx
    .selectFrom('conversation_sessions')
    .select('user_id')
    .where('id', '=', sessionId)
    .where(isOwnerWithin(reach))
    .forNoKeyUpdate()
    .executeTakeFirst();
}

/** Whose a session is, and what it goes by: nothing of what is in it. */
export type SessionHead = {
  /** Null for a session of an older system, which has no owner yet. */
  userId: string | null;
  /** Empty where it names none. */
  profileId: string;
  /** Empty where it has none. */
  name: string;
};

/**
 * A session within reach.
 * @throws ProblemError `session_not_found` or `session_not_yours`.
 */
export async function requireSession(
  db: Kysely<Tables>,
  { sessionId, reach }: SessionKey,
): Promise<SessionHead> {
  const row = await db
    .selectFrom('conversation_sessions')
    .select([
      'user_id',
      sql<string>`coalesce(profile_id, '')`.as('profile_id'),
      sql<string>`coalesce(name, '')`.as('name'),
      isOwnerWithin(reach).as('is_within'),
    ])
    .where('id', '=', sessionId)
    .executeTakeFirst();
  if (row === undefined) throw problem('session_not_found');
  if (row.is_within !== true) throw problem('session_not_yours');
  return { userId: row.user_id, profileId: row.profile_id, name: row.name };
}
