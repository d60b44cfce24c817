import { type Kysely, sql, type Transaction } from 'kysely';
import type { Role, User } from '../access/permissions.ts';
import { recordAudit } from '../admin/audit.ts';
import type { Tables } from '../tables.ts';

/** Data from the provider in a user record. `permissions` is a JSON array of slugs. Specification 000, User record. */
export type CachedUser = Pick<User, 'email' | 'display_name'> & {
  role: string;
  permissions: string;
};

/** Returns whether a user record matches the provider's data. */
export function isSameUser(cachedUser: CachedUser, user: User): boolean {
  return (
    cachedUser.email === user.email &&
    cachedUser.display_name === user.display_name &&
    cachedUser.role === user.role &&
    cachedUser.permissions === JSON.stringify(user.permissions)
  );
}

/** Converts a user record to a user. A malformed role or malformed permissions grant no rights. */
export function readCachedUser(id: string, cachedUser: CachedUser): User {
  const { email, display_name, role, permissions } = cachedUser;
  return {
    id,
    email,
    display_name,
    role: readRole(role),
    permissions: readPermissions(permissions),
  };
}

/** Parses the role of a user record. Any value except `admin` becomes `user`. */
export function readRole(role: string): Role {
  return role === 'admin' ? 'admin' : 'user';
}

/** Parses the permission slugs of a user record. Returns an empty array unless the text is a JSON array of strings. */
export function readPermissions(text: string): string[] {
  try {
    const value: unknown = JSON.parse(text);
    const isList = Array.isArray(value) && value.every((slug) => typeof slug === 'string');
    return isList ? value : [];
  } catch {
    return [];
  }
}

/**
 * Creates or updates a user record, records a role change in the audit trail, and returns the access generation.
 * @param isCurrent Returns whether the provider's data belongs to a generation. Stale data does not update a record,
 *   and creates a new record without rights.
 */
export async function saveUser(
  trx: Transaction<Tables>,
  user: User,
  isCurrent: (generation: number) => boolean,
): Promise<number> {
  const { id, email, display_name, role } = user;
  const permissions = JSON.stringify(user.permissions);
  const createdRow = await trx
    .insertInto('svc_users')
    .values({ id, email, display_name, ...(isCurrent(0) && { role, permissions }) })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .returning('access_generation as generation')
    .executeTakeFirst();
  if (createdRow !== undefined) return createdRow.generation;

  const { generation, ...cachedUser } = await trx
    .selectFrom('svc_users')
    .select(['email', 'display_name', 'role', 'permissions', 'access_generation as generation'])
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow();
  if (!isCurrent(generation) || isSameUser(cachedUser, user)) return generation;
  await trx
    .updateTable('svc_users')
    .set({ email, display_name, role, permissions, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute();
  if (cachedUser.role !== role) {
    const details = { from: cachedUser.role, to: role };
    await recordAudit(trx, { action: 'role_changed', actorId: null, userId: id, details });
  }
  return generation;
}

/** Returns the cached role and permissions of a user. An unknown user has no rights. */
export async function findCachedAccess(
  db: Kysely<Tables>,
  userId: string,
): Promise<Pick<User, 'role' | 'permissions'>> {
  const user = await db
    .selectFrom('svc_users')
    .select(['role', 'permissions'])
    .where('id', '=', userId)
    .executeTakeFirst();
  return {
    role: readRole(user?.role ?? ''),
    permissions: readPermissions(user?.permissions ?? '[]'),
  };
}
