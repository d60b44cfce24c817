/** A permission of the application, and whom it is given by default. */
export type Permission = {
  slug: string;
  meaning: string;
  forUsers: boolean;
};

/** The roles of the application. Specification 000, Provisioning at the identity provider. */
export const roles = ['svc_user', 'svc_admin'] as const;

/** Its permissions. Specification 000, Permissions and defaults; an administrator has all of them. */
export const permissions: readonly Permission[] = [
  { slug: 'svc.sessions.read_own', meaning: 'view own sessions', forUsers: true },
  { slug: 'svc.sessions.read_all', meaning: 'view all sessions', forUsers: false },
  { slug: 'svc.sessions.delete_own', meaning: 'delete own sessions', forUsers: true },
  { slug: 'svc.sessions.delete_all', meaning: 'delete other users’ sessions', forUsers: false },
  { slug: 'svc.memory.read_own', meaning: 'view own memory', forUsers: true },
  { slug: 'svc.memory.read_all', meaning: 'view other users’ memory', forUsers: false },
  { slug: 'svc.files.read_own', meaning: 'download own session files', forUsers: true },
  { slug: 'svc.files.read_all', meaning: 'download other users’ files', forUsers: false },
  { slug: 'svc.profiles.use', meaning: 'use agent profiles', forUsers: true },
  { slug: 'svc.profiles.manage', meaning: 'manage profile availability', forUsers: false },
  { slug: 'svc.tools.use', meaning: 'use tools', forUsers: true },
  { slug: 'svc.admin.access', meaning: 'access admin endpoints', forUsers: false },
  { slug: 'svc.debug.access', meaning: 'access the debug panel', forUsers: false },
];
