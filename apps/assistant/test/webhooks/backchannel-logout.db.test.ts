import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { until } from '@oselya/testing';
import type { Server } from '@oselya/kit';
import { type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { USER_CHANNEL } from '../../src/identity/revocation.ts';
import { Browser, openAssistant } from '../helpers/assistant.ts';
import { makeSigningKey, OLENA } from '../scripted-provider.ts';

const { db, provider, lines, createInstance, findAuthSession, expireToken, listen } =
  await openAssistant({
    IDP_DISCOVERY: 'true',
    IDP_USER_MAX_AGE_SECONDS: '60',
  });
const key = await makeSigningKey('k-1');
const foreignKey = await makeSigningKey('k-1');
const EVENT = 'http://schemas.openid.net/event/backchannel-logout';

const getUnixSeconds = () => Math.floor(Date.now() / 1000);
let user = OLENA;
let sid: string | undefined;
let tokenCount = 0;

beforeEach(async () => {
  provider.reset();
  provider.publishMetadata();
  provider.keys = [key.published];
  provider.idToken = () =>
    key.sign({
      ...provider.createIdClaims(),
      sub: user.sub,
      ...(sid !== undefined && { sid }),
    });
  for (const table of ['svc_users', 'webhook_events', 'audit_log'] as const) {
    await db.deleteFrom(table).execute();
  }
});

/** Returns the claims of a logout token. OpenID Connect Back-Channel Logout 1.0 §2.4. */
const createClaims = (): JWTPayload => ({
  ...provider.createIdClaims(),
  jti: `jti-${(tokenCount += 1)}`,
  sid: 's-1',
  events: { [EVENT]: {} },
});

const sign = (payload: JWTPayload, header: { typ?: string; kid?: string } = {}, signingKey = key) =>
  signingKey.sign(payload, { typ: 'logout+jwt', ...header });

const app = await createInstance();
const otherApp = await createInstance();

const post = (server: Server, payload: string, type = 'application/x-www-form-urlencoded') =>
  server.inject({
    method: 'POST',
    url: '/auth/backchannel-logout',
    headers: { 'content-type': type },
    payload,
  });
const send = (server: Server, token: string) =>
  post(server, new URLSearchParams({ logout_token: token }).toString());

/** Signs a user in with the ID of a session at the provider. */
async function signIn(id: string, session: string | undefined): Promise<Browser> {
  user = { ...OLENA, sub: id };
  provider.user = user;
  sid = session;
  const browser = new Browser(app);
  assert.equal((await browser.signIn(provider)).statusCode, 302);
  return browser;
}

const isSignedIn = async (browser: Browser, server = app) =>
  (await browser.get('/auth/me', { app: server })).statusCode === 200;
const listLedgerRows = () => db.selectFrom('webhook_events').selectAll().orderBy('id').execute();

test('A logout token with a session ends the sign-ins of this session only', async () => {
  const notifications: string[] = [];
  const stop = await listen(USER_CHANNEL, (payload) => notifications.push(payload));
  const endedBrowsers = [await signIn('u-1', 's-1'), await signIn('u-1', 's-1')];
  const remainingBrowsers = [
    await signIn('u-1', 's-2'),
    await signIn('u-1', undefined),
    await signIn('u-2', 's-1'),
  ];
  notifications.length = 0;
  const payload = createClaims();
  const response = await send(otherApp, await sign(payload));
  assert.deepEqual([response.statusCode, response.json()], [200, { ok: true }]);
  assert.equal(response.headers['cache-control'], 'no-store');
  assert.deepEqual(response.cookies, []);
  for (const browser of endedBrowsers) assert.ok(!(await isSignedIn(browser)));
  for (const browser of remainingBrowsers) assert.ok(await isSignedIn(browser, otherApp));
  await until(() => notifications.includes('u-1'));
  assert.ok(
    !notifications.includes('') && !notifications.includes('u-2'),
    'no socket of another user is closed',
  );
  await stop();
  const [entry, ...otherEntries] = await listLedgerRows();
  assert.deepEqual(otherEntries, []);
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
  const endedBrowsers = [await signIn('u-1', 's-1'), await signIn('u-1', undefined)];
  const keptBrowser = await signIn('u-2', 's-3');
  const token = await sign({ ...createClaims(), sid: undefined });
  assert.equal((await send(app, token)).statusCode, 200);
  for (const browser of endedBrowsers) assert.ok(!(await isSignedIn(browser)));
  assert.ok(await isSignedIn(keptBrowser));
});

test('A repeated logout token has no effect at another process', async () => {
  const token = await sign(createClaims());
  await signIn('u-1', 's-1');
  assert.equal((await send(app, token)).statusCode, 200);
  const newBrowser = await signIn('u-1', 's-1');
  assert.equal((await send(otherApp, token)).statusCode, 200);
  assert.ok(await isSignedIn(newBrowser));
  assert.equal((await listLedgerRows()).length, 1);
  const { body } = await otherApp.inject('/metrics');
  const count = 'assistant_webhooks_total{event="backchannel_logout",outcome="duplicate"} 1';
  assert.ok(body.includes(count));
});

for (const [claims, status] of [
  [{ sid: 's-9', sub: undefined }, 400],
  [{ sid: undefined, sub: 'u-1' }, 400],
  [{ sid: 's-8', sub: 'u-1' }, 302],
  [{ sid: 's-9', sub: 'u-2' }, 302],
] as const) {
  test(`A logout of ${JSON.stringify(claims)} responds with ${status} to a sign-in in progress`, async () => {
    user = OLENA;
    sid = 's-9';
    const browser = new Browser(app);
    const callback = await browser.begin(provider);
    const release = provider.holdNext('userinfo');
    const responsePromise = browser.get(callback);
    await until(() => provider.count('userinfo') === 1);
    const token = await sign({ ...createClaims(), ...claims });
    assert.equal((await send(otherApp, token)).statusCode, 200);
    release();
    assert.equal((await responsePromise).statusCode, status);
  });
}

test('A refresh adds the session at the provider to an older sign-in', async () => {
  const browser = await signIn('u-1', undefined);
  assert.equal((await findAuthSession(browser.sid))?.provider_session_id, null);
  await expireToken(browser);
  sid = 's-1';
  assert.ok(await isSignedIn(browser));
  assert.equal((await findAuthSession(browser.sid))?.provider_session_id, 's-1');
});

test('The logout tokens of Keycloak are accepted', async () => {
  for (const [header, extra] of [
    [{ typ: 'JWT' }, { typ: 'Logout' }],
    [{}, { events: { [EVENT]: {}, revoke_offline_access: true } }],
    [{}, { aud: ['account', 'oselya'] }],
  ] as const) {
    const browser = await signIn('u-1', 's-1');
    const token = await sign({ ...createClaims(), ...extra } as JWTPayload, header);
    assert.equal((await send(app, token)).statusCode, 200);
    assert.ok(!(await isSignedIn(browser)));
  }
});

const signWithHmac = (payload: JWTPayload) =>
  new SignJWT(payload)
    .setProtectedHeader({ alg: 'HS256', kid: 'k-1', typ: 'logout+jwt' })
    .sign(new TextEncoder().encode(provider.client.secret));
const createTokenFactory = (claims: object) => () => sign({ ...createClaims(), ...claims });

const invalidTokens: [name: string, createToken: () => string | Promise<string>][] = [
  ['no token', () => ''],
  ['no signature', () => new UnsecuredJWT(createClaims()).encode()],
  ['an HMAC by the client secret', () => signWithHmac(createClaims())],
  ['a foreign signature', () => sign(createClaims(), {}, foreignKey)],
  ['an unpublished key', () => sign(createClaims(), { kid: 'k-9' })],
  ['an access token', () => sign(createClaims(), { typ: 'at+jwt' })],
  ['another issuer', createTokenFactory({ iss: 'https://another.example' })],
  ['another audience', createTokenFactory({ aud: 'other' })],
  ['no time', createTokenFactory({ iat: undefined })],
  [
    'a future time',
    createTokenFactory({ iat: getUnixSeconds() + 600, exp: getUnixSeconds() + 900 }),
  ],
  ['an old time', createTokenFactory({ iat: getUnixSeconds() - 600 })],
  [
    'a past expiry',
    createTokenFactory({ iat: getUnixSeconds() - 200, exp: getUnixSeconds() - 60 }),
  ],
  ['no expiry', createTokenFactory({ exp: undefined })],
  ['a nonce', createTokenFactory({ nonce: 'n' })],
  ['no event', createTokenFactory({ events: undefined })],
  ['a text as event', createTokenFactory({ events: { [EVENT]: 'yes' } })],
  ['no id', createTokenFactory({ jti: undefined })],
  ['neither user nor session', createTokenFactory({ sub: undefined, sid: undefined })],
  ['a malformed session', createTokenFactory({ sid: 7 })],
  ['a malformed user', createTokenFactory({ sub: { id: 'u-1' } })],
];

test('An invalid logout token is rejected without effect', async () => {
  const browser = await signIn('u-1', 's-1');
  for (const [name, createToken] of invalidTokens) {
    lines.length = 0;
    const response = await send(app, await createToken());
    assert.equal(response.statusCode, 400, name);
    assert.equal(response.headers['content-type'], 'application/problem+json');
    assert.equal(response.headers['cache-control'], 'no-store');
    assert.equal(response.json().code, 'logout_token_not_valid');
    assert.ok(lines.some((line) => line.includes('"level":"warn"') && line.includes('"reason"')));
  }
  assert.ok(await isSignedIn(browser));
  assert.deepEqual(await listLedgerRows(), []);
  const { body } = await app.inject('/metrics');
  assert.ok(body.includes(`{event="other",outcome="refused"} ${invalidTokens.length}`));
});

test('The body of a logout must be a form with one token', async () => {
  const token = await sign(createClaims());
  assert.equal((await post(app, `logout_token=${token}&logout_token=${token}`)).statusCode, 400);
  const json = JSON.stringify({ logout_token: token });
  assert.equal((await post(app, json, 'application/json')).statusCode, 415);
  assert.equal((await post(app, `else=1&logout_token=${token}`)).statusCode, 200);
});

test('Tokens with unknown keys do not cause repeated requests to the provider', async () => {
  const freshApp = await createInstance();
  assert.equal((await send(freshApp, await sign(createClaims()))).statusCode, 200);
  const earlierCount = provider.count('keys');
  for (let index = 10; index < 15; index += 1) {
    const token = await sign(createClaims(), { kid: `k-${index}` }, foreignKey);
    assert.equal((await send(freshApp, token)).statusCode, 400);
  }
  assert.equal(provider.count('keys'), earlierCount);
});

for (const endpoint of ['discovery', 'keys'] as const) {
  test(`A logout token is 503 while ${endpoint} is unavailable, and accepted afterwards`, async () => {
    const freshApp = await createInstance();
    provider.faults.set(endpoint, { status: 500 });
    const token = await sign(createClaims());
    const response = await send(freshApp, token);
    assert.equal(response.statusCode, 503);
    assert.equal(response.json().code, 'provider_unavailable');
    provider.faults.clear();
    assert.equal((await send(freshApp, token)).statusCode, 200);
  });
}

test('Without discovery back-channel logout is off', async () => {
  const plainApp = await createInstance({ IDP_DISCOVERY: 'false' });
  const response = await send(plainApp, await sign(createClaims()));
  assert.equal(response.statusCode, 404);
  assert.equal(response.json().code, 'backchannel_logout_off');
});
