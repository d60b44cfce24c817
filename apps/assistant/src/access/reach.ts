import { type RawBuilder, type SqlBool, sql } from 'kysely';
import type { SignedInUser } from './guards.ts';
import { hasPermission, type Permission } from './permissions.ts';

/**
 * Whose sessions somebody reaches: everybody's and those of nobody (an admin), everybody's (who holds
 * a permission for others' data), or those of one user. Sessions without an owner are of an older
 * system, and for admins only. Specification 000, Ownership columns.
 */
export type Reach = 'everything' | 'every-user' | { userId: string };

/**
 * How far somebody reaches. Owners need no permission. Specification 000, Ownership rules on session
 * endpoints.
 * @param permission Extends it to others' sessions; without one only admins reach those.
 */
export function reachOf(
  user: Pick<SignedInUser, 'id' | 'role' | 'permissions'>,
  permission?: Permission,
): Reach {
  if (user.role === 'admin') return 'everything';
  if (permission !== undefined && hasPermission(user, permission)) return 'every-user';
  return { userId: user.id };
}

/**
 * Whether a row of `conversation_sessions` is within reach, as a condition of a statement: null, which
 * selects nothing, for a session without an owner and a user who is no admin.
 */
export function isWithin(reach: Reach): RawBuilder<SqlBool> {
  if (reach === 'everything') return sql<SqlBool>`true`;
  if (reach === 'every-user') return sql<SqlBool>`conversation_sessions.user_id is not null`;
  return sql<SqlBool>`conversation_sessions.user_id = ${reach.userId}`;
}

/**
 * Whether the session that a row belongs to is within reach, as a condition of a statement.
 * @param sessionId The column that names the session.
 */
export function isSessionWithin(
  reach: Reach,
  sessionId: 'conversation_messages.session_id' | 'session_files.session_id',
): RawBuilder<SqlBool> {
  return sql<SqlBool>`exists (
    select from conversation_sessions
    where conversation_sessions.id = ${sql.ref(sessionId)} and ${isWithin(reach)})`;
}
