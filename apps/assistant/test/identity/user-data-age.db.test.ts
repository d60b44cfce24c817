import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { setCachedRole } from '../../src/identity/revocation.ts';
import { type Browser, openAssistant, type Statement } from '../helpers/assistant.ts';
import { until } from '../helpers/until.ts';
import { OLENA } from '../scripted-provider.ts';

const { db, provider, instance, signedIn, row, expire } = await openAssistant({
  IDP_USER_MAX_AGE_SECONDS: '60',
});
const statements: Statement[] = [];
const app = await instance({}, (statement) => statements.push(statement));
const second = await instance();
const fresh = await instance({ IDP_USER_MAX_AGE_SECONDS: '0' }, (statement) =>
  statements.push(statement),
);

const ADMIN = {
  ...OLENA,
  client_access_list: [{ client_id: 'oselya', role_ids: ['svc_admin'], permission_ids: ['a.b'] }],
};

beforeEach(async () => {
  provider.reset();
  await db.deleteFrom('svc_users').execute();
});

const me = (browser: Browser, one = app) => browser.get('/auth/me', { app: one });
const roleOf = async (browser: Browser, one = app) => (await me(browser, one)).json().role;
const fetches = () => provider.count('userinfo');

/** Lets the data of a session's user be so many seconds old. */
async function age({ sid }: Browser, seconds: number): Promise<void> {
  await sql`
    update user_auth_sessions set user_checked_at = now() - make_interval(secs => ${seconds})
    where id = ${sid}`.execute(db);
}

test('what the sign-in fetched is used again, on every process', async () => {
  const browser = await signedIn(app);
  provider.user = ADMIN;
  for (const one of [app, second, app]) {
    const answer = await me(browser, one);
    assert.deepEqual(answer.json(), {
      id: 'u-1',
      email: 'olena@example.test',
      display_name: 'Олена',
      role: 'user',
      permissions: ['svc.sessions.read_own', 'svc.tools.use'],
    });
  }
  assert.equal(fetches(), 0);
});

test('at its age it is fetched again, once for all processes', async () => {
  const browser = await signedIn(app);
  provider.user = ADMIN;
  await age(browser, 50);
  assert.equal(await roleOf(browser), 'user');
  assert.equal(fetches(), 0);
  await age(browser, 60);
  for (const one of [second, app, second]) assert.equal(await roleOf(browser, one), 'admin');
  assert.equal(fetches(), 1);
});

test('it is as old as the question, not as the answer', async () => {
  const browser = await signedIn(app);
  await age(browser, 60);
  const release = provider.holdNext('userinfo');
  const answer = me(browser);
  await until(() => fetches() === 1);
  const { rows } = await sql<{ asked: Date }>`select now() as asked`.execute(db);
  release();
  await answer;
  const checkedAt = (await row(browser.sid))?.user_checked_at;
  assert.ok(checkedAt && rows[0] && checkedAt <= rows[0].asked);
});

test('each session has an age of its own', async () => {
  const [browser, other] = [await signedIn(app), await signedIn(app)];
  await age(browser, 60);
  await me(other);
  assert.equal(fetches(), 0);
  await me(browser);
  assert.equal(fetches(), 1);
});

test('a session of an older system has no such data, and fetches it', async () => {
  const browser = await signedIn(app);
  await db
    .updateTable('user_auth_sessions')
    .set({ user_checked_at: null, checked_generation: null })
    .execute();
  await me(browser);
  await me(browser);
  assert.equal(fetches(), 1);
});

test('with an age of 0 each request fetches, whatever others keep', async () => {
  const browser = await signedIn(app);
  for (let time = 0; time < 3; time += 1) {
    await me(browser, fresh);
    await me(browser, app);
  }
  assert.equal(fetches(), 3);
});

test('while it is fresh the provider may be away', async () => {
  const browser = await signedIn(app);
  provider.faults.set('userinfo', { status: 503 });
  assert.equal((await me(browser)).statusCode, 200);
  await age(browser, 60);
  assert.equal((await me(browser)).statusCode, 503);
  assert.notEqual(await row(browser.sid), undefined);
});

test('an expired access token is refreshed, and the user fetched with the new one', async () => {
  const browser = await signedIn(app);
  await expire(browser);
  assert.equal((await me(browser)).statusCode, 200);
  assert.deepEqual([provider.count('token'), fetches()], [1, 1]);
});

test('a record that makes no sense opens nothing', async () => {
  const browser = await signedIn(app);
  for (const permissions of ['', 'nonsense', '{"svc.tools.use":true}', '["svc.tools.use",1]']) {
    await db.updateTable('svc_users').set({ permissions }).execute();
    assert.deepEqual((await me(browser)).json().permissions, []);
  }
  assert.equal(fetches(), 0);
});

test('who signed out is out on every process, and other sessions stay', async () => {
  const [browser, other] = [await signedIn(app), await signedIn(app)];
  const cookies = { svc_auth_session: browser.sid };
  await browser.post('/auth/logout');
  for (const one of [app, second]) {
    assert.equal((await one.inject({ url: '/auth/me', cookies })).statusCode, 401);
  }
  assert.equal((await me(other)).statusCode, 200);
  assert.equal(fetches(), 0);
});

const setRole = (id: string, role: 'user' | 'admin') =>
  db.transaction().execute((trx) => setCachedRole(trx, id, role));
const cachedRole = async () =>
  (await db.selectFrom('svc_users').select('role').executeTakeFirstOrThrow()).role;

test('a role that an admin sets counts until the next fetch, which every session makes', async () => {
  const browsers = [await signedIn(app), await signedIn(app)];
  assert.equal(await setRole('u-1', 'admin'), 'user');
  assert.equal(await cachedRole(), 'admin');
  for (const browser of browsers) assert.equal(await roleOf(browser, second), 'user');
  assert.equal(fetches(), 2);
  assert.equal(await cachedRole(), 'user', 'the provider has the last word');
  for (const browser of browsers) await me(browser);
  assert.equal(fetches(), 2);
  assert.equal(await setRole('u-nobody', 'admin'), undefined);
});

test('a role that is set while the provider is asked is not overwritten by its answer', async () => {
  const browser = await signedIn(app);
  await age(browser, 60);
  provider.user = ADMIN;
  const release = provider.holdNext('userinfo');
  const answer = me(browser);
  await until(() => fetches() === 1);
  await setRole('u-1', 'user');
  const releaseAgain = provider.holdNext('userinfo');
  release();
  await until(() => fetches() === 2);
  assert.equal(await cachedRole(), 'user');
  provider.user = OLENA;
  releaseAgain();
  assert.equal((await answer).json().role, 'user');
  assert.equal(await roleOf(browser), 'user');
  assert.equal(fetches(), 2);
});

/** Lets the last use of a session be two minutes ago. */
async function rest({ sid }: Browser): Promise<void> {
  await sql`
    update user_auth_sessions set last_used_at = now() - interval '2 minutes'
    where id = ${sid}`.execute(db);
}

for (const [name, one, prepare, expected] of [
  ['fresh data', app, () => undefined, ['read']],
  ['fresh data, the first time in a while', app, rest, ['read', 'write']],
  ['data that was fetched', app, (browser: Browser) => age(browser, 60), ['read', 'write', 'read']],
  [
    'data that was fetched, the first time in a while',
    app,
    (browser: Browser) => age(browser, 60).then(() => rest(browser)),
    ['read', 'write', 'read'],
  ],
  ['an age of 0', fresh, () => undefined, ['read', 'read']],
  ['an age of 0, the first time in a while', fresh, rest, ['read', 'write', 'read']],
] as const) {
  test(`a request with ${name} takes ${expected.length} statements where nothing changed`, async () => {
    const browser = await signedIn(app);
    await prepare(browser);
    statements.length = 0;
    assert.equal((await me(browser, one)).statusCode, 200);
    assert.deepEqual(statements, expected);
  });
}

test('the time of last use is not written at each request', async () => {
  const browser = await signedIn(app);
  const before = await row(browser.sid);
  for (const one of [app, second, fresh, app]) await me(browser, one);
  assert.deepEqual(await row(browser.sid), before);
  await rest(browser);
  await me(browser);
  const after = await row(browser.sid);
  assert.ok(after && before && after.last_used_at >= before.last_used_at);
  assert.deepEqual(after.user_checked_at, before?.user_checked_at);
});

test('also where user data is reused, a row that was changed or moved to another user is not read', async () => {
  const browser = await signedIn(app);
  assert.equal((await me(browser)).statusCode, 200);
  await db
    .insertInto('svc_users')
    .values({ id: 'u-admin', email: 'a@example.test', role: 'admin' })
    .execute();
  const before = await row(browser.sid);
  for (const change of [{ user_id: 'u-admin' }, { access_token_enc: 'x' }]) {
    await db.updateTable('user_auth_sessions').set(change).where('id', '=', browser.sid).execute();
    assert.equal((await me(browser)).statusCode, 401, JSON.stringify(change));
    assert.equal((await me(browser)).statusCode, 401, 'asked again');
    assert.ok(before);
    const { user_id, access_token_enc } = before;
    await db
      .updateTable('user_auth_sessions')
      .set({ user_id, access_token_enc })
      .where('id', '=', browser.sid)
      .execute();
    assert.equal((await me(browser)).statusCode, 200, 'put right again');
  }
  assert.equal(fetches(), 0);
});

test('also where user data is reused, another key reads nothing', async () => {
  const other = await instance({
    SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32, 9).toString('base64url'),
  });
  const browser = await signedIn(app);
  assert.equal((await me(browser)).statusCode, 200);
  assert.equal((await me(browser, other)).statusCode, 401);
  assert.equal((await me(browser)).statusCode, 200);
});
