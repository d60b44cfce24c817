import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { beforeEach, suite, test } from 'node:test';
import { until } from '@oselya/testing';
import { sql } from 'kysely';
import { USER_CHANNEL } from '../../src/identity/revocation.ts';
import { sweepTerminalSignIns } from '../../src/identity/sign-in.ts';
import { runSweep } from '../../src/upkeep.ts';
import { Browser, openAssistant } from '../helpers/assistant.ts';
import { pages, createPerson } from '../helpers/people.ts';
import { makeSigningKey, OLENA } from '../scripted-provider.ts';

const { db, provider, lines, createInstance, listen, signInUser, findAuthSession, expireToken } =
  await openAssistant();
const app = await createInstance();
const secondApp = await createInstance();
const DISCOVERY_ENV = { IDP_DISCOVERY: 'true', IDP_END_SESSION: 'true' };
const key = await makeSigningKey('k-1');

beforeEach(async () => {
  provider.reset();
  await db.deleteFrom('user_auth_sessions').execute();
});

const countSessions = async () =>
  (await db.selectFrom('user_auth_sessions').select('id').execute()).length;
const findLastAuditEntry = () =>
  db
    .selectFrom('audit_log')
    .select(['action', 'actor_id', 'user_id', 'details'])
    .orderBy('id', 'desc')
    .executeTakeFirst();

suite('sign-out', () => {
  test('A sign-out deletes the session, clears the cookie and revokes the tokens', async () => {
    const browser = await signInUser(app);
    const tokens = provider.issued.slice(-2);
    const otherBrowser = await signInUser(app);
    const { sid } = browser;
    const response = await browser.post('/auth/logout');
    assert.deepEqual([response.statusCode, response.json()], [200, { ok: true }]);
    const clearedCookie = { name: 'svc_auth_session', value: '', maxAge: 0, path: '/' };
    assert.equal(response.cookies.length, 1);
    assert.partialDeepStrictEqual(response.cookies, [clearedCookie]);
    await until(() => provider.revokedTokens.length === 2);
    assert.deepEqual(provider.revokedTokens.toSorted(), tokens.toSorted());
    assert.equal(await findAuthSession(sid), undefined);
    assert.ok(await findAuthSession(otherBrowser.sid));
    const cookies = { svc_auth_session: sid };
    assert.equal((await secondApp.inject({ url: '/auth/me', cookies })).statusCode, 401);
  });

  test('The form of a page signs out and leads to the first page', async () => {
    const browser = await signInUser(app);
    const headers = { accept: 'text/html', 'content-type': 'application/x-www-form-urlencoded' };
    const response = await browser.post('/auth/logout?from=page', { headers, payload: '{' });
    assert.deepEqual([response.statusCode, response.headers.location], [303, '/']);
    assert.equal(response.cookies[0]?.maxAge, 0);
    assert.equal(await countSessions(), 0);
  });

  test('A sign-out from another origin is rejected', async () => {
    for (const [headers, status] of [
      [{ 'sec-fetch-site': 'cross-site' }, 403],
      [{ 'sec-fetch-site': 'same-site' }, 403],
      [{ 'sec-fetch-site': 'cross-site', origin: 'http://assistant.test' }, 403],
      [{ origin: 'http://assistant.test.evil.test' }, 403],
      [{ origin: 'null' }, 403],
      [{ origin: 'https://127.0.0.1:8000', host: '127.0.0.1:8000' }, 403],
      [{ 'sec-fetch-site': 'same-origin' }, 200],
      [{ origin: 'http://assistant.test' }, 200],
      [{ origin: 'http://127.0.0.1:8000', host: '127.0.0.1:8000' }, 200],
      [{}, 200],
    ] as const) {
      const browser = await signInUser(app);
      const { sid } = browser;
      const response = await browser.post('/auth/logout', { headers });
      assert.equal(response.statusCode, status, JSON.stringify(headers));
      assert.equal((await findAuthSession(sid)) !== undefined, status === 403);
      if (status === 403) assert.equal(response.json().code, 'cross_site_request');
    }
  });

  test('A sign-out without a session is 200 and clears the cookie', async () => {
    for (const [cookies, clearedCount] of [
      [{}, 0],
      [{ svc_auth_session: 'A'.repeat(43) }, 1],
    ] as const) {
      const response = await app.inject({ method: 'POST', url: '/auth/logout', cookies });
      assert.deepEqual([response.json(), response.cookies.length], [{ ok: true }, clearedCount]);
    }
  });

  test('Caches store no response of sign-in or sign-out', async () => {
    const browser = await signInUser(app);
    for (const url of ['login', 'callback', 'mobile-done', 'me', 'nothing']) {
      const { headers } = await browser.get(`/auth/${url}`);
      assert.equal(headers['cache-control'], 'no-store', url);
    }
    assert.equal((await browser.post('/auth/logout')).headers['cache-control'], 'no-store');
  });

  test('Tokens are revoked after an outage of the provider', async () => {
    const patientApp = await createInstance({ IDP_TIMEOUT_MS: '60000' });
    const browser = await signInUser(patientApp);
    const tokens = provider.issued.slice(-2);
    const heldResponses: ServerResponse[] = [];
    provider.faults.set('revoke', (response) => void heldResponses.push(response));
    assert.equal((await browser.post('/auth/logout')).statusCode, 200);
    await until(() => heldResponses.length === 2);
    provider.faults.clear();
    for (const response of heldResponses) response.writeHead(503).end();
    const queuedRows = await db.selectFrom('token_revocations').selectAll().execute();
    const queuedTokens = JSON.stringify(queuedRows);
    assert.match(queuedTokens, /access_token_enc/);
    assert.ok(!tokens.some((token) => queuedTokens.includes(token)), 'encrypted');
    await until(async () => {
      await sql`update token_revocations set due_at = now()`.execute(db);
      // A sign-out wakes the revocation of queued tokens in its process.
      await (await signInUser(app)).post('/auth/logout');
      return tokens.every((token) => provider.revokedTokens.includes(token));
    });
  });
});

suite('sign-out at the provider', async () => {
  const discoveryApp = await createInstance(DISCOVERY_ENV);
  let issuedTokens: string[] = [];

  beforeEach(() => {
    issuedTokens = [];
    const end_session_endpoint = `${provider.url}/oauth/logout?realm=home`;
    provider.metadata = { ...provider.publishMetadata(), end_session_endpoint };
    provider.keys = [key.published];
    provider.idToken = async () => {
      const claims = { ...provider.createIdClaims(), n: issuedTokens.length };
      issuedTokens.push(await key.sign(claims));
      return issuedTokens.at(-1) ?? '';
    };
  });

  test('IDP_END_SESSION adds the address that ends the provider’s session', async () => {
    const browser = await signInUser(discoveryApp);
    await expireToken(browser);
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
    const sessionRow = await findAuthSession(browser.sid);
    assert.ok(
      sessionRow?.id_token_enc && !sessionRow.id_token_enc.includes(issuedTokens.at(-1) ?? ''),
    );
    const { ok, logout_url } = (await browser.post('/auth/logout')).json();
    assert.equal(ok, true);
    const url = new URL(logout_url);
    assert.equal(url.origin + url.pathname, `${provider.url}/oauth/logout`);
    assert.deepEqual(Object.fromEntries(url.searchParams), {
      realm: 'home',
      client_id: 'oselya',
      post_logout_redirect_uri: 'http://assistant.test/',
      id_token_hint: issuedTokens.at(-1),
    });
    assert.deepEqual((await browser.post('/auth/logout')).json(), { ok: true });
    const page = await (await signInUser(discoveryApp)).post('/auth/logout?from=page');
    assert.match(page.body, /content="0; url=http:[^"]+\/oauth\/logout\?/);
    assert.equal(await countSessions(), 0);
  });

  test('A sign-out is local when the provider cannot end its session', async () => {
    const createRestartedApp = () => createInstance({ ...DISCOVERY_ENV, IDP_TIMEOUT_MS: '20000' });
    const heldResponses: ServerResponse[] = [];
    const assertWarned = (reason: string) =>
      assert.ok(
        lines.some((line) => line.includes('not at the provider') && line.includes(reason)),
        reason,
      );
    for (const [fault, reason] of [
      [{ status: 500 }, 'openid-configuration responded with status 500'],
      [
        (response: ServerResponse) => void heldResponses.push(response),
        'discovery takes longer than 1000 ms',
      ],
    ] as const) {
      const browser = await signInUser(discoveryApp);
      provider.faults.set('discovery', fault);
      const response = await browser.post('/auth/logout', { app: await createRestartedApp() });
      assert.deepEqual(response.json(), { ok: true });
      assertWarned(reason);
    }
    for (const response of heldResponses) response.destroy();
    provider.faults.clear();
    provider.publishMetadata();
    const browser = await signInUser(await createRestartedApp());
    assert.deepEqual((await browser.post('/auth/logout')).json(), { ok: true });
    assertWarned('end_session_endpoint');
  });

  test('Without a revocation endpoint no token is revoked, and none stays queued', async () => {
    provider.publishMetadata();
    await db.deleteFrom('token_revocations').execute();
    const listQueuedIds = () => db.selectFrom('token_revocations').select('id').execute();
    const browser = await signInUser(discoveryApp);
    const restartedApp = await createInstance({ IDP_DISCOVERY: 'true' });
    const release = provider.holdNext('discovery');
    assert.equal((await browser.post('/auth/logout', { app: restartedApp })).statusCode, 200);
    assert.equal((await listQueuedIds()).length, 1);
    release();
    await until(async () => (await listQueuedIds()).length === 0);
    assert.equal(provider.count('revoke'), 0);
  });

  test('Without IDP_END_SESSION no ID token is kept', async () => {
    const browser = await signInUser(await createInstance({ IDP_DISCOVERY: 'true' }));
    assert.equal((await findAuthSession(browser.sid))?.id_token_enc, null);
    assert.deepEqual((await browser.post('/auth/logout')).json(), { ok: true });
  });
});

suite('own sign-ins', async () => {
  const reusingApp = await createInstance({ IDP_USER_MAX_AGE_SECONDS: '3600' });
  const BOHDAN = createPerson('u-2');
  const computePublicId = ({ sid }: Browser) =>
    createHash('sha256').update(sid).digest('hex').slice(0, 16);
  const endSignIn = (browser: Browser, id: string) =>
    browser.request('DELETE', `/auth/sessions/${id}`);
  const listIds = (response: { json(): { id: string }[] }) => response.json().map(({ id }) => id);

  test('Own sign-ins are listed newest first without their cookies', async () => {
    const [phone, laptop] = [await signInUser(reusingApp), await signInUser(reusingApp)];
    const bohdan = await signInUser(reusingApp, BOHDAN);
    const response = await laptop.get('/auth/sessions');
    assert.deepEqual(listIds(response), [computePublicId(laptop), computePublicId(phone)]);
    assert.equal(response.headers['cache-control'], 'no-store');
    const [newest, oldest] = response.json();
    assert.deepEqual([newest.current, oldest.current, newest.address], [true, false, '127.0.0.1']);
    for (const time of [newest.created_at, newest.last_used_at]) {
      assert.equal(new Date(time).toISOString(), time);
    }
    for (const { sid } of [phone, laptop, bohdan]) assert.ok(!response.body.includes(sid));
  });

  test('Pages continue between sign-ins of one microsecond', async () => {
    const browser = await signInUser(reusingApp);
    for (let index = 0; index < 4; index += 1) {
      const { sid } = await signInUser(reusingApp);
      await sql`update user_auth_sessions set created_at = date_trunc('day', now())
        - ${index % 2} * interval '1 microsecond' where id = ${sid}`.execute(db);
    }
    const allIds = listIds(await browser.get('/auth/sessions'));
    assert.equal(allIds.length, 5);
    const responses = await pages(browser, '/auth/sessions?limit=2');
    assert.deepEqual(responses.flatMap(listIds), allIds);
  });

  test('An expired or idle sign-in is neither listed nor ended', async () => {
    const idleLimitApp = await createInstance({ SVC_AUTH_IDLE_DAYS: '7' });
    for (const change of [
      { created_at: sql<Date>`now() - interval '30 days'` },
      { last_used_at: sql<Date>`now() - interval '7 days'` },
    ]) {
      await db.deleteFrom('user_auth_sessions').execute();
      const oldBrowser = await signInUser(idleLimitApp);
      const browser = await signInUser(idleLimitApp);
      await db
        .updateTable('user_auth_sessions')
        .set(change)
        .where('id', '=', oldBrowser.sid)
        .execute();
      assert.deepEqual(listIds(await browser.get('/auth/sessions')), [computePublicId(browser)]);
      assert.equal((await endSignIn(browser, computePublicId(oldBrowser))).statusCode, 404);
    }
  });

  test('Ending another own sign-in deletes it, revokes its tokens and notifies sockets', async () => {
    const notifications: string[] = [];
    const stop = await listen(USER_CHANNEL, (payload) => notifications.push(payload));
    const phone = await signInUser(reusingApp);
    const tokens = provider.issued.slice(-2);
    const laptop = await signInUser(reusingApp);
    const id = computePublicId(phone);
    notifications.length = 0;
    const response = await endSignIn(laptop, id);
    assert.deepEqual(
      [response.statusCode, response.json(), response.cookies],
      [200, { ok: true }, []],
    );
    assert.equal((await phone.get('/auth/me')).statusCode, 401);
    assert.equal((await laptop.get('/auth/me')).statusCode, 200);
    await until(() => provider.revokedTokens.length === 2 && notifications.includes('u-1'));
    assert.deepEqual(provider.revokedTokens.toSorted(), tokens.toSorted());
    await stop();
    const user = { actor_id: 'u-1', user_id: 'u-1' };
    const expected = { action: 'sign_in_ended', ...user, details: { sign_in: id } };
    assert.deepEqual(await findLastAuditEntry(), expected);
  });

  test('A sign-in of another user and malformed requests are rejected', async () => {
    const bohdan = await signInUser(reusingApp, BOHDAN);
    const browser = await signInUser(reusingApp, OLENA);
    for (const id of [computePublicId(bohdan), '0'.repeat(16), 'short', 'A'.repeat(43)]) {
      const response = await endSignIn(browser, id);
      assert.deepEqual([response.statusCode, response.json().code], [404, 'sign_in_not_found']);
    }
    assert.ok(await findAuthSession(bohdan.sid));
    const largeCursor = Buffer.from('{"createdAtMicros":1e300,"id":"0123456789abcdef"}');
    for (const query of [
      'cursor=nonsense',
      `cursor=${largeCursor.toString('base64url')}`,
      'limit=0',
    ]) {
      assert.equal((await browser.get(`/auth/sessions?${query}`)).statusCode, 422, query);
    }
    assert.equal((await endSignIn(browser, '%00'.repeat(16))).statusCode, 422);
    assert.equal((await endSignIn(browser, computePublicId(browser))).statusCode, 200);
    assert.ok(!browser.cookies.has('svc_auth_session'), 'the current sign-in has ended');
  });
});

suite('terminal', () => {
  const PORT = 54_321;
  const TERMINAL = { 'user-agent': 'oselya-chat/0.1.0 (linux)' };
  const createRandomText = () => randomBytes(32).toString('base64url');
  const computeSha256 = (text: string) => createHash('sha256').update(text).digest('base64url');

  /** Creates a terminal's sign-in request. */
  function createTerminalRequest(changes: Record<string, string> = {}) {
    const [verifier, state] = [createRandomText(), createRandomText()];
    const query = new URLSearchParams({
      port: String(PORT),
      state,
      code_challenge: computeSha256(verifier),
      code_challenge_method: 'S256',
      ...changes,
    });
    return { verifier, state, address: `/auth/terminal?${query.toString()}` };
  }

  /** Signs a browser in, and returns the URL of the confirmation. */
  async function signInForTerminal(browser: Browser, address: string): Promise<string> {
    const loginResponse = await browser.get(address);
    assert.equal(loginResponse.statusCode, 302, loginResponse.body);
    const callbackUrl = new URL(await provider.authorize(String(loginResponse.headers.location)));
    const callback = await browser.get(callbackUrl.pathname + callbackUrl.search, {
      app: secondApp,
    });
    assert.equal(callback.statusCode, 302, callback.body);
    return String(callback.headers.location);
  }

  const decide = (browser: Browser, page: string, decision: 'confirm' | 'refuse', headers = {}) => {
    const { search } = new URL(page, 'http://assistant.test');
    return browser.post(`/auth/terminal/${decision}${search}`, { headers });
  };

  const redeem = (code: string | null, verifier: string, server = app) =>
    server.inject({
      method: 'POST',
      url: '/auth/terminal/token',
      headers: TERMINAL,
      payload: { code, code_verifier: verifier },
    });

  async function confirmAndReadCode(browser: Browser) {
    const { verifier, state, address } = createTerminalRequest();
    const page = await signInForTerminal(browser, address);
    const { statusCode, headers } = await decide(browser, page, 'confirm');
    assert.equal(statusCode, 303);
    const callbackUrl = new URL(String(headers.location));
    assert.equal(callbackUrl.origin, `http://127.0.0.1:${PORT}`);
    assert.equal(callbackUrl.searchParams.get('state'), state);
    return { page, verifier, state, code: callbackUrl.searchParams.get('code') };
  }

  const INVALID_REQUEST = 'terminal_request_not_valid';

  test('A terminal gets a separate session, which its user can end', async () => {
    const browser = await signInUser(app);
    const { verifier, address } = createTerminalRequest();
    const confirmationPage = await browser.get(await signInForTerminal(browser, address));
    assert.match(
      String(confirmationPage.headers['content-security-policy']),
      /form-action 'self' http:\/\/127\.0\.0\.1:54321(;|$)/,
    );
    const code = computeSha256(verifier).slice(0, 8);
    for (const visibleText of ['Олена, olena@example.test', code, '127.0.0.1:54321']) {
      assert.ok(confirmationPage.body.includes(visibleText), visibleText);
    }
    const earlierCount = await countSessions();
    const confirmation = await confirmAndReadCode(browser);
    const tokenResponse = await redeem(confirmation.code, confirmation.verifier, secondApp);
    assert.equal(tokenResponse.headers['cache-control'], 'no-store');
    const { session_id: id, cookie_name: name } = tokenResponse.json();
    const requestMe = () => app.inject({ url: '/auth/me', cookies: { [name]: id } });
    assert.equal((await requestMe()).json().email, 'olena@example.test');
    assert.equal(await countSessions(), earlierCount + 1);
    const signIns: { id: string; user_agent: string }[] = (
      await browser.get('/auth/sessions')
    ).json();
    const terminalSignIn = signIns.find((signIn) => signIn.user_agent === TERMINAL['user-agent']);
    assert.ok(terminalSignIn);
    assert.partialDeepStrictEqual(terminalSignIn, { current: false });
    await browser.request('DELETE', `/auth/sessions/${terminalSignIn.id}`);
    assert.equal((await requestMe()).statusCode, 401);
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
    const stranger = new Browser(app);
    await confirmAndReadCode(stranger);
    assert.ok(!stranger.cookies.has('svc_auth_session'), 'the browser is not signed in');
    const log = lines.join('');
    for (const secret of [confirmation.code, confirmation.verifier, confirmation.state, id]) {
      assert.ok(secret && !log.includes(secret), 'no secret is logged');
    }
  });

  test('Only the browser of the sign-in can confirm, and no other site', async () => {
    const browser = await signInUser(app);
    const page = await signInForTerminal(browser, createTerminalRequest().address);
    const stranger = await signInUser(app);
    await stranger.get('/auth/login');
    assert.equal((await stranger.get(page)).json().code, INVALID_REQUEST);
    for (const decision of ['confirm', 'refuse'] as const) {
      assert.equal((await decide(stranger, page, decision)).json().code, INVALID_REQUEST);
      for (const headers of [{ 'sec-fetch-site': 'same-site' }, { origin: 'null' }]) {
        const { statusCode, body } = await decide(browser, page, decision, headers);
        assert.deepEqual([statusCode, JSON.parse(body).code], [403, 'cross_site_request']);
      }
    }
    // The route guard checks only requests with a session cookie, so the routes must check the others.
    browser.cookies.delete('svc_auth_session');
    for (const [site, status] of [
      ['cross-site', 403],
      ['same-origin', 303],
    ] as const) {
      const headers = { 'sec-fetch-site': site };
      assert.equal((await decide(browser, page, 'confirm', headers)).statusCode, status);
    }
  });

  test('A confirmation and its code are valid once, also with a wrong verifier', async () => {
    const browser = new Browser(app);
    const { page, code, verifier } = await confirmAndReadCode(browser);
    for (const decision of ['confirm', 'refuse'] as const) {
      assert.equal((await decide(browser, page, decision)).json().code, INVALID_REQUEST);
    }
    const responses = await Promise.all([
      redeem(code, verifier),
      redeem(code, verifier, secondApp),
    ]);
    const statuses = new Set(responses.map(({ statusCode }) => statusCode));
    assert.deepEqual(statuses, new Set([200, 400]));
    await db.deleteFrom('user_auth_sessions').execute();
    const confirmation = await confirmAndReadCode(new Browser(app));
    for (const proof of [createRandomText(), confirmation.verifier]) {
      const { body } = await redeem(confirmation.code, proof);
      assert.equal(JSON.parse(body).code, 'terminal_code_not_valid');
    }
    assert.equal(await countSessions(), 0);
  });

  test('A confirmation expires after ten minutes and a code after one', async () => {
    const readRemaining = async () => {
      const { rows } = await sql<{ seconds: number }>`
        select extract(epoch from max(expires_at) - now())::int as seconds
        from terminal_sign_ins`.execute(db);
      return rows[0]?.seconds ?? 0;
    };
    const expireAll = () =>
      db.updateTable('terminal_sign_ins').set({ expires_at: new Date() }).execute();
    const browser = new Browser(app);
    const page = await signInForTerminal(browser, createTerminalRequest().address);
    assert.ok(Math.abs((await readRemaining()) - 600) < 30);
    await expireAll();
    assert.equal((await browser.get(page)).json().code, INVALID_REQUEST);
    const { verifier, code } = await confirmAndReadCode(browser);
    assert.ok((await readRemaining()) <= 60);
    await expireAll();
    assert.equal((await redeem(code, verifier)).json().code, 'terminal_code_not_valid');
    const lateConfirmation = await confirmAndReadCode(browser);
    assert.equal((await redeem(lateConfirmation.code, lateConfirmation.verifier)).statusCode, 200);
    await runSweep(db, sweepTerminalSignIns);
    assert.equal(await countSessions(), 1, 'expired sessions are swept');
  });

  test('A denied confirmation ends the session and notifies the terminal', async () => {
    const browser = await signInUser(app);
    const { state, address } = createTerminalRequest();
    const refusal = await decide(browser, await signInForTerminal(browser, address), 'refuse');
    const location = `http://127.0.0.1:${PORT}/?error=access_denied&state=${state}`;
    assert.deepEqual([refusal.statusCode, refusal.headers.location], [303, location]);
    assert.equal(await countSessions(), 1);
    const details = { platform: 'terminal', reason: 'refused' };
    assert.deepEqual((await findLastAuditEntry())?.details, details);
  });

  test('A malformed terminal request is rejected', async () => {
    const malformedChanges: Record<string, string>[] = [
      ...['80', '1023', '65536', '0x1000', '4e3', '1@evil.test'].map((port) => ({ port })),
      { state: 'short' },
      { state: `${'a'.repeat(30)}&x=1` },
      { code_challenge: 'plain' },
      { code_challenge_method: 'plain' },
    ];
    for (const changes of malformedChanges) {
      const rejection = await app.inject(createTerminalRequest(changes).address);
      assert.deepEqual([rejection.statusCode, rejection.json().code], [400, INVALID_REQUEST]);
      assert.equal(rejection.headers.location, undefined, JSON.stringify(changes));
    }
  });

  test('Terminal sign-ins count for the limit of sign-ins', async () => {
    const limitedApp = await createInstance({ LOGIN_PER_MINUTE: '2' });
    const beginSignIn = () =>
      limitedApp.inject({ url: createTerminalRequest().address, remoteAddress: '192.0.2.7' });
    const token = {
      method: 'POST',
      url: '/auth/terminal/token',
      remoteAddress: '192.0.2.7',
      payload: { code: 'a', code_verifier: createRandomText() },
    } as const;
    assert.equal((await beginSignIn()).headers['ratelimit-remaining'], '1');
    assert.equal((await limitedApp.inject(token)).statusCode, 400);
    assert.equal((await limitedApp.inject(token)).statusCode, 429);
    assert.equal((await beginSignIn()).statusCode, 429);
  });
});
