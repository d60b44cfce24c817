import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { beforeEach, suite, test } from 'node:test';
import fc from 'fast-check';
import type { User } from '../../src/access/permissions.ts';
import { readConfig } from '../../src/config.ts';
import { createProvider } from '../../src/identity/provider/provider.ts';
import { NoEmailError, ProviderError } from '../../src/identity/provider/transport.ts';
import { parseProviderJson, readUserData } from '../../src/identity/provider/user-data.ts';
import { createTokenVault, UnreadableTokenError } from '../../src/identity/token-vault.ts';
import { type Fault, giveIdTokens, startScriptedProvider } from '../scripted-provider.ts';

const createKey = () => randomBytes(32).toString('base64url');

suite('provider', async () => {
  const scriptedProvider = await startScriptedProvider();
  const createConfiguredProvider = (env: Record<string, string> = {}) =>
    createProvider(
      readConfig({
        IDP_BASE_URL: scriptedProvider.url,
        IDP_CLIENT_ID: scriptedProvider.client.id,
        IDP_CLIENT_SECRET: scriptedProvider.client.secret,
        SVC_AUTH_ENCRYPTION_KEY: createKey(),
        ...env,
      }),
      (_operation, request) => request(),
    );
  const provider = createConfiguredProvider();
  const codeVerifier = 'v'.repeat(43);
  const login = { state: 's', codeVerifier };

  beforeEach(() => scriptedProvider.reset());

  async function redeem() {
    const callbackUrl = new URL(
      await scriptedProvider.authorize(await provider.buildAuthorizationUrl(login)),
    );
    const code = callbackUrl.searchParams.get('code') ?? '';
    return provider.redeem({ code, codeVerifier });
  }

  const isProviderError =
    (kind: ProviderError['kind'], messagePart: string) => (error: unknown) => {
      assert.ok(error instanceof ProviderError);
      assert.equal(error.kind, kind, `${messagePart}: ${error.message}`);
      assert.equal(error.cause, undefined);
      return true;
    };

  test('A token answer needs three members and may have more', async () => {
    for (const extra of [
      {},
      { token_type: 'Bearer', scope: 'openid' },
      { expires_in: '3600' },
      { id_token: 'not.a.jwt' },
    ]) {
      scriptedProvider.token.extra = extra;
      const { tokens, subject } = await redeem();
      assert.match(tokens.accessToken, /^access-/);
      assert.match(tokens.refreshToken ?? '', /^refresh-/);
      assert.deepEqual([tokens.expiresInSeconds, subject], [3600, undefined]);
    }
  });

  const htmlHeaders = { 'content-type': 'text/html' };
  const createOauthError = (status: number, error: string) => ({
    status,
    body: JSON.stringify({ error }),
  });
  const REJECTIONS = ['invalid_grant', 'access_denied', 'invalid_token', 'unauthorized_client'];
  const outages: Fault[] = [
    ...[400, 401, 403, 404, 408, 422, 429, 451, 500, 503].map((status) => ({ status })),
    ...['invalid_request', 'invalid_client', 'slow_down', 'forbidden'].map((error) =>
      createOauthError(401, error),
    ),
    ...[408, 425, 429, 500, 503].map((status) => createOauthError(status, 'invalid_grant')),
    { status: 401, body: '{"error":{"code":"invalid_grant"}}' },
    { status: 401, body: '["invalid_grant"]' },
    { status: 400, body: '<p>No</p>', headers: htmlHeaders },
    { status: 302, headers: { location: '/oauth/token' } },
    { status: 204 },
    { status: 200, body: 'null' },
    { status: 200, body: '{"access_token":7}' },
    { status: 200, body: '{"access_token":"a","token_type":"mac"}' },
    'disconnect',
  ];
  const rejections = REJECTIONS.flatMap((error) => [
    createOauthError(400, error),
    createOauthError(403, error),
  ]);
  const userRejections = [
    { status: 401 },
    { status: 401, body: '<p>No</p>', headers: htmlHeaders },
  ];
  const userOutages = [400, 403, 404, 429, 500].map((status) =>
    createOauthError(status, 'invalid_grant'),
  );

  for (const [title, endpoint, request, faults] of [
    [
      'A refresh is rejected by OAuth errors about the grant only',
      'token',
      () => provider.refresh('refresh'),
      { rejected: rejections, unavailable: outages },
    ],
    [
      'User data is rejected by 401 only',
      'userinfo',
      () => provider.fetchUser('access'),
      { rejected: userRejections, unavailable: userOutages },
    ],
  ] as const) {
    test(title, async () => {
      for (const kind of ['rejected', 'unavailable'] as const) {
        for (const fault of faults[kind]) {
          scriptedProvider.faults.set(endpoint, fault);
          await assert.rejects(request(), isProviderError(kind, JSON.stringify(fault)));
        }
      }
    });
  }

  test('An error message contains neither the request nor the answer', async () => {
    scriptedProvider.faults.set('token', {
      status: 400,
      body: '{"error":"s3cret","refresh":"s3cret"}',
    });
    await assert.rejects(provider.refresh('s3cret'), {
      message: '/oauth/token responded with status 400',
    });
  });

  test('Without discovery the endpoints are the configured paths', async () => {
    const customProvider = createConfiguredProvider({
      IDP_BASE_URL: 'http://127.0.0.1:1',
      IDP_AUTHORIZE_PATH: '/login',
      IDP_TOKEN_PATH: '/api/tokens',
      IDP_USERINFO_PATH: '/api/me',
      IDP_REVOKE_PATH: '/api/end',
    });
    const address = await customProvider.buildAuthorizationUrl(login);
    assert.match(address, /^http:\/\/127\.0\.0\.1:1\/login\?/);
    // The error of a request names its path.
    const redemption = customProvider.redeem({ code: 'code', codeVerifier });
    await assert.rejects(redemption, { message: /^\/api\/tokens / });
    await assert.rejects(customProvider.refresh('refresh'), { message: /^\/api\/tokens / });
    await assert.rejects(customProvider.fetchUser('access'), { message: /^\/api\/me / });
    await assert.rejects(customProvider.revoke('access', 'access_token'), {
      message: /^\/api\/end /,
    });
  });

  test('With discovery the endpoints are the published ones', async () => {
    const discoveryProvider = createConfiguredProvider({
      IDP_DISCOVERY: 'true',
      IDP_TOKEN_PATH: '/nowhere',
    });
    const beginLogin = () => discoveryProvider.buildAuthorizationUrl(login);
    await assert.rejects(beginLogin(), isProviderError('unavailable', 'without discovery'));
    scriptedProvider.publishMetadata();
    await giveIdTokens(scriptedProvider);
    const { searchParams } = new URL(await scriptedProvider.authorize(await beginLogin()));
    const answer = { code: searchParams.get('code') ?? '', codeVerifier };
    const foreignRedemption = discoveryProvider.redeem({
      ...answer,
      iss: 'https://another.example',
    });
    await assert.rejects(foreignRedemption, isProviderError('unavailable', 'another issuer'));
    assert.equal(scriptedProvider.count('token'), 0, 'the code of another issuer is not sent');
    const { tokens } = await discoveryProvider.redeem({ ...answer, iss: scriptedProvider.url });
    assert.equal((await discoveryProvider.fetchUser(tokens.accessToken)).id, 'u-1');
    await discoveryProvider.revoke(tokens.accessToken, 'access_token');
    assert.deepEqual(scriptedProvider.revokedTokens, [], 'the provider has no revocation endpoint');
  });
});

suite('user data', () => {
  const config = {
    IDP_CLIENT_ID: 'oselya',
    IDP_ADMIN_ROLE_SLUG: 'svc_admin',
    IDP_ROLES_CLAIM: '',
    IDP_PERMISSIONS_CLAIM: '',
  };
  const account = { sub: 'u-1', email: 'olena@example.test' };
  const NO_ACCESS: Partial<User> = { role: 'user', permissions: [] };
  const entry = { client_id: 'oselya', role_ids: ['svc_admin'], permission_ids: ['svc.tools.use'] };
  const otherEntry = { ...entry, client_id: 'other' };
  const createUserData = (client_access_list: unknown) => ({ ...account, client_access_list });

  const cases: [title: string, answer: unknown, expected: Partial<User>][] = [
    ['sub before id', { ...account, id: 'u-2' }, { id: 'u-1', display_name: null, ...NO_ACCESS }],
    ['id without sub', { id: 'u-2', email: 'a@example.test' }, { id: 'u-2' }],
    [
      'the name of the profile first',
      { ...account, name: 'N', profile: { display_name: 'О' } },
      { display_name: 'О' },
    ],
    ['no long name', { ...account, name: 'O'.repeat(256) }, { display_name: null }],
    [
      'the next name after one that cannot be stored',
      { ...account, name: 'N', profile: { display_name: 'P\0' } },
      { display_name: 'N' },
    ],
    [
      'slugs that can be stored, once',
      createUserData([{ ...entry, permission_ids: ['a', 'a\0', 'b', '\udc00', 'a', ''] }]),
      { permissions: ['a', 'b'] },
    ],
    [
      'one entry of several',
      createUserData([otherEntry, entry]),
      { role: 'admin', permissions: ['svc.tools.use'] },
    ],
    [
      'the role slug literally',
      createUserData([{ ...entry, role_ids: ['SVC_ADMIN', 'svc_admin '] }]),
      { role: 'user', permissions: ['svc.tools.use'] },
    ],
    ['no entry of another client', createUserData([otherEntry]), NO_ACCESS],
    ['no roles that are a text', createUserData([{ ...entry, role_ids: 'svc_admin' }]), NO_ACCESS],
    ['no numbers as permissions', createUserData([{ ...entry, permission_ids: [1] }]), NO_ACCESS],
    ['no ambiguous entries', createUserData([entry, { ...entry, role_ids: [] }]), NO_ACCESS],
    [
      'no list beyond its limit',
      createUserData([{ ...entry, permission_ids: Array(1001).fill('a') }]),
      NO_ACCESS,
    ],
  ];

  test('Malformed user data grants no permissions', () => {
    for (const [title, answer, expected] of cases) {
      const user = readUserData(answer, config);
      assert.deepEqual(user, { ...user, ...expected }, title);
    }
    fc.assert(
      fc.property(fc.jsonValue(), (list) => {
        const user = readUserData(createUserData(list), config);
        assert.deepEqual(user, { ...user, ...NO_ACCESS });
      }),
    );
  });

  test('An integer is an exact id', () => {
    for (const member of ['sub', 'id']) {
      for (const id of ['0', '78', '9007199254740993', '12345678901234567890']) {
        const answer = parseProviderJson(`{"${member}":${id},"email":"olena@example.test"}`);
        assert.equal(readUserData(answer, config).id, id);
      }
    }
  });

  test('The configured claims and role give role and permissions', () => {
    const claims = {
      ...config,
      IDP_ADMIN_ROLE_SLUG: 'landlord',
      IDP_ROLES_CLAIM: 'realm.access.roles',
      IDP_PERMISSIONS_CLAIM: 'scope',
    };
    const readWithClaims = (extraMembers: object) =>
      readUserData({ ...account, ...extraMembers }, claims);
    assert.equal(readWithClaims({ realm: { access: { roles: ['landlord'] } } }).role, 'admin');
    assert.equal(readWithClaims({ 'realm.access.roles': ['landlord'] }).role, 'admin');
    const { permissions } = readWithClaims({ scope: 'svc.tools.use  svc.debug.access' });
    assert.deepEqual(permissions, ['svc.tools.use', 'svc.debug.access']);
    assert.equal(
      readWithClaims({ client_access_list: [{ ...entry, role_ids: ['landlord'] }] }).role,
      'user',
    );
    for (const realm of [null, 'access', { access: { roles: { landlord: true } } }]) {
      assert.equal(readWithClaims({ realm }).role, 'user');
    }
    const inheritedClaim = { ...claims, IDP_ROLES_CLAIM: 'constructor.name' };
    const user = readUserData(account, { ...inheritedClaim, IDP_ADMIN_ROLE_SLUG: 'Object' });
    assert.equal(user.role, 'user', 'an inherited property is not a claim');
  });

  test('A user needs a valid id and email', () => {
    for (const answer of [
      null,
      'u-1',
      { ...account, sub: '' },
      parseProviderJson('{"sub":7.5,"email":"olena@example.test"}'),
      { ...account, sub: 'u-1\0' },
      { ...account, sub: 'u'.repeat(256) },
    ]) {
      assert.throws(
        () => readUserData(answer, config),
        (error) => error instanceof ProviderError && error.kind === 'unavailable',
      );
    }
    for (const email of [undefined, '', 'o@example.test\0', `${'o'.repeat(310)}@example.test`]) {
      assert.throws(() => readUserData({ ...account, email }, config), NoEmailError);
    }
  });
});

suite('token vault', async () => {
  const keyText = createKey();
  const vault = createTokenVault(keyText, []);
  const TOKEN = 'an access token';
  const owner = { id: 's-1', user_id: 'u-1' };

  const sealToken = async (token: string, sealingVault = vault) =>
    (await sealingVault.seal({ accessToken: token, expiresInSeconds: undefined }, owner))
      .access_token_enc;
  const openToken = (access_token_enc: string, sealingVault = vault, row = owner) =>
    sealingVault.open({ ...row, access_token_enc }, 'access_token_enc');
  const sealedToken = await sealToken(TOKEN);
  const parts = sealedToken.split('.');
  const headerText = Buffer.from(parts[0] ?? '', 'base64url').toString();

  /** Asserts that a token is rejected without a cause, which could quote it. */
  const assertUnreadable = (token: Promise<string>) =>
    assert.rejects(
      token,
      (error: unknown) => error instanceof UnreadableTokenError && error.cause === undefined,
    );

  test('A token is sealed as a JWE that reveals neither token nor row', async () => {
    assert.partialDeepStrictEqual(JSON.parse(headerText), { alg: 'dir', enc: 'A256GCM' });
    for (const secret of [TOKEN, 's-1', 'u-1', keyText]) {
      assert.ok(!(headerText + sealedToken).includes(secret));
    }
    assert.notEqual(await sealToken(TOKEN), sealedToken);
    for (const token of ['', 'Олена', TOKEN])
      assert.equal(await openToken(await sealToken(token)), token);
  });

  test('A token opens only with its key, unchanged, in its row and column', async () => {
    const rotatedVault = createTokenVault(createKey(), [keyText]);
    assert.equal(await openToken(sealedToken, rotatedVault), TOKEN);
    await assertUnreadable(openToken(await sealToken(TOKEN, rotatedVault)));
    for (const part of [0, 2, 3, 4]) {
      const changedPart = Buffer.from(parts[part] ?? '', 'base64url');
      changedPart[1] = (changedPart[1] ?? 0) ^ 1;
      await assertUnreadable(
        openToken(parts.with(part, changedPart.toString('base64url')).join('.')),
      );
    }
    for (const change of [{ alg: 'none' }, { enc: 'A128CBC-HS256' }, { zip: 'DEF' }, { kid: '' }]) {
      const header = JSON.stringify({ ...JSON.parse(headerText), ...change });
      const forgedParts = parts.with(0, Buffer.from(header).toString('base64url'));
      await assertUnreadable(openToken(forgedParts.join('.')));
    }
    await assertUnreadable(openToken(sealedToken, vault, { ...owner, id: 's-2' }));
    await assertUnreadable(openToken(sealedToken, vault, { ...owner, user_id: 'u-2' }));
    const movedRow = { ...owner, refresh_token_enc: sealedToken };
    await assertUnreadable(vault.open(movedRow, 'refresh_token_enc'));
  });
});
