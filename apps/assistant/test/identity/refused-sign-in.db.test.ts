import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { Browser, openAssistant } from '../helpers/assistant.ts';
import { OLENA } from '../scripted-provider.ts';

const { db, provider, instance } = await openAssistant();
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
    const before = await sessions();
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    provider.faults.set('token', fault);
    const answer = await browser.get(callback);
    assert.equal(answer.statusCode, 400);
    assert.equal(answer.json().code, 'token_exchange_failed');
    assert.ok(!browser.cookies.has('svc_auth_session'));
    assert.deepEqual(await sessions(), before);
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
