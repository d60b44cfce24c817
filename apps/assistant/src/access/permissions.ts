import { type RawBuilder, type SqlBool, sql, type Transaction } from 'kysely';
import { type Static, Type } from 'typebox';
import type { Tables } from '../tables.ts';

/** Schema of a user's role. Specification 000, User record. */
export const roleSchema = Type.Union([Type.Literal('user'), Type.Literal('admin')]);

export type Role = Static<typeof roleSchema>;

/** User, with the data from the identity provider. Specification 000, User record. */
export type User = {
  id: string;
  email: string;
  display_name: string | null;
  role: Role;
  permissions: string[];
};

/** Resolved user, and the access generation at the time of resolution. */
export type ResolvedUser = { user: User; generation: number };

/** Permissions and their default roles at the provider. Specification 000, Permissions and defaults. */
export const permissions = {
  'svc.sessions.read_own': { meaning: 'view own sessions', defaults: ['user', 'admin'] },
  'svc.sessions.read_all': { meaning: 'view all sessions', defaults: ['admin'] },
  'svc.sessions.delete_own': { meaning: 'delete own sessions', defaults: ['user', 'admin'] },
  'svc.sessions.delete_all': { meaning: "delete other users' sessions", defaults: ['admin'] },
  'svc.memory.read_own': { meaning: 'view own memory', defaults: ['user', 'admin'] },
  'svc.memory.read_all': { meaning: "view other users' memory", defaults: ['admin'] },
  'svc.files.read_own': { meaning: 'download own session files', defaults: ['user', 'admin'] },
  'svc.files.read_all': { meaning: "download other users' files", defaults: ['admin'] },
  'svc.profiles.use': { meaning: 'use agent profiles', defaults: ['user', 'admin'] },
  'svc.profiles.manage': { meaning: 'manage profile availability', defaults: ['admin'] },
  'svc.tools.use': { meaning: 'use tools', defaults: ['user', 'admin'] },
  'svc.admin.access': { meaning: 'access admin endpoints', defaults: ['admin'] },
  'svc.debug.access': { meaning: 'access the debug panel', defaults: ['admin'] },
} as const satisfies Record<string, { meaning: string; defaults: readonly Role[] }>;

export type Permission = keyof typeof permissions;

/** Returns whether a user has a permission. Admins have all permissions. Specification 000, Permission check rules. */
export function hasPermission(
  user: { role: Role; permissions: readonly string[] },
  permission: Permission,
): boolean {
  return user.role === 'admin' || user.permissions.includes(permission);
}

/**
 * Rows that a user may access: all rows for admins, the rows of every user for holders of a permission, own rows for
 * other users. Specification 000, Ownership columns.
 */
export type AccessScope = 'everything' | 'every-user' | { userId: string };

/** Returns the access scope of a user. The permission extends it to other users' rows. Specification 000, Ownership. */
export function accessScope(
  user: Pick<User, 'id' | 'role' | 'permissions'>,
  permission?: Permission,
): AccessScope {
  if (user.role === 'admin') return 'everything';
  if (permission !== undefined && hasPermission(user, permission)) return 'every-user';
  return { userId: user.id };
}

/** Builds the SQL condition that a row is in an access scope. `owner` is the column of the owner's ID. */
export function whereInScope(scope: AccessScope, owner: string): RawBuilder<SqlBool> {
  if (scope === 'everything') return sql<SqlBool>`true`;
  if (scope === 'every-user') return sql<SqlBool>`${sql.ref(owner)} is not null`;
  return sql<SqlBool>`${sql.ref(owner)} = ${scope.userId}`;
}

/** First key of the owner lock. Advisory locks with two keys never conflict with locks with one key. */
const OWNER_LOCK_KEY = 1;

/**
 * Serializes transactions that count and then add rows of an owner, across all processes. Transactions acquire locks in
 * one order: owner, memory (`lockMemory`), session (`lockSession` or its deletion), contents of the session, facts.
 */
export async function lockOwner(trx: Transaction<Tables>, userId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(${OWNER_LOCK_KEY}::int, hashtext(${userId}))`.execute(trx);
}
