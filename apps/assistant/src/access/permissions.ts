import type { Role } from './user.ts';

/**
 * Every permission, what it allows, and which roles have it by default at the identity provider.
 * Specification 000, Permissions and defaults. The slugs are checked literally.
 */
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

/** The slug of a permission. */
export type Permission = keyof typeof permissions;

/**
 * Whether somebody has a permission: the role `admin` has all of them, whatever the provider lists.
 * Specification 000, Permission check rules.
 */
export function hasPermission(
  user: { role: Role; permissions: readonly string[] },
  permission: Permission,
): boolean {
  return user.role === 'admin' || user.permissions.includes(permission);
}
