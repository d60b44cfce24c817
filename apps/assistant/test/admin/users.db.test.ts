import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { USER_CHANNEL } from '../../src/identity/revocation.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { endEveryOtherDeletion } from '../helpers/conflicts.ts';
import { until } from '../helpers/until.ts';
import { OLENA } from '../scripted-provider.ts';

const { db, provider, instance, listen, signedIn, row } = await openAssistant({
  IDP_USER_MAX_AGE_SECONDS: '3600',
});
const app = await instance();
const second = await instance();

const ADMIN = {
  sub: 'u-admin',
  email: 'Ivan.Admin@example.test',
  profile: { display_name: 'Іван Адмін' },
  client_access_list: [{ client_id: 'oselya', role_ids: ['svc_admin'], permission_ids: [] }],
};

beforeEach(async () => {
  provider.reset();
  await db.deleteFrom('svc_users').execute();
  await db.deleteFrom('audit_log').execute();
});

const audit = (action: string) =>
  db
    .selectFrom('audit_log')
    .select(['actor_id', 'user_id', 'details'])
    .where('action', '=', action)
    .orderBy('id')
    .execute();
const ids = (answer: { json(): { id: string }[] }) => answer.json().map(({ id }) => id);

test('the list has every user with role, permissions and times, and is recorded', async () => {
  await signedIn(app, OLENA);
  const admin = await signedIn(app, ADMIN);
  const answer = await admin.get('/admin/users');
  assert.equal(answer.statusCode, 200);
  assert.equal(answer.headers['cache-control'], 'no-store');
  const [olena, ivan] = answer.json();
  assert.deepEqual(
    { ...olena, created_at: '', updated_at: '' },
    {
      id: 'u-1',
      email: 'olena@example.test',
      display_name: 'Олена',
      role: 'user',
      permissions: ['svc.sessions.read_own', 'svc.tools.use'],
      created_at: '',
      updated_at: '',
    },
  );
  for (const time of [olena.created_at, olena.updated_at]) {
    assert.equal(new Date(time).toISOString(), time);
  }
  assert.deepEqual([ivan.id, ivan.role], ['u-admin', 'admin']);
  assert.deepEqual(await audit('others_data_read'), [
    { actor_id: 'u-admin', user_id: null, details: { data: 'users' } },
  ]);
});

test('rows of an older system are listed as well as they can be', async () => {
  const admin = await signedIn(app, ADMIN);
  await sql`alter table svc_users alter column created_at drop not null`.execute(db);
  await sql`
    insert into svc_users (id, email, display_name, permissions, created_at)
    values ('u-old', 'old@example.test', null, '{broken', null)`.execute(db);
  const answer = await admin.get('/admin/users?q=old@');
  const [old] = answer.json();
  assert.deepEqual([old.display_name, old.permissions, old.created_at], ['', [], null]);
});

test('the list comes in pages', async () => {
  const admin = await signedIn(app, ADMIN);
  for (let n = 1; n <= 4; n += 1) {
    await sql`insert into svc_users (id, email) values (${`u-${n}`}, 'x@example.test')`.execute(db);
  }
  const seen: string[] = [];
  let next: string | undefined = '/admin/users?limit=2';
  while (next !== undefined) {
    const answer = await admin.get(next);
    seen.push(...ids(answer));
    next = /<(.*)>; rel="next"/.exec(String(answer.headers.link))?.[1];
  }
  assert.deepEqual(seen, ['u-1', 'u-2', 'u-3', 'u-4', 'u-admin']);
});

for (const [q, found] of [
  ['OLENA@', ['u-1']],
  ['олен', ['u-1']],
  ['АДМІН', ['u-admin']],
  ['example.test', ['u-1', 'u-admin']],
  ['%', []],
  ['_', []],
  ['nobody', []],
] as const) {
  test(`q=${q} finds ${found.length}`, async () => {
    await signedIn(app, OLENA);
    const admin = await signedIn(app, ADMIN);
    assert.deepEqual(ids(await admin.get(`/admin/users?q=${encodeURIComponent(q)}`)), found);
  });
}

for (const query of ['q=', 'q=%00', `q=${'a'.repeat(321)}`, 'limit=501', 'cursor=x', 'cursor=']) {
  test(`${query.slice(0, 20)} is 422`, async () => {
    const admin = await signedIn(app, ADMIN);
    assert.equal((await admin.get(`/admin/users?${query}`)).statusCode, 422);
  });
}

test('a role is changed in the cache, until the provider is asked again', async () => {
  const olena = await signedIn(app, OLENA);
  const admin = await signedIn(app, ADMIN);
  const heard: string[] = [];
  const stop = await listen(USER_CHANNEL, (payload) => heard.push(payload));
  const answer = await admin.request('PATCH', '/admin/users/u-1/role', {
    payload: { role: 'admin' },
  });
  assert.deepEqual([answer.statusCode, answer.json()], [200, { ok: true }]);
  const user = await db
    .selectFrom('svc_users')
    .selectAll()
    .where('id', '=', 'u-1')
    .executeTakeFirst();
  assert.equal(user?.role, 'admin');
  assert.deepEqual(await audit('role_changed'), [
    { actor_id: 'u-admin', user_id: 'u-1', details: { from: 'user', to: 'admin' } },
  ]);
  await until(() => heard.includes('u-1'));
  await stop();

  provider.user = OLENA;
  assert.equal((await olena.get('/auth/me', { app: second })).json().role, 'user');
});

test('the role of nobody is not found, and leaves no trace', async () => {
  const admin = await signedIn(app, ADMIN);
  const answer = await admin.request('PATCH', '/admin/users/u-none/role', {
    payload: { role: 'user' },
  });
  assert.deepEqual([answer.statusCode, answer.json().code], [404, 'user_not_found']);
  assert.deepEqual(await audit('role_changed'), []);
  const invalidated = await db
    .selectFrom('invalidations')
    .select('id')
    .where('user_id', '=', 'u-none')
    .execute();
  assert.deepEqual(invalidated, []);
});

for (const payload of [
  { role: 'root' },
  { role: 'ADMIN' },
  { role: null },
  {},
  { role: 'user', x: 1 },
]) {
  test(`the role ${JSON.stringify(payload)} is 422`, async () => {
    const admin = await signedIn(app, ADMIN);
    const answer = await admin.request('PATCH', '/admin/users/u-admin/role', { payload });
    assert.equal(answer.statusCode, 422);
  });
}

for (const id of ['%00', 'a'.repeat(256)]) {
  test(`the user id ${id.slice(0, 5)} is 422`, async () => {
    const admin = await signedIn(app, ADMIN);
    const answer = await admin.request('POST', `/admin/users/${id}/sign-out`);
    assert.equal(answer.statusCode, 422);
  });
}

test('a user is signed out everywhere, and the tokens are revoked', async () => {
  const phone = await signedIn(app, OLENA);
  const laptop = await signedIn(app, OLENA);
  const tokens = provider.issued.slice(-4);
  const admin = await signedIn(app, ADMIN);
  const { sid } = phone;
  const answer = await admin.request('POST', '/admin/users/u-1/sign-out');
  assert.deepEqual([answer.statusCode, answer.json()], [200, { ok: true, sessions_ended: 2 }]);
  assert.equal(await row(sid), undefined);
  for (const browser of [phone, laptop]) {
    assert.equal((await browser.get('/auth/me', { app: second })).statusCode, 401);
  }
  assert.equal((await admin.get('/auth/me')).statusCode, 200);
  assert.deepEqual(await audit('sign_ins_ended'), [
    { actor_id: 'u-admin', user_id: 'u-1', details: { sessions: 2 } },
  ]);
  await until(() => provider.revoked.length === 4);
  assert.deepEqual(provider.revoked.toSorted(), tokens.toSorted());
});

test('a provider that does not answer keeps nobody waiting and nobody signed in', async () => {
  const olena = await signedIn(app, OLENA);
  const { sid } = olena;
  const admin = await signedIn(app, ADMIN);
  const release = provider.holdNext('revoke');
  const answer = await admin.request('POST', '/admin/users/u-1/sign-out');
  assert.equal(answer.json().sessions_ended, 1);
  assert.equal(await row(sid), undefined);
  assert.ok(provider.revoked.length < 2);
  release();
  await until(() => provider.revoked.length === 2);
});

test('a sign-out that the database ends for the sake of another is made again', async (t) => {
  await signedIn(app, OLENA);
  const admin = await signedIn(app, ADMIN);
  await endEveryOtherDeletion(t, db, 'user_auth_sessions');
  const answer = await admin.request('POST', '/admin/users/u-1/sign-out');
  assert.deepEqual([answer.statusCode, answer.json()], [200, { ok: true, sessions_ended: 1 }]);
  assert.equal((await audit('sign_ins_ended')).length, 1);
});

test('nobody cannot be signed out', async () => {
  const admin = await signedIn(app, ADMIN);
  const answer = await admin.request('POST', '/admin/users/u-none/sign-out');
  assert.deepEqual([answer.statusCode, answer.json().code], [404, 'user_not_found']);
  assert.deepEqual(await audit('sign_ins_ended'), []);
});

test('an admin signs themselves out like anybody', async () => {
  const admin = await signedIn(app, ADMIN);
  assert.equal((await admin.request('POST', '/admin/users/u-admin/sign-out')).statusCode, 200);
  assert.equal((await admin.get('/auth/me')).statusCode, 401);
});
