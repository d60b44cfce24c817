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
