import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { type Kysely, sql } from 'kysely';
import { endUserSessions } from '../../src/identity/revocation.ts';
import type { Tables } from '../../src/tables.ts';
import { Browser, openAssistant } from '../helpers/assistant.ts';
import { until } from '../helpers/until.ts';
import { OLENA } from '../scripted-provider.ts';
import { SECRET, send } from './receiver.ts';

// The webhook comes to another process than that of the request that is in flight.
const { db, engine, provider, instance, signedIn, row, expire } = await openAssistant({
  IDP_WEBHOOK_SECRET: SECRET,
});
const app = await instance();
const other = await instance();
const reusing = await instance({ IDP_USER_MAX_AGE_SECONDS: '60' });

const ADMIN = {
  ...OLENA,
  client_access_list: [
    { client_id: 'oselya', role_ids: ['svc_admin'], permission_ids: ['svc.debug.access'] },
  ],
};
const REVOKED = { event: 'session.revoked', user_id: 'u-1' };
const ROLES_CHANGED = { event: 'client.roles_changed', user_id: 'u-1' };

beforeEach(async () => {
  provider.reset();
  await db.deleteFrom('svc_users').execute();
});

const sessions = () => db.selectFrom('user_auth_sessions').select('id').execute();
const cached = () =>
  db.selectFrom('svc_users').select(['role', 'permissions']).executeTakeFirstOrThrow();
const CLEARED = { role: 'user', permissions: '[]' };

for (const endpoint of ['token', 'userinfo'] as const) {
  for (const [name, event] of [
    ['of the user', REVOKED],
    ['of everybody', { event: 'auth.global_logout' }],
    ['that blocks', { event: 'user.blocked', user_id: 'u-1' }],
  ] as const) {
    for (const isKnown of [true, false]) {
      const who = isKnown ? 'a user' : 'a user who was never here';
      test(`a revocation ${name} reaches the sign-in of ${who} that waits for ${endpoint}`, async () => {
        if (isKnown) await signedIn(app);
        const browser = new Browser(app);
        const callback = await browser.begin(provider);
        provider.calls.length = 0;
        const release = provider.holdNext(endpoint);
        const answer = browser.get(callback);
        await until(() => provider.count(endpoint) === 1);
        assert.equal((await send(other, event)).statusCode, 200);
        release();
        assert.equal((await answer).statusCode, 400);
        assert.equal((await answer).json().code, 'login_refused');
        assert.ok(!browser.cookies.has('svc_auth_session'));
        assert.deepEqual(await sessions(), []);
        assert.equal((await browser.signIn(provider)).statusCode, 302, 'the next one passes');
      });
    }
  }

  test(`a revocation of somebody else lets the sign-in that waits for ${endpoint} pass`, async () => {
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    const release = provider.holdNext(endpoint);
    const answer = browser.get(callback);
    await until(() => provider.count(endpoint) === 1);
    await send(other, { event: 'user.blocked', user_id: 'u-2' });
    release();
    assert.equal((await answer).statusCode, 302);
  });

  test(`what a sign-in that waits for ${endpoint} learns of the user is not kept after a clearing`, async () => {
    await signedIn(app);
    provider.user = ADMIN;
    const browser = new Browser(reusing);
    const callback = await browser.begin(provider);
    provider.calls.length = 0;
    const release = provider.holdNext(endpoint);
    const answer = browser.get(callback);
    await until(() => provider.count(endpoint) === 1);
    await send(other, ROLES_CHANGED);
    release();
    assert.equal((await answer).statusCode, 302);
    assert.deepEqual(await cached(), CLEARED);
    provider.user = OLENA;
    assert.equal((await browser.get('/auth/me')).json().role, 'user', 'it is fetched again');
  });
}

/** How many statements wait for a lock in this database. */
async function waiting(trx: Kysely<Tables>): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`.execute(trx);
  return rows[0]?.count ?? 0;
}

// The embedded database has one connection: there nothing comes between two statements.
if (engine === 'postgres') {
  test('a revocation reaches a sign-in that has its answers and is about to store the session', async () => {
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    const [answer, revoked] = await db
      .transaction()
      .execute(async (trx) => {
        // Both wait for the one revocation that is being made, and go on in the order in which they came.
        await endUserSessions(trx, 'u-other');
        const revoking = send(other, REVOKED);
        await until(async () => (await waiting(trx)) === 1);
        const signingIn = browser.get(callback);
        await until(async () => (await waiting(trx)) === 2);
        return [signingIn, revoking] as const;
      })
      .then((both) => Promise.all(both));
    assert.equal(revoked.statusCode, 200);
    assert.equal(answer.statusCode, 400);
    assert.deepEqual(await sessions(), []);
  });
}

test('a revocation reaches a refresh in flight: the row stays gone', async () => {
  const browser = await signedIn(app);
  const { sid } = browser;
  await expire(browser);
  const release = provider.holdNext('token');
  const requests = [app, app, other].map((one) =>
    one.inject({ url: '/auth/me', cookies: { svc_auth_session: sid } }),
  );
  await until(() => provider.count('token') === 1);
  assert.equal((await send(other, REVOKED)).statusCode, 200);
  release();
  for (const answer of await Promise.all(requests)) assert.equal(answer.statusCode, 401);
  assert.equal(await row(sid), undefined);
  assert.equal(provider.count('token'), 1);
});

test('a revocation reaches a fetch of user data in flight: nothing brings the row back', async () => {
  for (const one of [app, reusing]) {
    const browser = await signedIn(one);
    const { sid } = browser;
    await sql`update user_auth_sessions set user_checked_at = null`.execute(db);
    const release = provider.holdNext('userinfo');
    const answer = browser.get('/auth/me');
    await until(() => provider.count('userinfo') === 1);
    await send(other, REVOKED);
    release();
    await answer;
    assert.equal(await row(sid), undefined);
    assert.equal((await browser.get('/auth/me')).statusCode, 401);
  }
});

for (const [name, one] of [
  ['0', app],
  ['60', reusing],
] as const) {
  /** A request whose fetch waits for an answer that makes the user an admin, while roles are cleared. */
  async function clearInFlight() {
    const browser = await signedIn(one, OLENA);
    await sql`update user_auth_sessions set user_checked_at = null`.execute(db);
    const release = provider.holdNext('userinfo');
    const before = browser.get('/auth/me');
    await until(() => provider.count('userinfo') === 1);
    await send(other, ROLES_CHANGED);
    assert.deepEqual(await cached(), CLEARED);
    /** Answers as before the clearing, and from then on as after it. */
    const answer = async () => {
      const fetches = provider.count('userinfo');
      const releaseAgain = provider.holdNext('userinfo');
      provider.user = ADMIN;
      release();
      const isAskedAgain = () => provider.count('userinfo') > fetches;
      await Promise.race([before, until(isAskedAgain)]);
      provider.user = OLENA;
      releaseAgain();
      assert.equal((await before).statusCode, 200);
      assert.equal((await before).json().role, 'user', 'the request in flight has no more rights');
    };
    return { browser, answer };
  }

  test(`with an age of ${name} s, an answer from before a clearing is neither used nor stored`, async () => {
    const { browser, answer } = await clearInFlight();
    await answer();
    assert.equal(provider.count('userinfo'), 2);
    assert.equal((await cached()).role, 'user');
    assert.equal((await browser.get('/auth/me')).json().role, 'user');
  });

  test(`with an age of ${name} s, who asks after a clearing shares no answer from before it`, async () => {
    const { browser, answer } = await clearInFlight();
    provider.user = { ...OLENA, email: 'new@example.test' };
    const after = await one.inject({ url: '/auth/me', cookies: { svc_auth_session: browser.sid } });
    assert.equal(after.json().email, 'new@example.test');
    const known = await cached();
    await answer();
    assert.deepEqual(await cached(), known);
    assert.equal(known.role, 'user');
    assert.equal((await browser.get('/auth/me')).json().role, 'user');
  });
}

test('one webhook clears what two processes reuse', async () => {
  const second = await instance({ IDP_USER_MAX_AGE_SECONDS: '60' });
  provider.user = ADMIN;
  const browsers = [await signedIn(reusing), await signedIn(reusing)];
  const roles = async () => {
    const answers: string[] = [];
    for (const browser of browsers) {
      for (const one of [reusing, second]) {
        answers.push((await browser.get('/auth/me', { app: one })).json().role);
      }
    }
    return answers;
  };
  assert.deepEqual(await roles(), ['admin', 'admin', 'admin', 'admin']);
  assert.equal(provider.count('userinfo'), 0);
  provider.user = OLENA;
  await send(other, ROLES_CHANGED);
  assert.deepEqual(await roles(), ['user', 'user', 'user', 'user']);
  assert.equal(provider.count('userinfo'), 2, 'one for each session');
});
