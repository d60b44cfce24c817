import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { beforeEach, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import type { Fault } from '../scripted-provider.ts';

const MEBIBYTE = 1024 * 1024;
const HUGE_BYTES = 100 * MEBIBYTE;

/** An upper bound of the buffers of both sides and the 256 KiB read. */
const MAX_TAKEN_BYTES = 20 * MEBIBYTE;

const { db, provider, instance, signedIn, row, expire } = await openAssistant();
const app = await instance();
const impatient = await instance({ IDP_TIMEOUT_MS: '150' });
const unreachable = await instance({ IDP_BASE_URL: 'http://127.0.0.1:1' });
const discovering = await instance({ IDP_DISCOVERY: 'true' });

beforeEach(() => provider.reset());

const json = { 'content-type': 'application/json' };
const raw = (text: string) => (response: ServerResponse) => void response.socket?.end(text);
const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
const bomb = gzipSync(Buffer.alloc(20 * MEBIBYTE, ' '));
const taken = { bytes: 0 };

/** Sends 100 MiB as fast as the client reads them. */
async function sendHugeAnswer(response: ServerResponse): Promise<void> {
  const chunk = Buffer.alloc(64 * 1024, ' ');
  const controller = new AbortController();
  response.on('close', () => controller.abort());
  taken.bytes = 0;
  response.writeHead(200, json);
  while (taken.bytes < HUGE_BYTES && !response.destroyed) {
    taken.bytes += chunk.length;
    if (response.write(chunk)) continue;
    await once(response, 'drain', { signal: controller.signal }).catch(() => undefined);
  }
  response.end();
}

/** Answers during an outage. None of them rejects a token. */
const outages: Record<string, Fault> = {
  disconnects: 'disconnect',
  'answers 500': { status: 500, body: '{"error":"invalid_grant"}' },
  'answers 502 with a page': { status: 502, body: '<h1>Bad gateway</h1>' },
  'answers 503': { status: 503, headers: { 'retry-after': '3600' } },
  'answers with a page': { status: 200, body: '<!doctype html>' },
  'answers 404': { status: 404, body: '{"error":"not_found"}' },
  'answers 429': { status: 429, body: '{"error":"invalid_grant"}' },
  'answers 403 of a gateway': { status: 403, body: '{"error":"rate_limit_exceeded"}' },
  'answers 403 with invalid_client': { status: 403, body: '{"error":"invalid_client"}' },
  redirects: { status: 302, headers: { location: 'http://127.0.0.1:1/' } },
  'redirects to itself': { status: 307, headers: { location: '/oauth/token' } },
  'answers with an empty body': { status: 200 },
  'answers with malformed JSON': { status: 200, body: '\u0000\uffff{]' },
  'answers with an array': { status: 200, body: '[1,"access_token",null]' },
  'answers with deep JSON': { status: 200, body: deep },
  'answers with __proto__': {
    status: 200,
    body: '{"__proto__":{"access_token":"a","sub":"u-1","email":"e@example.test"}}',
  },
  'breaks off within the body': (response) =>
    response
      .writeHead(200, { ...json, 'content-length': '4000' })
      .write('{"access_token":"half', () => response.destroy()),
  'sends malformed chunks': raw(
    'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n',
  ),
  'answers with another protocol': raw('220 mail.example.test ESMTP\r\n'),
  'sends malformed gzip': (response) =>
    void response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end('not gzip'),
  'sends a decompression bomb': (response) =>
    void response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(bomb),
  'sends 100 MiB': (response) => void sendHugeAnswer(response),
};

type Answer = Awaited<ReturnType<Browser['get']>>;

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
  test(`A provider that ${name} neither ends nor creates a session`, async () => {
    const browser = await signedIn(app);
    const { sid } = browser;
    const before = await rows();
    provider.faults.set('userinfo', fault);
    assertOutage(await browser.get('/auth/me'));
    assertOutage(await browser.signIn(provider));
    assert.deepEqual(await rows(), before);
    await expire(browser);
    assertOutage(await browser.get('/auth/me'));
    provider.faults.clear();
    assert.equal((await browser.get('/auth/me')).statusCode, 200);

    await expire(browser);
    const expired = await row(sid);
    provider.faults.set('token', fault);
    assertOutage(await browser.get('/auth/me'));
    assert.deepEqual(await row(sid), expired, 'the lease is released');
    // The code is spent, so the user signs in again.
    const exchange = await browser.signIn(provider);
    assert.deepEqual([exchange.statusCode, exchange.json().code], [400, 'token_exchange_failed']);
    assert.deepEqual(exchange.cookies, []);
    provider.faults.clear();
    assert.equal((await browser.get('/auth/me')).statusCode, 200);

    provider.faults.set('revoke', fault);
    assert.equal((await browser.post('/auth/logout')).statusCode, 200);
    assert.equal(await row(sid), undefined);
  });
}

test('An outage of discovery ends no session', async () => {
  const browser = await signedIn(app);
  for (const name of [
    'disconnects',
    'answers 404',
    'answers with a page',
    'answers with an array',
  ]) {
    const fresh = name === 'disconnects' ? discovering : await instance({ IDP_DISCOVERY: 'true' });
    const fault = outages[name];
    assert.ok(fault !== undefined);
    provider.faults.set('discovery', fault);
    for (const path of ['/auth/me', '/auth/login']) {
      assertOutage(await browser.get(path, { app: fresh }));
    }
    provider.faults.clear();
    provider.publishMetadata();
    assert.equal((await browser.get('/auth/me', { app: fresh })).statusCode, 200);
  }
});

test('A huge answer is read only in part', async () => {
  const browser = await signedIn(app);
  for (const endpoint of ['userinfo', 'token'] as const) {
    provider.faults.set(endpoint, (response) => void sendHugeAnswer(response));
    if (endpoint === 'token') await expire(browser);
    assertOutage(await browser.get('/auth/me'));
    assert.ok(taken.bytes < MAX_TAKEN_BYTES, `${taken.bytes} bytes were taken`);
    provider.faults.clear();
  }
});

for (const endpoint of ['userinfo', 'token'] as const) {
  test(`A slow answer of ${endpoint} times out and keeps the session`, async () => {
    const browser = await signedIn(app);
    if (endpoint === 'token') await expire(browser);
    const before = await row(browser.sid);
    const release = provider.holdNext(endpoint);
    assertOutage(await browser.get('/auth/me', { app: impatient }));
    release();
    provider.faults.set(endpoint, (response) => void response.writeHead(200).write('{"sub":'));
    assertOutage(await browser.get('/auth/me', { app: impatient }));
    assert.deepEqual(await row(browser.sid), before);
  });
}

test('Sessions stay during an outage of the provider, and sign-ins begin', async () => {
  const browser = await signedIn(app);
  const before = await row(browser.sid);
  assertOutage(await browser.get('/auth/me', { app: unreachable }));
  await expire(browser);
  assertOutage(await browser.get('/auth/me', { app: unreachable }));
  assert.equal((await row(browser.sid))?.access_token_enc, before?.access_token_enc);
  assert.equal((await browser.get('/auth/login', { app: unreachable })).statusCode, 302);
  const { status, checks } = (await browser.get('/health', { app: unreachable })).json();
  assert.equal(status, 'degraded');
  assert.match(checks.identity_provider.detail, /does not answer \(bad port\): check IDP_BASE_URL/);
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
});

// The refresh token is spent with the answer, so an invalid lifetime must not cost the session.
test('A malformed lifetime of a token counts as unknown', async () => {
  for (const expiresIn of [-1, -1e300, 'soon', '', null, [3600], {}, true]) {
    const browser = await signedIn(app);
    await expire(browser);
    provider.token.extra = { expires_in: expiresIn };
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
    assert.equal((await row(browser.sid))?.expires_at, null, JSON.stringify(expiresIn));
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
    assert.equal(provider.count('token'), 1);
    provider.expireAccessTokens();
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
    assert.equal(provider.count('token'), 2, 'refreshed once the provider rejects the token');
  }
});

test('The lifetime of a token is read in seconds, and is at most a year', async () => {
  for (const [expiresIn, maxSeconds] of [
    [Number.MAX_VALUE, 365 * 86_400],
    ['7200', 7200],
    [59.5, 59.5],
  ] as const) {
    const browser = await signedIn(app);
    await expire(browser);
    provider.token.extra = { expires_in: expiresIn };
    const began = Date.now();
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
    const expiresAt = (await row(browser.sid))?.expires_at?.getTime() ?? 0;
    const seconds = (expiresAt - began) / 1000;
    assert.ok(seconds > maxSeconds - 1 && seconds < maxSeconds + 60, `${seconds} s`);
  }
});

test('A rejected refresh token signs out', async () => {
  const browser = await signedIn(app);
  const { sid } = browser;
  await expire(browser);
  provider.faults.set('token', { status: 400, body: '{"error":"invalid_grant"}' });
  assert.equal((await browser.get('/auth/me')).statusCode, 401);
  assert.ok(!browser.cookies.has('svc_auth_session'));
  assert.equal(await row(sid), undefined);
});
