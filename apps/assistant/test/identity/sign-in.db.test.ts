import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { beforeEach, test } from 'node:test';
import { Browser, openAssistant } from '../helpers/assistant.ts';

const { db, provider, lines, instance } = await openAssistant();
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
  const before = await records();
  await new Browser(app).signIn(provider);
  assert.deepEqual(await records(), before);
  assert.equal(before[0]?.permissions, '["svc.sessions.read_own","svc.tools.use"]');
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
