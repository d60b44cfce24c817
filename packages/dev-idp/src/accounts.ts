import type { DatabaseSync } from 'node:sqlite';
import { permissions } from './permissions.ts';

/** A person the development provider can sign in. There are no passwords. */
export type DevAccount = {
  sub: string;
  email: string;
  display_name: string;
  role_ids: string[];
  permission_ids: string[];
  blocked: boolean;
};

/** What an account may do in the client, as `userinfo` reports it. */
export type DevAccess = Pick<DevAccount, 'role_ids' | 'permission_ids'>;

/** One user and one administrator, with the permissions the specification gives to each by default. */
export const sampleAccounts: readonly DevAccount[] = [
  {
    sub: 'u-olena',
    email: 'olena@example.test',
    display_name: 'Olena Koval',
    role_ids: ['svc_user'],
    permission_ids: permissions.filter(({ forUsers }) => forUsers).map(({ slug }) => slug),
    blocked: false,
  },
  {
    sub: 'u-taras',
    email: 'taras@example.test',
    display_name: 'Taras Melnyk',
    role_ids: ['svc_admin'],
    permission_ids: permissions.map(({ slug }) => slug),
    blocked: false,
  },
];

/** The accounts as they are now: those configured, with the changes made since. */
export type Accounts = {
  list: () => DevAccount[];
  find: (sub: string) => DevAccount | undefined;
  /** @throws RangeError when there is no such account */
  setBlocked: (sub: string, blocked: boolean) => void;
  /** @throws RangeError when there is no such account */
  setAccess: (sub: string, access: DevAccess) => void;
};

/**
 * Joins the configured accounts with the changes kept in the database. Only changes are stored, so
 * that an edit of the configured accounts shows at the next start.
 *
 * @throws TypeError when no account is configured or two have the same `sub`
 */
export function createAccounts(
  database: DatabaseSync,
  configured: readonly DevAccount[],
): Accounts {
  const bySub = new Map(configured.map((account) => [account.sub, account]));
  if (bySub.size === 0) throw new TypeError('accounts: name at least one account to sign in with');
  if (bySub.size < configured.length) throw new TypeError('accounts: each sub may occur only once');

  const changesOf = database.prepare('select * from account_changes where sub = ?');
  const saveBlocked = database.prepare(
    `insert into account_changes (sub, blocked) values (?, ?)
     on conflict (sub) do update set blocked = excluded.blocked`,
  );
  const saveAccess = database.prepare(
    `insert into account_changes (sub, role_ids, permission_ids) values (?, ?, ?)
     on conflict (sub)
     do update set role_ids = excluded.role_ids, permission_ids = excluded.permission_ids`,
  );

  function withChanges(account: DevAccount): DevAccount {
    const changes = changesOf.get(account.sub);
    return {
      ...account,
      role_ids: stringsIn(changes?.['role_ids']) ?? [...account.role_ids],
      permission_ids: stringsIn(changes?.['permission_ids']) ?? [...account.permission_ids],
      blocked: Boolean(changes?.['blocked'] ?? account.blocked),
    };
  }

  function assertKnown(sub: string): void {
    if (!bySub.has(sub)) throw new RangeError(`The provider has no account with sub "${sub}".`);
  }

  return {
    list: () => [...bySub.values()].map(withChanges),
    find(sub) {
      const account = bySub.get(sub);
      return account && withChanges(account);
    },
    setBlocked(sub, blocked) {
      assertKnown(sub);
      saveBlocked.run(sub, Number(blocked));
    },
    setAccess(sub, { role_ids, permission_ids }) {
      assertKnown(sub);
      saveAccess.run(sub, JSON.stringify(role_ids), JSON.stringify(permission_ids));
    },
  };
}

// `setAccess` is the only writer of these columns, so the text is an array of strings.
function stringsIn(column: unknown): string[] | undefined {
  if (typeof column !== 'string') return undefined;
  const strings: string[] = JSON.parse(column);
  return strings;
}
