import { createHash } from 'node:crypto';
import type { Server } from '@oselya/kit';
import { sql } from 'kysely';
import { type Permission, permissions } from '../../src/access/permissions.ts';
import { Browser, type TestAssistant } from '../helpers/assistant.ts';
import { LEGACY_SESSION, OWNED, type Visitor } from './route-table.ts';

/** Marks all data of the owner. */
export const SECRET = 'secret-7f3a';

/** Marks all data without an owner. */
export const LEGACY_SECRET = 'legacy-9c1d';

/** The default permissions of users. Specification 000, Permissions and defaults. */
const defaults = Object.entries(permissions)
  .filter(([, permission]) => permission.defaults.some((role) => role === 'user'))
  .map(([slug]) => slug);

const account = (sub: string, role: string, held: readonly string[], mark = '') => ({
  sub,
  email: `${sub}${mark}@example.test`,
  client_access_list: [{ client_id: 'oselya', role_ids: [role], permission_ids: held }],
});

const accounts: Record<Exclude<Visitor, 'signedOut'>, object> = {
  owner: account(OWNED.userId, 'svc_user', [], SECRET),
  stranger: account('u-stranger', 'svc_user', defaults),
  holder: account('u-holder', 'svc_user', []),
  admin: account('u-admin', 'svc_admin', []),
};

/** The tables that a visitor could change, in the order of their references. */
const TABLES = [
  'svc_users',
  'user_auth_sessions',
  'conversation_sessions',
  'conversation_messages',
  'agent_steps',
  'session_files',
  'saved_searches',
  'memory_facts',
  'memory_summaries',
  'webhook_events',
] as const;

const kept = (table: string) => `kept_${table}`;

// Functions keep their plans over hundreds of requests.

const PUT_BACK = `create function put_back(held text) returns void language plpgsql as $$
  begin
    update ${kept('svc_users')} set permissions = held where id = 'u-holder';
    -- The time of last use is written once a minute, which is not a change of interest.
    update ${kept('user_auth_sessions')} set last_used_at = now();
    ${TABLES.toReversed()
      .map((table) => `delete from ${table};`)
      .join('\n')}
    ${TABLES.map(
      (table) => `insert into ${table} overriding system value select * from ${kept(table)};`,
    ).join('\n')}
  end $$`;

const CHANGED_TABLES = `create function changed_tables() returns setof text language plpgsql as $$
  begin
    return query ${TABLES.map(
      (table) => `select '${table}' where exists (
        (table ${table} except table ${kept(table)})
        union all (table ${kept(table)} except table ${table}))`,
    ).join(' union all ')};
  end $$`;

/** Signs all visitors in, and creates data of the owner and data of an older system without an owner. */
export async function createWorld({ db, provider }: TestAssistant, app: Server) {
  const cookies = new Map<Visitor, Record<string, string>>();
  for (const visitor of ['owner', 'stranger', 'holder', 'admin'] as const) {
    provider.user = accounts[visitor];
    const browser = new Browser(app, { 'user-agent': visitor === 'owner' ? SECRET : visitor });
    await browser.signIn(provider);
    cookies.set(visitor, { svc_auth_session: browser.sid });
  }
  await belongings(OWNED.userId, OWNED.sessionId, SECRET);
  await belongings(null, LEGACY_SESSION, LEGACY_SECRET);
  await db
    .insertInto('saved_searches')
    .values({
      id: OWNED.savedSearchId,
      user_id: OWNED.userId,
      session_id: OWNED.sessionId,
      name: SECRET,
      search: JSON.stringify({ query: SECRET }),
      every_minutes: 60,
    })
    .execute();
  await db
    .insertInto('webhook_events')
    .values({
      signature: 'standard',
      event: 'user.blocked',
      user_id: OWNED.userId,
      outcome: 'applied',
      body_sha256: '0'.repeat(64),
    })
    .execute();

  async function belongings(userId: string | null, sessionId: string, mark: string): Promise<void> {
    await db
      .insertInto('conversation_sessions')
      .values({ id: sessionId, user_id: userId, profile_id: 'default', name: mark })
      .execute();
    await db
      .insertInto('conversation_messages')
      .values({ session_id: sessionId, role: 'user', content: mark })
      .execute();
    await db
      .insertInto('agent_steps')
      .values({ session_id: sessionId, turn_id: 't', kind: 'tool', title: mark, status: 'done' })
      .execute();
    const content = Buffer.from(mark);
    const sha256 = createHash('sha256').update(content).digest('hex');
    await db
      .insertInto('session_files')
      .values({
        session_id: sessionId,
        name: OWNED.fileName,
        size_bytes: content.length,
        sha256,
        content,
      })
      .execute();
    await db
      .insertInto('memory_facts')
      .values({ user_id: userId, category: OWNED.category, key: OWNED.key, value: mark })
      .execute();
    await db.insertInto('memory_summaries').values({ user_id: userId, summary: mark }).execute();
  }

  for (const table of TABLES)
    await sql.raw(`create table ${kept(table)} as table ${table}`).execute(db);
  for (const statement of [PUT_BACK, CHANGED_TABLES]) await sql.raw(statement).execute(db);

  return {
    /** The public id of the owner's sign-in. */
    ownSignIn: createHash('sha256')
      .update(cookies.get('owner')?.['svc_auth_session'] ?? '')
      .digest('hex')
      .slice(0, 16),
    cookiesOf: (visitor: Visitor) => cookies.get(visitor) ?? {},
    /** Returns the provider's data of a visitor. */
    accountOf: (visitor: keyof typeof accounts) => accounts[visitor],
    /** Restores all tables, and gives the holder one permission. */
    async restore(holds: Permission | undefined): Promise<void> {
      const held = JSON.stringify(holds === undefined ? [] : [holds]);
      await sql`select put_back(${held})`.execute(db);
    },
    /** Returns the tables that have changed since the last restoration. */
    async changedTables(): Promise<string[]> {
      const { rows } = await sql<{ name: string }>`select changed_tables() as name`.execute(db);
      return rows.map(({ name }) => name);
    },
  };
}
