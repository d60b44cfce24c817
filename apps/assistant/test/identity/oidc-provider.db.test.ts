import assert from 'node:assert/strict';
import { createPublicKey } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, beforeEach, suite, test } from 'node:test';
import { Browser as HttpBrowser, findFreePort, type Page } from '@oselya/testing';
import { type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { Provider } from 'oidc-provider';
import { Browser, openAssistant } from '../helpers/assistant.ts';
import { makeSigningKey } from '../scripted-provider.ts';

const {
  db,
  provider: scripted,
  createInstance,
  signInUser,
  findAuthSession,
  expireToken,
} = await openAssistant();
const listSessions = () => db.selectFrom('user_auth_sessions').selectAll().orderBy('id').execute();

suite('oidc-provider', async () => {
  // The pages, scopes and claims of this provider differ from those of the development provider.
  const [providerPort, port] = [await findFreePort(), await findFreePort()];
  const issuer = `http://127.0.0.1:${providerPort}`;
  const assistantUrl = `http://127.0.0.1:${port}`;
  const redeemedGrants: string[] = [];

  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'oselya',
        client_secret: 'the secret of the client',
        redirect_uris: [`${assistantUrl}/auth/callback`],
        post_logout_redirect_uris: [`${assistantUrl}/`],
        backchannel_logout_uri: `${assistantUrl}/auth/backchannel-logout`,
        backchannel_logout_session_required: true,
        grant_types: ['authorization_code', 'refresh_token'],
      },
    ],
    scopes: ['openid', 'offline_access'],
    claims: { openid: ['sub'], email: ['email', 'name'], groups: ['groups'] },
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({
        sub: id,
        email: `${id}@example.test`,
        name: id,
        groups: ['svc_admin', 'svc.tools.use'],
      }),
    }),
    features: {
      devInteractions: { enabled: true },
      backchannelLogout: { enabled: true },
      rpInitiatedLogout: { enabled: true },
      revocation: { enabled: true },
    },
    rotateRefreshToken: true,
    // The provider's default dispatcher rejects loopback addresses.
    fetch: (url, options) => fetch(url, Object.assign({ ...options }, { dispatcher: undefined })),
  });
  provider.on('grant.success', ({ oidc }) =>
    redeemedGrants.push(String(oidc.params?.['grant_type'])),
  );
  const deliveryErrors: unknown[] = [];
  provider.on('backchannel.error', (_context, error) => deliveryErrors.push(error));
  const handle = provider.callback();
  const server = createServer((request, response) => void handle(request, response)).listen(
    providerPort,
    '127.0.0.1',
  );
  await once(server, 'listening');
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  const app = await createInstance({
    BASE_URL: assistantUrl,
    IDP_BASE_URL: issuer,
    IDP_DISCOVERY: 'true',
    IDP_CLIENT_ID: 'oselya',
    IDP_CLIENT_SECRET: 'the secret of the client',
    IDP_SCOPES: 'openid email groups offline_access',
    IDP_ROLES_CLAIM: 'groups',
    IDP_PERMISSIONS_CLAIM: 'groups',
    IDP_END_SESSION: 'true',
  });
  await app.listen({ host: '127.0.0.1', port });

  /** Signs in on the provider's pages, and consents. */
  async function signIn(browser: HttpBrowser, login: string): Promise<Page> {
    const form = await browser.open(`${assistantUrl}/auth/login`);
    const consent = await browser.submit(form, { login, password: 'any' });
    return browser.submit(consent);
  }

  const requestMe = async (browser: HttpBrowser) => {
    const response = await browser.fetch(new URL(`${assistantUrl}/auth/me`), {
      headers: { accept: 'application/json' },
    });
    return { status: response.status, user: (await response.json()) as Record<string, unknown> };
  };

  test('Discovery, the configured scopes and claims sign a user in', async () => {
    const browser = new HttpBrowser();
    const page = await signIn(browser, 'olena');
    assert.equal(page.url.href, `${assistantUrl}/`);
    assert.match(page.body, /You are signed in as <strong>olena/);
    const { user } = await requestMe(browser);
    assert.partialDeepStrictEqual(user, {
      id: 'olena',
      email: 'olena@example.test',
      role: 'admin',
    });
    assert.deepEqual(user['permissions'], ['svc_admin', 'svc.tools.use']);
    const [session] = await listSessions();
    assert.ok(session?.provider_session_id && session.id_token_enc);
  });

  test('A refresh token of offline access is rotated at each refresh', async () => {
    const browser = new HttpBrowser();
    await signIn(browser, 'taras');
    for (let refreshes = 0; refreshes < 3; refreshes += 1) {
      redeemedGrants.length = 0;
      await db
        .updateTable('user_auth_sessions')
        .set({ expires_at: new Date(0) })
        .execute();
      assert.equal((await requestMe(browser)).status, 200);
      assert.deepEqual(redeemedGrants, ['refresh_token']);
    }
  });

  test('A sign-out ends the provider’s session and returns', async () => {
    const browser = new HttpBrowser();
    await signIn(browser, 'lesia');
    const confirmationPage = await browser.open(`${assistantUrl}/auth/logout?from=page`, {});
    assert.match(confirmationPage.url.href, new RegExp(`^${issuer}/session/end`));
    assert.match(confirmationPage.body, /Do you want to sign-out/);
    const returnPage = await browser.submit(confirmationPage, { logout: 'yes' });
    assert.equal(returnPage.url.href, `${assistantUrl}/`);
    assert.match(returnPage.body, /You are not signed in/);
    const loginPage = await browser.open(`${assistantUrl}/auth/login`);
    assert.match(loginPage.body, /name="login"/, 'the provider asks for the account');
  });

  test('A back-channel logout ends the sign-ins of the provider’s session', async () => {
    const [laptop, phone] = [new HttpBrowser(), new HttpBrowser()];
    await signIn(laptop, 'mykola');
    await signIn(phone, 'mykola');
    const endPage = await laptop.open(`${issuer}/session/end`);
    await laptop.submit(endPage, { logout: 'yes' });
    assert.equal((await requestMe(laptop)).status, 401);
    assert.equal((await requestMe(phone)).status, 200, 'the other session stays');
    assert.deepEqual(deliveryErrors, []);
    const rows = await db.selectFrom('webhook_events').selectAll().execute();
    assert.partialDeepStrictEqual(rows, [{ event: 'backchannel_logout', sessions_ended: 1 }]);
  });
});

suite('ID tokens', async () => {
  const [key, sameIdKey, otherKey] = await Promise.all([
    makeSigningKey('k-1'),
    makeSigningKey('k-1'),
    makeSigningKey('k-2'),
  ]);
  const plainApp = await createInstance();
  const createDiscoveryApp = () => createInstance({ IDP_DISCOVERY: 'true' });
  const app = await createDiscoveryApp();
  const getUnixSeconds = () => Math.floor(Date.now() / 1000);
  const createClaims = () => scripted.createIdClaims();

  beforeEach(() => {
    scripted.reset();
    scripted.publishMetadata();
    scripted.keys = [key.published];
    scripted.idToken = () => key.sign(createClaims());
  });

  const signInAt = (server: typeof app) => new Browser(server).signIn(scripted);

  async function assertRejected(server: typeof app, title: string): Promise<void> {
    const earlierSessions = await listSessions();
    const response = await signInAt(server);
    assert.deepEqual([response.statusCode, response.cookies], [400, []], title);
    assert.equal(response.json().code, 'token_exchange_failed');
    assert.deepEqual(await listSessions(), earlierSessions);
  }

  const signWithHmac = (secret: string) =>
    new SignJWT(createClaims())
      .setProtectedHeader({ alg: 'HS256', kid: 'k-1' })
      .sign(new TextEncoder().encode(secret));
  const { n = '', e = '' } = key.published;
  const publicKey = createPublicKey({ key: { ...key.published, kty: 'RSA', n, e }, format: 'jwk' });

  const forgedTokens: [title: string, create: () => Promise<string>][] = [
    ['of another key with the same id', () => sameIdKey.sign(createClaims())],
    ['of an unpublished key', () => otherKey.sign(createClaims())],
    [
      'with other claims',
      async () => {
        const [header, , signature] = (await key.sign(createClaims())).split('.');
        const [, payload] = (await sameIdKey.sign({ ...createClaims(), sub: 'u-2' })).split('.');
        return [header, payload, signature].join('.');
      },
    ],
    ['without a signature', async () => (await key.sign(createClaims())).replace(/[^.]+$/, '')],
    ['without an algorithm', async () => new UnsecuredJWT(createClaims()).encode()],
    ['signed with the client secret', () => signWithHmac(scripted.client.secret)],
    [
      'signed with the public key as a secret',
      () => signWithHmac(publicKey.export({ type: 'spki', format: 'pem' }).toString()),
    ],
    ['that is malformed', async () => 'not.a.jwt'],
  ];
  const invalidClaims: [title: string, claims: JWTPayload][] = [
    ['of another issuer', { iss: 'https://another.example' }],
    ['for another client', { aud: 'other' }],
    ['for several clients', { aud: ['oselya', 'other'], azp: 'other' }],
    ['that has expired', { exp: getUnixSeconds() - 60 }],
    ['without an expiry', { exp: undefined }],
    ['that is not valid yet', { nbf: getUnixSeconds() + 3600 }],
    ['of the future', { iat: getUnixSeconds() + 3600, exp: getUnixSeconds() + 7200 }],
    ['with an unexpected nonce', { nonce: 'n' }],
    ['without a subject', { sub: undefined }],
    ['about a different user than the user data', { sub: 'u-2' }],
  ];

  test('An ID token of the provider signs in', async () => {
    scripted.idToken = () => key.sign({ ...createClaims(), sub: '78', iat: getUnixSeconds() + 20 });
    scripted.user = { id: 78, email: 'olena@example.test' };
    const browser = new Browser(app);
    assert.equal((await browser.signIn(scripted)).statusCode, 302);
    assert.equal((await browser.get('/auth/me')).json().id, '78');
  });

  test('An ID token with an algorithm of discovery signs in', async () => {
    for (const algorithm of ['PS256', 'ES384', 'EdDSA']) {
      const algorithmsMetadata = { id_token_signing_alg_values_supported: ['RS256', algorithm] };
      scripted.metadata = { ...scripted.metadata, ...algorithmsMetadata };
      const signingKey = await makeSigningKey('k-3', algorithm);
      scripted.keys = [key.published, signingKey.published];
      scripted.idToken = () => signingKey.sign(createClaims());
      assert.equal((await signInAt(await createDiscoveryApp())).statusCode, 302);
    }
  });

  test('An ID token that is forged or has invalid claims is rejected at sign-in', async () => {
    for (const [title, create] of forgedTokens) {
      scripted.idToken = create;
      await assertRejected(app, title);
    }
    for (const [title, claims] of invalidClaims) {
      scripted.idToken = () => key.sign({ ...createClaims(), ...claims });
      await assertRejected(app, title);
    }
    scripted.idToken = undefined;
    await assertRejected(app, 'without an ID token');
    assert.equal((await signInAt(plainApp)).statusCode, 302, 'without discovery it is not needed');
  });

  test('Discovery cannot allow symmetric algorithms, or tokens without keys', async () => {
    const algorithms = ['RS256', 'HS256', 'none'];
    scripted.metadata = {
      ...scripted.metadata,
      id_token_signing_alg_values_supported: algorithms,
    };
    scripted.idToken = () => signWithHmac(scripted.client.secret);
    await assertRejected(await createDiscoveryApp(), 'with a symmetric algorithm');
    scripted.idToken = () => key.sign(createClaims());
    scripted.metadata = { ...scripted.metadata, jwks_uri: undefined };
    await assertRejected(await createDiscoveryApp(), 'without keys');
  });

  test('A refresh with a forged ID token is 503 and keeps the session', async () => {
    scripted.token.rotate = false;
    const browser = await signInUser(app);
    await expireToken(browser);
    const earlierSession = await findAuthSession(browser.sid);
    scripted.idToken = () => sameIdKey.sign(createClaims());
    assert.equal((await browser.get('/auth/me')).statusCode, 503);
    assert.deepEqual(await findAuthSession(browser.sid), earlierSession);
    scripted.idToken = undefined;
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
  });

  test('New keys of the provider need no restart, and earlier ones are rejected', async () => {
    const rotationApp = await createDiscoveryApp();
    await signInAt(rotationApp);
    const browser = await signInUser(rotationApp);
    assert.equal(scripted.count('keys'), 0, 'the keys are cached');
    await expireToken(browser);
    scripted.keys = [otherKey.published];
    scripted.idToken = () => otherKey.sign(createClaims());
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
    assert.equal((await signInAt(rotationApp)).statusCode, 302);
    assert.equal(scripted.count('keys'), 1);
    scripted.idToken = () => key.sign(createClaims());
    await assertRejected(rotationApp, 'an earlier key');
  });

  test('A provider whose keys are unavailable is 503 and spends no token', async () => {
    const browser = await signInUser(plainApp);
    await expireToken(browser);
    const earlierSessions = await listSessions();
    const freshApp = await createDiscoveryApp();
    for (const fault of [{ status: 403 }, { status: 200, body: '{"keys":"none"}' }] as const) {
      scripted.faults.set('keys', fault);
      for (const response of [
        await signInAt(freshApp),
        await browser.get('/auth/me', { app: freshApp }),
      ]) {
        assert.deepEqual([response.statusCode, response.cookies], [503, []]);
        assert.equal(response.json().code, 'provider_unavailable');
      }
    }
    assert.equal(scripted.count('token'), 0);
    assert.deepEqual(await listSessions(), earlierSessions);
    scripted.faults.clear();
    assert.equal((await browser.get('/auth/me', { app: freshApp })).statusCode, 200);
  });
});
