import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { openAssistant } from '../helpers/assistant.ts';
import { makeSigningKey } from '../helpers/signing-key.ts';
import { until } from '../helpers/until.ts';

const { db, provider, lines, instance, signedIn, row, expire } = await openAssistant();
const app = await instance();
const leading = await instance({ IDP_DISCOVERY: 'true', IDP_END_SESSION: 'true' });
const key = await makeSigningKey('k-1');
const second = await instance();

beforeEach(() => provider.reset());

const ids = async () =>
  (await db.selectFrom('user_auth_sessions').select('id').execute()).map(({ id }) => id);

test('logout deletes the session, clears the cookie and revokes the tokens', async () => {
  const browser = await signedIn(app);
  const other = await signedIn(app);
  const { sid } = browser;
  const [accessToken, refreshToken] = provider.issued.slice(-4);
  const answer = await browser.post('/auth/logout');
  assert.equal(answer.statusCode, 200);
  assert.deepEqual(answer.json(), { ok: true });
  assert.deepEqual(
    answer.cookies.map(({ name, value, maxAge, path }) => ({ name, value, maxAge, path })),
    [{ name: 'svc_auth_session', value: '', maxAge: 0, path: '/' }],
  );
  await until(() => provider.revoked.length === 2);
  assert.deepEqual(provider.revoked.toSorted(), [accessToken, refreshToken]);
  assert.ok(!(await ids()).includes(sid));
  assert.ok((await ids()).includes(other.sid));
  const copied = await second.inject({ url: '/auth/me', cookies: { svc_auth_session: sid } });
  assert.equal(copied.statusCode, 401);
});

test('the form of a page signs out and leads to the first page', async () => {
  const browser = await signedIn(app);
  const { sid } = browser;
  const answer = await browser.post('/auth/logout?from=page', {
    headers: {
      accept: 'text/html,application/xhtml+xml,*/*;q=0.8',
      'content-type': 'application/x-www-form-urlencoded',
      'content-length': '0',
      'sec-fetch-site': 'same-origin',
    },
  });
  assert.deepEqual([answer.statusCode, answer.headers.location], [303, '/']);
  assert.equal(answer.cookies[0]?.maxAge, 0);
  assert.ok(!(await ids()).includes(sid));
});

test('the form of another site signs nobody out, and gets a page that says so', async () => {
  const browser = await signedIn(app);
  const answer = await browser.post('/auth/logout?from=page', {
    headers: {
      accept: 'text/html',
      'sec-fetch-mode': 'navigate',
      'sec-fetch-site': 'cross-site',
    },
  });
  assert.equal(answer.statusCode, 403);
  assert.match(String(answer.headers['content-type']), /^text\/html/);
  assert.ok((await ids()).includes(browser.sid));
});

test('logout works while the provider does not', async () => {
  const browser = await signedIn(app);
  const { sid } = browser;
  provider.faults.set('revoke', { status: 500 });
  provider.faults.set('userinfo', 'disconnect');
  assert.equal((await browser.post('/auth/logout')).statusCode, 200);
  assert.ok(!(await ids()).includes(sid));
  await until(() => lines.some((line) => line.includes('could not be revoked')));
});

/** Lets the provider be an OpenID one that ends sessions, and gives the ID token of each sign-in. */
function endSessions() {
  const metadata = provider.publishMetadata();
  const end_session_endpoint = `${provider.url}/oauth/logout?realm=home`;
  provider.metadata = { ...metadata, end_session_endpoint };
  provider.keys = [key.published];
  const given: string[] = [];
  provider.idToken = async () => {
    const iat = Math.floor(Date.now() / 1000);
    const aud = provider.client.id;
    const claims = { iss: provider.url, aud, sub: 'u-1', iat, exp: iat + 60, n: given.length };
    given.push(await key.sign(claims));
    return given.at(-1) ?? '';
  };
  return given;
}

test('with IDP_END_SESSION a logout says where the provider’s session ends', async () => {
  const given = endSessions();
  const browser = await signedIn(leading);
  await expire(browser);
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
  const stored = await row(browser.sid);
  assert.ok(stored?.id_token_enc && !stored.id_token_enc.includes(given.at(-1) ?? ''));
  const answer = await browser.post('/auth/logout');
  const { ok, logout_url } = answer.json();
  assert.deepEqual([answer.statusCode, ok], [200, true]);
  const url = new URL(logout_url);
  assert.equal(url.origin + url.pathname, `${provider.url}/oauth/logout`);
  assert.deepEqual(Object.fromEntries(url.searchParams), {
    realm: 'home',
    client_id: 'oselya',
    post_logout_redirect_uri: 'http://assistant.test/',
    id_token_hint: given.at(-1),
  });
  assert.deepEqual((await browser.post('/auth/logout')).json(), { ok: true }, 'once');
});

test('the form of a page is led there, by a page of this site', async () => {
  endSessions();
  const browser = await signedIn(leading);
  const { sid } = browser;
  const answer = await browser.post('/auth/logout?from=page');
  assert.equal(answer.statusCode, 200);
  assert.equal(answer.headers['content-type'], 'text/html; charset=utf-8');
  assert.match(
    answer.body,
    /<meta http-equiv="refresh" content="0; url=http:[^"]+\/oauth\/logout\?/,
  );
  assert.ok(!(await ids()).includes(sid));
});

test('where the provider ends no sessions, or is away, one is signed out here', async () => {
  endSessions();
  const fresh = await instance({ IDP_DISCOVERY: 'true', IDP_END_SESSION: 'true' });
  const browser = await signedIn(leading);
  provider.faults.set('discovery', { status: 500 });
  assert.deepEqual((await browser.post('/auth/logout', { app: fresh })).json(), { ok: true });
  provider.faults.clear();
  provider.publishMetadata();
  const another = await signedIn(fresh);
  assert.deepEqual((await another.post('/auth/logout')).json(), { ok: true });
  assert.ok(lines.some((line) => line.includes('not at the provider')));
});

test('a logout does not wait for discovery that hangs', async () => {
  endSessions();
  const browser = await signedIn(leading);
  const restarted = await instance({
    IDP_DISCOVERY: 'true',
    IDP_END_SESSION: 'true',
    IDP_TIMEOUT_MS: '20000',
  });
  const asked = Promise.withResolvers<ServerResponse>();
  provider.faults.set('discovery', asked.resolve);
  assert.deepEqual((await browser.post('/auth/logout', { app: restarted })).json(), { ok: true });
  (await asked.promise).destroy();
  assert.ok(lines.some((line) => line.includes('discovery takes longer')));
  assert.ok(!lines.some((line) => line.includes('did not answer within 20000 ms')));
});

test('without IDP_END_SESSION no ID token is kept', async () => {
  endSessions();
  const discovering = await instance({ IDP_DISCOVERY: 'true' });
  const browser = await signedIn(discovering);
  assert.equal((await row(browser.sid))?.id_token_enc, null);
  assert.deepEqual((await browser.post('/auth/logout')).json(), { ok: true });
});

test('logout of nobody is no error, and clears what cookie there was', async () => {
  const nobody = await app.inject({ method: 'POST', url: '/auth/logout' });
  assert.deepEqual([nobody.statusCode, nobody.json(), nobody.cookies], [200, { ok: true }, []]);
  const unknown = await app.inject({
    method: 'POST',
    url: '/auth/logout',
    cookies: { svc_auth_session: 'A'.repeat(43) },
  });
  assert.equal(unknown.statusCode, 200);
  assert.equal(unknown.cookies.length, 1);
});

for (const type of ['application/json', 'application/x-www-form-urlencoded', 'text/plain']) {
  test(`a logout with an empty body of the type ${type} signs out`, async () => {
    const browser = await signedIn(app);
    const { sid } = browser;
    const answer = await browser.post('/auth/logout', {
      headers: { 'content-type': type, 'content-length': '0' },
    });
    assert.equal(answer.statusCode, 200);
    assert.ok(!(await ids()).includes(sid));
  });
}

for (const [type, payload] of [
  ['application/json', '{'],
  ['application/x-www-form-urlencoded', 'from=here'],
  ['text/plain', 'bye'],
] as const) {
  test(`a logout signs out whatever is sent along, such as ${type}`, async () => {
    const browser = await signedIn(app);
    const { sid } = browser;
    const answer = await browser.post('/auth/logout', {
      headers: { 'content-type': type },
      payload,
    });
    assert.equal(answer.statusCode, 200);
    assert.ok(!(await ids()).includes(sid));
  });
}

test('no answer about signing in or out is stored', async () => {
  const browser = await signedIn(app);
  for (const answer of [
    await browser.get('/auth/login'),
    await browser.get('/auth/callback'),
    await browser.get('/auth/mobile-done'),
    await browser.get('/auth/me'),
    await browser.post('/auth/logout', { headers: { origin: 'https://evil.test' } }),
    await browser.post('/auth/logout'),
    await browser.get('/auth/me'),
    await browser.get('/auth/nothing'),
  ]) {
    assert.equal(answer.headers['cache-control'], 'no-store', String(answer.statusCode));
  }
});

for (const [headers, status] of [
  [{ 'sec-fetch-site': 'cross-site' }, 403],
  [{ 'sec-fetch-site': 'same-site' }, 403],
  [{ 'sec-fetch-site': 'cross-site', origin: 'http://assistant.test' }, 403],
  [{ origin: 'https://evil.test' }, 403],
  [{ origin: 'http://assistant.test.evil.test' }, 403],
  [{ origin: 'null' }, 403],
  [{ origin: 'ftp://127.0.0.1:8000', host: '127.0.0.1:8000' }, 403],
  [{ origin: 'https://127.0.0.1:8000', host: '127.0.0.1:8000' }, 403],
  [{ 'sec-fetch-site': 'same-origin' }, 200],
  [{ origin: 'http://assistant.test' }, 200],
  [{ origin: 'http://127.0.0.1:8000', host: '127.0.0.1:8000' }, 200],
  [{}, 200],
] as const) {
  test(`a logout with ${JSON.stringify(headers)} is ${status}`, async () => {
    const browser = await signedIn(app);
    const { sid } = browser;
    const answer = await browser.post('/auth/logout', { headers });
    assert.equal(answer.statusCode, status);
    assert.equal((await ids()).includes(sid), status === 403);
    if (status === 403) assert.equal(answer.json().code, 'cross_site_request');
  });
}

const queued = () => db.selectFrom('token_revocations').selectAll().execute();
const makeDue = () => sql`update token_revocations set due_at = now()`.execute(db);

test('a sign-out is answered while the provider does not answer, and its tokens are revoked later', async () => {
  const patient = await instance({ IDP_TIMEOUT_MS: '60000' });
  const browser = await signedIn(patient);
  const tokens = provider.issued.slice(-2);
  const held: ServerResponse[] = [];
  provider.faults.set('revoke', (response) => void held.push(response));
  assert.equal((await browser.post('/auth/logout')).statusCode, 200);
  await until(() => held.length === 2);
  provider.faults.clear();
  for (const response of held) response.writeHead(503).end();
  const [waiting] = await queued();
  assert.ok(
    waiting && !tokens.some((token) => JSON.stringify(waiting).includes(token)),
    'encrypted',
  );
  await until(async () => {
    await makeDue();
    // A sign-out wakes the revocation of its process.
    await (await signedIn(app)).post('/auth/logout');
    return tokens.every((token) => provider.revoked.includes(token));
  });
});

test('a revocation that the provider rejects is not tried again', async () => {
  provider.faults.set('revoke', { status: 400, body: '{"error":"invalid_token"}' });
  await (await signedIn(app)).post('/auth/logout');
  await until(() => provider.count('revoke') === 2);
  await until(async () => (await queued()).length === 0);
});
