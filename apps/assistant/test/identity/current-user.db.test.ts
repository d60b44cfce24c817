import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { openAssistant } from '../helpers/assistant.ts';
import { until } from '../helpers/until.ts';
import { OLENA } from '../scripted-provider.ts';

const { db, provider, lines, instance, signedIn, row, expire } = await openAssistant();
const app = await instance();

beforeEach(() => provider.reset());

/** Changes with every write of the user record. */
async function userVersion(): Promise<string | undefined> {
  const { rows } = await sql<{ xmin: string }>`
    select xmin::text from svc_users where id = 'u-1'`.execute(db);
  return rows[0]?.xmin;
}

test('a valid token is not refreshed, and user data is fetched afresh', async () => {
  const browser = await signedIn(app);
  assert.equal((await browser.get('/auth/me')).json().role, 'user');
  provider.user = {
    ...OLENA,
    client_access_list: [
      { client_id: 'oselya', role_ids: ['svc_admin'], permission_ids: ['svc.debug.access'] },
    ],
  };
  const me = (await browser.get('/auth/me')).json();
  assert.equal(me.role, 'admin');
  assert.deepEqual(me.permissions, ['svc.debug.access']);
  assert.equal(provider.count('token'), 0);
  assert.equal(provider.count('userinfo'), 2);
  const user = await db.selectFrom('svc_users').selectAll().executeTakeFirstOrThrow();
  assert.equal(user.role, 'admin');
  assert.equal(user.permissions, '["svc.debug.access"]');
});

test('the user record is written only when something changed', async () => {
  const browser = await signedIn(app);
  await browser.get('/auth/me');
  const before = await userVersion();
  await browser.get('/auth/me');
  assert.equal(await userVersion(), before);
  provider.user = { ...OLENA, email: 'new@example.test' };
  await browser.get('/auth/me');
  assert.notEqual(await userVersion(), before);
});

test('requests of one session that wait at the same moment share one fetch', async () => {
  let reads = 0;
  const watched = await instance({}, (statement) => {
    if (statement === 'read') reads += 1;
  });
  const { sid } = await signedIn(watched);
  const another = await signedIn(watched);
  const ask = () => watched.inject({ url: '/auth/me', cookies: { svc_auth_session: sid } });
  reads = 0;
  const release = provider.holdNext('userinfo');
  const requests = Array.from({ length: 20 }, ask);
  await until(() => reads === 20 && provider.count('userinfo') === 1);
  // What comes after them all is answered: by then each of them has come as far as the fetch.
  assert.equal((await another.get('/auth/me')).statusCode, 200);
  release();
  for (const answer of await Promise.all(requests)) assert.equal(answer.statusCode, 200);
  assert.equal(provider.count('userinfo'), 2, 'theirs, and the one of the other session');
  await ask();
  assert.equal(provider.count('userinfo'), 3, 'nothing is remembered');
});

test('an answer without end is given up', async () => {
  const browser = await signedIn(app);
  provider.faults.set('userinfo', { status: 200, body: `"${'a'.repeat(300_000)}"` });
  assert.equal((await browser.get('/auth/me')).statusCode, 503);
});

for (const [said, fault] of [
  ['nothing', { status: 401 }],
  ['a page', { status: 401, body: '<p>No</p>', headers: { 'content-type': 'text/html' } }],
] as const) {
  test(`an access token that is refused with ${said} after its refresh too ends the session`, async () => {
    const browser = await signedIn(app);
    const { sid } = browser;
    provider.faults.set('userinfo', fault);
    assert.equal((await browser.get('/auth/me')).statusCode, 401);
    assert.equal(provider.count('token'), 1);
    assert.equal(provider.count('userinfo'), 2);
    assert.equal(await row(sid), undefined);
    assert.ok(!browser.cookies.has('svc_auth_session'));
  });
}

test('user data of somebody else ends the session and is not used', async () => {
  const browser = await signedIn(app);
  const { sid } = browser;
  provider.user = { ...OLENA, sub: 'u-other' };
  assert.equal((await browser.get('/auth/me')).statusCode, 401);
  assert.equal(await row(sid), undefined);
});

test('an email that is gone at the provider is 503 of its own, and signs nobody out', async () => {
  const browser = await signedIn(app);
  provider.user = { ...OLENA, email: undefined };
  const answer = await browser.get('/auth/me');
  assert.deepEqual([answer.statusCode, answer.json().code], [503, 'user_without_email']);
  provider.user = OLENA;
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
});

test('user data that cannot be had is 503 and signs nobody out', async () => {
  const browser = await signedIn(app);
  for (const fault of [{ status: 500 }, { status: 200, body: '[]' }, 'disconnect' as const]) {
    provider.faults.set('userinfo', fault);
    assert.equal((await browser.get('/auth/me')).statusCode, 503);
  }
  provider.faults.clear();
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
  assert.equal(provider.count('token'), 0);
});

test('of two cookies of one name the first counts, and no request falls back to the other', async () => {
  const { sid } = await signedIn(app);
  const planted = 'A'.repeat(43);
  for (const [values, status] of [
    [[sid, planted], 200],
    [[planted, sid], 401],
    [['', sid], 401],
  ] as const) {
    const cookie = values.map((value) => `svc_auth_session=${value}`).join('; ');
    const answer = await app.inject({ url: '/auth/me', headers: { cookie } });
    assert.equal(answer.statusCode, status, cookie);
  }
  assert.notEqual(await row(sid), undefined);
});

for (const [name, value] of [
  ['an unknown', 'A'.repeat(43)],
  ['a malformed', 'short'],
  ['an empty', ''],
  ["someone's SQL for a", "' or 1=1 --"],
]) {
  test(`${name} cookie is 401 and is cleared`, async () => {
    const answer = await app.inject({
      url: '/auth/me',
      headers: { cookie: `svc_auth_session=${encodeURIComponent(value ?? '')}` },
    });
    assert.equal(answer.statusCode, 401);
    assert.deepEqual(
      answer.cookies.map(({ name: cookie, maxAge, path }) => [cookie, maxAge, path]),
      [['svc_auth_session', 0, '/']],
    );
    assert.equal(provider.count('userinfo'), 0);
  });
}

test('no cookie is 401 and none is set', async () => {
  const answer = await app.inject('/auth/me');
  assert.equal(answer.statusCode, 401);
  assert.deepEqual(answer.cookies, []);
});

test('the lifetime of a session holds on the server too', async () => {
  const browser = await signedIn(app);
  const { sid } = browser;
  await sql`
    update user_auth_sessions set created_at = now() - interval '30 days' where id = ${sid}`.execute(
    db,
  );
  assert.equal((await browser.get('/auth/me')).statusCode, 401);
  assert.notEqual(await row(sid), undefined, 'it counts no more, swept out or not');
});

test('a session that is not used ends after SVC_AUTH_IDLE_DAYS, one that is used does not', async () => {
  const idling = await instance({ SVC_AUTH_IDLE_DAYS: '7' });
  const browser = await signedIn(idling);
  const lastUsed = (age: string) =>
    sql`update user_auth_sessions set created_at = now() - interval '20 days',
      last_used_at = now() - ${age}::interval where id = ${browser.sid}`.execute(db);
  await lastUsed('6 days 23 hours');
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
  await lastUsed('1 hour');
  assert.equal((await browser.get('/auth/sessions')).statusCode, 200);
  await lastUsed('7 days');
  assert.equal((await browser.get('/auth/me', { app })).statusCode, 200, 'off, it does not end');
  await lastUsed('7 days');
  const { sid } = browser;
  const answer = await browser.get('/auth/me');
  assert.equal(answer.statusCode, 401);
  assert.ok(!browser.cookies.has('svc_auth_session'), 'its cookie is cleared');
  browser.cookies.set('svc_auth_session', sid);
  assert.equal((await browser.get('/auth/me')).statusCode, 401, 'asking is no use of it');
});

test('the time of last use is kept, to the minute', async () => {
  const browser = await signedIn(app);
  await sql`
    update user_auth_sessions set last_used_at = now() - interval '2 minutes'
    where id = ${browser.sid}`.execute(db);
  await browser.get('/auth/me');
  const first = (await row(browser.sid))?.last_used_at;
  assert.ok(first && Date.now() - first.getTime() < 60_000);
  await browser.get('/auth/me');
  assert.deepEqual((await row(browser.sid))?.last_used_at, first);
});

test('a provider that names no expiry is asked for new tokens when it refuses the old', async () => {
  provider.token.expiresIn = undefined;
  const browser = await signedIn(app);
  assert.equal((await row(browser.sid))?.expires_at, null);
  provider.expireAccessTokens();
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
  assert.equal(provider.count('token'), 1);
});

test('a changed key reads nothing and destroys nothing; as an earlier key it still reads', async () => {
  const key = Buffer.alloc(32, 9).toString('base64url');
  const changed = await instance({ SVC_AUTH_ENCRYPTION_KEY: key });
  const browser = await signedIn(app);
  const answer = await browser.get('/auth/me', { app: changed });
  assert.equal(answer.statusCode, 401);
  assert.deepEqual(answer.cookies, []);
  assert.notEqual(await row(browser.sid), undefined);
  assert.ok(lines.some((line) => line.includes('a session cannot be read')));

  const rotated = await instance({
    SVC_AUTH_ENCRYPTION_KEY: key,
    SVC_AUTH_ENCRYPTION_KEYS_OLD: Buffer.alloc(32, 7).toString('base64url'),
  });
  assert.equal((await browser.get('/auth/me', { app: rotated })).statusCode, 200);
  await expire(browser);
  assert.equal((await browser.get('/auth/me', { app: rotated })).statusCode, 200);
  assert.equal((await browser.get('/auth/me', { app: changed })).statusCode, 200);
});

test("another row's tokens cannot be moved into a session", async () => {
  const browser = await signedIn(app);
  const other = await signedIn(app);
  const stolen = await row(other.sid);
  assert.ok(stolen !== undefined);
  await db
    .updateTable('user_auth_sessions')
    .set({ access_token_enc: stolen.access_token_enc })
    .where('id', '=', browser.sid)
    .execute();
  assert.equal((await browser.get('/auth/me')).statusCode, 401);
  assert.equal(provider.count('userinfo'), 0);
  assert.equal((await other.get('/auth/me')).statusCode, 200, 'where it was it is still good');
});

test('rows of an older system are read as they are', async () => {
  const browser = await signedIn(app);
  const ours = await row(browser.sid);
  assert.ok(ours !== undefined);
  const { id, access_token_enc, refresh_token_enc } = ours;
  // With nothing but what an older system has to give.
  await db.deleteFrom('svc_users').execute();
  await db.insertInto('svc_users').values({ id: 'u-1', email: 'old@example.test' }).execute();
  await db
    .insertInto('user_auth_sessions')
    .values({ id, user_id: 'u-1', access_token_enc, refresh_token_enc })
    .execute();
  const me = await browser.get('/auth/me');
  assert.equal(me.statusCode, 200);
  assert.equal(me.json().email, OLENA.email);
});

test('a row needs no more than an older system has to give', async () => {
  const columns = await sql<{ name: string }>`
    select column_name as name from information_schema.columns
    where table_name in ('svc_users', 'user_auth_sessions')
      and is_nullable = 'NO' and column_default is null`.execute(db);
  assert.deepEqual(columns.rows.map(({ name }) => name).toSorted(), [
    'access_token_enc',
    'email',
    'id',
    'id',
    'refresh_token_enc',
    'user_id',
  ]);
});
