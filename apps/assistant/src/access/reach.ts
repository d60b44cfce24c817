import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { hasPermission, type Permission } from './permissions.ts';
import type { User } from './user.ts';

/**
 * Whose data somebody reaches: everybody's and that of nobody (an admin), everybody's (who holds a
 * permission for others' data), or that of one user. What has no owner is of an older system, and for
 * admins only. Specification 000, Ownership columns.
 */
export type Reach = 'everything' | 'every-user' | { userId: string };

/**
 * How far somebody reaches. Owners need no permission. Specification 000, Ownership rules on session
 * endpoints.
 * @param permission Extends it to others' data; without one only admins reach that.
 */
export function reachOf(
  user: Pick<User, 'id' | 'role' | 'permissions'>,
  permission?: Permission,
): Reach {
  if (user.role === 'admin') return 'everything';
  if (permission !== undefined && hasPermission(user, permission)) return 'every-user';
  return { userId: user.id };
}

/**
 * Whether a row is within reach, as a condition of a statement: null, which selects nothing, for a row
 * without an owner and a user who is no admin.
 * @param owner The column that names whose the row is.
 */
export function isWithin(reach: Reach, owner: string): RawBuilder<SqlBool> {
  if (reach === 'everything') return sql<SqlBool>`true`;
  if (reach === 'every-user') return sql<SqlBool>`${sql.ref(owner)} is not null`;
  return sql<SqlBool>`${sql.ref(owner)} = ${reach.userId}`;
}
