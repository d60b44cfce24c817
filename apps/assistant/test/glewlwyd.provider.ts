import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { Browser, deferCleanup, findFreePort, openFolder, until } from '@oselya/testing';
import { openAssistant } from './helpers/assistant.ts';

// Tests sign-in with Debian's glewlwyd, an independent OAuth provider in C that is configured through its API.

const SCHEMA = '/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3';
const LIBRARIES = '/usr/lib/glewlwyd';
const ADMIN = { username: 'admin', password: 'password' };
/** Secret that needs no URL encoding, because glewlwyd does not decode secrets. RFC 6749 §2.3.1. */
const SECRET = 'theSecretOfTheClient';
const OLENA = { username: 'olena', password: 'her password' };

const [providerPort, port] = [await findFreePort(), await findFreePort()];
const origin = `http://127.0.0.1:${providerPort}`;
const apiUrl = `${origin}/api`;
const issuer = `${apiUrl}/oidc`;
const assistantUrl = `http://127.0.0.1:${port}`;

const folder = await openFolder();
const database = new DatabaseSync(join(folder, 'database'));
database.exec(await readFile(SCHEMA, 'utf8'));
database.close();
await writeFile(
  join(folder, 'glewlwyd.conf'),
  `port = ${providerPort}
bind_address = "127.0.0.1"
external_url = "${origin}/"
login_url = "login.html"
api_prefix = "api"
log_mode = "console"
log_level = "ERROR"
cookie_secure = 0
session_expiration = 3600
session_key = "GLEWLWYD2_SESSION_ID"
login_api_enabled = true
admin_scope = "g_admin"
profile_scope = "g_profile"
user_module_path = "${LIBRARIES}/user"
client_module_path = "${LIBRARIES}/client"
user_auth_scheme_module_path = "${LIBRARIES}/scheme"
plugin_module_path = "${LIBRARIES}/plugin"
hash_algorithm = "SHA512"
database = { type = "sqlite3"; path = "${join(folder, 'database')}"; };
`,
);
const server = spawn('glewlwyd', ['-c', join(folder, 'glewlwyd.conf')], {
  stdio: ['ignore', 'ignore', 'inherit'],
});
deferCleanup(async () => {
  server.kill();
  if (server.exitCode === null) await once(server, 'exit');
});
await until(() =>
  fetch(`${apiUrl}/`).then(
    () => true,
    () => false,
  ),
);

const admin = new Browser();
await send(admin, 'POST', '/auth/', ADMIN);
const keys = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});
await send(admin, 'POST', '/mod/plugin/', {
  module: 'oidc',
  name: 'oidc',
  display_name: 'OpenID Connect',
  parameters: {
    iss: issuer,
    'jwt-type': 'rsa',
    'jwt-key-size': '256',
    key: keys.privateKey,
    cert: keys.publicKey,
    'code-duration': 600,
    'refresh-token-duration': 3600,
    'access-token-duration': 3600,
    'auth-type-code-enabled': true,
    'auth-type-refresh-enabled': true,
    'refresh-token-rolling': true,
    'refresh-token-one-use': 'always',
    'pkce-allowed': true,
    'introspection-revocation-allowed': true,
    'introspection-revocation-allow-target-client': true,
    'allow-non-oidc': true,
    'email-claim': 'mandatory',
    'name-claim': 'mandatory',
    'subject-type': 'public',
  },
});
await send(admin, 'POST', '/client/', {
  client_id: 'oselya',
  name: 'Oselya',
  client_secret: SECRET,
  confidential: true,
  enabled: true,
  redirect_uri: [`${assistantUrl}/auth/callback`],
  authorization_type: ['code', 'refresh_token'],
  token_endpoint_auth_method: ['client_secret_basic'],
});
await send(admin, 'POST', '/scope/', {
  name: 'oselya',
  display_name: 'Oselya',
  password_required: true,
  scheme: {},
});
await send(admin, 'POST', '/user/', {
  ...OLENA,
  name: 'Olena',
  email: 'olena@example.test',
  enabled: true,
  scope: ['oselya'],
});

const { db, createInstance, lines } = await openAssistant({
  BASE_URL: assistantUrl,
  IDP_BASE_URL: issuer,
  IDP_AUTHORIZE_PATH: '/auth',
  IDP_TOKEN_PATH: '/token',
  IDP_USERINFO_PATH: '/userinfo',
  IDP_REVOKE_PATH: '/revoke',
  IDP_CLIENT_ID: 'oselya',
  IDP_CLIENT_SECRET: SECRET,
  // With the scope `openid`, glewlwyd requires a nonce, which is optional in OpenID Connect.
  IDP_SCOPES: 'oselya',
});
const app = await createInstance();
await app.listen({ host: '127.0.0.1', port });

/** Sends a request to the API of the provider. */
async function send(browser: Browser, method: string, path: string, body?: object) {
  const response = await browser.fetch(apiUrl + path, {
    method,
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  assert.equal(response.status, 200, `${path} responded with status ${response.status} ${text}`);
  return text;
}

/** Signs in at the provider and grants the scope. */
async function signIn(): Promise<Browser> {
  const browser = new Browser();
  const page = await browser.open(`${assistantUrl}/auth/login`);
  const loginUrl = page.url.searchParams.get('callback_url');
  assert.ok(loginUrl, page.url.href);
  await send(browser, 'POST', '/auth/', OLENA);
  await send(browser, 'PUT', '/auth/grant/oselya', { scope: 'oselya' });
  const home = await browser.open(`${loginUrl}&g_continue`);
  assert.equal(home.url.href, `${assistantUrl}/`, lines.slice(-8).join(''));
  return browser;
}

const getStatus = async (browser: Browser) =>
  (await browser.fetch(`${assistantUrl}/auth/me`, { headers: { accept: 'application/json' } }))
    .status;
const findSession = () =>
  db.selectFrom('user_auth_sessions').selectAll().orderBy('created_at', 'desc').executeTakeFirst();

test('A user of glewlwyd signs in', async () => {
  const browser = await signIn();
  const me = await browser.fetch(`${assistantUrl}/auth/me`);
  assert.partialDeepStrictEqual(await me.json(), {
    email: 'olena@example.test',
    display_name: 'Olena',
    role: 'user',
  });
});

test('Expired tokens are refreshed, each refresh token once', async () => {
  const browser = await signIn();
  for (let version = 1; version <= 3; version += 1) {
    await db
      .updateTable('user_auth_sessions')
      .set({ expires_at: new Date(0) })
      .execute();
    assert.equal(await getStatus(browser), 200);
    assert.equal((await findSession())?.token_version, version);
  }
});

test('A sign-out revokes the refresh token', async () => {
  const browser = await signIn();
  const countUsableTokens = async () => {
    const tokens = JSON.parse(await send(browser, 'GET', '/oidc/token')) as { enabled: boolean }[];
    return tokens.filter(({ enabled }) => enabled).length;
  };
  const earlierCount = await countUsableTokens();
  assert.ok(earlierCount > 0);
  await browser.open(`${assistantUrl}/auth/logout?from=page`, {});
  assert.equal(await getStatus(browser), 401);
  await until(async () => (await countUsableTokens()) === earlierCount - 1);
});
