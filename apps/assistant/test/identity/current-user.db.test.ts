import assert from 'node:assert/strict';
import { beforeEach, suite, test } from 'node:test';
import { until } from '@oselya/testing';
import { sql } from 'kysely';
import { setCachedRole } from '../../src/identity/revocation.ts';
import { type Browser, openAssistant, type Statement } from '../helpers/assistant.ts';
import { giveIdTokens, OLENA } from '../scripted-provider.ts';

const { db, provider, lines, instance, signedIn, row, expire } = await openAssistant();
const app = await instance();
const second = await instance();

beforeEach(() => provider.reset());

const ADMIN = {
  ...OLENA,
  client_access_list: [
    { client_id: 'oselya', role_ids: ['svc_admin'], permission_ids: ['svc.debug.access'] },
  ],
};

/** Sends a request without changing the cookies of the browser. */
const me = ({ sid }: Pick<Browser, 'sid'>, at = app) =>
  at.inject({ url: '/auth/me', cookies: { svc_auth_session: sid } });

/** Sends concurrent requests of one session to two processes. */
const sendMany = (browser: Browser, count: number) =>
  Array.from({ length: count }, (_, index) => me(browser, index % 2 === 0 ? app : second));

const statusesOf = (answers: { statusCode: number }[]) =>
  answers.map(({ statusCode }) => statusCode);
const repeat = (count: number, status: number) => Array.from({ length: count }, () => status);

/** Sets the time of the last use of a session. */
const setLastUse = ({ sid }: Pick<Browser, 'sid'>, age: string) =>
  sql`update user_auth_sessions set created_at = now() - interval '20 days',
    last_used_at = now() - ${age}::interval where id = ${sid}`.execute(db);

suite('user data', () => {
  test('User data is fetched for each request without a refresh', async () => {
    const browser = await signedIn(app);
    assert.equal((await me(browser)).json().role, 'user');
    provider.user = ADMIN;
    const { role, permissions } = (await me(browser)).json();
    assert.deepEqual([role, permissions], ['admin', ['svc.debug.access']]);
    assert.deepEqual([provider.count('token'), provider.count('userinfo')], [0, 2]);
    const user = await db.selectFrom('svc_users').selectAll().executeTakeFirstOrThrow();
    assert.deepEqual([user.role, user.permissions], ['admin', '["svc.debug.access"]']);
  });

  test('The user record is written only when something changed', async () => {
    const version = async () =>
      (await sql`select xmin::text from svc_users where id = 'u-1'`.execute(db)).rows[0];
    const browser = await signedIn(app);
    await me(browser);
    const before = await version();
    await me(browser);
    assert.deepEqual(await version(), before);
    provider.user = { ...OLENA, email: 'new@example.test' };
    await me(browser);
    assert.notDeepEqual(await version(), before);
  });

  test('Concurrent requests of a session share one fetch', async () => {
    let reads = 0;
    const watched = await instance({}, (statement) => {
      if (statement === 'read') reads += 1;
    });
    const [browser, other] = [await signedIn(watched), await signedIn(watched)];
    reads = 0;
    const release = provider.holdNext('userinfo');
    const requests = Array.from({ length: 20 }, () => me(browser, watched));
    await until(() => reads === 20 && provider.count('userinfo') === 1);
    // A later request of another session is answered, so all earlier ones have reached the fetch.
    assert.equal((await me(other, watched)).statusCode, 200);
    release();
    assert.deepEqual(statusesOf(await Promise.all(requests)), repeat(20, 200));
    assert.equal(provider.count('userinfo'), 2);
  });

  test('A user without an email is 503 and keeps the session', async () => {
    const browser = await signedIn(app);
    provider.user = { ...OLENA, email: undefined };
    const answer = await me(browser);
    assert.deepEqual([answer.statusCode, answer.json().code], [503, 'user_without_email']);
    provider.user = OLENA;
    assert.equal((await me(browser)).statusCode, 200);
  });

  test('A session ends if its token is rejected again after a refresh, or returns another user', async () => {
    const browser = await signedIn(app);
    const { sid } = browser;
    provider.faults.set('userinfo', { status: 401, body: '<p>No</p>' });
    assert.equal((await browser.get('/auth/me')).statusCode, 401);
    assert.deepEqual([provider.count('token'), provider.count('userinfo')], [1, 2]);
    assert.equal(await row(sid), undefined);
    assert.ok(!browser.cookies.has('svc_auth_session'));
    provider.faults.clear();
    const other = await signedIn(app);
    provider.user = { ...OLENA, sub: 'u-other' };
    assert.equal((await me(other)).statusCode, 401);
    assert.equal(await row(other.sid), undefined);
  });

  test('An invalid cookie is 401 and is cleared', async () => {
    for (const value of ['A'.repeat(43), 'short', '', "' or 1=1 --"]) {
      const { statusCode, cookies } = await me({ sid: encodeURIComponent(value) });
      assert.equal(statusCode, 401);
      assert.partialDeepStrictEqual(cookies, [{ name: 'svc_auth_session', maxAge: 0, path: '/' }]);
    }
    const without = await app.inject('/auth/me');
    assert.deepEqual([without.statusCode, without.cookies], [401, []]);
    assert.equal(provider.count('userinfo'), 0);
  });

  test('A session ends with its lifetime, or after SVC_AUTH_IDLE_DAYS without use', async () => {
    const idling = await instance({ SVC_AUTH_IDLE_DAYS: '7' });
    const browser = await signedIn(idling);
    await setLastUse(browser, '6 days 23 hours');
    assert.equal((await me(browser, idling)).statusCode, 200);
    const used = (await row(browser.sid))?.last_used_at;
    assert.ok(used && Date.now() - used.getTime() < 60_000);
    await me(browser, idling);
    assert.deepEqual((await row(browser.sid))?.last_used_at, used, 'recorded to the minute');
    await setLastUse(browser, '7 days');
    assert.equal((await me(browser)).statusCode, 200, 'without the setting it lasts');
    await setLastUse(browser, '7 days');
    assert.equal((await me(browser, idling)).statusCode, 401);
    await sql`update user_auth_sessions set created_at = now() - interval '30 days'
      where id = ${browser.sid}`.execute(db);
    assert.equal((await me(browser)).statusCode, 401);
  });

  test('Sessions are unreadable under another key, and readable again with their key as an earlier one', async () => {
    const key = Buffer.alloc(32, 9).toString('base64url');
    const changed = await instance({ SVC_AUTH_ENCRYPTION_KEY: key });
    const browser = await signedIn(app);
    const answer = await me(browser, changed);
    assert.deepEqual([answer.statusCode, answer.cookies], [401, []]);
    assert.ok(await row(browser.sid));
    assert.ok(lines.some((line) => line.includes('a session cannot be read')));
    const rotated = await instance({
      SVC_AUTH_ENCRYPTION_KEY: key,
      SVC_AUTH_ENCRYPTION_KEYS_OLD: Buffer.alloc(32, 7).toString('base64url'),
    });
    assert.equal((await me(browser, rotated)).statusCode, 200);
    await expire(browser);
    assert.equal((await me(browser, rotated)).statusCode, 200);
    assert.equal((await me(browser, changed)).statusCode, 200, 'sealed again with the new key');
  });
});

suite('user data up to an age', async () => {
  const statements: Statement[] = [];
  const watch = (statement: Statement) => void statements.push(statement);
  const aged = { IDP_USER_MAX_AGE_SECONDS: '60' };
  const reusing = await instance(aged, watch);
  const reusingToo = await instance(aged);
  const fresh = await instance({}, watch);

  beforeEach(async () => {
    await db.deleteFrom('svc_users').execute();
  });

  const fetches = () => provider.count('userinfo');
  const roleOf = async (browser: Browser, at = reusing) => (await me(browser, at)).json().role;
  const age = ({ sid }: Browser, seconds: number) =>
    sql`update user_auth_sessions set user_checked_at = now() - make_interval(secs => ${seconds})
      where id = ${sid}`.execute(db);

  test('Every process reuses user data up to its age', async () => {
    const browser = await signedIn(reusing);
    provider.user = ADMIN;
    for (const at of [reusing, reusingToo]) assert.equal(await roleOf(browser, at), 'user');
    await age(browser, 50);
    assert.equal(await roleOf(browser), 'user');
    assert.equal(fetches(), 0);
    await age(browser, 60);
    for (const at of [reusingToo, reusing, reusingToo]) {
      assert.equal(await roleOf(browser, at), 'admin');
    }
    assert.equal(fetches(), 1);
  });

  test('Fresh user data needs no provider, an expired token does', async () => {
    const browser = await signedIn(reusing);
    provider.faults.set('userinfo', { status: 503 });
    assert.equal((await me(browser, reusing)).statusCode, 200);
    await expire(browser);
    assert.equal((await me(browser, reusing)).statusCode, 503);
    provider.faults.clear();
    assert.equal((await me(browser, reusing)).statusCode, 200);
    assert.equal(provider.count('token'), 1);
  });

  test('A role set during a fetch is not overwritten by its answer', async () => {
    const browser = await signedIn(reusing);
    await age(browser, 60);
    provider.user = ADMIN;
    const release = provider.holdNext('userinfo');
    const answer = me(browser, reusing);
    await until(() => fetches() === 1);
    await db.transaction().execute((trx) => setCachedRole(trx, 'u-1', 'user'));
    const releaseAgain = provider.holdNext('userinfo');
    release();
    await until(() => fetches() === 2);
    const { role } = await db.selectFrom('svc_users').select('role').executeTakeFirstOrThrow();
    assert.equal(role, 'user');
    provider.user = OLENA;
    releaseAgain();
    assert.equal((await answer).json().role, 'user');
    assert.equal(await roleOf(browser), 'user');
    assert.equal(fetches(), 2);
  });

  test('A request takes few statements when nothing changed', async () => {
    const browser = await signedIn(reusing);
    for (const [at, seconds, used, expected] of [
      [reusing, 0, '1 second', ['read']],
      [reusing, 0, '2 minutes', ['read', 'write']],
      [reusing, 60, '1 second', ['read', 'write', 'read']],
      [fresh, 0, '1 second', ['read', 'read']],
      [fresh, 0, '2 minutes', ['read', 'write', 'read']],
    ] as const) {
      await age(browser, seconds);
      await setLastUse(browser, used);
      statements.length = 0;
      assert.equal((await me(browser, at)).statusCode, 200);
      assert.deepEqual(statements, expected, `${seconds} s, ${used}`);
    }
  });
});

suite('token refresh', () => {
  test('50 requests on two processes refresh an expired token once', async () => {
    const browser = await signedIn(app);
    await expire(browser);
    const before = await row(browser.sid);
    const release = provider.holdNext('token');
    const requests = sendMany(browser, 50);
    await until(() => provider.count('token') === 1);
    // The refresh holds no database connection, so other requests are answered meanwhile.
    for (const at of [app, second]) assert.equal((await at.inject('/health')).statusCode, 200);
    release();
    assert.deepEqual(statusesOf(await Promise.all(requests)), repeat(50, 200));
    assert.equal(provider.count('token', 'refresh_token'), 1);
    const after = await row(browser.sid);
    assert.notEqual(after?.access_token_enc, before?.access_token_enc);
    assert.notEqual(after?.refresh_token_enc, before?.refresh_token_enc);
    assert.equal(after?.refresh_lease_until, null);
    await expire(browser);
    assert.equal((await me(browser)).statusCode, 200, 'the rotated token works');
  });

  test('A refresh without a new refresh token keeps the earlier one', async () => {
    const browser = await signedIn(app);
    provider.token.rotate = false;
    for (let time = 0; time < 2; time += 1) {
      await expire(browser);
      assert.equal((await me(browser)).statusCode, 200);
    }
    assert.equal(provider.count('token', 'refresh_token'), 2);
  });

  test('A rejected refresh signs out once for all requests', async () => {
    const browser = await signedIn(app);
    await expire(browser);
    provider.expireRefreshTokens();
    const release = provider.holdNext('token');
    const requests = sendMany(browser, 10);
    await until(() => provider.count('token') === 1);
    release();
    for (const answer of await Promise.all(requests)) {
      assert.deepEqual([answer.statusCode, answer.json().code], [401, 'not_signed_in']);
      assert.partialDeepStrictEqual(answer.cookies, [{ name: 'svc_auth_session', maxAge: 0 }]);
    }
    assert.equal(provider.count('token'), 1);
    assert.equal(await row(browser.sid), undefined);
  });

  test('A rejection of discovery ends no session', async () => {
    const at = await instance({ IDP_DISCOVERY: 'true' });
    const browser = await signedIn(app);
    await expire(browser);
    provider.publishMetadata();
    provider.faults.set('discovery', { status: 401, body: '{"error":"invalid_grant"}' });
    const before = await row(browser.sid);
    const answer = await me(browser, at);
    assert.deepEqual([answer.statusCode, answer.cookies], [503, []]);
    assert.deepEqual(await row(browser.sid), before);
    provider.faults.clear();
    assert.equal((await me(browser, at)).statusCode, 200);
  });

  test('A refresh that lost the race uses the tokens of the winner', async () => {
    const browser = await signedIn(app);
    await expire(browser);
    const release = provider.holdNext('token');
    const loser = me(browser);
    await until(() => provider.count('token') === 1);
    // The first process was paused for longer than its lease.
    await db.updateTable('user_auth_sessions').set({ refresh_lease_until: null }).execute();
    assert.equal((await me(browser, second)).statusCode, 200);
    release();
    assert.equal((await loser).statusCode, 200);
    assert.equal(provider.count('token'), 2, "the provider rejected the loser's token");
  });

  test('An expired lease is acquired by another request', async () => {
    const browser = await signedIn(app);
    await expire(browser);
    await sql`update user_auth_sessions set refresh_lease_until = now() + interval '300 milliseconds'
      where id = ${browser.sid}`.execute(db);
    assert.equal((await me(browser)).statusCode, 200);
    assert.equal(provider.count('token'), 1);
  });

  for (const [title, fault] of [
    ['failed', { status: 503 }],
    ['rejected', { status: 400, body: '{"error":"invalid_grant"}' }],
  ] as const) {
    test(`A ${title} refresh neither ends the session nor the lease of another request`, async () => {
      const hasty = await instance({ IDP_TIMEOUT_MS: '2000' });
      const { sid } = await signedIn(app);
      await expire({ sid });
      provider.faults.set('token', fault);
      const release = provider.holdNext('token');
      const request = me({ sid }, hasty);
      await until(() => provider.count('token') === 1);
      // Another process acquires the lease after its expiry.
      await sql`update user_auth_sessions set refresh_lease_until = now() + interval '1 minute'
        where id = ${sid}`.execute(db);
      const acquired = await row(sid);
      release();
      assert.equal((await request).statusCode, 503);
      assert.deepEqual(await row(sid), acquired);
    });
  }

  test('A sign-out during a refresh holds', async () => {
    const browser = await signedIn(app);
    const { sid } = browser;
    await expire(browser);
    const release = provider.holdNext('token');
    const request = me({ sid });
    await until(() => provider.count('token') === 1);
    assert.equal((await browser.post('/auth/logout', { app: second })).statusCode, 200);
    release();
    assert.equal((await request).statusCode, 401);
    assert.equal(await row(sid), undefined);
  });

  test('A rejected access token is refreshed once, also without a known expiry', async () => {
    provider.token.expiresIn = undefined;
    const browser = await signedIn(app);
    assert.equal((await row(browser.sid))?.expires_at, null);
    provider.expireAccessTokens();
    assert.deepEqual(statusesOf(await Promise.all(sendMany(browser, 10))), repeat(10, 200));
    assert.equal(provider.count('token'), 1);
  });

  test('A session without a refresh token ends with its access token', async () => {
    provider.token.extra = { refresh_token: undefined };
    const browser = await signedIn(app);
    assert.equal((await me(browser)).statusCode, 200);
    await expire(browser);
    assert.equal((await me(browser)).statusCode, 401);
    assert.equal(provider.count('token'), 0);
  });
});

suite('metrics', () => {
  /** Returns the samples of a metric by their labels. */
  async function samples(at: typeof app, name: string): Promise<Record<string, number>> {
    const { body } = await at.inject('/metrics');
    const matches = body.matchAll(new RegExp(`^${name}(\\{.*\\}) (.*)$`, 'gm'));
    return Object.fromEntries([...matches].map(([, labels, value]) => [labels, Number(value)]));
  }

  test('METRICS_TOKEN protects the metrics', async () => {
    const at = await instance({ METRICS_TOKEN: 'a-token-of-metrics' });
    const { cookies } = await signedIn(at);
    const request = { url: '/metrics', cookies: Object.fromEntries(cookies) };
    assert.equal((await at.inject(request)).statusCode, 401);
    const headers = { authorization: 'Bearer a-token-of-metrics' };
    assert.equal((await at.inject({ ...request, headers })).statusCode, 200);
  });

  test('Sign-ins, refreshes and ended sessions are counted by outcome and reason', async () => {
    const at = await instance();
    const browser = await signedIn(at);
    await browser.signIn(provider);
    await at.inject('/auth/callback?state=x');
    provider.faults.set('token', { status: 400 });
    await signedIn(at);
    provider.faults.clear();
    provider.faults.set('userinfo', { status: 500 });
    await signedIn(at);
    provider.faults.clear();
    await expire(browser);
    await browser.get('/auth/me');
    await expire(browser);
    provider.faults.set('token', { status: 503 });
    await browser.get('/auth/me');
    provider.faults.clear();
    provider.expireRefreshTokens();
    await browser.get('/auth/me');
    provider.reset();
    await signedIn(at);
    const last = await signedIn(at);
    const own: { id: string; current: boolean }[] = (await last.get('/auth/sessions')).json();
    await last.request('DELETE', `/auth/sessions/${own.find(({ current }) => !current)?.id}`);
    await last.post('/auth/logout');
    assert.deepEqual(await samples(at, 'assistant_sign_ins_total'), {
      '{outcome="ok"}': 4,
      '{outcome="login_not_valid"}': 1,
      '{outcome="token_exchange_failed"}': 1,
      '{outcome="provider_unavailable"}': 1,
    });
    assert.deepEqual(await samples(at, 'assistant_token_refreshes_total'), {
      '{outcome="refreshed"}': 1,
      '{outcome="unavailable"}': 1,
      '{outcome="refused"}': 1,
    });
    assert.deepEqual(await samples(at, 'assistant_auth_sessions_ended_total'), {
      '{reason="replaced"}': 1,
      '{reason="refused"}': 1,
      '{reason="ended"}': 1,
      '{reason="signed_out"}': 1,
    });
  });

  test('Requests to the provider are measured by operation and outcome', async () => {
    const at = await instance();
    const browser = await signedIn(at);
    await expire(browser);
    await browser.get('/auth/me');
    provider.faults.set('revoke', { status: 500 });
    await browser.post('/auth/logout');
    const name = 'assistant_provider_request_duration_seconds_count';
    const revoked = '{operation="revoke",outcome="unavailable"}';
    await until(async () => (await samples(at, name))[revoked] === 2);
    assert.deepEqual(await samples(at, name), {
      '{operation="token",outcome="ok"}': 1,
      '{operation="userinfo",outcome="ok"}': 2,
      '{operation="refresh",outcome="ok"}': 1,
      [revoked]: 2,
    });
    provider.publishMetadata();
    await giveIdTokens(provider);
    const discovering = await instance({ IDP_DISCOVERY: 'true' });
    await signedIn(discovering);
    assert.partialDeepStrictEqual(await samples(discovering, name), {
      '{operation="discovery",outcome="ok"}': 1,
      '{operation="keys",outcome="ok"}': 1,
    });
  });
});
