import type { DatabaseSync } from 'node:sqlite';

/** User of the development provider, without a password. */
export type DevAccount = {
  sub: string;
  email: string;
  display_name: string;
  role_ids: string[];
  permission_ids: string[];
  blocked: boolean;
};

/** Roles and permissions of an account, which `userinfo` reports. */
export type DevAccess = Pick<DevAccount, 'role_ids' | 'permission_ids'>;

/** The roles of the application. Specification 000, Provisioning at the identity provider. */
export const ROLES = [
  { slug: 'svc_user', meaning: 'user' },
  { slug: 'svc_admin', meaning: 'administrator' },
] as const;

/** The permissions of the application. Specification 000, Permissions and defaults. */
export const PERMISSIONS: readonly { slug: string; meaning: string; isForUsers: boolean }[] = [
  { slug: 'svc.sessions.read_own', meaning: 'view own sessions', isForUsers: true },
  { slug: 'svc.sessions.read_all', meaning: 'view all sessions', isForUsers: false },
  { slug: 'svc.sessions.delete_own', meaning: 'delete own sessions', isForUsers: true },
  { slug: 'svc.sessions.delete_all', meaning: 'delete other users’ sessions', isForUsers: false },
  { slug: 'svc.memory.read_own', meaning: 'view own memory', isForUsers: true },
  { slug: 'svc.memory.read_all', meaning: 'view other users’ memory', isForUsers: false },
  { slug: 'svc.files.read_own', meaning: 'download own session files', isForUsers: true },
  { slug: 'svc.files.read_all', meaning: 'download other users’ files', isForUsers: false },
  { slug: 'svc.profiles.use', meaning: 'use agent profiles', isForUsers: true },
  { slug: 'svc.profiles.manage', meaning: 'manage profile availability', isForUsers: false },
  { slug: 'svc.tools.use', meaning: 'use tools', isForUsers: true },
  { slug: 'svc.admin.access', meaning: 'access admin endpoints', isForUsers: false },
  { slug: 'svc.debug.access', meaning: 'access the debug panel', isForUsers: false },
];

/** One user and one administrator, with the default permissions of the specification. */
export const sampleAccounts: readonly DevAccount[] = [
  {
    sub: 'u-olena',
    email: 'olena@example.test',
    display_name: 'Olena Koval',
    role_ids: ['svc_user'],
    permission_ids: PERMISSIONS.filter(({ isForUsers }) => isForUsers).map(({ slug }) => slug),
    blocked: false,
  },
  {
    sub: 'u-taras',
    email: 'taras@example.test',
    display_name: 'Taras Melnyk',
    role_ids: ['svc_admin'],
    permission_ids: PERMISSIONS.map(({ slug }) => slug),
    blocked: false,
  },
];

export type Accounts = ReturnType<typeof createAccountStore>;

/** Creates a store that applies the changes in the database to the sample accounts. */
export function createAccountStore(database: DatabaseSync) {
  const selectChanges = database.prepare('select changes from changed_accounts where sub = ?');
  const upsertChanges = database.prepare(
    `insert into changed_accounts (sub, changes) values (?1, ?2)
     on conflict (sub) do update set changes = json_patch(changes, ?2)`,
  );
  const list = (): DevAccount[] =>
    sampleAccounts.map((account) => {
      const row = selectChanges.get(account.sub);
      return { ...structuredClone(account), ...(row && JSON.parse(String(row['changes']))) };
    });
  return {
    list,
    find: (sub: string) => list().find((account) => account.sub === sub),
    change(sub: string, change: Partial<DevAccess & { blocked: boolean }>): void {
      upsertChanges.run(sub, JSON.stringify(change));
    },
  };
}
