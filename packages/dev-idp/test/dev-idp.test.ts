import assert from 'node:assert/strict';
import { statSync, writeFileSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import { Browser, exchange, findUnusedUrl, getRedirectTarget, until } from '@oselya/testing';
import { createDevIdp, sampleAccounts } from '../src/server.ts';
import { loadKeys, openDatabase } from '../src/store.ts';
import { createSignedHeaders, createWebhooks } from '../src/webhooks.ts';
import {
  assertEnded,
  assertSigned,
  createAuthorization,
  client,
  parseError,
  openPicker,
  chooseAccount,
  postAsClient,
  redeem,
  redirectUri,
  refresh,
  SECRET,
  send,
  signIn,
  signInToCode,
  startIdp,
  startReceiver,
  createStorePath,
  parseTokens,
  fetchUserInfo,
} from './support.ts';

const parseJson = async (response: Response): Promise<Record<string, unknown>> =>
  JSON.parse(await response.text());

test('Discovery names the endpoints of the contract and publishes public keys only', async (t) => {
  const { issuer } = await startIdp(t);
  const document = await parseJson(await send(`${issuer}/.well-known/openid-configuration`));
  assert.equal(document['issuer'], issuer);
  const endpoints = Object.entries(document).filter(([name]) => /_endpoint$|^jwks_uri$/.test(name));
  assert.deepEqual(Object.fromEntries(endpoints), {
    authorization_endpoint: `${issuer}/oauth/authorize`,
    jwks_uri: `${issuer}/oauth/jwks`,
    revocation_endpoint: `${issuer}/oauth/revoke`,
    token_endpoint: `${issuer}/oauth/token`,
    userinfo_endpoint: `${issuer}/oauth/userinfo`,
  });
  assert.deepEqual(document['code_challenge_methods_supported'], ['S256']);
  const scopes = ['openid', 'email', 'profile', 'roles', 'permissions'];
  assert.deepEqual(document['scopes_supported'], scopes);
  const { keys } = await parseJson(await send(`${issuer}/oauth/jwks`));
  assert.deepEqual(
    (keys as object[]).map((key) => Object.keys(key).toSorted()),
    [['alg', 'e', 'kid', 'kty', 'n', 'use']],
  );
});

test('A code gives tokens and the user data of the contract', async (t) => {
  const { issuer } = await startIdp(t);
  const { callback, verifier } = await signInToCode(issuer);
  assert.equal(callback.origin + callback.pathname, redirectUri);
  assert.equal(callback.searchParams.get('state'), 'state-1');
  const tokens = await parseTokens(await redeem(issuer, callback, verifier));
  assert.equal(tokens.expires_in, 300);
  const [olena] = sampleAccounts;
  assert.deepEqual(await parseJson(await fetchUserInfo(issuer, tokens)), {
    sub: 'u-olena',
    email: 'olena@example.test',
    profile: { display_name: 'Olena Koval' },
    client_access_list: [
      {
        client_id: 'oselya',
        role_ids: olena?.role_ids,
        permission_ids: olena?.permission_ids,
      },
    ],
  });
});

test('User data contains the requested scopes only', async (t) => {
  const { issuer } = await startIdp(t);
  const browser = new Browser();
  const { url, verifier } = createAuthorization(issuer, { scope: 'openid roles' });
  const picker = await openPicker(issuer, browser, url);
  const callback = await chooseAccount(browser, picker, { account: 'u-taras' });
  const tokens = await parseTokens(await redeem(issuer, callback, verifier));
  assert.deepEqual(await parseJson(await fetchUserInfo(issuer, tokens)), {
    sub: 'u-taras',
    client_access_list: [{ client_id: 'oselya', role_ids: ['svc_admin'] }],
  });
});

test('Authorization without PKCE S256 is an error for the application', async (t) => {
  const { issuer } = await startIdp(t);
  for (const changes of [
    { code_challenge: undefined, code_challenge_method: undefined },
    { code_challenge_method: 'plain' },
  ]) {
    const { url } = createAuthorization(issuer, changes);
    const { searchParams } = await openPicker(issuer, new Browser(), url);
    assert.equal(searchParams.get('error'), 'invalid_request');
    assert.equal(searchParams.get('state'), 'state-1');
  }
});

test('An unknown address or client gets an error page without a redirect', async (t) => {
  const { issuer } = await startIdp(t);
  for (const [changes, message] of [
    [{ redirect_uri: 'http://127.0.0.1:8000/elsewhere' }, /invalid_redirect_uri/],
    [{ client_id: 'stranger' }, /invalid_client/],
    [{ client_id: '<script>' }, /invalid_client/],
  ] as const) {
    const response = await new Browser().get(createAuthorization(issuer, changes).url);
    assert.equal(response.status, 400);
    assert.equal(response.headers.get('location'), null);
    assert.match(response.headers.get('content-security-policy') ?? '', /default-src 'none'/);
    const html = await response.text();
    assert.match(html, message);
    assert.match(html, /<a href="http:\/\/127\.0\.0\.1:8000\/">Go to the application<\/a>/);
    assert.doesNotMatch(html, /<script>/);
  }
});

test('The next sign-in shows the accounts again', async (t) => {
  const { issuer } = await startIdp(t);
  const browser = new Browser();
  await signIn(issuer, 'u-olena', browser);
  assert.ok(!browser.cookieNames.includes('oselya_idp_session'));
  const silentSignInUrl = createAuthorization(issuer, { prompt: 'none' }).url;
  const callback = await openPicker(issuer, browser, silentSignInUrl);
  assert.equal(callback.searchParams.get('error'), 'login_required');
  const picker = await openPicker(issuer, browser);
  const nextCallback = await chooseAccount(browser, picker, { account: 'u-taras' });
  assert.ok(nextCallback.searchParams.has('code'));
});

test('The sign-in page offers every account and rejects blocked and unknown ones', async (t) => {
  const { idp, issuer } = await startIdp(t);
  const browser = new Browser();
  const picker = await openPicker(issuer, browser);
  const pickerResponse = await browser.get(picker);
  assert.equal(pickerResponse.headers.get('cache-control'), 'no-store');
  const buttons = [
    ...(await pickerResponse.text()).matchAll(
      /<button name="account" value="([^"]*)"\s*>\s*([^<]*?)\s*</g,
    ),
  ];
  assert.deepEqual(
    buttons.map(([, sub, name]) => [sub, name]),
    [
      ['u-olena', 'Olena Koval'],
      ['u-taras', 'Taras Melnyk'],
    ],
  );
  idp.setBlocked('u-olena', true);
  const html = await (await browser.get(picker)).text();
  assert.match(html, /<button name="account" value="u-olena"\s+disabled/);
  const rejectedForms: Record<string, string>[] = [{ account: 'u-olena' }, { account: 'u-x' }, {}];
  for (const form of rejectedForms) {
    const response = await browser.post(picker, form);
    assert.equal(response.status, 400);
    assert.match(await response.text(), /This account cannot sign in/);
  }
  const callback = await chooseAccount(browser, picker, { account: 'u-taras' });
  assert.ok(callback.searchParams.has('code'));
});

test('A cancelled sign-in, or one of a blocked account, is access_denied', async (t) => {
  const { idp, issuer } = await startIdp(t);
  const browser = new Browser();
  const cancelledCallback = await chooseAccount(browser, await openPicker(issuer, browser), {
    action: 'cancel',
  });
  const picker = await openPicker(issuer, browser);
  const resume = getRedirectTarget(await browser.post(picker, { account: 'u-olena' }));
  idp.setBlocked('u-olena', true);
  const blockedCallback = getRedirectTarget(await browser.get(resume));
  for (const callback of [cancelledCallback, blockedCallback]) {
    assert.equal(callback.origin + callback.pathname, redirectUri);
    assert.equal(callback.searchParams.get('error'), 'access_denied');
    assert.equal(callback.searchParams.get('state'), 'state-1');
    assert.equal(callback.searchParams.get('code'), null);
  }
});

test('A sign-in in another browser and a finished one have an explanation', async (t) => {
  const { issuer } = await startIdp(t);
  const browser = new Browser();
  const picker = await openPicker(issuer, browser);
  const otherBrowser = new Browser();
  const rejectedResponses = [
    await otherBrowser.get(picker),
    await otherBrowser.post(picker, { account: 'u-olena' }),
  ];
  const resume = getRedirectTarget(await browser.post(picker, { account: 'u-olena' }));
  await browser.get(resume);
  rejectedResponses.push(await browser.post(picker, { account: 'u-olena' }));
  for (const response of rejectedResponses) {
    assert.equal(response.status, 400);
    assert.match(await response.text(), /no longer open[^]*Go to the application/);
  }
  const resumedResponse = await browser.get(resume);
  assert.equal(resumedResponse.status, 400);
  assert.match(await resumedResponse.text(), /request was rejected[^]*Go to the application/);
});

test('A second use of a code ends its tokens', async (t) => {
  const { issuer } = await startIdp(t);
  const { callback, verifier } = await signInToCode(issuer);
  const tokens = await parseTokens(await redeem(issuer, callback, verifier));
  const response = await redeem(issuer, callback, verifier);
  assert.deepEqual(await parseError(response), [400, 'invalid_grant']);
  await assertEnded(issuer, tokens);
});

test('Tokens need the client secret, by HTTP Basic or in the body', async (t) => {
  const { issuer } = await startIdp(t);
  const { refresh_token } = await signIn(issuer);
  const form = { grant_type: 'refresh_token', refresh_token };
  const refreshWith = (fields: Record<string, string>, headers: Record<string, string> = {}) =>
    send(`${issuer}/oauth/token`, {
      method: 'POST',
      headers,
      body: new URLSearchParams({ ...form, ...fields }),
    });
  const basic = { authorization: `Basic ${btoa('oselya:wrong')}` };
  const wrongClientResponse = await refreshWith({ client_id: client.id, client_secret: 'wrong' });
  for (const response of [wrongClientResponse, await refreshWith({}, basic)]) {
    assert.deepEqual(await parseError(response), [401, 'invalid_client']);
  }
  const rightClientResponse = await refreshWith({
    client_id: client.id,
    client_secret: client.secret,
  });
  assert.equal(rightClientResponse.status, 200);
});

test('A second use of a rotated refresh token ends the sign-in, also in concurrent requests', async (t) => {
  const { issuer } = await startIdp(t);
  const firstTokens = await signIn(issuer);
  const rotatedTokens = await parseTokens(await refresh(issuer, firstTokens));
  assert.notEqual(rotatedTokens.refresh_token, firstTokens.refresh_token);
  assert.equal((await fetchUserInfo(issuer, rotatedTokens)).status, 200);
  assert.deepEqual(await parseError(await refresh(issuer, firstTokens)), [400, 'invalid_grant']);
  await assertEnded(issuer, rotatedTokens);

  const tokens = await signIn(issuer);
  const responses = await Promise.all(Array.from({ length: 8 }, () => refresh(issuer, tokens)));
  assert.equal(responses.filter(({ status }) => status === 200).length, 1);
  for (const response of responses) {
    if (response.status === 200) await assertEnded(issuer, await parseTokens(response));
    else assert.deepEqual(await parseError(response), [400, 'invalid_grant']);
  }
});

test('A revocation ends one sign-in', async (t) => {
  const { issuer } = await startIdp(t);
  const [revokedTokens, otherTokens] = [await signIn(issuer), await signIn(issuer)];
  const response = await postAsClient(issuer, '/oauth/revoke', {
    token: revokedTokens.refresh_token,
  });
  assert.equal(response.status, 200);
  await assertEnded(issuer, revokedTokens);
  assert.equal((await fetchUserInfo(issuer, otherTokens)).status, 200);
});

test('Tokens expire, and a refresh does not prolong a sign-in', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  const { issuer } = await startIdp(t, { accessTokenSeconds: 20, refreshTokenSeconds: 100 });
  const firstTokens = await signIn(issuer);
  assert.equal(firstTokens.expires_in, 20);
  t.mock.timers.tick(19_000);
  assert.equal((await fetchUserInfo(issuer, firstTokens)).status, 200);
  t.mock.timers.tick(2_000);
  assert.deepEqual(await parseError(await fetchUserInfo(issuer, firstTokens)), [
    401,
    'invalid_token',
  ]);
  t.mock.timers.tick(39_000);
  const secondTokens = await parseTokens(await refresh(issuer, firstTokens));
  t.mock.timers.tick(41_000);
  assert.deepEqual(await parseError(await refresh(issuer, secondTokens)), [400, 'invalid_grant']);
});

test('The server listens on loopback and answers only requests to its name', async (t) => {
  const idp = await createDevIdp({ issuer: 'http://127.0.0.1:8002', client });
  await assert.rejects(idp.app.listen({ host: '0.0.0.0', port: 0 }), /this machine only/);
  await assert.rejects(async () => idp.app.listen({ port: 0, host: '' }), /this machine only/);
  await idp.close();
  const remoteProvider = createDevIdp({ issuer: 'http://192.0.2.1:8002', client });
  await assert.rejects(remoteProvider, /^RangeError: .*"192\.0\.2\.1"/);
  const { issuer } = await startIdp(t);
  const { host } = new URL(issuer);
  const get = (hosts: string[]) => {
    const headers = [...hosts.map((name) => `host: ${name}`), 'connection: close'];
    return exchange(issuer, `GET / HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`);
  };
  const reboundResponse = await get(['rebound.example']);
  assert.equal(reboundResponse.status, 421);
  assert.match(reboundResponse.text, new RegExp(`answers at ${issuer} only`));
  assert.equal((await get([host, host])).status, 400);
  assert.equal((await get([host])).status, 200);
});

test('Sign-ins, keys and changed accounts survive a restart', async (t) => {
  const [issuer, storeFile] = [await findUnusedUrl(), await createStorePath()];
  const previousIdp = await startIdp(t, { issuer, storeFile });
  const tokens = await signIn(issuer);
  const fetchKeys = async () => (await send(`${issuer}/oauth/jwks`)).text();
  const keys = await fetchKeys();
  previousIdp.idp.setAccess('u-olena', { role_ids: ['svc_admin'], permission_ids: [] });
  previousIdp.idp.setBlocked('u-taras', true);
  await previousIdp.idp.close();
  const { idp } = await startIdp(t, { issuer, storeFile });
  assert.equal((await fetchUserInfo(issuer, tokens)).status, 200);
  assert.equal((await refresh(issuer, tokens)).status, 200);
  assert.equal(await fetchKeys(), keys);
  assert.deepEqual(
    idp.accounts.map(({ role_ids, blocked }) => [role_ids, blocked]),
    [
      [['svc_admin'], false],
      [['svc_admin'], true],
    ],
  );
});

test('The store is readable only by its owner, and all processes share its keys', async () => {
  const file = await createStorePath();
  const [database, otherDatabase] = [openDatabase(file), openDatabase(file)];
  const [keys, otherKeys] = await Promise.all([loadKeys(database), loadKeys(otherDatabase)]);
  assert.deepEqual(keys, otherKeys);
  for (const path of [file, `${file}-wal`]) assert.equal(statSync(path).mode & 0o777, 0o600);
  database.close();
  otherDatabase.close();
  writeFileSync(file, 'not a database '.repeat(100));
  assert.throws(() => openDatabase(file), /cannot use its store/);
});

/** Starts a provider that sends its events to a receiver. */
async function startWithReceiver(t: TestContext) {
  const receiver = await startReceiver();
  return { ...(await startIdp(t, { webhook: receiver.webhook })), receiver };
}

type Form = Record<string, string> | [string, string][];

/** Sends a form as the provider's own page does. */
function post(issuer: string, path: string, form: Form = {}, headers = {}): Promise<Response> {
  return new Browser().fetch(`${issuer}/control/${path}`, {
    method: 'POST',
    headers: { origin: issuer, 'sec-fetch-site': 'same-origin', ...headers },
    body: new URLSearchParams(form),
  });
}

/** Sends a form, and returns the page after its redirect. */
async function submit(issuer: string, path: string, form: Form = {}): Promise<string> {
  const response = await post(issuer, path, form);
  assert.equal(response.status, 303, await response.text());
  return (await send(getRedirectTarget(response))).text();
}

/** Returns the text between the tags, with single spaces. */
const extractText = (html: string) =>
  html
    .replaceAll(/<style>[^]*<\/style>|<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();

const extractNotice = (html: string) =>
  extractText(/<div class="notice"[^]*?<\/div>/.exec(html)?.[0] ?? '(none)');

test('Blocking an account ends its sign-ins', async (t) => {
  const { idp, issuer, receiver } = await startWithReceiver(t);
  const [olena, taras] = [await signIn(issuer), await signIn(issuer, 'u-taras')];
  const form = { account: 'u-olena' };
  assert.equal(
    extractNotice(await submit(issuer, 'block', form)),
    'Olena Koval is blocked, and all sign-ins of the account have ended. user.blocked delivered: responded with status 200',
  );
  assert.equal(idp.accounts[0]?.blocked, true);
  await assertEnded(issuer, olena);
  assert.equal((await fetchUserInfo(issuer, taras)).status, 200);
  const notices = [
    extractNotice(await submit(issuer, 'block', form)),
    extractNotice(await submit(issuer, 'unblock', form)),
    extractNotice(await submit(issuer, 'unblock', form)),
  ];
  assert.deepEqual(notices, [
    'Olena Koval was blocked already.',
    'Olena Koval can sign in again. user.unblocked delivered: responded with status 200',
    'Olena Koval was not blocked.',
  ]);
  await assertEnded(issuer, olena);
  assert.equal((await fetchUserInfo(issuer, await signIn(issuer))).status, 200);
  assert.deepEqual(receiver.events(), [
    ['user.blocked', 'u-olena'],
    ['user.unblocked', 'u-olena'],
  ]);
  for (const message of receiver.requests) assertSigned(message, SECRET);
});

test('Sign-ins of one account or of all can be ended', async (t) => {
  const { issuer, receiver } = await startWithReceiver(t);
  const [olena, taras] = [await signIn(issuer), await signIn(issuer, 'u-taras')];
  const html = await submit(issuer, 'revoke-sessions', { account: 'u-olena' });
  assert.match(extractNotice(html), /^All sign-ins of Olena Koval have ended\. session\.revoked/);
  await assertEnded(issuer, olena);
  assert.equal((await fetchUserInfo(issuer, taras)).status, 200);
  const page = await submit(issuer, 'log-out-everybody');
  assert.match(extractNotice(page), /^Everybody is logged out\. auth\.global_logout/);
  await assertEnded(issuer, taras);
  assert.deepEqual(receiver.events(), [
    ['session.revoked', 'u-olena'],
    ['auth.global_logout', undefined],
  ]);
  assert.equal((await fetchUserInfo(issuer, await signIn(issuer))).status, 200);
});

test('A form sets the roles and permissions of its checkboxes', async (t) => {
  const { idp, issuer, receiver } = await startWithReceiver(t);
  const tokens = await signIn(issuer);
  const form: [string, string][] = [
    ['account', 'u-olena'],
    ['role', 'svc_user'],
    ['role', 'svc_admin'],
    ['permission', 'svc.debug.access'],
  ];
  assert.match(
    extractNotice(await submit(issuer, 'access', form)),
    /^Roles and permissions of Olena Koval are saved\. client\.roles_changed delivered: .* client\.permissions_changed delivered/,
  );
  const userInfo = await parseJson(await fetchUserInfo(issuer, tokens));
  const access = { role_ids: ['svc_user', 'svc_admin'], permission_ids: ['svc.debug.access'] };
  assert.deepEqual(userInfo['client_access_list'], [{ client_id: 'oselya', ...access }]);
  assert.equal(
    extractNotice(await submit(issuer, 'access', form)),
    'Roles and permissions of Olena Koval are unchanged.',
  );
  await submit(issuer, 'access', { account: 'u-olena' });
  assert.deepEqual([idp.accounts[0]?.role_ids, idp.accounts[0]?.permission_ids], [[], []]);
  assert.equal(receiver.events().length, 4);
});

test('A notice appears once and does not wait for a receiver that hangs', async (t) => {
  const receiver = await startReceiver(['silence']);
  const { issuer } = await startIdp(t, { webhook: receiver.webhook });
  const location = getRedirectTarget(await post(issuer, 'log-out-everybody'));
  const notice = extractNotice(await (await send(location)).text());
  assert.match(notice, /auth\.global_logout being delivered: no response yet$/);
  assert.equal(extractNotice(await (await send(location)).text()), '(none)');
});

async function assertRejected(response: Response, status: number, pattern: RegExp) {
  assert.equal(response.status, status);
  assert.match(response.headers.get('content-security-policy') ?? '', /default-src 'none'/);
  const html = await response.text();
  assert.match(html, /Nothing was changed/);
  assert.match(html, pattern);
}

const PATHS = ['block', 'unblock', 'revoke-sessions', 'access', 'log-out-everybody'];

test('An invalid form, or one of another origin, changes nothing', async (t) => {
  const { idp, issuer, receiver } = await startWithReceiver(t);
  const tokens = await signIn(issuer);
  const previousAccounts = idp.accounts;
  const crossSiteHeaders = { 'sec-fetch-site': 'cross-site', origin: issuer };
  for (const path of PATHS) {
    const response = await post(issuer, path, { account: 'u-olena' }, crossSiteHeaders);
    await assertRejected(response, 403, /a different address/);
  }
  for (const path of PATHS.slice(0, 4)) {
    const response = await post(issuer, path, { account: '<b>unknown' });
    await assertRejected(response, 404, /no account “&#60;b&#62;unknown”/);
    await assertRejected(await post(issuer, path), 400, /account/);
  }
  const unknownRoleResponse = await post(issuer, 'access', { account: 'u-olena', role: 'root' });
  await assertRejected(unknownRoleResponse, 400, /role/);
  const largeFormResponse = await post(issuer, 'block', { account: 'x'.repeat(20_000) });
  await assertRejected(largeFormResponse, 413, /too large/);
  assert.deepEqual(idp.accounts, previousAccounts);
  assert.equal((await fetchUserInfo(issuer, tokens)).status, 200);
  await idp.webhooksSettled();
  assert.deepEqual([idp.deliveries, receiver.requests], [[], []]);
});

const FAST_RETRIES = { retryDelaysMs: [1, 1, 1], timeoutMs: 5000 };

test('Events are signed messages that arrive in their order', async () => {
  const { webhook, requests, events } = await startReceiver([500, 500, 400]);
  const webhooks = createWebhooks(webhook, FAST_RETRIES);
  const { id, occurred_at } = webhooks.send('user.blocked', 'u-1');
  webhooks.send('user.unblocked', 'u-1');
  webhooks.send('auth.global_logout');
  await webhooks.waitUntilSettled();
  const names = events().map(([event]) => event);
  const blockedEvents = ['user.blocked', 'user.blocked', 'user.blocked'];
  assert.deepEqual(names, [...blockedEvents, 'user.unblocked', 'auth.global_logout']);
  for (const message of requests) assertSigned(message, SECRET);
  for (const { headers, body } of requests.slice(0, 3)) {
    assert.equal(headers['webhook-id'], id);
    assert.deepEqual(body, { event: 'user.blocked', user_id: 'u-1', occurred_at });
  }
  assert.deepEqual(Object.keys(Object(requests.at(-1)?.body)), ['event', 'occurred_at']);
});

const scripts: [script: (number | 'silence')[], attempts: number, state: string, detail: string][] =
  [
    [[204], 1, 'delivered', 'responded with status 204'],
    [[500, 503], 3, 'delivered', 'responded with status 200'],
    [[408, 429, 425], 4, 'delivered', 'responded with status 200'],
    [[500, 500, 500, 502], 4, 'failed', 'responded with status 502'],
    [[400], 1, 'failed', 'responded with status 400'],
    [[302], 1, 'failed', 'responded with status 302'],
    [['silence', 'silence', 'silence', 'silence'], 4, 'failed', 'no response in time'],
  ];
test('An event is retried after outages and not after rejections', async () => {
  for (const [script, ...expected] of scripts) {
    const { webhook } = await startReceiver(script);
    const timeoutMs = script[0] === 'silence' ? 20 : 5000;
    const webhooks = createWebhooks(webhook, { ...FAST_RETRIES, timeoutMs });
    const { attempts, state, detail } = await sendAndSettle(webhooks);
    assert.deepEqual([attempts, state, detail], expected);
  }
  const unreachableWebhooks = createWebhooks(
    { url: await findUnusedUrl(), secret: SECRET },
    FAST_RETRIES,
  );
  const { attempts, detail } = await sendAndSettle(unreachableWebhooks);
  assert.deepEqual([attempts, detail], [4, 'cannot be reached (ECONNREFUSED)']);
  assert.equal((await sendAndSettle(createWebhooks())).detail, 'no webhook is set up');
});

async function sendAndSettle(webhooks: ReturnType<typeof createWebhooks>) {
  const delivery = webhooks.send('session.revoked', 'u-1');
  await webhooks.waitUntilSettled();
  return delivery;
}

test('Events fail when the provider stops', async () => {
  const { webhook, requests } = await startReceiver(['silence']);
  const webhooks = createWebhooks(webhook, { timeoutMs: 600_000, retryDelaysMs: [600_000] });
  const deliveries = [webhooks.send('user.blocked', 'u-1'), webhooks.send('user.unblocked', 'u-1')];
  await until('the first attempt', () => requests.length === 1);
  await webhooks.close();
  for (const { state, detail } of deliveries) {
    assert.deepEqual([state, detail], ['failed', 'the provider was stopped']);
  }
  assert.equal(requests.length, 1);
});

test('A signature equals the example of Standard Webhooks', () => {
  const key = Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64');
  const { 'webhook-signature': signature } = createSignedHeaders(key, {
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    timestamp: 1_614_265_330,
    body: '{"test": 2432232314}',
  });
  assert.equal(signature, 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
});
