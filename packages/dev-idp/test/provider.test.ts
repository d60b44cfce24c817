import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sampleAccounts } from '../src/index.ts';
import { Browser } from './helpers/browser.ts';
import {
  authorization,
  client,
  openPicker,
  pick,
  postAsClient,
  redeem,
  redirectUri,
  refresh,
  refusalOf,
  signIn,
  tokensOf,
  userInfo,
} from './helpers/client.ts';
import { send } from './helpers/http.ts';
import { startIdp } from './helpers/start.ts';

describe('discovery', () => {
  test('names the endpoints of the contract and nothing that is switched off', async (t) => {
    const { issuer } = await startIdp(t);
    const response = await send(new URL('/.well-known/openid-configuration', issuer));
    const document: Record<string, unknown> = JSON.parse(await response.text());

    assert.equal(document['issuer'], issuer);
    const endpoints = Object.entries(document).filter(([name]) =>
      /_endpoint$|^jwks_uri$/.test(name),
    );
    assert.deepEqual(Object.fromEntries(endpoints), {
      authorization_endpoint: `${issuer}/oauth/authorize`,
      jwks_uri: `${issuer}/oauth/jwks`,
      revocation_endpoint: `${issuer}/oauth/revoke`,
      token_endpoint: `${issuer}/oauth/token`,
      userinfo_endpoint: `${issuer}/oauth/userinfo`,
    });
    assert.deepEqual(document['code_challenge_methods_supported'], ['S256']);
    assert.deepEqual(document['token_endpoint_auth_methods_supported'], [
      'client_secret_basic',
      'client_secret_post',
    ]);
    assert.deepEqual(document['scopes_supported'], [
      'openid',
      'email',
      'profile',
      'roles',
      'permissions',
    ]);
  });

  test('publishes the public half of the signing key only', async (t) => {
    const { issuer } = await startIdp(t);
    const response = await send(new URL('/oauth/jwks', issuer));
    const { keys }: { keys: object[] } = JSON.parse(await response.text());
    assert.deepEqual(
      keys.map((key) => Object.keys(key).toSorted()),
      [['alg', 'e', 'kid', 'kty', 'n', 'use']],
    );
  });
});

describe('authorization', () => {
  test('gives a code that is worth tokens and the user data of the contract', async (t) => {
    const { issuer } = await startIdp(t);
    const browser = new Browser();
    const { url, verifier } = authorization(issuer);
    const callback = await pick(browser, await openPicker(issuer, browser, url), {
      account: 'u-olena',
    });
    assert.equal(callback.origin + callback.pathname, redirectUri);
    assert.equal(callback.searchParams.get('state'), 'state-1');

    const tokens = await tokensOf(await redeem(issuer, callback, verifier));
    assert.equal(tokens.expires_in, 300);
    assert.match(tokens.access_token, /^[\w-]{43}$/);
    assert.match(tokens.refresh_token, /^[\w-]{43}$/);

    const response = await userInfo(issuer, tokens);
    assert.deepEqual(await response.json(), {
      sub: 'u-olena',
      email: 'olena@example.test',
      profile: { display_name: 'Olena Koval' },
      client_access_list: [
        {
          client_id: 'oselya',
          role_ids: ['svc_user'],
          permission_ids: sampleAccounts[0]?.permission_ids,
        },
      ],
    });
  });

  test('gives user data for the granted scopes only', async (t) => {
    const { issuer } = await startIdp(t);
    const browser = new Browser();
    const { url, verifier } = authorization(issuer, { scope: 'openid roles' });
    const callback = await pick(browser, await openPicker(issuer, browser, url), {
      account: 'u-taras',
    });
    const response = await userInfo(
      issuer,
      await tokensOf(await redeem(issuer, callback, verifier)),
    );
    assert.deepEqual(await response.json(), {
      sub: 'u-taras',
      client_access_list: [{ client_id: 'oselya', role_ids: ['svc_admin'] }],
    });
  });

  test('without PKCE is refused, and plain is no method', async (t) => {
    const { issuer } = await startIdp(t);
    for (const changes of [
      { code_challenge: undefined, code_challenge_method: undefined },
      { code_challenge_method: 'plain' },
    ]) {
      const callback = await openPicker(issuer, new Browser(), authorization(issuer, changes).url);
      assert.equal(callback.origin + callback.pathname, redirectUri);
      assert.equal(callback.searchParams.get('error'), 'invalid_request');
    }
  });

  test('with an unregistered address or client shows a page and redirects nowhere', async (t) => {
    const { issuer } = await startIdp(t);
    for (const [changes, status, message] of [
      [{ redirect_uri: 'http://127.0.0.1:8000/elsewhere' }, 400, /invalid_redirect_uri/],
      [{ client_id: 'stranger' }, 400, /invalid_client/],
      [{ client_id: '<script>' }, 400, /invalid_client/],
    ] as const) {
      const response = await new Browser().get(authorization(issuer, changes).url);
      assert.equal(response.status, status);
      assert.equal(response.headers.get('location'), null);
      assert.match(response.headers.get('content-security-policy') ?? '', /default-src 'none'/);
      const html = await response.text();
      assert.match(html, message);
      assert.match(html, /<a href="http:\/\/127\.0\.0\.1:8000\/">Go to the application<\/a>/);
      assert.doesNotMatch(html, /<script>/);
    }
  });

  test('keeps no session: the next sign-in shows the choice again', async (t) => {
    const { issuer } = await startIdp(t);
    const browser = new Browser();
    await signIn(issuer, 'u-olena', browser);
    assert.ok(!browser.cookieNames.includes('oselya_idp_session'));

    const picker = await openPicker(issuer, browser);
    assert.match(picker.pathname, /^\/interaction\//);
    const callback = await pick(browser, picker, { account: 'u-taras' });
    assert.ok(callback.searchParams.has('code'));
  });

  test('without interaction is refused, since nobody has a session', async (t) => {
    const { issuer } = await startIdp(t);
    const browser = new Browser();
    await signIn(issuer, 'u-olena', browser);
    const callback = await openPicker(
      issuer,
      browser,
      authorization(issuer, { prompt: 'none' }).url,
    );
    assert.equal(callback.searchParams.get('error'), 'login_required');
  });
});

describe('token', () => {
  test('refuses a wrong verifier', async (t) => {
    const { issuer } = await startIdp(t);
    const browser = new Browser();
    const callback = await pick(browser, await openPicker(issuer, browser), { account: 'u-olena' });
    const { verifier } = authorization(issuer);
    assert.deepEqual(await refusalOf(await redeem(issuer, callback, verifier)), [
      400,
      'invalid_grant',
    ]);
  });

  test('refuses a spent code and revokes what it was worth', async (t) => {
    const { issuer } = await startIdp(t);
    const browser = new Browser();
    const { url, verifier } = authorization(issuer);
    const callback = await pick(browser, await openPicker(issuer, browser, url), {
      account: 'u-olena',
    });
    const tokens = await tokensOf(await redeem(issuer, callback, verifier));
    assert.deepEqual(await refusalOf(await redeem(issuer, callback, verifier)), [
      400,
      'invalid_grant',
    ]);
    assert.equal((await userInfo(issuer, tokens)).status, 401);
  });

  test('takes the secret in the body too, and refuses a wrong one either way', async (t) => {
    const { issuer } = await startIdp(t);
    const tokens = await signIn(issuer);
    const post = (secret: string) =>
      send(new URL('/oauth/token', issuer), {
        method: 'POST',
        body: new URLSearchParams({
          grant_type: 'refresh_token',
          refresh_token: tokens.refresh_token,
          client_id: client.id,
          client_secret: secret,
        }),
      });
    assert.deepEqual(await refusalOf(await post('wrong')), [401, 'invalid_client']);
    const basic = await send(new URL('/oauth/token', issuer), {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('oselya:wrong')}` },
      body: new URLSearchParams({
        grant_type: 'refresh_token',
        refresh_token: tokens.refresh_token,
      }),
    });
    assert.deepEqual(await refusalOf(basic), [401, 'invalid_client']);
    assert.equal((await post(client.secret)).status, 200);
  });

  test('rotates the refresh token; using the old one again ends the sign-in', async (t) => {
    const { issuer } = await startIdp(t);
    const first = await signIn(issuer);
    const second = await tokensOf(await refresh(issuer, first));
    assert.notEqual(second.refresh_token, first.refresh_token);
    assert.equal((await userInfo(issuer, second)).status, 200);

    assert.deepEqual(await refusalOf(await refresh(issuer, first)), [400, 'invalid_grant']);
    assert.deepEqual(await refusalOf(await refresh(issuer, second)), [400, 'invalid_grant']);
    assert.equal((await userInfo(issuer, second)).status, 401);
  });

  test('redeems a refresh token once however many requests carry it', async (t) => {
    const { issuer } = await startIdp(t);
    const tokens = await signIn(issuer);
    const answers = await Promise.all(Array.from({ length: 8 }, () => refresh(issuer, tokens)));
    const accepted = answers.filter(({ status }) => status === 200);
    assert.equal(accepted.length, 1);
    for (const answer of answers.filter(({ status }) => status !== 200)) {
      assert.deepEqual(await refusalOf(answer), [400, 'invalid_grant']);
    }
    for (const answer of accepted) {
      assert.equal((await userInfo(issuer, await tokensOf(answer))).status, 401);
    }
  });
});

describe('revocation', () => {
  test('of the refresh token ends the sign-in', async (t) => {
    const { issuer } = await startIdp(t);
    const tokens = await signIn(issuer);
    const response = await postAsClient(issuer, '/oauth/revoke', { token: tokens.refresh_token });
    assert.equal(response.status, 200);
    assert.equal((await userInfo(issuer, tokens)).status, 401);
    assert.deepEqual(await refusalOf(await refresh(issuer, tokens)), [400, 'invalid_grant']);
  });

  test('of one sign-in leaves the others alone', async (t) => {
    const { issuer } = await startIdp(t);
    const [one, other] = [await signIn(issuer), await signIn(issuer)];
    await postAsClient(issuer, '/oauth/revoke', { token: one.refresh_token });
    assert.equal((await userInfo(issuer, other)).status, 200);
  });
});
