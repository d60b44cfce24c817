import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { beforeEach, suite, test } from 'node:test';
import { sql } from 'kysely';
import { Browser, openAssistant } from '../helpers/assistant.ts';
import { createPerson } from '../helpers/people.ts';
import { OLENA } from '../scripted-provider.ts';

const { db, provider, lines, createInstance, listAuditEntries, signInUser, findAuthSession } =
  await openAssistant();
const app = await createInstance();
const secondApp = await createInstance();

beforeEach(() => provider.reset());

const listSessions = () => db.selectFrom('user_auth_sessions').selectAll().orderBy('id').execute();
suite('login', () => {
  test('A login redirects to the provider with the parameters of the contract', async () => {
    const { statusCode, headers } = await app.inject('/auth/login');
    assert.deepEqual([statusCode, headers['cache-control']], [302, 'no-store']);
    assert.match(String(headers.location), /^[^#]+#$/, 'no fragment is appended');
    const url = new URL(String(headers.location));
    assert.equal(url.origin + url.pathname, `${provider.url}/oauth/authorize`);
    const { state = '', code_challenge, ...fixedParameters } = Object.fromEntries(url.searchParams);
    assert.deepEqual(fixedParameters, {
      response_type: 'code',
      client_id: 'oselya',
      redirect_uri: 'http://assistant.test/auth/callback',
      scope: 'openid email profile roles permissions',
      code_challenge_method: 'S256',
      return_to: '/',
    });
    const pendingLogin = await db
      .selectFrom('pending_logins')
      .select('code_verifier')
      .where('state', '=', state)
      .executeTakeFirstOrThrow();
    const challenge = createHash('sha256').update(pendingLogin.code_verifier).digest('base64url');
    assert.equal(code_challenge, challenge);
  });

  test('A login requests the configured scopes, and consent to offline access', async () => {
    for (const [scopes, prompt] of [
      ['openid email', null],
      ['openid email offline_access', 'consent'],
    ] as const) {
      const { headers } = await (
        await createInstance({ IDP_SCOPES: scopes })
      ).inject('/auth/login');
      const { searchParams } = new URL(String(headers.location));
      assert.deepEqual([searchParams.get('scope'), searchParams.get('prompt')], [scopes, prompt]);
    }
  });

  test('The login cookie is short-lived and httpOnly', async () => {
    const { cookies } = await app.inject('/auth/login');
    const [{ value: _value, ...cookie } = {}] = cookies;
    const attributes = { path: '/', httpOnly: true, sameSite: 'Lax', maxAge: 10 * 60 };
    assert.deepEqual(cookie, { name: 'svc_auth_session_login', ...attributes });
  });

  test('Login without a client id is 503', async () => {
    const response = await (await createInstance({ IDP_CLIENT_ID: '' })).inject('/auth/login');
    assert.deepEqual([response.statusCode, response.json().code], [503, 'sign_in_not_configured']);
  });

  test('Each address has its own limit, shared by all processes', async () => {
    const limitEnv = { LOGIN_PER_MINUTE: '2', TRUSTED_PROXIES: '127.0.0.1' };
    const apps = [await createInstance(limitEnv), await createInstance(limitEnv)];
    await db.deleteFrom('pending_logins').execute();
    const cases: [address: string, status: number, remaining: string][] = [
      ['192.0.2.1', 302, '1'],
      ['::ffff:192.0.2.1', 302, '0'],
      ['192.0.2.1', 429, '0'],
      ['2001:db8:1:2::1', 302, '1'],
      ['2001:db8:1:2::2', 302, '0'],
      ['2001:db8:1:2:ffff:ffff:ffff:ffff', 429, '0'],
      ['2001:db8:1:3::1', 302, '1'],
    ];
    for (const [index, [address, status, remaining]] of cases.entries()) {
      const headers = { 'x-forwarded-for': address };
      const response = await apps[index % 2]?.inject({ url: '/auth/login', headers });
      assert.equal(response?.statusCode, status, address);
      assert.equal(response.headers['ratelimit-remaining'], remaining);
      if (status === 429) assert.ok(Number(response.headers['retry-after']) >= 1);
    }
    const pendingLogins = await db.selectFrom('pending_logins').select('state').execute();
    assert.equal(pendingLogins.length, 5, 'a rejected login stores nothing');
    const unlimitedApp = await createInstance({ ...limitEnv, LOGIN_PER_MINUTE: '0' });
    const { headers } = await unlimitedApp.inject('/auth/login');
    assert.equal(headers['ratelimit-limit'], undefined);
  });
});

suite('sign-in', () => {
  test('A sign-in ends at / with the cookie of the specification', async () => {
    const browser = new Browser(app);
    const response = await browser.signIn(provider);
    assert.deepEqual([response.statusCode, response.headers.location], [302, '/']);
    const cookie = response.cookies.find(({ name }) => name === 'svc_auth_session');
    const attributes = { maxAge: 2_592_000, path: '/', httpOnly: true, sameSite: 'Lax' };
    assert.deepEqual(
      { ...cookie },
      { name: 'svc_auth_session', value: browser.sid, ...attributes },
    );
    assert.match(browser.sid, /^[\w-]{43}$/);
    assert.deepEqual((await browser.get('/auth/me')).json(), {
      id: 'u-1',
      email: 'olena@example.test',
      display_name: 'Олена',
      role: 'user',
      permissions: ['svc.sessions.read_own', 'svc.tools.use'],
    });
  });

  test('The session is stored under the cookie value with encrypted tokens', async () => {
    const { sid } = await signInUser(app);
    const session = await findAuthSession(sid);
    assert.equal(session?.user_id, 'u-1');
    assert.ok(session.expires_at !== null && session.expires_at.getTime() > Date.now());
    const sessionsText = JSON.stringify(await listSessions());
    for (const token of provider.issued) assert.ok(!sessionsText.includes(token));
  });

  test('One callback succeeds, on any process', async () => {
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    const responses = await Promise.all([
      browser.get(callback),
      browser.get(callback, { app: secondApp }),
    ]);
    const statuses = responses.map(({ statusCode }) => statusCode);
    assert.deepEqual(new Set(statuses), new Set([302, 400]));
    assert.equal(provider.count('token'), 1);
  });

  test('Ten tabs of a browser can sign in concurrently', async () => {
    const browser = new Browser(app);
    const callbacks: string[] = [];
    for (let tab = 0; tab < 12; tab += 1) callbacks.push(await browser.begin(provider));
    const statuses: number[] = [];
    for (const callback of callbacks) statuses.push((await browser.get(callback)).statusCode);
    assert.deepEqual(statuses, [400, 400, ...Array.from({ length: 10 }, () => 302)]);
  });

  test("A sign-in ends the browser's earlier session and no other", async () => {
    const [browser, otherBrowser] = [await signInUser(app), await signInUser(app)];
    const earlierSid = browser.sid;
    await browser.signIn(provider);
    assert.equal(await findAuthSession(earlierSid), undefined);
    assert.ok((await findAuthSession(otherBrowser.sid)) && (await findAuthSession(browser.sid)));
    const auditEntries = await listAuditEntries('signed_out');
    assert.deepEqual(auditEntries.at(-1), {
      actor_id: 'u-1',
      user_id: 'u-1',
      details: { reason: 'replaced' },
    });
    assert.deepEqual(
      provider.revokedTokens,
      [],
      'earlier tokens may share a grant with the new ones',
    );
  });

  test('An Android sign-in ends in the system browser without a cookie', async () => {
    const androidHeaders = { 'user-agent': 'Mozilla/5.0 (Linux; Android 15) SvcAndroid/1.0' };
    const webView = await signInUser(app);
    const cookies = Object.fromEntries(webView.cookies);
    const login = await app.inject({ url: '/auth/login', headers: androidHeaders, cookies });
    assert.deepEqual(login.cookies, []);
    const callbackUrl = new URL(await provider.authorize(String(login.headers.location)));
    const systemBrowser = await signInUser(app);
    assert.ok(
      await findAuthSession(webView.sid),
      'the earlier session lasts until the new sign-in ends',
    );
    const response = await systemBrowser.get(callbackUrl.pathname + callbackUrl.search);
    assert.deepEqual([response.statusCode, response.cookies], [302, []]);
    const [path, sid = ''] = String(response.headers.location).split('?sid=');
    assert.equal(path, '/auth/mobile-done');
    assert.ok(await findAuthSession(systemBrowser.sid), "the system browser's session stays");
    assert.equal(await findAuthSession(webView.sid), undefined);
    const me = await app.inject({ url: '/auth/me', cookies: { svc_auth_session: sid } });
    assert.equal(me.statusCode, 200);
    const headers = { 'user-agent': 'NotSvcAndroid/1.0.5' };
    const browserLoginResponse = await app.inject({ url: '/auth/login?platform=android', headers });
    assert.equal(browserLoginResponse.cookies.length, 1, 'only the user agent selects Android');
  });

  test('The first request after a redirect from the provider sets a Strict cookie', async () => {
    const browser = new Browser(await createInstance({ SVC_AUTH_COOKIE_SAMESITE: 'strict' }));
    const response = await browser.signIn(provider);
    assert.equal(response.statusCode, 200);
    assert.match(response.body, /<meta http-equiv="refresh" content="0; url=\/"/);
    const cookie = response.cookies.find(({ name }) => name === 'svc_auth_session');
    assert.equal(cookie?.sameSite, 'Strict');
    // The browser does not send a Strict cookie with the provider's redirect.
    const earlierSid = browser.sid;
    const callback = await browser.begin(provider);
    browser.cookies.delete('svc_auth_session');
    assert.equal((await browser.get(callback)).statusCode, 200);
    assert.equal(await findAuthSession(earlierSid), undefined);
  });

  test('The cookies follow their configuration', async () => {
    const configuredApp = await createInstance({
      SVC_AUTH_COOKIE_NAME: '__Host-oselya',
      SVC_AUTH_COOKIE_SECURE: 'true',
      SVC_AUTH_COOKIE_SAMESITE: 'none',
      SVC_AUTH_COOKIE_MAX_AGE_DAYS: '2',
    });
    const login = await configuredApp.inject('/auth/login');
    const secureOptions = { path: '/', httpOnly: true, secure: true };
    assert.equal(login.cookies.length, 1);
    assert.partialDeepStrictEqual(login.cookies, [
      { name: '__Host-oselya_login', ...secureOptions },
    ]);
    const { cookies } = await new Browser(configuredApp).signIn(provider);
    const session = { ...secureOptions, sameSite: 'None', maxAge: 2 * 24 * 60 * 60 };
    assert.partialDeepStrictEqual(cookies, [{ name: '__Host-oselya', ...session }]);
  });

  test('The client secret can be sent in the body', async () => {
    const postAuthApp = await createInstance({ IDP_CLIENT_AUTH: 'post' });
    assert.equal((await new Browser(postAuthApp).signIn(provider)).statusCode, 302);
    assert.equal(provider.calls.at(-2)?.form.get('client_secret'), provider.client.secret);
  });

  test('The log contains no secret', async () => {
    lines.length = 0;
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    await browser.get(callback);
    await browser.get('/auth/me');
    for (const [status, body] of [
      [200, '{"access_token":"leaked-token"}'],
      [400, '{"error":"leaked-token","error_description":"leaked-token"}'],
    ] as const) {
      provider.faults.set('token', { status, body });
      await browser.get(await browser.begin(provider));
    }
    await browser.get(`/auth/mobile-done?sid=${browser.sid}`);
    const log = lines.join('');
    assert.match(log, /could not be exchanged/);
    for (const secret of [
      ...provider.issued,
      ...browser.cookies.values(),
      ...new URLSearchParams(callback.split('?')[1]).values(),
      'leaked-token',
      provider.client.secret,
    ]) {
      assert.ok(!log.includes(secret), `the log contains ${secret}`);
    }
  });

  test('A new role at the provider is recorded once', async () => {
    const browsers = await Promise.all(
      [1, 2, 3, 4].map(() => signInUser(app, createPerson('u-promoted'))),
    );
    assert.deepEqual(await listAuditEntries('role_changed'), [], 'the first role is not a change');
    provider.user = createPerson('u-promoted', { isAdmin: true });
    const responses = await Promise.all(browsers.map((browser) => browser.get('/auth/me')));
    for (const response of responses) assert.equal(response.json().role, 'admin');
    await new Browser(app).signIn(provider);
    assert.deepEqual(await listAuditEntries('role_changed'), [
      { actor_id: null, user_id: 'u-promoted', details: { from: 'user', to: 'admin' } },
    ]);
  });
});

suite('failed sign-in', () => {
  test('A callback in another browser is 400 and keeps the pending login', async () => {
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    const stranger = new Browser(app);
    await stranger.get('/auth/login');
    const response = await stranger.get(callback);
    assert.deepEqual([response.statusCode, response.json().code], [400, 'login_not_valid']);
    const answerWithoutCookie = await new Browser(app).get(callback);
    assert.match(answerWithoutCookie.json().detail, /localhost is not 127\.0\.0\.1/);
    assert.equal(provider.count('token'), 0);
    assert.equal((await browser.get(callback)).statusCode, 302);
  });

  test('A callback without a pending login is 400 and not recorded', async () => {
    await db.deleteFrom('audit_log').execute();
    for (const query of [
      '',
      '?code=a',
      '?code=a&state=%00',
      `?code=a&state=${'A'.repeat(43)}`,
      '?code=a&state=unknown&state=again',
      `?code=${'a'.repeat(9000)}&state=unknown`,
      '?error=access_denied',
    ]) {
      const response = await app.inject(`/auth/callback${query}`);
      assert.deepEqual(
        [response.statusCode, response.json().code],
        [400, 'login_not_valid'],
        query,
      );
    }
    assert.deepEqual(await listAuditEntries('sign_in_failed'), []);
  });

  test('A pending login expires after ten minutes', async () => {
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    const { rows } = await sql`
      select round(extract(epoch from max(expires_at) - now()) / 60)::int as minutes
      from pending_logins`.execute(db);
    assert.deepEqual(rows, [{ minutes: 10 }]);
    await db.updateTable('pending_logins').set({ expires_at: new Date() }).execute();
    assert.equal((await browser.get(callback)).statusCode, 400);
    assert.equal(provider.count('token'), 0);
  });

  type Failure = [
    title: string,
    expected: [status: number, code: string],
    prepare: (callback: string) => unknown,
  ];
  const createReplacement = (from: string | RegExp, to: string) => (callback: string) =>
    callback.replace(from, to);
  const createFault =
    (...fault: Parameters<typeof provider.faults.set>) =>
    () =>
      provider.faults.set(...fault);
  const exchangeFailure: Failure[1] = [400, 'token_exchange_failed'];
  const failures: Failure[] = [
    [
      'cancelled at the provider',
      [400, 'login_cancelled'],
      createReplacement('code=', 'error=access_denied&error_description=%3Cb%3E&code='),
    ],
    [
      'rejected by the provider',
      [400, 'login_refused'],
      createReplacement('code=', 'error=invalid_scope&code='),
    ],
    ['without a code', [400, 'login_not_valid'], createReplacement(/code=[^&]+/, '')],
    ['with a wrong code', exchangeFailure, createReplacement(/code=[^&]+/, 'code=x')],
    [
      'with a wrong PKCE verifier',
      exchangeFailure,
      () => sql`update pending_logins set code_verifier = ${'v'.repeat(43)}`.execute(db),
    ],
    [
      'without an access token',
      exchangeFailure,
      createFault('token', { status: 200, body: '{"token_type":"bearer"}' }),
    ],
    [
      'with failed user data',
      [503, 'provider_unavailable'],
      createFault('userinfo', { status: 502 }),
    ],
    ['with a rejected token', [400, 'login_refused'], createFault('userinfo', { status: 401 })],
    [
      'of an account without an email',
      [403, 'account_without_email'],
      () => Object.assign(provider, { user: { ...OLENA, email: undefined } }),
    ],
  ];
  for (const [title, [status, code], prepare] of failures) {
    test(`A sign-in ${title} is ${status} and recorded once`, async () => {
      await db.deleteFrom('audit_log').execute();
      const earlierSessions = await listSessions();
      const browser = new Browser(app);
      const initialCallback = await browser.begin(provider);
      const changedCallback = await prepare(initialCallback);
      const callback = typeof changedCallback === 'string' ? changedCallback : initialCallback;
      const response = await browser.get(callback);
      assert.deepEqual([response.statusCode, response.json().code], [status, code]);
      assert.ok(!browser.cookies.has('svc_auth_session'));
      assert.deepEqual(await listSessions(), earlierSessions);
      if (status === 503) {
        assert.equal(response.headers['retry-after'], '5');
        assert.match(response.json().detail, /^You are not signed in\./);
      }
      provider.reset();
      assert.equal((await browser.get(callback)).json().code, 'login_not_valid');
      const details = { code, platform: 'browser', address: '127.0.0.1' };
      assert.deepEqual(await listAuditEntries('sign_in_failed'), [
        { actor_id: null, user_id: null, details },
      ]);
    });
  }
});

suite('bridge page', async () => {
  const bridgeApp = await createInstance({ ANDROID_APP_PACKAGE: 'test.oselya.app' });
  const sid = 'Az09_-'.repeat(8).slice(0, 43);
  const { statusCode, headers, body } = await bridgeApp.inject(`/auth/mobile-done?sid=${sid}`);
  const findElement = (name: string) =>
    new RegExp(`<${name}>(.*?)</${name}>`, 's').exec(body)?.[1] ?? '';

  test('The bridge page opens the intent of the application', () => {
    assert.equal(statusCode, 200);
    const intent = `intent://auth/callback?sid=${sid}#Intent;scheme=svc;package=test.oselya.app;end`;
    assert.ok(body.includes(`href="${intent}" hidden`));
    assert.match(findElement('script'), /location\.href = link\.href/);
    assert.match(findElement('script'), /1500/);
    assert.match(findElement('style'), /color-scheme: dark/);
  });

  test('The bridge page is not stored, sends no referrer and loads nothing', () => {
    assert.equal(headers['cache-control'], 'no-store');
    assert.equal(headers['referrer-policy'], 'no-referrer');
    const policy = String(headers['content-security-policy']);
    assert.match(policy, /^default-src 'none'/);
    for (const name of ['script', 'style']) {
      const hash = createHash('sha256').update(findElement(name)).digest('base64');
      assert.ok(policy.includes(`${name}-src 'sha256-${hash}'`));
    }
    assert.doesNotMatch(body, /src=|https?:|@import|url\(/);
  });

  test('A malformed sid is 422 and not repeated', async () => {
    for (const malformedId of [
      'short',
      `${sid}A`,
      `${sid.slice(1)};`,
      '"><script>'.padEnd(43, 'A'),
    ]) {
      const url = `/auth/mobile-done?sid=${encodeURIComponent(malformedId)}`;
      const page = await bridgeApp.inject({ url, headers: { accept: 'text/html' } });
      assert.equal(page.statusCode, 422);
      assert.match(page.body, /sign in again/);
      assert.ok(!page.body.includes(malformedId) && !page.body.includes('intent:'));
    }
    const response = await bridgeApp.inject('/auth/mobile-done');
    assert.deepEqual([response.statusCode, response.json().code], [422, 'hand_over_not_valid']);
  });
});

suite('first page', () => {
  test('The page offers a sign-in and runs no script', async () => {
    const { body, headers } = await app.inject('/');
    // A sign-in works only at the public origin, so the page names it.
    assert.match(body, /href="http:\/\/assistant\.test\/auth\/login"/);
    assert.doesNotMatch(body, /Sign out/);
    const policy = String(headers['content-security-policy']);
    assert.match(policy, /default-src 'none'/);
    assert.doesNotMatch(policy, /script-src|unsafe/);
    // Without a referrer the form would be sent with `Origin: null`.
    assert.equal(headers['referrer-policy'], 'same-origin');
  });

  test('The page shows the escaped name and the permissions of its user', async () => {
    const [entry] = OLENA.client_access_list;
    const openPage = async (access: object) => {
      const profile = { display_name: '<img src=x onerror=alert(1)>' };
      const user = { ...OLENA, profile, client_access_list: [{ ...entry, ...access }] };
      return (await (await signInUser(app, user)).get('/')).body;
    };
    const adminPage = await openPage({ role_ids: ['svc_admin'] });
    assert.match(adminPage, /&#60;img src=x onerror=alert\(1\)&#62;[^]*olena@example\.test/);
    assert.match(adminPage, /<dd>all, as an admin<\/dd>/);
    const mixedAccess = { permission_ids: ['svc_user', 'toString', 'svc.tools.use'] };
    assert.match(await openPage(mixedAccess), /<dd>svc\.tools\.use<\/dd>/);
    assert.match(await openPage({ permission_ids: ['svc_user'] }), /<dd>none<\/dd>/);
  });

  test('A browser gets the error of a sign-in as a page', async () => {
    const headers = { accept: 'text/html' };
    const response = await app.inject({ url: '/auth/callback?code=a&state=b', headers });
    assert.equal(response.statusCode, 400);
    assert.match(response.body, /href="\/auth\/login">Sign in again</);
  });
});
