import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { suite, beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { USER_CHANNEL } from '../../src/identity/revocation.ts';
import { openAssistant, type Browser } from '../helpers/assistant.ts';
import { makeSigningKey } from '../helpers/signing-key.ts';
import { until } from '../helpers/until.ts';
import { OLENA } from '../scripted-provider.ts';

const { db, provider, lines, instance, listen, signedIn, row, expire } = await openAssistant();

suite('sign-out', async () => {
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
});

suite('own sign-ins', async () => {
  const app = await instance({ IDP_USER_MAX_AGE_SECONDS: '3600' });
  const BOHDAN = { ...OLENA, sub: 'u-2', email: 'bohdan@example.test' };

  beforeEach(async () => {
    provider.reset();
    await db.deleteFrom('user_auth_sessions').execute();
    await db.deleteFrom('audit_log').execute();
  });

  const publicId = ({ sid }: Browser) =>
    createHash('sha256').update(sid).digest('hex').slice(0, 16);
  const ids = (answer: { json(): { id: string }[] }) => answer.json().map(({ id }) => id);

  test('own sign-ins are listed, newest first, without the value of any cookie', async () => {
    const phone = await signedIn(app);
    const laptop = await signedIn(app);
    const other = await signedIn(app, BOHDAN);
    const answer = await laptop.get('/auth/sessions');
    assert.equal(answer.statusCode, 200);
    assert.equal(answer.headers['cache-control'], 'no-store');
    assert.deepEqual(ids(answer), [publicId(laptop), publicId(phone)]);
    const [first, second] = answer.json();
    assert.deepEqual([first.current, second.current], [true, false]);
    assert.equal(first.address, '127.0.0.1');
    assert.match(first.user_agent, /lightMyRequest/);
    for (const time of [first.created_at, first.last_used_at]) {
      assert.equal(new Date(time).toISOString(), time);
    }
    for (const { sid } of [phone, laptop, other]) assert.ok(!answer.body.includes(sid));
  });

  test('a page is followed by the next, though several began in one moment', async () => {
    const browser = await signedIn(app);
    for (let micros = 0; micros < 4; micros += 1) {
      const { sid } = await signedIn(app);
      // Two of each moment, and all in one millisecond: a Date would not tell them apart.
      await sql`update user_auth_sessions set created_at = date_trunc('day', now())
      - ${micros % 2} * interval '1 microsecond' where id = ${sid}`.execute(db);
    }
    const whole = ids(await browser.get('/auth/sessions'));
    assert.equal(whole.length, 5);
    const seen: string[] = [];
    let next: string | undefined = '/auth/sessions?limit=2';
    while (next !== undefined) {
      const answer = await browser.get(next);
      seen.push(...ids(answer));
      next = /<(.*)>; rel="next"/.exec(String(answer.headers.link))?.[1];
    }
    assert.deepEqual(seen, whole);
  });

  test('a sign-in whose lifetime is over is neither listed nor ended', async () => {
    const old = await signedIn(app);
    const browser = await signedIn(app);
    await sql`update user_auth_sessions set created_at = now() - interval '30 days'
    where id = ${old.sid}`.execute(db);
    assert.deepEqual(ids(await browser.get('/auth/sessions')), [publicId(browser)]);
    const answer = await browser.request('DELETE', `/auth/sessions/${publicId(old)}`);
    assert.equal(answer.statusCode, 404);
  });

  test('neither is one that was not used for as long as SVC_AUTH_IDLE_DAYS', async () => {
    const idling = await instance({ SVC_AUTH_IDLE_DAYS: '7' });
    const old = await signedIn(idling);
    const browser = await signedIn(idling);
    await sql`update user_auth_sessions set last_used_at = now() - interval '7 days'
    where id = ${old.sid}`.execute(db);
    assert.deepEqual(ids(await browser.get('/auth/sessions')), [publicId(browser)]);
    const answer = await browser.request('DELETE', `/auth/sessions/${publicId(old)}`);
    assert.equal(answer.statusCode, 404);
  });

  test('another own sign-in is ended: its row, its tokens and its sockets', async () => {
    const heard: string[] = [];
    const stop = await listen(USER_CHANNEL, (payload) => heard.push(payload));
    const phone = await signedIn(app);
    const { sid } = phone;
    const id = publicId(phone);
    const phoneTokens = provider.issued.slice(-2);
    const laptop = await signedIn(app);
    heard.length = 0;
    const answer = await laptop.request('DELETE', `/auth/sessions/${id}`);
    assert.deepEqual([answer.statusCode, answer.json()], [200, { ok: true }]);
    assert.deepEqual(answer.cookies, []);
    assert.equal(await row(sid), undefined);
    assert.equal((await phone.get('/auth/me')).statusCode, 401);
    assert.equal((await laptop.get('/auth/me')).statusCode, 200);
    await until(() => provider.revoked.length === 2);
    assert.deepEqual(provider.revoked.toSorted(), phoneTokens.toSorted());
    await until(() => heard.includes('u-1'));
    await stop();
    const line = await db
      .selectFrom('audit_log')
      .select(['actor_id', 'user_id', 'details'])
      .where('action', '=', 'sign_in_ended')
      .executeTakeFirst();
    assert.deepEqual(line, {
      actor_id: 'u-1',
      user_id: 'u-1',
      details: { sign_in: id },
    });
  });

  test('ending the current sign-in clears its cookie', async () => {
    const browser = await signedIn(app);
    const { sid } = browser;
    const answer = await browser.request('DELETE', `/auth/sessions/${publicId(browser)}`);
    assert.equal(answer.statusCode, 200);
    assert.ok(!browser.cookies.has('svc_auth_session'));
    assert.equal(await row(sid), undefined);
  });

  test("another user's sign-in is as good as none", async () => {
    const other = await signedIn(app, BOHDAN);
    const browser = await signedIn(app, OLENA);
    for (const id of [publicId(other), '0'.repeat(16)]) {
      const answer = await browser.request('DELETE', `/auth/sessions/${id}`);
      assert.deepEqual([answer.statusCode, answer.json().code], [404, 'sign_in_not_found']);
    }
    assert.notEqual(await row(other.sid), undefined);
    assert.equal(
      (
        await db
          .selectFrom('audit_log')
          .select('id')
          .where('action', '=', 'sign_in_ended')
          .execute()
      ).length,
      0,
    );
  });

  for (const url of [
    '/auth/sessions?cursor=nonsense',
    `/auth/sessions?cursor=${Buffer.from('{"createdAtMicros":1e400,"id":"0"}').toString('base64url')}`,
    `/auth/sessions?cursor=${Buffer.from('{"createdAtMicros":1e300,"id":"0123456789abcdef"}').toString('base64url')}`,
    '/auth/sessions?limit=0',
  ]) {
    test(`${url} is 422`, async () => {
      assert.equal((await (await signedIn(app)).get(url)).statusCode, 422);
    });
  }

  for (const [id, status] of [
    ['short', 404],
    ['A'.repeat(43), 404],
    ["' or 1=1 --", 404],
    ['%00'.repeat(16), 422],
  ] as const) {
    test(`the id ${id} is ${status}`, async () => {
      const browser = await signedIn(app);
      const answer = await browser.request('DELETE', `/auth/sessions/${id}`);
      assert.equal(answer.statusCode, status);
    });
  }

  test('another site cannot end a sign-in', async () => {
    const browser = await signedIn(app);
    const answer = await browser.request('DELETE', `/auth/sessions/${publicId(browser)}`, {
      headers: { 'sec-fetch-site': 'cross-site' },
    });
    assert.equal(answer.statusCode, 403);
    assert.notEqual(await row(browser.sid), undefined);
  });
});
