import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { until } from '@oselya/testing';
import type { Server } from '@oselya/kit';
import { type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { USER_CHANNEL } from '../../src/identity/revocation.ts';
import { Browser, openAssistant } from '../helpers/assistant.ts';
import { makeSigningKey } from '../scripted-provider.ts';
import { OLENA } from '../scripted-provider.ts';

const { db, provider, lines, instance, row, expire, listen } = await openAssistant({
  IDP_DISCOVERY: 'true',
  IDP_USER_MAX_AGE_SECONDS: '60',
});
const key = await makeSigningKey('k-1');
const stranger = await makeSigningKey('k-1');
const EVENT = 'http://schemas.openid.net/event/backchannel-logout';

const seconds = () => Math.floor(Date.now() / 1000);
let user = OLENA;
let sid: string | undefined;
let tokens = 0;

beforeEach(async () => {
  provider.reset();
  provider.publishMetadata();
  provider.keys = [key.published];
  provider.idToken = () => key.sign(idClaims());
  for (const table of ['svc_users', 'webhook_events', 'audit_log'] as const) {
    await db.deleteFrom(table).execute();
  }
});

const idClaims = (): JWTPayload => ({
  iss: provider.url,
  aud: provider.client.id,
  sub: user.sub,
  iat: seconds(),
  exp: seconds() + 60,
  ...(sid !== undefined && { sid }),
});

/** Returns the claims of a logout token. OpenID Connect Back-Channel Logout 1.0 §2.4. */
const claims = (): JWTPayload => ({
  iss: provider.url,
  aud: provider.client.id,
  iat: seconds(),
  exp: seconds() + 120,
  jti: `jti-${(tokens += 1)}`,
  sub: 'u-1',
  sid: 's-1',
  events: { [EVENT]: {} },
});

const sign = (payload: JWTPayload, header: { typ?: string; kid?: string } = {}, by = key) =>
  by.sign(payload, { typ: 'logout+jwt', ...header });

const app = await instance();
const other = await instance();

const post = (at: Server, payload: string, type = 'application/x-www-form-urlencoded') =>
  at.inject({
    method: 'POST',
    url: '/auth/backchannel-logout',
    headers: { 'content-type': type },
    payload,
  });
const send = (at: Server, token: string) =>
  post(at, new URLSearchParams({ logout_token: token }).toString());

/** Signs a user in within a session at the provider. */
async function signIn(id: string, session: string | undefined, at = app): Promise<Browser> {
  user = { ...OLENA, sub: id };
  provider.user = user;
  sid = session;
  const browser = new Browser(at);
  assert.equal((await browser.signIn(provider)).statusCode, 302);
  return browser;
}

const isSignedIn = async (browser: Browser, at = app) =>
  (await browser.get('/auth/me', { app: at })).statusCode === 200;
const ledger = () => db.selectFrom('webhook_events').selectAll().orderBy('id').execute();

test('A logout token with a session ends the sign-ins of this session only', async () => {
  const notified: string[] = [];
  const stop = await listen(USER_CHANNEL, (payload) => notified.push(payload));
  const [one, two] = [await signIn('u-1', 's-1'), await signIn('u-1', 's-1')];
  const rest = [
    await signIn('u-1', 's-2'),
    await signIn('u-1', undefined),
    await signIn('u-2', 's-1'),
  ];
  notified.length = 0;
  const payload = claims();
  const answer = await send(other, await sign(payload));
  assert.deepEqual([answer.statusCode, answer.json()], [200, { ok: true }]);
  assert.equal(answer.headers['cache-control'], 'no-store');
  assert.deepEqual(answer.cookies, []);
  for (const ended of [one, two]) assert.ok(!(await isSignedIn(ended)));
  for (const kept of rest) assert.ok(await isSignedIn(kept, other));
  await until(() => notified.includes('u-1'));
  assert.ok(
    !notified.includes('') && !notified.includes('u-2'),
    'no socket of another user is closed',
  );
  await stop();
  const [entry, ...others] = await ledger();
  assert.deepEqual(others, []);
  assert.partialDeepStrictEqual(entry, {
    delivery_id: `jti:${String(payload.jti)}`,
    signature: 'logout_token',
    event: 'backchannel_logout',
    user_id: 'u-1',
    outcome: 'applied',
    sessions_ended: 2,
  });
});

test('A logout token without a session ends all sign-ins of its user', async () => {
  const ended = [await signIn('u-1', 's-1'), await signIn('u-1', undefined)];
  const kept = await signIn('u-2', 's-3');
  assert.equal((await send(app, await sign({ ...claims(), sid: undefined }))).statusCode, 200);
  for (const browser of ended) assert.ok(!(await isSignedIn(browser)));
  assert.ok(await isSignedIn(kept));
});

test('A repeated logout token has no effect at another process', async () => {
  const token = await sign(claims());
  await signIn('u-1', 's-1');
  assert.equal((await send(app, token)).statusCode, 200);
  const again = await signIn('u-1', 's-1');
  assert.equal((await send(other, token)).statusCode, 200);
  assert.ok(await isSignedIn(again));
  assert.equal((await ledger()).length, 1);
  const { body } = await other.inject('/metrics');
  const count = 'assistant_webhooks_total{event="backchannel_logout",outcome="duplicate"} 1';
  assert.ok(body.includes(count));
});

for (const [named, status] of [
  [{ sid: 's-9', sub: undefined }, 400],
  [{ sid: undefined, sub: 'u-1' }, 400],
  [{ sid: 's-8', sub: 'u-1' }, 302],
  [{ sid: 's-9', sub: 'u-2' }, 302],
] as const) {
  test(`A logout of ${JSON.stringify(named)} answers ${status} to a sign-in in progress`, async () => {
    user = OLENA;
    sid = 's-9';
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    const release = provider.holdNext('userinfo');
    const answer = browser.get(callback);
    await until(() => provider.count('userinfo') === 1);
    assert.equal((await send(other, await sign({ ...claims(), ...named }))).statusCode, 200);
    release();
    assert.equal((await answer).statusCode, status);
  });
}

test('A logout ends a session during its refresh', async () => {
  const browser = await signIn('u-1', 's-1');
  await expire(browser);
  const release = provider.holdNext('token');
  const answer = browser.get('/auth/me');
  await until(() => provider.count('token', 'refresh_token') === 1);
  assert.equal((await send(other, await sign(claims()))).statusCode, 200);
  release();
  assert.equal((await answer).statusCode, 401);
});

test('A refresh adds the session at the provider to an older sign-in', async () => {
  const browser = await signIn('u-1', undefined);
  assert.equal((await row(browser.sid))?.provider_session_id, null);
  await expire(browser);
  sid = 's-1';
  assert.ok(await isSignedIn(browser));
  assert.equal((await row(browser.sid))?.provider_session_id, 's-1');
});

test('The logout tokens of Keycloak are accepted', async () => {
  for (const [header, extra] of [
    [{ typ: 'JWT' }, { typ: 'Logout' }],
    [{}, { events: { [EVENT]: {}, revoke_offline_access: true } }],
    [{}, { aud: ['account', 'oselya'] }],
  ] as const) {
    const browser = await signIn('u-1', 's-1');
    const token = await sign({ ...claims(), ...extra } as JWTPayload, header);
    assert.equal((await send(app, token)).statusCode, 200);
    assert.ok(!(await isSignedIn(browser)));
  }
});

const hmac = (payload: JWTPayload) =>
  new SignJWT(payload)
    .setProtectedHeader({ alg: 'HS256', kid: 'k-1', typ: 'logout+jwt' })
    .sign(new TextEncoder().encode(provider.client.secret));
const changed = (change: object) => () => sign({ ...claims(), ...change });

const invalid: [name: string, make: () => string | Promise<string>][] = [
  ['no token', () => ''],
  ['no signature', () => new UnsecuredJWT(claims()).encode()],
  ['an HMAC by the client secret', () => hmac(claims())],
  ['a foreign signature', () => sign(claims(), {}, stranger)],
  ['an unpublished key', () => sign(claims(), { kid: 'k-9' })],
  ['an access token', () => sign(claims(), { typ: 'at+jwt' })],
  ['another issuer', changed({ iss: 'https://another.example' })],
  ['another audience', changed({ aud: 'other' })],
  ['no time', changed({ iat: undefined })],
  ['a future time', changed({ iat: seconds() + 600, exp: seconds() + 900 })],
  ['an old time', changed({ iat: seconds() - 600 })],
  ['a past expiry', changed({ iat: seconds() - 200, exp: seconds() - 60 })],
  ['no expiry', changed({ exp: undefined })],
  ['a nonce', changed({ nonce: 'n' })],
  ['no event', changed({ events: undefined })],
  ['a text as event', changed({ events: { [EVENT]: 'yes' } })],
  ['no id', changed({ jti: undefined })],
  ['neither user nor session', changed({ sub: undefined, sid: undefined })],
  ['a malformed session', changed({ sid: 7 })],
  ['a malformed user', changed({ sub: { id: 'u-1' } })],
];

test('An invalid logout token is rejected without effect', async () => {
  const browser = await signIn('u-1', 's-1');
  for (const [name, make] of invalid) {
    lines.length = 0;
    const answer = await send(app, await make());
    assert.equal(answer.statusCode, 400, name);
    assert.equal(answer.headers['content-type'], 'application/problem+json');
    assert.equal(answer.headers['cache-control'], 'no-store');
    assert.equal(answer.json().code, 'logout_token_not_valid');
    assert.ok(lines.some((line) => line.includes('"level":"warn"') && line.includes('"reason"')));
  }
  assert.ok(await isSignedIn(browser));
  assert.deepEqual(await ledger(), []);
  const { body } = await app.inject('/metrics');
  assert.ok(body.includes(`{event="other",outcome="refused"} ${invalid.length}`));
});

test('The body of a logout has to be a form with one token', async () => {
  const token = await sign(claims());
  assert.equal((await post(app, `logout_token=${token}&logout_token=${token}`)).statusCode, 400);
  const json = JSON.stringify({ logout_token: token });
  assert.equal((await post(app, json, 'application/json')).statusCode, 415);
  assert.equal((await post(app, `else=1&logout_token=${token}`)).statusCode, 200);
});

test('Tokens with unknown keys do not cause repeated requests to the provider', async () => {
  const fresh = await instance();
  assert.equal((await send(fresh, await sign(claims()))).statusCode, 200);
  const before = provider.count('keys');
  for (let time = 0; time < 5; time += 1) {
    const answer = await send(fresh, await sign(claims(), { kid: `k-${time + 10}` }, stranger));
    assert.equal(answer.statusCode, 400);
  }
  assert.equal(provider.count('keys'), before);
});

for (const endpoint of ['discovery', 'keys'] as const) {
  test(`A logout token is 503 while ${endpoint} is unavailable, and accepted afterwards`, async () => {
    const fresh = await instance();
    provider.faults.set(endpoint, { status: 500 });
    const token = await sign(claims());
    const answer = await send(fresh, token);
    assert.equal(answer.statusCode, 503);
    assert.equal(answer.json().code, 'provider_unavailable');
    provider.faults.clear();
    assert.equal((await send(fresh, token)).statusCode, 200);
  });
}

test('Without discovery back-channel logout is off', async () => {
  const plain = await instance({ IDP_DISCOVERY: 'false' });
  const answer = await send(plain, await sign(claims()));
  assert.equal(answer.statusCode, 404);
  assert.equal(answer.json().code, 'backchannel_logout_off');
});
