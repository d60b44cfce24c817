import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, test } from 'node:test';
import { Provider } from 'oidc-provider';
import { openAssistant } from '../helpers/assistant.ts';
import { freePort } from '../helpers/free-port.ts';
import { HttpBrowser, type Page } from '../helpers/http-browser.ts';

// A provider with its own pages, scopes and claims, as an operator may have one; not the development provider.
const [providerPort, port] = [await freePort(), await freePort()];
const issuer = `http://127.0.0.1:${providerPort}`;
const base = `http://127.0.0.1:${port}`;
const redeemed: string[] = [];

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'oselya',
      client_secret: 'the secret of the client',
      redirect_uris: [`${base}/auth/callback`],
      post_logout_redirect_uris: [`${base}/`],
      backchannel_logout_uri: `${base}/auth/backchannel-logout`,
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
  // Its own sends nothing to this machine.
  fetch: (url, options) => fetch(url, Object.assign({ ...options }, { dispatcher: undefined })),
});
provider.on('grant.success', ({ oidc }) => redeemed.push(String(oidc.params?.['grant_type'])));
const undelivered: unknown[] = [];
provider.on('backchannel.error', (_context, error) => undelivered.push(error));
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

const { db, instance } = await openAssistant({
  BASE_URL: base,
  IDP_BASE_URL: issuer,
  IDP_DISCOVERY: 'true',
  IDP_CLIENT_ID: 'oselya',
  IDP_CLIENT_SECRET: 'the secret of the client',
  IDP_SCOPES: 'openid email groups offline_access',
  IDP_ROLES_CLAIM: 'groups',
  IDP_PERMISSIONS_CLAIM: 'groups',
  IDP_END_SESSION: 'true',
});
const app = await instance();
await app.listen({ host: '127.0.0.1', port });

/** Signs in on the provider's pages, and agrees. */
async function signIn(browser: HttpBrowser, login: string): Promise<Page> {
  const form = await browser.get(`${base}/auth/login`);
  const consent = await browser.submit(form, { login, password: 'any' });
  return browser.submit(consent);
}

const me = async (browser: HttpBrowser) => {
  const answer = await browser.fetch(new URL(`${base}/auth/me`), {
    headers: { accept: 'application/json' },
  });
  return { status: answer.status, user: (await answer.json()) as Record<string, unknown> };
};
const sessions = () => db.selectFrom('user_auth_sessions').selectAll().execute();

test('discovery, the configured scopes and claims sign a user in', async () => {
  const browser = new HttpBrowser();
  const page = await signIn(browser, 'olena');
  assert.equal(page.url.href, `${base}/`);
  assert.match(page.body, /You are signed in as <strong>olena/);
  const { user } = await me(browser);
  assert.partialDeepStrictEqual(user, {
    id: 'olena',
    email: 'olena@example.test',
    role: 'admin',
    permissions: ['svc_admin', 'svc.tools.use'],
  });
  const [session] = await sessions();
  assert.ok(session?.provider_session_id && session.id_token_enc);
});

test('offline access gives a refresh token, which is rotated at each refresh', async () => {
  const browser = new HttpBrowser();
  await signIn(browser, 'taras');
  for (let time = 0; time < 3; time += 1) {
    redeemed.length = 0;
    await db
      .updateTable('user_auth_sessions')
      .set({ expires_at: new Date(0) })
      .execute();
    assert.equal((await me(browser)).status, 200);
    assert.deepEqual(redeemed, ['refresh_token']);
  }
});

test('a sign-out goes on to the provider, ends its session, and comes back', async () => {
  const browser = new HttpBrowser();
  await signIn(browser, 'lesia');
  const asked = await browser.post(`${base}/auth/logout?from=page`);
  assert.ok(asked.url.href.startsWith(`${issuer}/session/end`), asked.url.href);
  assert.match(asked.body, /Do you want to sign-out/);
  const back = await browser.submit(asked, { logout: 'yes' });
  assert.equal(back.url.href, `${base}/`);
  assert.match(back.body, /You are not signed in/);
  const again = await browser.get(`${base}/auth/login`);
  assert.match(again.body, /name="login"/, 'the provider asks who it is');
});

test('the end of a session at the provider ends its sign-ins here by back-channel logout', async () => {
  const [laptop, phone] = [new HttpBrowser(), new HttpBrowser()];
  await signIn(laptop, 'mykola');
  await signIn(phone, 'mykola');
  const end = await laptop.get(`${issuer}/session/end`);
  await laptop.submit(end, { logout: 'yes' });
  assert.equal((await me(laptop)).status, 401);
  assert.equal((await me(phone)).status, 200, 'the other session goes on');
  assert.deepEqual(undelivered, []);
  const entry = await db
    .selectFrom('webhook_events')
    .selectAll()
    .orderBy('id', 'desc')
    .executeTakeFirst();
  assert.partialDeepStrictEqual(entry, { event: 'backchannel_logout', sessions_ended: 1 });
});
