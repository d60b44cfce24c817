import assert from 'node:assert/strict';
import { beforeEach, suite, test } from 'node:test';
import { until } from '@oselya/testing';
import { sql } from 'kysely';
import { setCachedRole } from '../../src/identity/revocation.ts';
import { Browser, openAssistant, type Statement } from '../helpers/assistant.ts';
import { createPerson } from '../helpers/people.ts';
import { giveIdTokens, OLENA } from '../scripted-provider.ts';

const { db, provider, lines, createInstance, signInUser, findAuthSession, expireToken } =
  await openAssistant();
const app = await createInstance();
const secondApp = await createInstance();

beforeEach(() => provider.reset());

const ADMIN = createPerson('u-1', { isAdmin: true, permissions: ['svc.debug.access'] });

/** Sends a request without changing the cookies of the browser. */
const requestMe = ({ sid }: Pick<Browser, 'sid'>, server = app) =>
  server.inject({ url: '/auth/me', cookies: { svc_auth_session: sid } });

/** Sends concurrent requests of one session to two processes. */
const requestManyTimes = (browser: Browser, count: number) =>
  Array.from({ length: count }, (_, index) =>
    requestMe(browser, index % 2 === 0 ? app : secondApp),
  );

async function assertSuccessful(requests: Iterable<PromiseLike<{ statusCode: number }>>) {
  for (const { statusCode } of await Promise.all(requests)) assert.equal(statusCode, 200);
}

const setLastUse = ({ sid }: Pick<Browser, 'sid'>, age: string) =>
  sql`update user_auth_sessions set created_at = now() - interval '20 days',
    last_used_at = now() - ${age}::interval where id = ${sid}`.execute(db);

suite('user data', () => {
  test('User data is fetched for each request without a refresh', async () => {
    const browser = await signInUser(app);
    assert.equal((await requestMe(browser)).json().role, 'user');
    provider.user = ADMIN;
    const { role, permissions } = (await requestMe(browser)).json();
    assert.deepEqual([role, permissions], ['admin', ['svc.debug.access']]);
    assert.deepEqual([provider.count('token'), provider.count('userinfo')], [0, 2]);
    const user = await db.selectFrom('svc_users').selectAll().executeTakeFirstOrThrow();
    assert.deepEqual([user.role, user.permissions], ['admin', '["svc.debug.access"]']);
  });

  test('The user record is written only when something changed', async () => {
    const readRowVersion = async () =>
      (await sql`select xmin::text from svc_users where id = 'u-1'`.execute(db)).rows[0];
    const browser = await signInUser(app);
    await requestMe(browser);
    const earlierVersion = await readRowVersion();
    await requestMe(browser);
    assert.deepEqual(await readRowVersion(), earlierVersion);
    provider.user = { ...OLENA, email: 'new@example.test' };
    await requestMe(browser);
    assert.notDeepEqual(await readRowVersion(), earlierVersion);
  });

  test('Concurrent requests of a session share one fetch', async () => {
    let readCount = 0;
    const watchedApp = await createInstance({}, (statement) => {
      if (statement === 'read') readCount += 1;
    });
    const browser = await signInUser(watchedApp);
    const otherBrowser = await signInUser(watchedApp);
    readCount = 0;
    const release = provider.holdNext('userinfo');
    const responsePromises = Array.from({ length: 20 }, () => requestMe(browser, watchedApp));
    await until(() => readCount === 20 && provider.count('userinfo') === 1);
    // When a later request of another session is answered, all earlier requests have reached the fetch.
    assert.equal((await requestMe(otherBrowser, watchedApp)).statusCode, 200);
    release();
    await assertSuccessful(responsePromises);
    assert.equal(provider.count('userinfo'), 2);
  });

  test('A user without an email is 503 and keeps the session', async () => {
    const browser = await signInUser(app);
    provider.user = { ...OLENA, email: undefined };
    const response = await requestMe(browser);
    assert.deepEqual([response.statusCode, response.json().code], [503, 'user_without_email']);
    provider.user = OLENA;
    assert.equal((await requestMe(browser)).statusCode, 200);
  });

  test('A session ends if its token is rejected again after a refresh, or returns another user', async () => {
    const browser = await signInUser(app);
    const { sid } = browser;
    provider.faults.set('userinfo', { status: 401, body: '<p>No</p>' });
    assert.equal((await browser.get('/auth/me')).statusCode, 401);
    assert.deepEqual([provider.count('token'), provider.count('userinfo')], [1, 2]);
    assert.equal(await findAuthSession(sid), undefined);
    assert.ok(!browser.cookies.has('svc_auth_session'));
    provider.faults.clear();
    const otherBrowser = await signInUser(app);
    provider.user = { ...OLENA, sub: 'u-other' };
    assert.equal((await requestMe(otherBrowser)).statusCode, 401);
    assert.equal(await findAuthSession(otherBrowser.sid), undefined);
  });

  test('An invalid cookie is 401 and is cleared', async () => {
    for (const value of ['A'.repeat(43), 'short', '', "' or 1=1 --"]) {
      const { statusCode, cookies } = await requestMe({ sid: encodeURIComponent(value) });
      assert.equal(statusCode, 401);
      assert.equal(cookies.length, 1);
      assert.partialDeepStrictEqual(cookies, [{ name: 'svc_auth_session', maxAge: 0, path: '/' }]);
    }
    const responseWithoutCookie = await app.inject('/auth/me');
    assert.deepEqual([responseWithoutCookie.statusCode, responseWithoutCookie.cookies], [401, []]);
    assert.equal(provider.count('userinfo'), 0);
  });

  test('A session ends with its lifetime, or after SVC_AUTH_IDLE_DAYS without use', async () => {
    const idleLimitApp = await createInstance({ SVC_AUTH_IDLE_DAYS: '7' });
    const browser = await signInUser(idleLimitApp);
    await setLastUse(browser, '6 days 23 hours');
    assert.equal((await requestMe(browser, idleLimitApp)).statusCode, 200);
    const lastUsedAt = (await findAuthSession(browser.sid))?.last_used_at;
    assert.ok(lastUsedAt && Date.now() - lastUsedAt.getTime() < 60_000);
    await requestMe(browser, idleLimitApp);
    assert.deepEqual(
      (await findAuthSession(browser.sid))?.last_used_at,
      lastUsedAt,
      'recorded to the minute',
    );
    await setLastUse(browser, '7 days');
    assert.equal((await requestMe(browser)).statusCode, 200, 'without the setting it lasts');
    await setLastUse(browser, '7 days');
    assert.equal((await requestMe(browser, idleLimitApp)).statusCode, 401);
    await sql`update user_auth_sessions set created_at = now() - interval '30 days'
      where id = ${browser.sid}`.execute(db);
    assert.equal((await requestMe(browser)).statusCode, 401);
  });

  test('Sessions are unreadable under a different key, and readable again with their key as an earlier one', async () => {
    const key = Buffer.alloc(32, 9).toString('base64url');
    const otherKeyApp = await createInstance({ SVC_AUTH_ENCRYPTION_KEY: key });
    const browser = await signInUser(app);
    const response = await requestMe(browser, otherKeyApp);
    assert.deepEqual([response.statusCode, response.cookies], [401, []]);
    assert.ok(await findAuthSession(browser.sid));
    assert.ok(lines.some((line) => line.includes('a session cannot be read')));
    const rotatedKeyApp = await createInstance({
      SVC_AUTH_ENCRYPTION_KEY: key,
      SVC_AUTH_ENCRYPTION_KEYS_OLD: Buffer.alloc(32, 7).toString('base64url'),
    });
    assert.equal((await requestMe(browser, rotatedKeyApp)).statusCode, 200);
    await expireToken(browser);
    assert.equal((await requestMe(browser, rotatedKeyApp)).statusCode, 200);
    assert.equal(
      (await requestMe(browser, otherKeyApp)).statusCode,
      200,
      'sealed again with the new key',
    );
  });
});

suite('user data up to an age', async () => {
  const statements: Statement[] = [];
  const recordStatement = (statement: Statement) => void statements.push(statement);
  const maxAgeEnv = { IDP_USER_MAX_AGE_SECONDS: '60' };
  const reusingApp = await createInstance(maxAgeEnv, recordStatement);
  const secondReusingApp = await createInstance(maxAgeEnv);

  beforeEach(async () => {
    await db.deleteFrom('svc_users').execute();
  });

  const countFetches = () => provider.count('userinfo');
  const fetchRole = async (browser: Browser, server = reusingApp) =>
    (await requestMe(browser, server)).json().role;
  const setUserAge = ({ sid }: Browser, seconds: number) =>
    sql`update user_auth_sessions set user_checked_at = now() - make_interval(secs => ${seconds})
      where id = ${sid}`.execute(db);

  test('Every process reuses user data up to its age', async () => {
    const browser = await signInUser(reusingApp);
    provider.user = ADMIN;
    for (const server of [reusingApp, secondReusingApp]) {
      assert.equal(await fetchRole(browser, server), 'user');
    }
    await setUserAge(browser, 50);
    assert.equal(await fetchRole(browser), 'user');
    assert.equal(countFetches(), 0);
    await setUserAge(browser, 60);
    for (const server of [secondReusingApp, reusingApp, secondReusingApp]) {
      assert.equal(await fetchRole(browser, server), 'admin');
    }
    assert.equal(countFetches(), 1);
  });

  test('A role set during a fetch is not overwritten by its answer', async () => {
    const browser = await signInUser(reusingApp);
    await setUserAge(browser, 60);
    provider.user = ADMIN;
    const release = provider.holdNext('userinfo');
    const responsePromise = requestMe(browser, reusingApp);
    await until(() => countFetches() === 1);
    await db.transaction().execute((trx) => setCachedRole(trx, 'u-1', 'user'));
    const releaseAgain = provider.holdNext('userinfo');
    release();
    await until(() => countFetches() === 2);
    const { role } = await db.selectFrom('svc_users').select('role').executeTakeFirstOrThrow();
    assert.equal(role, 'user');
    provider.user = OLENA;
    releaseAgain();
    assert.equal((await responsePromise).json().role, 'user');
    assert.equal(await fetchRole(browser), 'user');
    assert.equal(countFetches(), 2);
  });

  test('A request takes few statements when nothing changed', async () => {
    const freshApp = await createInstance({}, recordStatement);
    const browser = await signInUser(reusingApp);
    for (const [server, userAge, lastUseAge, expected] of [
      [reusingApp, 0, '1 second', ['read']],
      [reusingApp, 0, '2 minutes', ['read', 'write']],
      [reusingApp, 60, '1 second', ['read', 'write', 'read']],
      [freshApp, 0, '1 second', ['read', 'read']],
      [freshApp, 0, '2 minutes', ['read', 'write', 'read']],
    ] as const) {
      await setUserAge(browser, userAge);
      await setLastUse(browser, lastUseAge);
      statements.length = 0;
      assert.equal((await requestMe(browser, server)).statusCode, 200);
      assert.deepEqual(statements, expected, `${userAge} s, ${lastUseAge}`);
    }
  });
});

suite('token refresh', () => {
  test('A refresh without a new refresh token keeps the earlier one', async () => {
    const browser = await signInUser(app);
    provider.token.rotate = false;
    for (let refreshes = 0; refreshes < 2; refreshes += 1) {
      await expireToken(browser);
      assert.equal((await requestMe(browser)).statusCode, 200);
    }
    assert.equal(provider.count('token', 'refresh_token'), 2);
  });

  test('A rejected refresh signs out once for all requests', async () => {
    const browser = await signInUser(app);
    await expireToken(browser);
    provider.expireRefreshTokens();
    const release = provider.holdNext('token');
    const responsePromises = requestManyTimes(browser, 10);
    await until(() => provider.count('token') === 1);
    release();
    for (const response of await Promise.all(responsePromises)) {
      assert.deepEqual([response.statusCode, response.json().code], [401, 'not_signed_in']);
      assert.equal(response.cookies.length, 1);
      assert.partialDeepStrictEqual(response.cookies, [{ name: 'svc_auth_session', maxAge: 0 }]);
    }
    assert.equal(provider.count('token'), 1);
    assert.equal(await findAuthSession(browser.sid), undefined);
  });

  for (const [title, fault] of [
    ['failed', { status: 503 }],
    ['rejected', { status: 400, body: '{"error":"invalid_grant"}' }],
  ] as const) {
    test(`A ${title} refresh neither ends the session nor the lease of another request`, async () => {
      const impatientApp = await createInstance({ IDP_TIMEOUT_MS: '2000' });
      const { sid } = await signInUser(app);
      await expireToken({ sid });
      provider.faults.set('token', fault);
      const release = provider.holdNext('token');
      const responsePromise = requestMe({ sid }, impatientApp);
      await until(() => provider.count('token') === 1);
      // Simulates that another process acquires the expired lease.
      await sql`update user_auth_sessions set refresh_lease_until = now() + interval '1 minute'
        where id = ${sid}`.execute(db);
      const leasedRow = await findAuthSession(sid);
      release();
      assert.equal((await responsePromise).statusCode, 503);
      assert.deepEqual(await findAuthSession(sid), leasedRow);
    });
  }

  test('A rejected access token is refreshed once, also without a known expiry', async () => {
    provider.token.expiresIn = undefined;
    const browser = await signInUser(app);
    assert.equal((await findAuthSession(browser.sid))?.expires_at, null);
    provider.expireAccessTokens();
    await assertSuccessful(requestManyTimes(browser, 10));
    assert.equal(provider.count('token'), 1);
  });

  test('A session without a refresh token ends with its access token', async () => {
    provider.token.extra = { refresh_token: undefined };
    const browser = await signInUser(app);
    assert.equal((await requestMe(browser)).statusCode, 200);
    await expireToken(browser);
    assert.equal((await requestMe(browser)).statusCode, 401);
    assert.equal(provider.count('token'), 0);
  });
});

suite('metrics', () => {
  /** Returns the samples of a metric, keyed by labels. */
  async function readSamples(server: typeof app, name: string): Promise<Record<string, number>> {
    const { body } = await server.inject('/metrics');
    const matches = body.matchAll(new RegExp(`^${name}(\\{.*\\}) (.*)$`, 'gm'));
    return Object.fromEntries([...matches].map(([, labels, value]) => [labels, Number(value)]));
  }

  test('METRICS_TOKEN protects the metrics', async () => {
    const token = 'a-token-of-metrics';
    const metricsApp = await createInstance({ METRICS_TOKEN: token });
    const { cookies } = await signInUser(metricsApp);
    const request = { url: '/metrics', cookies: Object.fromEntries(cookies) };
    assert.equal((await metricsApp.inject(request)).statusCode, 401);
    const headers = { authorization: `Bearer ${token}` };
    assert.equal((await metricsApp.inject({ ...request, headers })).statusCode, 200);
  });

  test('Sign-ins, refreshes and ended sessions are counted by outcome and reason', async () => {
    const freshApp = await createInstance();
    const browser = await signInUser(freshApp);
    await browser.signIn(provider);
    await freshApp.inject('/auth/callback?state=x');
    provider.faults.set('token', { status: 400 });
    await new Browser(freshApp).signIn(provider);
    provider.faults.clear();
    provider.faults.set('userinfo', { status: 500 });
    await new Browser(freshApp).signIn(provider);
    provider.faults.clear();
    await expireToken(browser);
    await browser.get('/auth/me');
    await expireToken(browser);
    provider.faults.set('token', { status: 503 });
    await browser.get('/auth/me');
    provider.faults.clear();
    provider.expireRefreshTokens();
    await browser.get('/auth/me');
    provider.reset();
    await signInUser(freshApp);
    const lastBrowser = await signInUser(freshApp);
    const signIns: { id: string; current: boolean }[] = (
      await lastBrowser.get('/auth/sessions')
    ).json();
    await lastBrowser.request(
      'DELETE',
      `/auth/sessions/${signIns.find(({ current }) => !current)?.id}`,
    );
    await lastBrowser.post('/auth/logout');
    assert.deepEqual(await readSamples(freshApp, 'assistant_sign_ins_total'), {
      '{outcome="ok"}': 4,
      '{outcome="login_not_valid"}': 1,
      '{outcome="token_exchange_failed"}': 1,
      '{outcome="provider_unavailable"}': 1,
    });
    assert.deepEqual(await readSamples(freshApp, 'assistant_token_refreshes_total'), {
      '{outcome="refreshed"}': 1,
      '{outcome="unavailable"}': 1,
      '{outcome="refused"}': 1,
    });
    assert.deepEqual(await readSamples(freshApp, 'assistant_auth_sessions_ended_total'), {
      '{reason="replaced"}': 1,
      '{reason="refused"}': 1,
      '{reason="ended"}': 1,
      '{reason="signed_out"}': 1,
    });
  });

  test('Requests to the provider are measured by operation and outcome', async () => {
    const freshApp = await createInstance();
    const browser = await signInUser(freshApp);
    await expireToken(browser);
    await browser.get('/auth/me');
    provider.faults.set('revoke', { status: 500 });
    await browser.post('/auth/logout');
    const name = 'assistant_provider_request_duration_seconds_count';
    const revokeLabels = '{operation="revoke",outcome="unavailable"}';
    await until(async () => (await readSamples(freshApp, name))[revokeLabels] === 2);
    assert.deepEqual(await readSamples(freshApp, name), {
      '{operation="token",outcome="ok"}': 1,
      '{operation="userinfo",outcome="ok"}': 2,
      '{operation="refresh",outcome="ok"}': 1,
      [revokeLabels]: 2,
    });
    provider.publishMetadata();
    await giveIdTokens(provider);
    const discoveryApp = await createInstance({ IDP_DISCOVERY: 'true' });
    await signInUser(discoveryApp);
    assert.partialDeepStrictEqual(await readSamples(discoveryApp, name), {
      '{operation="discovery",outcome="ok"}': 1,
      '{operation="keys",outcome="ok"}': 1,
    });
  });
});
