import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { beforeEach, test } from 'node:test';
import { createServer } from 'node:http';
import { readConfig } from '../../../src/config.ts';
import { ProviderError } from '../../../src/identity/provider/transport.ts';
import { createProvider } from '../../../src/identity/provider/provider.ts';
import { giveIdTokens, makeSigningKey } from '../../helpers/signing-key.ts';
import { type Fault, OLENA, startScriptedProvider } from '../../scripted-provider.ts';

const scripted = await startScriptedProvider();
const configured = (env: Record<string, string> = {}) =>
  createProvider(
    readConfig({
      IDP_BASE_URL: scripted.url,
      IDP_CLIENT_ID: scripted.client.id,
      IDP_CLIENT_SECRET: scripted.client.secret,
      SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64url'),
      ...env,
    }),
    (_operation, request) => request(),
  );
const provider = configured();

beforeEach(() => scripted.reset());

const codeVerifier = 'v'.repeat(43);
async function code(): Promise<string> {
  const address = await provider.authorizationUrl({ state: 's', codeVerifier });
  return new URL(await scripted.authorize(address)).searchParams.get('code') ?? '';
}

const failure = (kind: ProviderError['kind']) => (error: unknown) => {
  assert.ok(error instanceof ProviderError);
  assert.equal(error.kind, kind, error.message);
  assert.equal(error.cause, undefined);
  return true;
};

test('an answer of three members is enough, and more does no harm', async () => {
  for (const extra of [
    {},
    { token_type: 'Bearer', scope: 'openid' },
    { expires_in: '3600' },
    { id_token: 'not.a.jwt' },
  ]) {
    scripted.token.extra = extra;
    const { tokens, subject } = await provider.redeem({
      code: await code(),
      iss: undefined,
      codeVerifier,
    });
    assert.match(tokens.accessToken, /^access-/);
    assert.match(tokens.refreshToken ?? '', /^refresh-/);
    assert.equal(tokens.expiresInSeconds, 3600);
    assert.equal(subject, undefined);
  }
});

test('only answers to token requests are read as token answers', async () => {
  const user = {
    sub: 'u-1',
    email: 'olena@example.test',
    access_token: 'of somebody',
    name: 'Olena',
  };
  scripted.faults.set('userinfo', { status: 200, body: JSON.stringify(user) });
  const { id, display_name } = await provider.fetchUser('access');
  assert.deepEqual([id, display_name], ['u-1', 'Olena']);
  const discovered = configured({ IDP_DISCOVERY: 'true' });
  scripted.metadata = { ...scripted.publishMetadata(), access_token: 'of nobody' };
  assert.equal((await discovered.fetchUser('access')).id, 'u-1');
});

for (const expiresIn of [-1, 'soon', '', null, {}, [60]]) {
  test(`an expiry of ${JSON.stringify(expiresIn)} counts as not said`, async () => {
    scripted.token.extra = { expires_in: expiresIn, refresh_token: null, scope: null };
    const { tokens } = await provider.redeem({ code: await code(), iss: undefined, codeVerifier });
    assert.equal(tokens.expiresInSeconds, undefined);
    assert.equal(tokens.refreshToken, undefined);
    assert.match(tokens.accessToken, /^access-/);
  });
}

test('an expiry beyond all calendars is cut to a year', async () => {
  scripted.token.expiresIn = 1e15;
  const { tokens } = await provider.redeem({ code: await code(), iss: undefined, codeVerifier });
  assert.equal(tokens.expiresInSeconds, 31_536_000);
});

const page = { 'content-type': 'text/html' };
const oauth = (status: number, error: string) => ({ status, body: JSON.stringify({ error }) });
const GRANT_REJECTIONS = ['invalid_grant', 'access_denied', 'invalid_token', 'unauthorized_client'];

const refused: Fault[] = GRANT_REJECTIONS.flatMap((error) => [
  oauth(400, error),
  oauth(401, error),
  oauth(403, error),
]);
const unavailable: Fault[] = [
  ...[408, 425, 429, 500, 502, 503].map((status) => oauth(status, 'invalid_grant')),
  ...[400, 401, 403, 404, 405, 408, 410, 422, 429, 451, 500, 503].map((status) => ({ status })),
  ...[
    'invalid_request',
    'invalid_client',
    'invalid_scope',
    'insufficient_scope',
    'unsupported_grant_type',
    'temporarily_unavailable',
    'server_error',
    'slow_down',
    'not_found',
    'rate_limit_exceeded',
    'forbidden',
    'Unauthorized',
  ].flatMap((error) => [oauth(400, error), oauth(401, error), oauth(403, error)]),
  oauth(404, 'not_found'),
  oauth(405, 'method_not_allowed'),
  oauth(451, 'unavailable_for_legal_reasons'),
  { status: 403, body: '{"message":"Forbidden"}' },
  { status: 403, body: '{"detail":"blocked"}' },
  { status: 401, body: '{"error":{"code":"invalid_grant"}}' },
  { status: 401, body: '["invalid_grant"]' },
  { status: 401, headers: { 'www-authenticate': 'Bearer' } },
  { status: 403, body: '<p>Blocked</p>', headers: page },
  { status: 400, body: '<p>No</p>', headers: page },
  { status: 503, headers: { 'retry-after': '1' } },
  { status: 302, headers: { location: '/oauth/token' } },
  { status: 204 },
  { status: 200, body: 'null' },
  { status: 200, body: '{"access_token":7}' },
  { status: 200, body: '{"access_token":"a","token_type":"mac"}' },
  { status: 200, body: '{"access_token":"a","refresh_token":7}' },
  'disconnect',
];

for (const [kind, faults] of [
  ['rejected', refused],
  ['unavailable', unavailable],
] as const) {
  for (const fault of faults) {
    test(`a refresh answered with ${JSON.stringify(fault)} is ${kind}`, async () => {
      scripted.faults.set('token', fault);
      await assert.rejects(provider.refresh('refresh'), failure(kind));
    });
  }
}

for (const [kind, fault] of [
  ['rejected', { status: 401 }],
  ['rejected', oauth(401, 'invalid_token')],
  ['rejected', oauth(401, 'invalid_client')],
  ['rejected', { status: 401, body: '<p>No</p>', headers: page }],
  ...[400, 403, 404, 405, 429, 451, 500].flatMap((status) => [
    ['unavailable', { status }] as const,
    ['unavailable', { status, body: '{"message":"Forbidden"}' }] as const,
    ['unavailable', { status, body: '<p>No</p>', headers: page }] as const,
    ...[...GRANT_REJECTIONS, 'insufficient_scope', 'rate_limit_exceeded'].map(
      (error) => ['unavailable', oauth(status, error)] as const,
    ),
  ]),
] satisfies (readonly [ProviderError['kind'], Fault])[]) {
  test(`user data answered with ${JSON.stringify(fault)} are ${kind}`, async () => {
    scripted.faults.set('userinfo', fault);
    await assert.rejects(provider.fetchUser('access'), failure(kind));
  });
}

test('nobody listening, and nobody answering in time, is unavailable', async () => {
  const nobody = configured({ IDP_BASE_URL: 'http://127.0.0.1:1' });
  await assert.rejects(nobody.refresh('refresh'), failure('unavailable'));
  const release = scripted.holdNext('token');
  const hasty = configured({ IDP_TIMEOUT_MS: '50' });
  await assert.rejects(hasty.refresh('refresh'), failure('unavailable'));
  release();
});

test('messages hold statuses and codes, never what was sent or answered', async () => {
  scripted.faults.set('token', { status: 400, body: '{"error":"s3cret","refresh":"s3cret"}' });
  await assert.rejects(provider.refresh('s3cret'), { message: '/oauth/token answered 400' });
});

test('without discovery the endpoints are the configured paths', async () => {
  const called: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    called.push(request.url);
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ access_token: 'access', ...OLENA }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const elsewhere = configured({
    IDP_BASE_URL: url,
    IDP_AUTHORIZE_PATH: '/login',
    IDP_TOKEN_PATH: '/api/tokens',
    IDP_USERINFO_PATH: '/api/me',
    IDP_REVOKE_PATH: '/api/tokens/end',
  });
  const address = new URL(await elsewhere.authorizationUrl({ state: 's', codeVerifier }));
  assert.equal(address.origin + address.pathname, `${url}/login`);
  await elsewhere.redeem({ code: 'code', iss: undefined, codeVerifier });
  await elsewhere.refresh('refresh');
  await elsewhere.fetchUser('access');
  await elsewhere.revoke('access', 'access_token');
  assert.deepEqual(called, ['/api/tokens', '/api/tokens', '/api/me', '/api/tokens/end']);
  server.close();
});

test('the configured claims and role give role and permissions', async () => {
  const claiming = configured({
    IDP_ADMIN_ROLE_SLUG: 'landlord',
    IDP_ROLES_CLAIM: 'realm.access.roles',
    IDP_PERMISSIONS_CLAIM: 'scope',
  });
  const user = {
    ...OLENA,
    realm: { access: { roles: ['landlord'] } },
    scope: 'svc.debug.access',
  };
  scripted.faults.set('userinfo', { status: 200, body: JSON.stringify(user) });
  const { role, permissions } = await claiming.fetchUser('access');
  assert.deepEqual([role, permissions], ['admin', ['svc.debug.access']]);
});

for (const status of [400, 401, 403]) {
  test(`a discovery answered with ${status} refuses nobody's token`, async () => {
    const discovered = configured({ IDP_DISCOVERY: 'true' });
    scripted.faults.set('discovery', { status, body: '{"error":"invalid_grant"}' });
    await assert.rejects(discovered.refresh('refresh'), failure('unavailable'));
    await assert.rejects(discovered.fetchUser('access'), failure('unavailable'));
  });
}

test('with discovery the endpoints come from the provider, as soon as it answers', async () => {
  const discovered = configured({ IDP_DISCOVERY: 'true', IDP_TOKEN_PATH: '/nowhere' });
  const login = { state: 's', codeVerifier };
  await assert.rejects(discovered.authorizationUrl(login), failure('unavailable'));
  scripted.publishMetadata();
  await giveIdTokens(scripted);
  const back = new URL(await scripted.authorize(await discovered.authorizationUrl(login)));
  const answer = { code: back.searchParams.get('code') ?? '', codeVerifier };
  await assert.rejects(
    discovered.redeem({ ...answer, iss: 'https://another.example' }),
    failure('unavailable'),
  );
  assert.equal(scripted.count('token'), 0, 'a code of another issuer is not sent to this one');
  const { tokens } = await discovered.redeem({ ...answer, iss: scripted.url });
  assert.equal((await discovered.fetchUser(tokens.accessToken)).id, 'u-1');
  await discovered.revoke(tokens.accessToken, 'access_token');
  assert.deepEqual(scripted.revoked, [], 'the provider names no endpoint for that');
});

test('with discovery an ID token has to be right, and names the user', async () => {
  const { userinfo_endpoint: _, ...metadata } = scripted.publishMetadata();
  scripted.metadata = metadata;
  const key = await makeSigningKey('k-1');
  scripted.keys = [key.published];
  const discovered = configured({ IDP_DISCOVERY: 'true' });
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: scripted.url, aud: 'oselya', sub: 'u-1', iat: now, exp: now + 60 };
  const redeem = async (wrong: object = {}) => {
    scripted.idToken = () => key.sign({ ...claims, ...wrong });
    return discovered.redeem({ code: await code(), iss: undefined, codeVerifier });
  };
  assert.equal((await redeem()).subject, 'u-1');
  for (const wrong of [{ iss: 'https://another.example' }, { aud: 'other' }, { exp: now - 60 }]) {
    await assert.rejects(redeem(wrong), failure('unavailable'));
  }
  await assert.rejects(discovered.fetchUser('token'), failure('unavailable'));
});

test('reachable is whoever answers anything', async () => {
  assert.equal(await provider.findOutage(), undefined);
  const nobody = configured({ IDP_BASE_URL: 'http://127.0.0.1:1' });
  assert.equal(await nobody.findOutage(), 'bad port');
});
