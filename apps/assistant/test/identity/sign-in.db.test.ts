import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { before, suite, beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { Browser, openAssistant } from '../helpers/assistant.ts';
import { person } from '../helpers/people.ts';
import { OLENA } from '../scripted-provider.ts';

const { db, provider, lines, instance, signedIn } = await openAssistant();

suite('sign-in', async () => {
  const app = await instance();
  const second = await instance();
  const isSession = ({ name }: { name: string }) => name === 'svc_auth_session';
  const android = { 'user-agent': 'Mozilla/5.0 (Linux; Android 15) SvcAndroid/1.0' };

  beforeEach(() => provider.reset());

  const records = () => db.selectFrom('svc_users').selectAll().execute();
  const sessions = () => db.selectFrom('user_auth_sessions').selectAll().execute();
  const sessionIds = async () => new Set((await sessions()).map(({ id }) => id));

  test('login sends the browser to the provider with exactly these parameters', async () => {
    const answer = await app.inject('/auth/login');
    assert.equal(answer.statusCode, 302);
    assert.equal(answer.headers['cache-control'], 'no-store');
    const url = new URL(String(answer.headers.location));
    assert.equal(url.origin + url.pathname, `${provider.url}/oauth/authorize`);
    const { state, code_challenge, ...rest } = Object.fromEntries(url.searchParams);
    assert.deepEqual(rest, {
      response_type: 'code',
      client_id: 'oselya',
      redirect_uri: 'http://assistant.test/auth/callback',
      scope: 'openid email profile roles permissions',
      code_challenge_method: 'S256',
      return_to: '/',
    });
    assert.match(state ?? '', /^[\w-]{43}$/);
    const pending = await db
      .selectFrom('pending_logins')
      .select('code_verifier')
      .where('state', '=', state ?? '')
      .executeTakeFirstOrThrow();
    const expected = createHash('sha256').update(pending.code_verifier).digest('base64url');
    assert.equal(code_challenge, expected);
  });

  /** The scopes and the prompt that an instance asks for. */
  async function asked(scopes: string) {
    const other = await instance({ IDP_SCOPES: scopes });
    const { headers } = await other.inject('/auth/login');
    const { searchParams } = new URL(String(headers.location));
    return [searchParams.get('scope'), searchParams.get('prompt')];
  }

  test('login asks for the configured scopes, and for consent where offline access is one', async () => {
    assert.deepEqual(await asked('openid email'), ['openid email', null]);
    const offline = 'openid email offline_access';
    assert.deepEqual(await asked(offline), [offline, 'consent']);
  });

  test('the cookie that ties a sign-in to its browser is short-lived, and not for scripts', async () => {
    const { cookies } = await new Browser(app).get('/auth/login');
    assert.deepEqual(
      cookies.map(({ value, ...cookie }) => ({ ...cookie, length: value.length })),
      [
        {
          name: 'svc_auth_session_login',
          path: '/',
          httpOnly: true,
          sameSite: 'Lax',
          maxAge: 10 * 60,
          length: 43,
        },
      ],
    );
  });

  test('the redirect to the provider takes no fragment along', async () => {
    const login = await new Browser(app).get('/auth/login');
    assert.match(String(login.headers.location), /^[^#]+#$/);
  });

  test('a sign-in ends at / with the cookie of the specification', async () => {
    const browser = new Browser(app);
    const answer = await browser.signIn(provider);
    assert.equal(answer.statusCode, 302);
    assert.equal(answer.headers.location, '/');
    const cookie = answer.cookies.find((one) => one.name === 'svc_auth_session');
    assert.deepEqual(
      { ...cookie },
      {
        name: 'svc_auth_session',
        value: browser.sid,
        maxAge: 30 * 24 * 60 * 60,
        path: '/',
        httpOnly: true,
        sameSite: 'Lax',
      },
    );
    assert.match(browser.sid, /^[\w-]{43}$/);

    const me = await browser.get('/auth/me');
    assert.equal(me.statusCode, 200);
    assert.deepEqual(me.json(), {
      id: 'u-1',
      email: 'olena@example.test',
      display_name: 'Олена',
      role: 'user',
      permissions: ['svc.sessions.read_own', 'svc.tools.use'],
    });
  });

  test('the session is kept under the cookie value, its tokens encrypted', async () => {
    const browser = new Browser(app);
    await browser.signIn(provider);
    const row = await db
      .selectFrom('user_auth_sessions')
      .selectAll()
      .where('id', '=', browser.sid)
      .executeTakeFirstOrThrow();
    assert.equal(row.user_id, 'u-1');
    assert.ok(row.expires_at !== null && row.expires_at.getTime() > Date.now());
    const stored = JSON.stringify(await sessions());
    assert.ok(provider.issued.length > 0);
    for (const token of provider.issued) assert.ok(!stored.includes(token));
    for (const sealed of [row.access_token_enc, row.refresh_token_enc]) {
      assert.match(sealed, /^[\w-]+\.\.[\w-]+\.[\w-]+\.[\w-]+$/);
    }
  });

  test('the callback works on another instance, and only once', async () => {
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    const answers = await Promise.all([
      browser.get(callback, { app: second }),
      browser.get(callback, { app }),
    ]);
    assert.deepEqual(new Set(answers.map((answer) => answer.statusCode)), new Set([302, 400]));
    assert.equal(provider.count('token'), 1);
  });

  test('several tabs sign in at once, up to ten', async () => {
    const browser = new Browser(app);
    const callbacks: string[] = [];
    for (let tab = 0; tab < 12; tab += 1) callbacks.push(await browser.begin(provider));
    const statuses: number[] = [];
    for (const callback of callbacks) statuses.push((await browser.get(callback)).statusCode);
    assert.deepEqual(statuses, [400, 400, ...Array.from({ length: 10 }, () => 302)]);
    assert.equal(browser.cookies.size, 2, 'tabs do not fill the cookie header');
  });

  test("a sign-in ends the browser's earlier session, and no other", async () => {
    const browser = new Browser(app);
    const other = new Browser(app);
    await browser.signIn(provider);
    await other.signIn(provider);
    const earlier = browser.sid;
    await browser.signIn(provider);
    assert.notEqual(browser.sid, earlier);
    const ids = await sessionIds();
    assert.ok(!ids.has(earlier));
    assert.ok(ids.has(other.sid) && ids.has(browser.sid));
    const [line] = await db
      .selectFrom('audit_log')
      .select(['user_id', 'details'])
      .where('action', '=', 'signed_out')
      .orderBy('id', 'desc')
      .execute();
    assert.deepEqual(line, { user_id: 'u-1', details: { reason: 'replaced' } });
  });

  test("the earlier session's tokens are left alone: they may share a grant with the new ones", async () => {
    const browser = new Browser(app);
    await browser.signIn(provider);
    await browser.signIn(provider);
    assert.deepEqual(provider.revoked, []);
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
  });

  test('Android begins in its web view and ends in the system browser, without a cookie', async () => {
    const login = await app.inject({ url: '/auth/login', headers: android });
    assert.deepEqual(login.cookies, []);
    const back = new URL(await provider.authorize(String(login.headers.location)));
    const systemBrowser = new Browser(app);
    await systemBrowser.signIn(provider);
    const own = systemBrowser.sid;
    const answer = await systemBrowser.get(back.pathname + back.search);
    assert.equal(answer.statusCode, 302);
    assert.deepEqual(answer.cookies, []);
    const [path, sid] = String(answer.headers.location).split('?sid=');
    assert.equal(path, '/auth/mobile-done');
    assert.match(sid ?? '', /^[\w-]{43}$/);
    const ids = await sessionIds();
    assert.ok(ids.has(own), "the system browser's own session stays");
    const webView = await app.inject({
      url: '/auth/me',
      cookies: { svc_auth_session: sid ?? '' },
      headers: android,
    });
    assert.equal(webView.statusCode, 200);
  });

  test('a sign-in of the application ends its earlier session, as any browser’s does', async () => {
    const earlier = await new Browser(app).signIn(provider);
    const cookies = { svc_auth_session: earlier.cookies.find(isSession)?.value ?? '' };
    const login = await app.inject({ url: '/auth/login', headers: android, cookies });
    const back = new URL(await provider.authorize(String(login.headers.location)));
    assert.ok((await sessionIds()).has(cookies.svc_auth_session), 'nobody has signed in yet');
    const answer = await new Browser(app).get(back.pathname + back.search);
    const [, sid = ''] = String(answer.headers.location).split('?sid=');
    const ids = await sessionIds();
    assert.deepEqual([ids.has(cookies.svc_auth_session), ids.has(sid)], [false, true]);
  });

  test('Android is told by its user agent, not by a parameter', async () => {
    const answer = await app.inject({
      url: '/auth/login?platform=android',
      headers: { 'user-agent': 'NotSvcAndroid/1.0.5' },
    });
    assert.equal(answer.cookies.length, 1);
  });

  test('a Strict cookie is set by a page that goes on by itself', async () => {
    const strict = await instance({ SVC_AUTH_COOKIE_SAMESITE: 'strict' });
    const browser = new Browser(strict);
    const first = await browser.signIn(provider);
    assert.equal(first.statusCode, 200);
    assert.match(first.body, /<meta http-equiv="refresh" content="0; url=\/"/);
    assert.equal(first.cookies.find((one) => one.name === 'svc_auth_session')?.sameSite, 'Strict');

    // The browser sends no Strict cookie along when the provider sends it back.
    const earlier = browser.sid;
    const callback = await browser.begin(provider);
    browser.cookies.delete('svc_auth_session');
    assert.equal((await browser.get(callback)).statusCode, 200);
    const ids = await sessionIds();
    assert.ok(!ids.has(earlier) && ids.has(browser.sid));
  });

  test('the cookie follows its configuration', async () => {
    const configured = await instance({
      SVC_AUTH_COOKIE_NAME: '__Host-oselya',
      SVC_AUTH_COOKIE_SECURE: 'true',
      SVC_AUTH_COOKIE_SAMESITE: 'none',
      SVC_AUTH_COOKIE_MAX_AGE_DAYS: '2',
    });
    const browser = new Browser(configured);
    const login = await browser.get('/auth/login');
    const [pending] = login.cookies;
    assert.equal(pending?.name, '__Host-oselya_login', 'neighbours cannot set that one either');
    assert.deepEqual([pending?.path, pending?.secure, pending?.domain], ['/', true, undefined]);
    const answer = await browser.signIn(provider);
    const cookie = answer.cookies.find((one) => one.name === '__Host-oselya');
    assert.deepEqual(
      { ...cookie },
      {
        name: '__Host-oselya',
        value: cookie?.value,
        maxAge: 2 * 24 * 60 * 60,
        path: '/',
        httpOnly: true,
        secure: true,
        sameSite: 'None',
      },
    );
  });

  test('the client secret can go in the body', async () => {
    const posting = await instance({ IDP_CLIENT_AUTH: 'post' });
    assert.equal((await new Browser(posting).signIn(provider)).statusCode, 302);
    assert.equal(provider.calls.at(-2)?.form.get('client_secret'), provider.client.secret);
  });

  test('without a client id nobody can sign in, and is told why', async () => {
    const answer = await (await instance({ IDP_CLIENT_ID: '' })).inject('/auth/login');
    assert.equal(answer.statusCode, 503);
    assert.equal(answer.json().code, 'sign_in_not_configured');
  });

  test('a sign-in that brings nothing new leaves the user record as it is', async () => {
    await new Browser(app).signIn(provider);
    const earlier = await records();
    await new Browser(app).signIn(provider);
    assert.deepEqual(await records(), earlier);
    assert.equal(earlier[0]?.permissions, '["svc.sessions.read_own","svc.tools.use"]');
  });

  test('nothing secret is in the log', async () => {
    lines.length = 0;
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    await browser.get(callback);
    await browser.get('/auth/me');
    provider.faults.set('token', { status: 200, body: '{"access_token":"leaked-token"}' });
    await browser.get(await browser.begin(provider));
    provider.faults.set('token', {
      status: 400,
      body: '{"error":"leaked-token","error_description":"leaked-token"}',
    });
    await browser.get(await browser.begin(provider));
    await browser.get(`/auth/mobile-done?sid=${browser.sid}`);
    const query = new URLSearchParams(callback.split('?')[1]);
    const secrets = [
      ...provider.issued,
      ...browser.cookies.values(),
      ...query.values(),
      'leaked-token',
      provider.client.secret,
    ];
    const log = lines.join('');
    assert.match(log, /could not be exchanged/);
    for (const secret of secrets) assert.ok(!log.includes(secret), `the log holds ${secret}`);
  });
});

suite('rejected sign-in', async () => {
  const app = await instance();

  beforeEach(() => provider.reset());

  const sessions = () => db.selectFrom('user_auth_sessions').selectAll().execute();

  test('a callback in another browser is 400, redeems nothing and spoils nothing', async () => {
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    for (const stranger of [new Browser(app), new Browser(app)]) {
      await stranger.get('/auth/login');
      const answer = await stranger.get(callback);
      assert.equal(answer.statusCode, 400);
      assert.equal(answer.json().code, 'login_not_valid');
    }
    assert.equal((await new Browser(app).get(callback)).statusCode, 400);
    assert.equal(provider.count('token'), 0);
    assert.equal((await browser.get(callback)).statusCode, 302);
  });

  for (const query of [
    '',
    '?code=a',
    '?code=a&state=unknown',
    '?code=a&state=%00',
    `?code=a&state=${'A'.repeat(43)}`,
    '?code=a&state=unknown&state=again',
    `?code=${'a'.repeat(9000)}&state=unknown`,
    '?error=access_denied',
  ]) {
    test(`a callback with ${query.slice(0, 40) || 'nothing'} is 400`, async () => {
      const answer = await app.inject(`/auth/callback${query}`);
      assert.equal(answer.statusCode, 400);
      assert.equal(answer.json().code, 'login_not_valid');
      assert.equal(provider.count('token'), 0);
    });
  }

  test('a pending login ends after ten minutes', async () => {
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    const { rows } = await sql<{ minutes: number }>`
    select round(extract(epoch from max(expires_at) - now()) / 60)::int as minutes
    from pending_logins`.execute(db);
    assert.equal(rows[0]?.minutes, 10);
    await db.updateTable('pending_logins').set({ expires_at: new Date() }).execute();
    assert.equal((await browser.get(callback)).statusCode, 400);
    assert.equal(provider.count('token'), 0);
  });

  for (const [error, code] of [
    ['access_denied', 'login_cancelled'],
    ['invalid_scope', 'login_refused'],
  ] as const) {
    test(`the provider's error ${error} is 400 and spends the login`, async () => {
      const browser = new Browser(app);
      const callback = new URL(await browser.begin(provider), 'http://assistant.test');
      const state = callback.searchParams.get('state');
      const answer = await browser.get(
        `/auth/callback?error=${error}&error_description=%3Cb%3E&state=${state}`,
      );
      assert.equal(answer.statusCode, 400);
      assert.equal(answer.json().code, code);
      assert.equal((await browser.get(callback.pathname + callback.search)).statusCode, 400);
      assert.equal(provider.count('token'), 0);
    });
  }

  test('who has no email at the provider is told so, and is not signed in', async () => {
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    provider.user = { ...OLENA, email: undefined };
    const answer = await browser.get(callback);
    assert.equal(answer.statusCode, 403);
    assert.equal(answer.json().code, 'account_without_email');
    assert.ok(!browser.cookies.has('svc_auth_session'));
  });

  test('an outage at a callback does not say that somebody stays signed in', async () => {
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    provider.faults.set('userinfo', 'disconnect');
    const answer = await browser.get(callback);
    assert.equal(answer.statusCode, 503);
    assert.match(answer.json().detail, /^You are not signed in\./);
    assert.equal(answer.headers['retry-after'], '5');
  });

  test('a browser that brings no cookie of the sign-in is told why that may be', async () => {
    const callback = await new Browser(app).begin(provider);
    const answer = await new Browser(app).get(callback);
    assert.equal(answer.statusCode, 400);
    assert.match(answer.json().detail, /localhost is not 127\.0\.0\.1/);
  });

  for (const [name, fault] of [
    ['refuses', { status: 400, body: '{"error":"invalid_grant"}' }],
    ['fails', { status: 500 }],
    ['talks nonsense', { status: 200, body: '<html>' }],
    ['leaves the token out', { status: 200, body: '{"token_type":"bearer"}' }],
    ['hangs up', 'disconnect'],
  ] as const) {
    test(`an exchange where the provider ${name} is 400 and signs nobody in`, async () => {
      const earlier = await sessions();
      const browser = new Browser(app);
      const callback = await browser.begin(provider);
      provider.faults.set('token', fault);
      const answer = await browser.get(callback);
      assert.equal(answer.statusCode, 400);
      assert.equal(answer.json().code, 'token_exchange_failed');
      assert.ok(!browser.cookies.has('svc_auth_session'));
      assert.deepEqual(await sessions(), earlier);
    });
  }

  /** The sign-ins that failed, as the audit trail has them. */
  const failures = () =>
    db
      .selectFrom('audit_log')
      .select(['actor_id', 'user_id', 'details'])
      .where('action', '=', 'sign_in_failed')
      .execute();

  for (const [name, code, spoil] of [
    [
      'is cancelled at the provider',
      'login_cancelled',
      (callback: string) => callback.replace('code=', 'error=access_denied&code='),
    ],
    ['brings no code', 'login_not_valid', (callback: string) => callback.replace(/code=[^&]+/, '')],
    [
      'brings a code that is wrong',
      'token_exchange_failed',
      (callback: string) => callback.replace(/code=[^&]+/, 'code=wrong'),
    ],
    [
      'meets an outage',
      'provider_unavailable',
      (callback: string) => {
        provider.faults.set('userinfo', { status: 500 });
        return callback;
      },
    ],
    [
      'brings a token that is refused',
      'login_refused',
      (callback: string) => {
        provider.faults.set('userinfo', { status: 401 });
        return callback;
      },
    ],
  ] as const) {
    test(`a sign-in that ${name} is in the audit trail once`, async () => {
      await db.deleteFrom('audit_log').execute();
      const browser = new Browser(app);
      const callback = spoil(await browser.begin(provider));
      assert.equal((await browser.get(callback)).json().code, code);
      const details = { code, platform: 'browser', address: '127.0.0.1' };
      assert.deepEqual(await failures(), [{ actor_id: null, user_id: null, details }]);
      assert.equal((await browser.get(callback)).json().code, 'login_not_valid');
      assert.equal((await failures()).length, 1, 'its state is spent');
    });
  }

  test('callbacks that belong to no pending login leave no line, however many they are', async () => {
    await db.deleteFrom('audit_log').execute();
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    for (const stray of [
      callback.replace(/state=[^&]+/, `state=${'A'.repeat(43)}`),
      callback.replace(/state=[^&]+/, 'state=unknown'),
      '/auth/callback?error=access_denied',
    ]) {
      assert.equal((await browser.get(stray)).statusCode, 400);
    }
    assert.equal((await new Browser(app).get(callback)).statusCode, 400);
    assert.deepEqual(await failures(), []);
    assert.equal((await browser.get(callback)).statusCode, 302);
    assert.deepEqual(await failures(), []);
  });

  test('a code that PKCE does not fit is 400', async () => {
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    await db
      .updateTable('pending_logins')
      .set({ code_verifier: 'v'.repeat(43) })
      .execute();
    const answer = await browser.get(callback);
    assert.equal(answer.statusCode, 400);
    assert.equal(answer.json().code, 'token_exchange_failed');
  });

  test('user data that cannot be had at sign-in is 503, a refusal is 400', async () => {
    const outage = new Browser(app);
    provider.faults.set('userinfo', { status: 502 });
    const unavailable = await outage.signIn(provider);
    assert.equal(unavailable.statusCode, 503);
    assert.equal(unavailable.headers['retry-after'], '5');
    provider.faults.set('userinfo', { status: 401 });
    assert.equal((await outage.signIn(provider)).statusCode, 400);
  });
});

suite('limit of sign-ins', async () => {
  const limited = { LOGIN_PER_MINUTE: '3', TRUSTED_PROXIES: '127.0.0.1' };
  const apps = [await instance(limited), await instance(limited)];
  before(() => db.deleteFrom('pending_logins').execute());
  const [app] = apps;

  const login = (address: string, index = 0) =>
    apps[index % apps.length]?.inject({
      url: '/auth/login',
      headers: { 'x-forwarded-for': address },
    });

  test('one address begins so many sign-ins a minute, on all instances together', async () => {
    for (let count = 0; count < 3; count += 1) {
      const answer = await login('192.0.2.1', count);
      assert.equal(answer?.statusCode, 302);
      assert.equal(answer.headers['ratelimit-limit'], '3');
      assert.equal(answer.headers['ratelimit-remaining'], String(2 - count));
    }
    const answer = await login('192.0.2.1');
    assert.equal(answer?.statusCode, 429);
    assert.equal(answer.json().code, 'rate_limited');
    assert.equal(answer.headers['ratelimit-remaining'], '0');
    assert.ok(Number(answer.headers['retry-after']) >= 1);
    assert.deepEqual(answer.cookies, []);
    const { rows } = await sql`select count(*)::int as n from pending_logins`.execute(db);
    assert.deepEqual(rows, [{ n: 3 }], 'what is refused stores nothing');

    assert.equal((await login('192.0.2.2'))?.statusCode, 302, 'another address is not affected');
    assert.equal((await app?.inject('/auth/me'))?.statusCode, 401, 'nor is anything else');
  });

  test('0 is no limit', async () => {
    const unlimited = await instance({ ...limited, LOGIN_PER_MINUTE: '0' });
    for (let count = 0; count < 5; count += 1) {
      const answer = await unlimited.inject('/auth/login');
      assert.equal(answer.statusCode, 302);
      assert.equal(answer.headers['ratelimit-limit'], undefined);
    }
  });
});

suite('limit of a network', async () => {
  const app = await instance({ LOGIN_PER_MINUTE: '2', TRUSTED_PROXIES: '127.0.0.1' });
  before(() => sql`delete from assistant_rate_limits`.execute(db));

  const login = async (address: string) => {
    const headers = { 'x-forwarded-for': address };
    return (await app.inject({ url: '/auth/login', headers })).statusCode;
  };

  test('the addresses of one IPv6 network begin so many sign-ins together', async () => {
    assert.equal(await login('2001:db8:1:2::1'), 302);
    assert.equal(await login('2001:db8:1:2::2'), 302);
    assert.equal(await login('2001:db8:1:2:ffff:ffff:ffff:ffff'), 429);
    assert.equal(await login('2001:db8:1:3::1'), 302);
  });

  test('an IPv4 address is one, however it is written', async () => {
    assert.equal(await login('192.0.2.1'), 302);
    assert.equal(await login('::ffff:192.0.2.1'), 302);
    assert.equal(await login('192.0.2.1'), 429);
    assert.equal(await login('192.0.2.2'), 302);
  });
});

suite('change of the role at the provider', async () => {
  const app = await instance();

  const USER = person('u-1');
  const ADMIN = person('u-1', { isAdmin: true });

  beforeEach(async () => {
    provider.reset();
    await db.deleteFrom('svc_users').execute();
    await db.deleteFrom('audit_log').execute();
  });

  const role = async () => (await db.selectFrom('svc_users').select('role').execute()).at(0)?.role;

  const changes = () =>
    db
      .selectFrom('audit_log')
      .select(['actor_id', 'user_id', 'details'])
      .where('action', '=', 'role_changed')
      .execute();

  /** Does some work while the audit trail takes no change of a role, as where the database is lost. */
  async function withoutTrail(work: () => Promise<void>): Promise<void> {
    await sql`
    create function hang_up() returns trigger language plpgsql as $$
    begin
      raise exception 'terminating connection due to administrator command' using errcode = '57P01';
    end $$`.execute(db);
    await sql`
    create trigger hang_up before insert on audit_log
    for each row when (new.action = 'role_changed') execute function hang_up()`.execute(db);
    try {
      await work();
    } finally {
      await sql`drop function hang_up cascade`.execute(db);
    }
  }

  const ways: Record<string, (browser: Browser) => Promise<number>> = {
    'a sign-in': async () => (await new Browser(app).signIn(provider)).statusCode,
    'a request': async (browser) => (await browser.get('/auth/me')).statusCode,
  };

  for (const [name, meet] of Object.entries(ways)) {
    test(`${name} that finds a new role changes it and records it, or does neither`, async () => {
      const browser = await signedIn(app, USER);
      provider.user = ADMIN;
      await withoutTrail(async () => {
        assert.equal(await meet(browser), 503);
        assert.equal(await role(), 'user');
      });
      assert.ok((await meet(browser)) < 400);
      assert.equal(await role(), 'admin');
      await meet(browser);
      assert.deepEqual(await changes(), [
        { actor_id: null, user_id: 'u-1', details: { from: 'user', to: 'admin' } },
      ]);
    });
  }

  test('the role that somebody signs in with first is no change', async () => {
    await signedIn(app, ADMIN);
    assert.equal(await role(), 'admin');
    assert.deepEqual(await changes(), []);
  });

  test('requests of several sessions that find a new role at once record it once', async () => {
    const browsers = await Promise.all([1, 2, 3, 4].map(() => signedIn(app, USER)));
    provider.user = ADMIN;
    const answers = await Promise.all(browsers.map((browser) => browser.get('/auth/me')));
    for (const answer of answers) assert.equal(answer.json().role, 'admin');
    assert.equal((await changes()).length, 1);
  });
});

suite('bridge page', async () => {
  const app = await instance({ ANDROID_APP_PACKAGE: 'test.oselya.app' });

  const sid = 'Az09_-'.repeat(8).slice(0, 43);
  const answer = await app.inject(`/auth/mobile-done?sid=${sid}`);

  const hash = (text: string) => createHash('sha256').update(text).digest('base64');
  const element = (name: string) =>
    new RegExp(`<${name}>(.*?)</${name}>`, 's').exec(answer.body)?.[1] ?? '';

  test('the bridge page goes to the intent of the application', () => {
    assert.equal(answer.statusCode, 200);
    assert.match(String(answer.headers['content-type']), /^text\/html/);
    const intent = `intent://auth/callback?sid=${sid}#Intent;scheme=svc;package=test.oselya.app;end`;
    assert.ok(answer.body.includes(`href="${intent}" hidden`));
    assert.match(element('script'), /location\.href = link\.href/);
    assert.match(element('script'), /1500/);
    assert.match(element('style'), /color-scheme: dark/);
  });

  test('it is kept nowhere, sends no referrer and loads nothing', () => {
    assert.equal(answer.headers['cache-control'], 'no-store');
    assert.equal(answer.headers['referrer-policy'], 'no-referrer');
    const policy = String(answer.headers['content-security-policy']);
    assert.match(policy, /^default-src 'none'/);
    assert.ok(policy.includes(`script-src 'sha256-${hash(element('script'))}'`));
    assert.ok(policy.includes(`style-src 'sha256-${hash(element('style'))}'`));
    assert.doesNotMatch(answer.body, /src=|https?:|@import|url\(/);
  });

  for (const bad of [
    '',
    'short',
    `${sid}A`,
    `${sid.slice(1)};`,
    '"><script>alert(1)</script>'.padEnd(43, 'A').slice(0, 43),
    '%22%3E%3Cscript%3Ealert(1)%3C/script%3E',
  ]) {
    test(`the sid "${bad}" is 422 and does not come back`, async () => {
      const refused = await app.inject({
        url: `/auth/mobile-done?sid=${encodeURIComponent(bad)}`,
        headers: { accept: 'text/html' },
      });
      assert.equal(refused.statusCode, 422);
      assert.ok(bad === '' || !refused.body.includes(bad));
      assert.doesNotMatch(refused.body, /intent:/);
    });
  }

  test('without a session id it says what to do, as a page for a browser', async () => {
    for (const query of ['', '?sid=', '?sid=short', `?sid=${'!'.repeat(43)}`]) {
      const refused = await app.inject(`/auth/mobile-done${query}`);
      assert.deepEqual([refused.statusCode, refused.json().code], [422, 'hand_over_not_valid']);
    }
    const page = await app.inject({ url: '/auth/mobile-done', headers: { accept: 'text/html' } });
    assert.equal(page.statusCode, 422);
    assert.match(page.body, /sign in again/);
    assert.doesNotMatch(page.body, /querystring|required property/);
  });
});

suite('first page', async () => {
  const app = await instance();
  beforeEach(() => provider.reset());

  test('a stranger finds the way in', async () => {
    const answer = await app.inject('/');
    assert.equal(answer.statusCode, 200);
    // The public origin, so that whoever came by another name of this service can sign in.
    assert.match(answer.body, /href="http:\/\/assistant\.test\/auth\/login"/);
    assert.match(answer.body, /href="\/docs"/);
    assert.doesNotMatch(answer.body, /Sign out/);
  });

  test('somebody signed in finds their name and the way out, whatever the name is', async () => {
    provider.user = { ...OLENA, profile: { display_name: '<img src=x onerror=alert(1)>' } };
    const browser = new Browser(app);
    await browser.signIn(provider);
    const { body } = await browser.get('/');
    assert.match(body, /&#60;img src=x onerror=alert\(1\)&#62;/);
    assert.match(body, /olena@example\.test/);
    assert.match(body, /svc\.sessions\.read_own, svc\.tools\.use/);
    assert.match(body, /id="sign-out"/);
  });

  test('an admin has all permissions, and slugs that are none are left out', async () => {
    const [entry] = OLENA.client_access_list;
    const page = async (access: object) => {
      provider.user = { ...OLENA, client_access_list: [{ ...entry, ...access }] };
      const browser = new Browser(app);
      await browser.signIn(provider);
      return (await browser.get('/')).body;
    };
    assert.match(await page({ role_ids: ['svc_admin'] }), /<dd>all, as an admin<\/dd>/);
    const mixed = { permission_ids: ['svc_user', 'toString', 'svc.tools.use'] };
    assert.match(await page(mixed), /<dd>svc\.tools\.use<\/dd>/);
    assert.match(await page({ permission_ids: ['svc_user'] }), /<dd>none<\/dd>/);
  });

  test('the page is in no cache and runs no script', async () => {
    const answer = await app.inject('/');
    assert.equal(answer.headers['cache-control'], 'no-store');
    const policy = String(answer.headers['content-security-policy']);
    assert.match(policy, /default-src 'none'/);
    assert.match(policy, /form-action 'self'/);
    assert.doesNotMatch(policy, /script-src|unsafe/);
    // Else the form would come with `Origin: null`, and count as another site's.
    assert.equal(answer.headers['referrer-policy'], 'same-origin');
  });

  test('a cookie that is not valid shows the signed-out page and is cleared', async () => {
    const answer = await app.inject({ url: '/', cookies: { svc_auth_session: 'A'.repeat(43) } });
    assert.equal(answer.statusCode, 200);
    assert.match(answer.body, /not signed in/);
    assert.equal(answer.cookies[0]?.maxAge, 0);
  });

  test('an error at sign-in is a page for a browser that navigates', async () => {
    const answer = await app.inject({
      url: '/auth/callback?code=a&state=b',
      headers: { accept: 'text/html' },
    });
    assert.equal(answer.statusCode, 400);
    assert.match(answer.body, /href="\/auth\/login">Sign in again</);
  });
});
