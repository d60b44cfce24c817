import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { until } from '@oselya/testing';
import { sql } from 'kysely';
import { auditActions, recordAudit } from '../src/admin/audit.ts';
import { USER_CHANNEL } from '../src/identity/revocation.ts';
import { type Browser, failEverySecondDeletion, openAssistant } from './helpers/assistant.ts';
import { pages, createPerson, SEVERAL_PEOPLE } from './helpers/people.ts';
import { OLENA } from './scripted-provider.ts';

const {
  db,
  provider,
  createInstance,
  listen,
  listAuditEntries,
  signInUser,
  findAuthSession,
  expireToken,
} = await openAssistant(SEVERAL_PEOPLE);
const app = await createInstance();
const secondApp = await createInstance();

const ADMIN = {
  ...createPerson('u-admin', { isAdmin: true }),
  email: 'Ivan.Admin@example.test',
  profile: { display_name: 'Іван Адмін' },
};

let admin: Browser;
beforeEach(async () => {
  provider.reset();
  await db.deleteFrom('svc_users').execute();
  admin = await signInUser(app, ADMIN);
  await db.deleteFrom('audit_log').execute();
});

/** Follows the links of a list, and returns the rows of all pages. */
const readPages = async <Row>(path: string): Promise<Row[]> =>
  (await pages(admin, path)).flatMap((response) => response.json());

const listIds = (rows: { id: string }[]) => rows.map(({ id }) => id);

test('The list has every user with role, permissions and times, and is recorded', async () => {
  await signInUser(app, OLENA);
  const response = await admin.get('/admin/users');
  assert.equal(response.statusCode, 200);
  assert.equal(response.headers['cache-control'], 'no-store');
  const [olena, ivan, ...otherUsers] = response.json();
  assert.deepEqual(otherUsers, []);
  assert.deepEqual(olena, {
    id: 'u-1',
    email: 'olena@example.test',
    display_name: 'Олена',
    role: 'user',
    permissions: ['svc.sessions.read_own', 'svc.tools.use'],
    created_at: olena.created_at,
    updated_at: olena.updated_at,
  });
  for (const time of [olena.created_at, olena.updated_at])
    assert.equal(new Date(time).toISOString(), time);
  assert.deepEqual([ivan.id, ivan.role], ['u-admin', 'admin']);
  assert.deepEqual(await listAuditEntries('others_data_read'), [
    { actor_id: 'u-admin', user_id: null, details: { data: 'users' } },
  ]);
});

test('Rows of an older system are listed with defaults', async () => {
  await sql`alter table svc_users alter column created_at drop not null`.execute(db);
  await sql`
    insert into svc_users (id, email, display_name, permissions, created_at)
    values ('u-old', 'old@example.test', null, '{broken', null)`.execute(db);
  const [legacyUser] = (await admin.get('/admin/users?q=old@')).json();
  assert.deepEqual(
    [legacyUser.display_name, legacyUser.permissions, legacyUser.created_at],
    ['', [], null],
  );
});

test('Users are listed in pages, and found by parts of their names and addresses', async () => {
  await signInUser(app, OLENA);
  await sql`insert into svc_users (id, email) values ('u-2', 'x@other.test')`.execute(db);
  assert.deepEqual(listIds(await readPages('/admin/users?limit=2')), ['u-1', 'u-2', 'u-admin']);
  for (const [q, expectedIds] of [
    ['OLENA@', ['u-1']],
    ['АДМІН', ['u-admin']],
    ['example.test', ['u-1', 'u-admin']],
    ['%', []],
    ['_', []],
  ] as const) {
    const response = await admin.get(`/admin/users?q=${encodeURIComponent(q)}`);
    assert.deepEqual(listIds(response.json()), expectedIds, q);
  }
});

test('Invalid queries, roles and user IDs are rejected', async () => {
  for (const query of [
    'users?q=',
    'users?q=%00',
    `users?q=${'a'.repeat(321)}`,
    'users?limit=501',
    'users?cursor=x',
    'audit?action=nonsense',
    'audit?since=yesterday',
    'audit?since=2020-02-30T00:00:00Z',
    'audit?actor_id=',
    'audit?cursor=x',
    `audit?cursor=${Buffer.from('1e400').toString('base64url')}`,
  ]) {
    assert.equal((await admin.get(`/admin/${query}`)).statusCode, 422, query);
  }
  for (const payload of [{ role: 'root' }, { role: null }, {}, { role: 'user', x: 1 }]) {
    const response = await admin.request('PATCH', '/admin/users/u-admin/role', { payload });
    assert.equal(response.statusCode, 422, JSON.stringify(payload));
  }
  for (const id of ['%00', 'a'.repeat(256)]) {
    assert.equal((await admin.post(`/admin/users/${id}/sign-out`)).statusCode, 422);
  }
  const leapSecond = await admin.get('/admin/audit?until=2016-12-31T23:59:60Z');
  assert.deepEqual(
    leapSecond.json().errors.map(({ path }: { path: string }) => path),
    ['querystring/until'],
  );
});

test('A role is changed in the cache until the next fetch from the provider', async () => {
  const olena = await signInUser(app, OLENA);
  const notifications: string[] = [];
  const stop = await listen(USER_CHANNEL, (payload) => notifications.push(payload));
  const payload = { role: 'admin' };
  const response = await admin.request('PATCH', '/admin/users/u-1/role', { payload });
  assert.deepEqual([response.statusCode, response.json()], [200, { ok: true }]);
  const users = db.selectFrom('svc_users').select('role').where('id', '=', 'u-1');
  assert.deepEqual(await users.executeTakeFirst(), payload);
  assert.deepEqual(await listAuditEntries('role_changed'), [
    { actor_id: 'u-admin', user_id: 'u-1', details: { from: 'user', to: 'admin' } },
  ]);
  await until(() => notifications.includes('u-1'));
  await stop();
  assert.equal((await olena.get('/auth/me', { app: secondApp })).json().role, 'user');
});

test('A user who does not exist is not found, and nothing is recorded', async () => {
  const payload = { role: 'user' };
  for (const response of [
    await admin.request('PATCH', '/admin/users/u-none/role', { payload }),
    await admin.post('/admin/users/u-none/sign-out'),
  ]) {
    assert.deepEqual([response.statusCode, response.json().code], [404, 'user_not_found']);
  }
  assert.deepEqual(
    [await listAuditEntries('role_changed'), await listAuditEntries('sign_ins_ended')],
    [[], []],
  );
});

test('A user is signed out everywhere immediately, and the tokens are revoked later', async () => {
  const phone = await signInUser(app, OLENA);
  const laptop = await signInUser(app, OLENA);
  const tokens = provider.issued.slice(-4);
  const release = provider.holdNext('revoke');
  const response = await admin.post('/admin/users/u-1/sign-out');
  assert.deepEqual([response.statusCode, response.json()], [200, { ok: true, sessions_ended: 2 }]);
  assert.equal(await findAuthSession(phone.sid), undefined);
  for (const browser of [phone, laptop]) {
    assert.equal((await browser.get('/auth/me', { app: secondApp })).statusCode, 401);
  }
  assert.deepEqual(await listAuditEntries('sign_ins_ended'), [
    { actor_id: 'u-admin', user_id: 'u-1', details: { sessions: 2 } },
  ]);
  release();
  await until(() => provider.revokedTokens.length === 4);
  assert.deepEqual(provider.revokedTokens.toSorted(), tokens.toSorted());
  assert.equal((await admin.post('/admin/users/u-admin/sign-out')).statusCode, 200);
  assert.equal((await admin.get('/auth/me')).statusCode, 401);
});

test('A sign-out is repeated after a deadlock', async (t) => {
  await signInUser(app, OLENA);
  await failEverySecondDeletion(t, db, 'user_auth_sessions');
  const response = await admin.post('/admin/users/u-1/sign-out');
  assert.deepEqual([response.statusCode, response.json()], [200, { ok: true, sessions_ended: 1 }]);
  assert.equal((await listAuditEntries('sign_ins_ended')).length, 1);
});

test('The audit trail is listed newest first, in pages and by filters', async () => {
  const actions = auditActions.slice(0, 10);
  for (const [index, action] of actions.entries()) {
    const actorId = index % 2 === 0 ? 'u-7' : null;
    const userId = index % 3 === 0 ? 'u-8' : null;
    await recordAudit(db, { action, actorId, userId, details: { index } });
  }
  await sql`update audit_log set created_at = timestamptz '2020-01-02T00:00:00Z'
    + make_interval(days => (details ->> 'index')::int)`.execute(db);
  type AuditEntry = { id: number; action: string; details: { index: number } };
  const auditTrail = await readPages<AuditEntry>('/admin/audit?limit=3');
  assert.deepEqual(
    auditTrail.map(({ action }) => action),
    actions.toReversed(),
  );
  assert.deepEqual(auditTrail.at(-1), {
    id: auditTrail.at(-1)?.id,
    created_at: '2020-01-02T00:00:00.000Z',
    action: 'signed_in',
    actor_id: 'u-7',
    user_id: 'u-8',
    details: { index: 0 },
  });
  for (const [query, expectedIndexes] of [
    ['?action=signed_out', [1]],
    ['?actor_id=u-7&limit=2', [8, 6]],
    ['?user_id=u-8&actor_id=u-7', [6, 0]],
    ['?since=2020-01-11T00:00:00Z', [9]],
    ['?since=2020-01-03T02:00:00%2B02:00&until=2020-01-04T00:00:00.001Z', [2, 1]],
    ['?until=0000-01-01T00:00:00Z', []],
    ['?since=9999-12-31T23:59:59Z', []],
  ] as const) {
    const entries: AuditEntry[] = (await admin.get(`/admin/audit${query}`)).json();
    assert.deepEqual(
      entries.map(({ details }) => details.index),
      expectedIndexes,
      query,
    );
  }
});

test('The end of a sign-in with rejected tokens is recorded once', async () => {
  for (const reject of [
    () => provider.expireRefreshTokens(),
    () => provider.faults.set('userinfo', { status: 401 }),
  ]) {
    const browser = await signInUser(app, OLENA);
    await db.deleteFrom('audit_log').execute();
    await expireToken(browser);
    reject();
    assert.equal((await browser.get('/auth/me')).statusCode, 401);
    provider.faults.clear();
    assert.deepEqual(await listAuditEntries('session_rejected'), [
      { actor_id: null, user_id: 'u-1', details: {} },
    ]);
  }
});
