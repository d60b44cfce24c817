import assert from 'node:assert/strict';
import { createPublicKey } from 'node:crypto';
import { beforeEach, test } from 'node:test';
import { type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { Browser, openAssistant } from '../helpers/assistant.ts';
import { makeSigningKey } from '../helpers/signing-key.ts';

const { db, provider, instance, signedIn, row, expire } = await openAssistant();
const key = await makeSigningKey('k-1');
const another = await makeSigningKey('k-1');
const unknown = await makeSigningKey('k-2');

const seconds = () => Math.floor(Date.now() / 1000);
const claims = (): JWTPayload => ({
  iss: provider.url,
  aud: provider.client.id,
  sub: 'u-1',
  iat: seconds(),
  exp: seconds() + 60,
});

beforeEach(() => {
  provider.reset();
  provider.publishMetadata();
  provider.keys = [key.published];
  provider.idToken = () => key.sign(claims());
});

const plain = await instance();
const app = await instance({ IDP_DISCOVERY: 'true' });

/** An instance at a provider that says it signs in these ways. */
async function signedBy(algorithms: string[]) {
  provider.metadata = {
    ...provider.metadata,
    id_token_signing_alg_values_supported: algorithms,
  };
  const lenient = await instance({ IDP_DISCOVERY: 'true' });
  assert.equal((await lenient.inject('/auth/login')).statusCode, 302);
  return lenient;
}

const sessions = () => db.selectFrom('user_auth_sessions').selectAll().orderBy('id').execute();

/** The codes of sign-ins that failed, as the audit trail has them. */
async function failures() {
  const lines = await db
    .selectFrom('audit_log')
    .select('details')
    .where('action', '=', 'sign_in_failed')
    .orderBy('id')
    .execute();
  return lines.map(({ details }) => details);
}

async function assertRefused(at: typeof app): Promise<void> {
  const before = await sessions();
  const failed = (await failures()).length;
  const browser = new Browser(at);
  const answer = await browser.signIn(provider);
  assert.equal(answer.statusCode, 400, answer.body);
  assert.equal(answer.json().code, 'token_exchange_failed');
  assert.deepEqual(answer.cookies, []);
  assert.deepEqual(await sessions(), before);
  assert.equal(provider.count('userinfo'), 0, 'its access token is not used');
  assert.equal((await failures()).length, failed + 1);
}

test('an ID token that the provider signed signs in', async () => {
  const browser = new Browser(app);
  assert.equal((await browser.signIn(provider)).statusCode, 302);
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
});

test('an ID token names a user whose id is a number elsewhere as text', async () => {
  provider.idToken = () => key.sign({ ...claims(), sub: '78' });
  provider.user = { id: 78, email: 'olena@example.test' };
  const browser = new Browser(app);
  assert.equal((await browser.signIn(provider)).statusCode, 302);
  assert.equal((await browser.get('/auth/me')).json().id, '78');
});

for (const algorithm of ['PS256', 'ES256', 'ES384', 'EdDSA']) {
  test(`so does one with ${algorithm}, where discovery says so`, async () => {
    const lenient = await signedBy(['RS256', algorithm]);
    const own = await makeSigningKey('k-3', algorithm);
    provider.keys = [key.published, own.published];
    provider.idToken = () => own.sign(claims());
    assert.equal((await new Browser(lenient).signIn(provider)).statusCode, 302);
  });
}

test('one without a key id is right where there is one key only', async () => {
  const { kid: _, ...published } = key.published;
  provider.keys = [published];
  assert.equal((await new Browser(app).signIn(provider)).statusCode, 302);
});

const publicKey = createPublicKey({
  key: { ...key.published, kty: 'RSA', n: key.published.n ?? '', e: key.published.e ?? '' },
  format: 'jwk',
}).export({ type: 'spki', format: 'pem' });
const hmac = (secret: string) =>
  new SignJWT(claims())
    .setProtectedHeader({ alg: 'HS256', kid: 'k-1' })
    .sign(new TextEncoder().encode(secret));

const forged: [name: string, make: () => Promise<string>][] = [
  ['signed with another key of that name', () => another.sign(claims())],
  ['signed with a key that is not published', () => unknown.sign(claims())],
  ['of which the claims were changed', () => changed()],
  ['without a signature', async () => (await key.sign(claims())).replace(/[^.]+$/, '')],
  ['that says it needs no signature', async () => new UnsecuredJWT(claims()).encode()],
  ['signed with the client secret', () => hmac(provider.client.secret)],
  ['signed with the public key as a secret', () => hmac(String(publicKey))],
  ['that is no JWT', async () => 'not.a.jwt'],
  ['that is empty', async () => '{}'],
];

/** The signature of one user's token under the claims of another's. */
async function changed(): Promise<string> {
  const [header, , signature] = (await key.sign(claims())).split('.');
  const [, payload] = (await another.sign({ ...claims(), sub: 'u-2' })).split('.');
  return [header, payload, signature].join('.');
}

for (const [name, make] of forged) {
  test(`an ID token ${name} is 400, makes no session and sets no cookie`, async () => {
    provider.idToken = make;
    await assertRefused(app);
  });
}

test('nor is one of them right where discovery lists none and HS256 as well', async () => {
  const lenient = await signedBy(['RS256', 'HS256', 'none']);
  for (const [, make] of forged) {
    provider.idToken = make;
    provider.calls.length = 0;
    await assertRefused(lenient);
  }
});

const misplaced: [name: string, wrong: JWTPayload][] = [
  ['of another issuer', { iss: 'https://another.example' }],
  ['for another client', { aud: 'other' }],
  ['for several clients, given to another', { aud: ['oselya', 'other'], azp: 'other' }],
  ['that has expired', { exp: seconds() - 60 }],
  ['that does not expire', { exp: undefined }],
  ['that is not valid yet', { nbf: seconds() + 3600 }],
  ['that was issued in the future', { iat: seconds() + 60, exp: seconds() + 120 }],
  ['with a nonce that nobody asked for', { nonce: 'n' }],
  ['about nobody', { sub: undefined }],
];

for (const [name, wrong] of misplaced) {
  test(`an ID token ${name} is 400, whoever signed it`, async () => {
    provider.idToken = () => key.sign({ ...claims(), ...wrong });
    await assertRefused(app);
  });
}

test('an ID token about somebody else than the user data is 400', async () => {
  const before = await sessions();
  provider.idToken = () => key.sign({ ...claims(), sub: 'u-2' });
  const answer = await new Browser(app).signIn(provider);
  assert.equal(answer.statusCode, 400);
  assert.deepEqual(answer.cookies, []);
  assert.deepEqual(await sessions(), before);
});

test('a provider that publishes no keys can give no ID token', async () => {
  provider.metadata = { ...provider.metadata, jwks_uri: undefined };
  await assertRefused(await instance({ IDP_DISCOVERY: 'true' }));
});

test('a clock that is ahead by seconds is no reason to reject an ID token', async () => {
  provider.idToken = () => key.sign({ ...claims(), iat: seconds() + 20 });
  assert.equal((await new Browser(app).signIn(provider)).statusCode, 302);
});

test('an answer without an ID token is 400 with discovery, and enough at a refresh', async () => {
  const browser = await signedIn(app);
  provider.idToken = undefined;
  await assertRefused(app);
  await expire(browser);
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
  assert.equal((await new Browser(plain).signIn(provider)).statusCode, 302);
});

test('new keys at the provider need no restart, and its old ones count no more', async () => {
  const rotating = await instance({ IDP_DISCOVERY: 'true' });
  await new Browser(rotating).signIn(provider);
  await new Browser(rotating).signIn(provider);
  assert.equal(provider.count('keys'), 1, 'the keys are kept');

  provider.keys = [unknown.published];
  provider.idToken = () => unknown.sign(claims());
  assert.equal((await new Browser(rotating).signIn(provider)).statusCode, 302);
  assert.equal(provider.count('keys'), 2);

  provider.calls.length = 0;
  provider.idToken = () => key.sign(claims());
  await assertRefused(rotating);
});

for (const [name, fault] of [
  ['fails', { status: 500 }],
  ['forbids it', { status: 403 }],
  ['hangs up', 'disconnect'],
  ['talks nonsense', { status: 200, body: '<html>' }],
  ['answers with no keys', { status: 200, body: '{"keys":"none"}' }],
] as const) {
  test(`a provider that ${name} when asked for its keys is 503, and spends neither code nor token`, async () => {
    const fresh = await instance({ IDP_DISCOVERY: 'true' });
    const browser = await signedIn(plain);
    await expire(browser);
    const before = await sessions();
    provider.faults.set('keys', fault);
    const signIn = await new Browser(fresh).signIn(provider);
    const refresh = await browser.get('/auth/me', { app: fresh });
    for (const answer of [signIn, refresh]) {
      assert.equal(answer.statusCode, 503, answer.body);
      assert.equal(answer.json().code, 'provider_unavailable');
      assert.deepEqual(answer.cookies, []);
    }
    assert.equal(provider.count('token'), 0);
    assert.deepEqual(await sessions(), before);
    provider.faults.clear();
    assert.equal((await browser.get('/auth/me', { app: fresh })).statusCode, 200);
    assert.equal((await new Browser(fresh).signIn(provider)).statusCode, 302);
  });
}

for (const [name, make] of forged) {
  test(`a refresh with an ID token ${name} brings no tokens, and ends no session`, async () => {
    provider.token.rotate = false;
    const browser = await signedIn(app);
    await expire(browser);
    const before = await row(browser.sid);
    provider.idToken = make;
    const answer = await browser.get('/auth/me');
    assert.equal(answer.statusCode, 503);
    assert.deepEqual(await row(browser.sid), before);
    provider.idToken = () => key.sign(claims());
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
  });
}

test('a refresh whose ID token is signed with a new key loses nothing', async () => {
  const rotating = await instance({ IDP_DISCOVERY: 'true' });
  const browser = await signedIn(rotating);
  await expire(browser);
  provider.keys = [unknown.published];
  provider.idToken = () => unknown.sign(claims());
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
  assert.equal(provider.count('keys'), 1);
});
