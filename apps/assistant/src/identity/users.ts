import type { Role, User } from '../access/permissions.ts';

/** What the user record holds of the provider's data. Specification 000, User record. */
export type CachedUser = {
  email: string;
  display_name: string | null;
  role: string;
  permissions: string;
};

/** Whether the record says the same as the provider. */
export function saysTheSame(cached: CachedUser, user: User): boolean {
  return (
    cached.email === user.email &&
    cached.display_name === user.display_name &&
    cached.role === user.role &&
    cached.permissions === JSON.stringify(user.permissions)
  );
}

/** What the record says, as user data. A role or permissions that make no sense open nothing. */
export function readCachedUser(id: string, cached: CachedUser): User {
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
