import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { outages, sent } from './helpers.ts';

/** Far below the hundred megabytes: what sockets buffer on both sides, beside the 256 KiB that are read. */
const MOST_TAKEN_BYTES = 20 * 1024 * 1024;

const { db, provider, instance, signedIn, row, expire } = await openAssistant();
const app = await instance();
// Nobody waits for the default five seconds here, and an answer of this machine needs none of them.
const hasty = await instance({ IDP_TIMEOUT_MS: '150' });
const nowhere = await instance({ IDP_BASE_URL: 'http://127.0.0.1:1' });

beforeEach(() => provider.reset());

type Answer = Awaited<ReturnType<Browser['get']>>;

/** The answer to what could not be done now and may be tried again; it touches no cookie. */
function assertOutage(answer: Answer): void {
  assert.equal(answer.statusCode, 503, answer.body);
  assert.equal(answer.json().code, 'provider_unavailable');
  assert.equal(answer.headers['retry-after'], '5');
  assert.deepEqual(answer.cookies, []);
}

const rows = async () => ({
  users: await db.selectFrom('svc_users').selectAll().execute(),
  sessions: await db.selectFrom('user_auth_sessions').selectAll().orderBy('id').execute(),
});

for (const [name, fault] of Object.entries(outages)) {
  test(`nobody is signed out by a provider that ${name}`, async () => {
    const browser = await signedIn(app);
    const { sid } = browser;

    // While the access token is valid.
    const before = await row(sid);
    provider.faults.set('userinfo', fault);
    assertOutage(await browser.get('/auth/me'));
    assert.deepEqual(await row(sid), before);
    provider.faults.clear();
    assert.equal((await browser.get('/auth/me')).statusCode, 200);

    // At its refresh.
    await expire(browser);
    const expired = await row(sid);
    provider.faults.set('token', fault);
    assertOutage(await browser.get('/auth/me'));
    assert.deepEqual(await row(sid), expired, 'the lease is given back');
    provider.faults.clear();
    assert.equal((await browser.get('/auth/me')).statusCode, 200);

    // At the fetch after a refresh that worked.
    await expire(browser);
    provider.faults.set('userinfo', fault);
    assertOutage(await browser.get('/auth/me'));
    provider.faults.clear();
    assert.equal((await browser.get('/auth/me')).statusCode, 200);

    // A logout needs nobody's permission.
    provider.faults.set('revoke', fault);
    assert.equal((await browser.post('/auth/logout')).statusCode, 200);
    assert.equal(await row(sid), undefined);
  });

  test(`nobody is half signed in by a provider that ${name}`, async () => {
    const browser = await signedIn(app);
    const before = await rows();

    provider.faults.set('token', fault);
    const exchange = await browser.signIn(provider);
    assert.equal(exchange.statusCode, 400, 'the code is spent: one begins again');
    assert.equal(exchange.json().code, 'token_exchange_failed');
    assert.deepEqual(exchange.cookies, []);
    provider.faults.clear();

    provider.faults.set('userinfo', fault);
    assertOutage(await browser.signIn(provider));
    provider.faults.clear();

    assert.deepEqual(await rows(), before, 'the earlier session stays, and no other came');
    assert.equal((await browser.signIn(provider)).statusCode, 302);
  });

  test(`discovery at a provider that ${name} refuses nobody`, async () => {
    const discovering = await instance({ IDP_DISCOVERY: 'true' });
    const browser = await signedIn(app);
    provider.faults.set('discovery', fault);
    assertOutage(await browser.get('/auth/me', { app: discovering }));
    assertOutage(await browser.get('/auth/login', { app: discovering }));
    await expire(browser);
    assertOutage(await browser.get('/auth/me', { app: discovering }));
    provider.faults.clear();
    provider.publishMetadata();
    assert.equal((await browser.get('/auth/me', { app: discovering })).statusCode, 200);
  });
}

test('an answer without end is not read to its end', async () => {
  const browser = await signedIn(app);
  for (const endpoint of ['userinfo', 'token'] as const) {
    const fault = outages['answers with a hundred megabytes'];
    assert.ok(fault !== undefined);
    provider.faults.set(endpoint, fault);
    if (endpoint === 'token') await expire(browser);
    assertOutage(await browser.get('/auth/me'));
    assert.ok(sent.bytes < MOST_TAKEN_BYTES, `${sent.bytes} bytes were taken`);
    provider.faults.clear();
  }
});

for (const endpoint of ['userinfo', 'token'] as const) {
  test(`a provider that is too slow at ${endpoint} is given up, and signs nobody out`, async () => {
    const browser = await signedIn(app);
    if (endpoint === 'token') await expire(browser);
    const before = await row(browser.sid);
    const release = provider.holdNext(endpoint);
    assertOutage(await browser.get('/auth/me', { app: hasty }));
    release();
    assert.deepEqual(await row(browser.sid), before);
  });

  test(`a provider that never ends its answer at ${endpoint} is given up`, async () => {
    const browser = await signedIn(app);
    if (endpoint === 'token') await expire(browser);
    const before = await row(browser.sid);
    provider.faults.set(endpoint, (response) => void response.writeHead(200).write('{"sub":'));
    assertOutage(await browser.get('/auth/me', { app: hasty }));
    assert.deepEqual(await row(browser.sid), before);
  });
}

test('a provider that is down signs nobody out, and sign-ins begin all the same', async () => {
  const browser = await signedIn(app);
  const before = await row(browser.sid);
  assertOutage(await browser.get('/auth/me', { app: nowhere }));
  await expire(browser);
  assertOutage(await browser.get('/auth/me', { app: nowhere }));
  assert.equal((await row(browser.sid))?.access_token_enc, before?.access_token_enc);
  assert.equal((await browser.get('/auth/login', { app: nowhere })).statusCode, 302);
  const { status, checks } = (await browser.get('/health', { app: nowhere })).json();
  assert.equal(status, 'degraded');
  assert.match(checks.identity_provider.detail, /does not answer \(bad port\): check IDP_BASE_URL/);
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
});

// The refresh token is spent with the answer: refusing it for its expiry would cost the session.
for (const expiresIn of [-1, -1e300, 'soon', '', null, [3600], {}, true]) {
  test(`an expiry of ${JSON.stringify(expiresIn)} s costs nobody the session`, async () => {
    const browser = await signedIn(app);
    await expire(browser);
    provider.token.extra = { expires_in: expiresIn };
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
    assert.equal((await row(browser.sid))?.expires_at, null, 'as if nothing was said');
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
    assert.equal(provider.count('token'), 1);
    provider.expireAccessTokens();
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
    assert.equal(provider.count('token'), 2, 'and refreshed when the provider refuses the token');
  });
}

for (const [expiresIn, atMostSeconds] of [
  [1e15, 365 * 86_400],
  [Number.MAX_VALUE, 365 * 86_400],
  ['7200', 7200],
  [59.5, 59.5],
  [0.25, 0.25],
] as const) {
  test(`an expiry of ${expiresIn} s is understood`, async () => {
    const browser = await signedIn(app);
    await expire(browser);
    provider.token.extra = { expires_in: expiresIn };
    const began = Date.now();
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
    const expiresAt = (await row(browser.sid))?.expires_at?.getTime() ?? 0;
    const seconds = (expiresAt - began) / 1000;
    assert.ok(seconds > atMostSeconds - 1 && seconds < atMostSeconds + 60, `${seconds} s`);
    await expire(browser);
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
  });
}

test('a refusal is none of this: it signs out', async () => {
  const browser = await signedIn(app);
  const { sid } = browser;
  await expire(browser);
  provider.faults.set('token', { status: 400, body: '{"error":"invalid_grant"}' });
  assert.equal((await browser.get('/auth/me')).statusCode, 401);
  assert.ok(!browser.cookies.has('svc_auth_session'));
  assert.equal(await row(sid), undefined);
});
