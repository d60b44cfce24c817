import { type Kysely, sql } from 'kysely';
import type { Role } from '../access/permissions.ts';
import type { Tables } from '../tables.ts';
import type { UserData } from './provider/user-data.ts';

/** What the user record holds of the provider's data. Specification 000, User record. */
export type CachedUser = {
  email: string;
  display_name: string | null;
  role: string;
  permissions: string;
};

/** Whether the record says the same as the provider. */
export function isCurrent(cached: CachedUser, user: UserData): boolean {
  return (
    cached.email === user.email &&
    cached.display_name === user.display_name &&
    cached.role === user.role &&
    cached.permissions === JSON.stringify(user.permissions)
  );
}

/** What the record says, as user data. A role or permissions that make no sense open nothing. */
export function readCachedUser(id: string, cached: CachedUser): UserData {
  return {
    id,
    email: cached.email,
    display_name: cached.display_name,
    role: readRole(cached.role),
    permissions: readPermissions(cached.permissions),
  };
}

/** The role in a user record; anything but `admin` is `user`. */
export function readRole(role: string): Role {
  return role === 'admin' ? 'admin' : 'user';
}

/** The slugs in the JSON text of a user record; none where it holds something else. */
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
 * Creates a user record at a sign-in, or brings it up to date; it is not written where nothing changed.
 * @param isAccessCurrent False where role and permissions were cleared since the provider was asked:
 * then they stay as they are.
 * @returns The generation of the access that is cached now.
 */
export async function upsertUser(
  db: Kysely<Tables>,
  user: UserData,
  isAccessCurrent: boolean,
): Promise<number> {
  const data = {
    email: user.email,
    display_name: user.display_name,
    ...(isAccessCurrent && { role: user.role, permissions: JSON.stringify(user.permissions) }),
  };
  await db
    .insertInto('svc_users')
    .values({ id: user.id, ...data })
    .onConflict((conflict) =>
      conflict
        .column('id')
        .doUpdateSet({ ...data, updated_at: sql<Date>`now()` })
        .where(differs(user)),
    )
    .execute();
  const row = await db
    .selectFrom('svc_users')
    .select('access_generation')
    .where('id', '=', user.id)
    .executeTakeFirstOrThrow();
  return row.access_generation;
}

/**
 * Brings a user record up to date with what the provider said, unless the cached access was cleared
 * since it was asked.
 * @param generation Of the cached access, from before the provider was asked.
 * @returns Whether it was written.
 */
export async function updateUser(
  db: Kysely<Tables>,
  user: UserData,
  generation: number,
): Promise<boolean> {
  const result = await db
    .updateTable('svc_users')
    .set({
      email: user.email,
      display_name: user.display_name,
      role: user.role,
      permissions: JSON.stringify(user.permissions),
      updated_at: sql<Date>`now()`,
    })
    .where('id', '=', user.id)
    .where('access_generation', '=', generation)
    .where(differs(user))
    .executeTakeFirst();
  return result.numUpdatedRows > 0n;
}

const differs = (user: UserData) => sql<boolean>`
  (svc_users.email, svc_users.display_name, svc_users.role, svc_users.permissions) is distinct from
  (${user.email}, ${user.display_name}::text, ${user.role}, ${JSON.stringify(user.permissions)})`;
