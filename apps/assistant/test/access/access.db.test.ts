import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { suite, test } from 'node:test';
import { sampleAccounts } from '@oselya/dev-idp';
import { registerHealthRoutes } from '@oselya/kit';
import { until } from '@oselya/testing';
import { sql } from 'kysely';
import { guardRoutes, getSignedInUser } from '../../src/access/guards.ts';
import {
  accessScope,
  hasPermission,
  type Permission,
  permissions,
} from '../../src/access/permissions.ts';
import { Browser, openAssistant, type Statement } from '../helpers/assistant.ts';
import { createTestServer } from '../helpers/servers.ts';
import { createDocumentChecker, type OpenApi, listRoutes } from '../helpers/openapi.ts';
import { createPerson } from '../helpers/people.ts';
import { listing, startScriptedCollector } from '../helpers/scripted-collector.ts';
import { SECRET as WEBHOOK_SECRET, send as sendEvent } from '../webhooks/signing.ts';
import { LEGACY_SESSION, OWNED, type Row, rows, type Visitor, visitors } from './route-table.ts';

/** Markers in the owner's data, and in data without an owner. */
const OWNER_MARK = 'secret-7f3a';
const LEGACY_MARK = 'legacy-9c1d';

const permissionSlugs = Object.keys(permissions) as Permission[];
const listDefaultPermissions = (role: 'user' | 'admin') =>
  permissionSlugs
    .filter((slug) => permissions[slug].defaults.some((name) => name === role))
    .toSorted();

const accounts: Record<Exclude<Visitor, 'signedOut'>, object> = {
  owner: { ...createPerson(OWNED.userId), email: `${OWNER_MARK}@example.test` },
  stranger: createPerson('u-stranger', { permissions: listDefaultPermissions('user') }),
  holder: createPerson('u-holder'),
  admin: createPerson('u-admin', { isAdmin: true }),
};

const collector = await startScriptedCollector();
collector.listings = [listing(7)];
const { db, provider, createInstance } = await openAssistant({
  COLLECTOR_URL: collector.url,
  IDP_WEBHOOK_SECRET: WEBHOOK_SECRET,
});
// User data stays cached: a fetch would return the provider's only user, the last visitor.
const sharedApp = await createInstance({ IDP_USER_MAX_AGE_SECONDS: '3600' });
const statements: Statement[] = [];
const app = await createInstance({}, (statement) => statements.push(statement));
const receiver = await createInstance();

const cookies = new Map<Visitor, { svc_auth_session: string }>();
for (const visitor of ['owner', 'stranger', 'holder', 'admin'] as const) {
  provider.user = accounts[visitor];
  const browser = new Browser(sharedApp, {
    'user-agent': visitor === 'owner' ? OWNER_MARK : visitor,
  });
  await browser.signIn(provider);
  cookies.set(visitor, { svc_auth_session: browser.sid });
}
const ownerSid = cookies.get('owner')?.svc_auth_session ?? '';
const ownerSignInId = createHash('sha256').update(ownerSid).digest('hex').slice(0, 16);

for (const [userId, sessionId, mark] of [
  [OWNED.userId, OWNED.sessionId, OWNER_MARK],
  [null, LEGACY_SESSION, LEGACY_MARK],
] as const) {
  const { fileName, category, key } = OWNED;
  await sql`insert into conversation_sessions (id, user_id, profile_id, name)
    values (${sessionId}, ${userId}, 'default', ${mark})`.execute(db);
  await sql`insert into conversation_messages (session_id, role, content)
    values (${sessionId}, 'user', ${mark})`.execute(db);
  await sql`insert into agent_steps (session_id, turn_id, kind, title, status)
    values (${sessionId}, 't', 'tool', ${mark}, 'done')`.execute(db);
  await sql`insert into session_files (session_id, name, size_bytes, sha256, content)
    select ${sessionId}, ${fileName}, length(content), encode(sha256(content), 'hex'), content
    from convert_to(${mark}, 'UTF8') as content`.execute(db);
  await sql`insert into memory_facts (user_id, category, key, value)
    values (${userId}, ${category}, ${key}, ${mark})`.execute(db);
  await sql`insert into memory_summaries (user_id, summary) values (${userId}, ${mark})`.execute(
    db,
  );
}
await sql`insert into saved_searches (id, user_id, session_id, name, search, every_minutes)
  values (${OWNED.savedSearchId}, ${OWNED.userId}, ${OWNED.sessionId}, ${OWNER_MARK},
    jsonb_build_object('query', ${OWNER_MARK}::text), 60)`.execute(db);
const { boardId, commentId, listingId } = OWNED;
await sql`insert into boards (id, name) values (${boardId}, ${OWNER_MARK})`.execute(db);
await sql`insert into board_members (board_id, user_id, role)
  values (${boardId}, ${OWNED.userId}, 'owner')`.execute(db);
await sql`insert into board_items (board_id, listing_id, position)
  values (${boardId}, ${listingId}, 1)`.execute(db);
await sql`insert into board_comments (id, board_id, listing_id, user_id, text)
  values (${commentId}, ${boardId}, ${listingId}, ${OWNED.userId}, ${OWNER_MARK})`.execute(db);
await sql`insert into listing_marks (user_id, listing_id, note)
  values (${OWNED.userId}, ${listingId}, ${OWNER_MARK})`.execute(db);
await sql`insert into webhook_events (signature, event, user_id, outcome, body_sha256)
  values ('standard', 'user.blocked', ${OWNED.userId}, 'applied', repeat('0', 64))`.execute(db);

/** Tables that a visitor could change, in foreign key order. */
const TABLES = [
  'svc_users',
  'user_auth_sessions',
  'conversation_sessions',
  'conversation_messages',
  'agent_steps',
  'session_files',
  'saved_searches',
  'listing_marks',
  'boards',
  'board_members',
  'board_items',
  'board_comments',
  'memory_facts',
  'memory_summaries',
  'user_settings',
  'webhook_events',
];
const forEachTable = (build: (table: string) => string, separator: string) =>
  TABLES.map(build).join(separator);
// SQL functions cache their plans across hundreds of requests.
for (const statement of [
  ...TABLES.map((table) => `create table kept_${table} as table ${table}`),
  `create function restore(held text) returns void language plpgsql as $$ begin
    update kept_svc_users set permissions = held where id = 'u-holder';
    -- The time of last use is written once a minute.
    update kept_user_auth_sessions set last_used_at = now();
    ${TABLES.toReversed()
      .map((table) => `delete from ${table};`)
      .join('')}
    ${forEachTable((table) => `insert into ${table} overriding system value table kept_${table};`, '')}
  end $$`,
  `create function changed_tables() returns setof text language plpgsql as $$ begin
    return query ${forEachTable(
      (table) => `select '${table}' where exists ((table ${table} except table kept_${table})
        union all (table kept_${table} except table ${table}))`,
      ' union all ',
    )};
  end $$`,
]) {
  await sql.raw(statement).execute(db);
}

/** Restores all tables, and gives the holder one permission. */
async function restoreTables(permission?: Permission): Promise<void> {
  await sql`select restore(${JSON.stringify(permission === undefined ? [] : [permission])})`.execute(
    db,
  );
}

/** Returns the tables that have changed since the last restoration. */
async function listChangedTables(): Promise<string[]> {
  const result = await sql<{ name: string }>`select changed_tables() as name`.execute(db);
  return result.rows.map(({ name }) => name);
}

const send = (
  visitor: Visitor,
  { url, payload, method }: Row,
  {
    at = sharedApp,
    headers = {},
  }: { at?: typeof sharedApp; headers?: Record<string, string> } = {},
) =>
  at.inject({
    method,
    headers,
    url: url.replace(OWNED.signIn, ownerSignInId),
    cookies: { ...cookies.get(visitor) },
    ...(payload !== undefined && { payload }),
  });

suite('access to routes', async () => {
  const document: OpenApi = (await sharedApp.inject('/openapi.json')).json();
  const { checkResponse } = createDocumentChecker(document);
  const registeredRoutes = listRoutes(sharedApp);

  test('The table contains every route', () => {
    const listedRoutes = new Set(rows.map(({ route }) => route));
    const expected = registeredRoutes.filter((route) => !route.startsWith('HEAD '));
    assert.deepEqual([...listedRoutes].toSorted(), expected.toSorted());
  });

  for (const row of rows) {
    const { route, method, pattern, url, holds, expect, reveals } = row;
    test(`${route} at ${url} responds with ${Object.values(expect).join(', ')}`, async () => {
      for (const visitor of visitors) {
        const status = expect[visitor];
        await restoreTables(holds);
        if (method === 'GET' && registeredRoutes.includes(`HEAD ${pattern}`)) {
          const headResponse = await send(visitor, { ...row, method: 'HEAD' });
          assert.equal(headResponse.statusCode, status, `HEAD as ${visitor}`);
        }
        const response = await send(visitor, row);
        const { body } = response;
        assert.equal(response.statusCode, status, `${visitor}: ${body}`);
        checkResponse(method, pattern, response);
        assert.equal(body.includes(OWNER_MARK), reveals.includes(visitor), `${visitor}: ${body}`);
        if (visitor !== 'admin') assert.ok(!body.includes(LEGACY_MARK), `${visitor}: ${body}`);
        if (status === 401 || status === 403) assert.deepEqual(await listChangedTables(), []);
      }
      if (expect.signedOut !== 401 || method === 'GET') return;
      await restoreTables(holds);
      const headers = { 'sec-fetch-site': 'cross-site' };
      const crossSiteResponse = await send('admin', row, { headers });
      assert.equal(crossSiteResponse.statusCode, 403);
      assert.equal(crossSiteResponse.json().code, 'cross_site_request');
      checkResponse(method, pattern, crossSiteResponse);
      assert.deepEqual(await listChangedTables(), []);
    });
  }
});

suite('revocation during a request', async () => {
  const USER_IDS = { admin: 'u-admin', owner: OWNED.userId } as const;

  /** Sends a request and, while the request fetches its user, an event to a different process. */
  async function sendMeanwhile(
    row: Row,
    actor: keyof typeof USER_IDS,
    event: string,
    changedUser: object,
  ) {
    await restoreTables(row.holds);
    provider.reset();
    provider.user = accounts[actor];
    const release = provider.holdNext('userinfo');
    const responsePromise = send(actor, row, { at: app });
    await until(() => provider.count('userinfo') === 1);
    const releaseAgain = provider.holdNext('userinfo');
    const eventResponse = await sendEvent(receiver, { event, user_id: USER_IDS[actor] });
    assert.equal(eventResponse.statusCode, 200);
    release();
    await Promise.race([responsePromise, until(() => provider.count('userinfo') === 2)]);
    provider.user = changedUser;
    releaseAgain();
    return responsePromise;
  }

  for (const row of rows) {
    const { route, url, expect } = row;
    const actor = (['admin', 'owner'] as const).find(
      (name) => Math.floor(expect[name] / 100) === 2,
    );
    if (expect.signedOut !== 401 || actor === undefined) continue;
    test(`A revocation reaches ${route} at ${url}`, async () => {
      const blockedResponse = await sendMeanwhile(row, actor, 'user.blocked', accounts[actor]);
      assert.equal(blockedResponse.statusCode, 401, blockedResponse.body);
      assert.equal(blockedResponse.cookies.length, 1);
      assert.partialDeepStrictEqual(blockedResponse.cookies, [
        { name: 'svc_auth_session', maxAge: 0 },
      ]);
      assert.ok(!blockedResponse.body.includes(OWNER_MARK));
      assert.deepEqual(await listChangedTables(), ['user_auth_sessions', 'webhook_events']);
      if (!Object.values(expect).includes(403)) return;
      const userWithoutAccess = createPerson(USER_IDS[actor]);
      const event = 'client.roles_changed';
      const deniedResponse = await sendMeanwhile(row, actor, event, userWithoutAccess);
      assert.equal(deniedResponse.statusCode, 403, deniedResponse.body);
      assert.ok(!deniedResponse.body.includes(OWNER_MARK));
      assert.deepEqual(await listChangedTables(), ['svc_users', 'webhook_events']);
    });
  }

  test('A request whose access is cleared during every fetch gets 503', async () => {
    await restoreTables();
    provider.reset();
    provider.faults.set('userinfo', (response) => {
      const event = { event: 'client.roles_changed', user_id: 'u-admin' };
      void sendEvent(receiver, event).then(() => response.end(JSON.stringify(accounts.admin)));
    });
    const admin = { ...cookies.get('admin') };
    const { statusCode, headers } = await app.inject({ url: '/admin/users', cookies: admin });
    assert.deepEqual([statusCode, headers['retry-after']], [503, '5']);
    assert.equal(provider.count('userinfo'), 5);
  });

  const address = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));

  for (const [event, status, table] of [
    ['user.blocked', 401, 'user_auth_sessions'],
    ['client.roles_changed', 403, 'svc_users'],
  ] as const) {
    test(`${event} during the body of a request prevents its change`, async () => {
      await restoreTables();
      provider.reset();
      provider.user = accounts.admin;
      statements.length = 0;
      const cookie = `svc_auth_session=${cookies.get('admin')?.svc_auth_session}`;
      const path = `/memory/facts/${OWNED.category}/${OWNED.key}`;
      const request = httpRequest(new URL(path, address), {
        method: 'PUT',
        headers: { cookie, 'content-type': 'application/json' },
      });
      request.write('{"value":');
      // After two statements, the session and its generation are read and the user is resolved.
      await until(() => statements.length >= 2);
      await sendEvent(receiver, { event, user_id: 'u-admin' });
      provider.user = createPerson('u-admin');
      request.end('"Odesa"}');
      const [response] = await once(request, 'response');
      response.resume();
      assert.equal(response.statusCode, status);
      assert.deepEqual(await listChangedTables(), [table, 'webhook_events']);
    });
  }
});

suite('permissions', () => {
  const createUser = (slugs: string[]) => ({
    id: 'u-1',
    role: 'user' as const,
    permissions: slugs,
  });
  const admin = { id: 'u-1', role: 'admin' as const, permissions: [] };

  test('The permissions and their defaults match the specification', () => {
    assert.equal(permissionSlugs.length, 13);
    assert.deepEqual(listDefaultPermissions('admin'), permissionSlugs.toSorted());
    assert.deepEqual(listDefaultPermissions('user'), [
      'svc.files.read_own',
      'svc.memory.read_own',
      'svc.profiles.use',
      'svc.sessions.delete_own',
      'svc.sessions.read_own',
      'svc.tools.use',
    ]);
    for (const { role_ids, permission_ids } of sampleAccounts) {
      const role = role_ids.includes('svc_admin') ? 'admin' : 'user';
      assert.deepEqual(permission_ids.toSorted(), listDefaultPermissions(role));
    }
  });

  test('An admin has every permission, and a user the listed ones', () => {
    for (const slug of permissionSlugs) {
      assert.ok(hasPermission(admin, slug));
      assert.ok(hasPermission(createUser([slug]), slug));
      assert.ok(!hasPermission(createUser([slug.toUpperCase(), 'svc.*']), slug));
    }
  });

  test('The access scope follows the role, then the permission, then ownership', () => {
    const required: Permission = 'svc.sessions.read_all';
    const otherPermissions = permissionSlugs.filter((slug) => slug !== required);
    assert.equal(accessScope(admin), 'everything');
    assert.equal(accessScope(admin, required), 'everything');
    assert.equal(accessScope(createUser([required]), required), 'every-user');
    assert.deepEqual(accessScope(createUser(otherPermissions), required), { userId: 'u-1' });
    assert.deepEqual(accessScope(createUser(permissionSlugs)), { userId: 'u-1' });
  });

  test('A server does not start with a route without declared access', async () => {
    const server = await createTestServer();
    guardRoutes(server, {
      baseUrl: 'http://x',
      hasSession: () => false,
      resolveUser: () => Promise.resolve(undefined),
    });
    for (const url of ['/forgotten', '/healthy', '/health/secrets', '/docs/x', '/metrics/x']) {
      assert.throws(() => server.get(url, () => ({})), /does not declare its access/, url);
    }
    server.get('/mistake', { config: { access: 'public' } }, (request) => getSignedInUser(request));
    registerHealthRoutes(server, {});
    for (const url of ['/health', '/health/live', '/openapi.json', '/docs/json']) {
      assert.equal((await server.inject(url)).statusCode, 200);
    }
    assert.equal((await server.inject('/mistake')).statusCode, 500);
    await server.close();
  });

  test('docs/sign-in.md names every route that needs a permission or a role', async () => {
    type Operation = { security?: { session?: string[] }[] };
    const { paths } = JSON.parse(JSON.stringify(sharedApp.swagger())) as {
      paths: Record<string, Record<string, Operation>>;
    };
    const requirements = Object.entries(paths).flatMap(([path, operations]) =>
      Object.entries(operations).map(([method, { security = [] }]) => ({
        route: `${method.toUpperCase()} ${path}`,
        slugs: security.flatMap(({ session = [] }) => session),
      })),
    );
    const page = await readFile(new URL('../../../../docs/sign-in.md', import.meta.url), 'utf8');
    const [, accessSection = ''] = page.split('| is checked at');
    for (const slug of [...permissionSlugs, 'admin']) {
      const text =
        slug === 'admin'
          ? (/^The role `admin` itself[^]+?\n\n/m.exec(accessSection)?.[0] ?? '')
          : (/^\|[^\n]+$/m.exec(accessSection.slice(accessSection.indexOf(`| \`${slug}\``)))?.[0] ??
            '');
      const documentedRoutes = [...text.matchAll(/`([A-Z]+ \/[^`]*)`/g)].map(([, route]) => route);
      const requiredRoutes = requirements
        .filter(({ slugs }) => slugs.includes(slug))
        .map(({ route }) => route);
      for (const route of requiredRoutes) {
        assert.ok(documentedRoutes.includes(route), `${slug}: ${route}`);
      }
      for (const route of documentedRoutes) {
        assert.ok(
          requirements.some((requirement) => requirement.route === route),
          route,
        );
      }
    }
  });
});
