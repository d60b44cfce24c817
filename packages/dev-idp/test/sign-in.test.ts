import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Browser, getRedirectTarget } from '@oselya/testing';
import { sampleAccounts } from '../src/server.ts';
import {
  assertEnded,
  authorization,
  client,
  errorOf,
  openPicker,
  pick,
  postAsClient,
  redeem,
  redirectUri,
  refresh,
  send,
  signIn,
  signInToCode,
  startIdp,
  tokensOf,
  userInfo,
} from './support.ts';

const json = async (response: Response): Promise<Record<string, unknown>> =>
  JSON.parse(await response.text());

test('Discovery names the endpoints of the contract and publishes public keys only', async (t) => {
  const { issuer } = await startIdp(t);
  const document = await json(await send(`${issuer}/.well-known/openid-configuration`));
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
  const { keys } = await json(await send(`${issuer}/oauth/jwks`));
  assert.deepEqual(
    (keys as object[]).map((key) => Object.keys(key).toSorted()),
    [['alg', 'e', 'kid', 'kty', 'n', 'use']],
  );
});

suite('authorization', () => {
  test('A code gives tokens and the user data of the contract', async (t) => {
    const { issuer } = await startIdp(t);
    const { callback, verifier } = await signInToCode(issuer);
    assert.equal(callback.origin + callback.pathname, redirectUri);
    assert.equal(callback.searchParams.get('state'), 'state-1');
    const tokens = await tokensOf(await redeem(issuer, callback, verifier));
    assert.equal(tokens.expires_in, 300);
    const [olena] = sampleAccounts;
    assert.deepEqual(await json(await userInfo(issuer, tokens)), {
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
    const { url, verifier } = authorization(issuer, { scope: 'openid roles' });
    const picker = await openPicker(issuer, browser, url);
    const callback = await pick(browser, picker, { account: 'u-taras' });
    const tokens = await tokensOf(await redeem(issuer, callback, verifier));
    assert.deepEqual(await json(await userInfo(issuer, tokens)), {
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
      const { url } = authorization(issuer, changes);
      const { searchParams } = getRedirectTarget(await new Browser().get(url));
      assert.ok(searchParams.get('error'));
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
      const response = await new Browser().get(authorization(issuer, changes).url);
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
    const silent = authorization(issuer, { prompt: 'none' }).url;
    const callback = await openPicker(issuer, browser, silent);
    assert.equal(callback.searchParams.get('error'), 'login_required');
    const picker = await openPicker(issuer, browser);
    const other = await pick(browser, picker, { account: 'u-taras' });
    assert.ok(other.searchParams.has('code'));
  });
});

suite('choice of an account', () => {
  test('The sign-in page offers every account and rejects blocked and unknown ones', async (t) => {
    const { idp, issuer } = await startIdp(t);
    const browser = new Browser();
    const picker = await openPicker(issuer, browser);
    const response = await browser.get(picker);
    assert.equal(response.headers.get('cache-control'), 'no-store');
    const buttons = [
      ...(await response.text()).matchAll(
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
    const rejected: Record<string, string>[] = [{ account: 'u-olena' }, { account: 'u-x' }, {}];
    for (const form of rejected) {
      const answer = await browser.post(picker, form);
      assert.equal(answer.status, 400);
      assert.match(await answer.text(), /This account cannot sign in/);
    }
    const callback = await pick(browser, picker, { account: 'u-taras' });
    assert.ok(callback.searchParams.has('code'));
  });

  test('A cancelled sign-in, or one of a blocked account, is access_denied', async (t) => {
    const { idp, issuer } = await startIdp(t);
    const browser = new Browser();
    const cancelled = await pick(browser, await openPicker(issuer, browser), { action: 'cancel' });
    const picker = await openPicker(issuer, browser);
    const resume = getRedirectTarget(await browser.post(picker, { account: 'u-olena' }));
    idp.setBlocked('u-olena', true);
    const blocked = getRedirectTarget(await browser.get(resume));
    for (const callback of [cancelled, blocked]) {
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
    const stranger = new Browser();
    const lost = [await stranger.get(picker), await stranger.post(picker, { account: 'u-olena' })];
    const resume = getRedirectTarget(await browser.post(picker, { account: 'u-olena' }));
    await browser.get(resume);
    lost.push(await browser.post(picker, { account: 'u-olena' }));
    for (const response of lost) {
      assert.equal(response.status, 400);
      assert.match(await response.text(), /no longer open[^]*Go to the application/);
    }
    const resumed = await browser.get(resume);
    assert.equal(resumed.status, 400);
    assert.match(await resumed.text(), /request was rejected[^]*Go to the application/);
  });
});

suite('tokens', () => {
  test('A second use of a code ends its tokens', async (t) => {
    const { issuer } = await startIdp(t);
    const { callback, verifier } = await signInToCode(issuer);
    const tokens = await tokensOf(await redeem(issuer, callback, verifier));
    const answer = await redeem(issuer, callback, verifier);
    assert.deepEqual(await errorOf(answer), [400, 'invalid_grant']);
    await assertEnded(issuer, tokens);
  });

  test('Tokens need the client secret, by HTTP Basic or in the body', async (t) => {
    const { issuer } = await startIdp(t);
    const { refresh_token } = await signIn(issuer);
    const form = { grant_type: 'refresh_token', refresh_token };
    const post = (fields: Record<string, string>, headers: Record<string, string> = {}) =>
      send(`${issuer}/oauth/token`, {
        method: 'POST',
        headers,
        body: new URLSearchParams({ ...form, ...fields }),
      });
    const basic = { authorization: `Basic ${btoa('oselya:wrong')}` };
    const wrong = await post({ client_id: client.id, client_secret: 'wrong' });
    for (const answer of [wrong, await post({}, basic)]) {
      assert.deepEqual(await errorOf(answer), [401, 'invalid_client']);
    }
    const right = await post({ client_id: client.id, client_secret: client.secret });
    assert.equal(right.status, 200);
  });

  test('A second use of a rotated refresh token ends the sign-in', async (t) => {
    const { issuer } = await startIdp(t);
    const first = await signIn(issuer);
    const second = await tokensOf(await refresh(issuer, first));
    assert.notEqual(second.refresh_token, first.refresh_token);
    assert.equal((await userInfo(issuer, second)).status, 200);
    assert.deepEqual(await errorOf(await refresh(issuer, first)), [400, 'invalid_grant']);
    await assertEnded(issuer, second);
  });

  test('Concurrent refreshes with one token redeem it once', async (t) => {
    const { issuer } = await startIdp(t);
    const tokens = await signIn(issuer);
    const answers = await Promise.all(Array.from({ length: 8 }, () => refresh(issuer, tokens)));
    const accepted = answers.filter(({ status }) => status === 200);
    assert.equal(accepted.length, 1);
    for (const answer of answers) {
      if (answer.status === 200) await assertEnded(issuer, await tokensOf(answer));
      else assert.deepEqual(await errorOf(answer), [400, 'invalid_grant']);
    }
  });

  test('A revocation ends one sign-in', async (t) => {
    const { issuer } = await startIdp(t);
    const [one, other] = [await signIn(issuer), await signIn(issuer)];
    const answer = await postAsClient(issuer, '/oauth/revoke', { token: one.refresh_token });
    assert.equal(answer.status, 200);
    await assertEnded(issuer, one);
    assert.equal((await userInfo(issuer, other)).status, 200);
  });

  test('Tokens expire, and a refresh does not prolong a sign-in', async (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
    const { issuer } = await startIdp(t, { accessTokenSeconds: 20, refreshTokenSeconds: 100 });
    const first = await signIn(issuer);
    assert.equal(first.expires_in, 20);
    t.mock.timers.tick(19_000);
    assert.equal((await userInfo(issuer, first)).status, 200);
    t.mock.timers.tick(2_000);
    assert.deepEqual(await errorOf(await userInfo(issuer, first)), [401, 'invalid_token']);
    t.mock.timers.tick(39_000);
    const second = await tokensOf(await refresh(issuer, first));
    t.mock.timers.tick(41_000);
    assert.deepEqual(await errorOf(await refresh(issuer, second)), [400, 'invalid_grant']);
  });
});
