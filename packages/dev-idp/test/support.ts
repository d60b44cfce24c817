import assert from 'node:assert/strict';
import { createHmac, hash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import {
  type ScriptedResponse,
  Browser,
  getRedirectTarget,
  startServer,
  findUnusedUrl,
  openFolder,
} from '@oselya/testing';
import { createDevIdp, type DevIdp, type DevIdpOptions } from '../src/server.ts';

export const redirectUri = 'http://127.0.0.1:8000/auth/callback';
export const client = {
  id: 'oselya',
  secret: 'a secret with : and % for the encoding',
  redirectUris: [redirectUri],
};

/** Starts a provider on a free port; it is closed after the test. */
export async function startIdp(
  t: TestContext,
  options: Partial<DevIdpOptions> = {},
): Promise<{ idp: DevIdp; issuer: string }> {
  const issuer = options.issuer ?? (await findUnusedUrl());
  const idp = await createDevIdp({ client, ...options, issuer });
  t.after(() => idp.close());
  await idp.app.listen({ host: '127.0.0.1', port: Number(new URL(issuer).port) });
  return { idp, issuer };
}

/** Returns a path for a store file in a new folder. */
export const createStorePath = async () => join(await openFolder(), 'state', 'idp.sqlite');

/** Sends a request on a new connection, because providers restart on the same port. */
export function send(url: string | URL, init: RequestInit = {}): Promise<Response> {
  // With `text/html`, errors would be pages.
  const headers = { accept: '*/*', ...Object.fromEntries(new Headers(init.headers)) };
  return new Browser().fetch(url, { ...init, headers });
}

/** Response of the token endpoint. */
export type Tokens = {
  access_token: string;
  refresh_token: string;
  expires_in: number;
  id_token: string;
};

/** Creates an authorization request of the assistant, and its PKCE verifier. */
export function createAuthorization(
  issuer: string,
  changes: Record<string, string | undefined> = {},
) {
  const verifier = randomBytes(32).toString('base64url');
  const url = new URL('/oauth/authorize', issuer);
  const parameters = {
    response_type: 'code',
    client_id: client.id,
    redirect_uri: redirectUri,
    scope: 'openid email profile roles permissions',
    state: 'state-1',
    code_challenge: hash('sha256', verifier, 'base64url'),
    code_challenge_method: 'S256',
    return_to: '/',
    ...changes,
  };
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) url.searchParams.set(name, value);
  }
  return { url, verifier };
}

/** Begins a sign-in, and returns the URL of the account picker. */
export async function openPicker(
  issuer: string,
  browser: Browser,
  url = createAuthorization(issuer).url,
): Promise<URL> {
  return getRedirectTarget(await browser.get(url));
}

/** Chooses an account, and returns the callback URL of the application. */
export async function chooseAccount(browser: Browser, picker: URL, form: Record<string, string>) {
  const resume = getRedirectTarget(await browser.post(picker, form));
  return getRedirectTarget(await browser.get(resume));
}

/** Posts to an endpoint with the client's secret by HTTP Basic (RFC 6749 §2.3.1). */
export function postAsClient(issuer: string, path: string, form: Record<string, string>) {
  const secret = [client.id, client.secret].map(encodeURIComponent).join(':');
  return send(new URL(path, issuer), {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(secret).toString('base64')}` },
    body: new URLSearchParams(form),
  });
}

/** Signs in up to the callback, and returns the callback URL and the verifier. */
export async function signInToCode(issuer: string, sub = 'u-olena', browser = new Browser()) {
  const { url, verifier } = createAuthorization(issuer);
  const picker = await openPicker(issuer, browser, url);
  return { callback: await chooseAccount(browser, picker, { account: sub }), verifier };
}

/** Signs in from the authorization request to the tokens. */
export async function signIn(issuer: string, sub?: string, browser?: Browser): Promise<Tokens> {
  const { callback, verifier } = await signInToCode(issuer, sub, browser);
  return parseTokens(await redeem(issuer, callback, verifier));
}

export function redeem(issuer: string, callback: URL, verifier: string): Promise<Response> {
  return postAsClient(issuer, '/oauth/token', {
    grant_type: 'authorization_code',
    code: callback.searchParams.get('code') ?? '',
    redirect_uri: redirectUri,
    code_verifier: verifier,
  });
}

export function refresh(issuer: string, { refresh_token }: Tokens): Promise<Response> {
  return postAsClient(issuer, '/oauth/token', { grant_type: 'refresh_token', refresh_token });
}

export function fetchUserInfo(issuer: string, { access_token }: Tokens): Promise<Response> {
  const headers = { authorization: `Bearer ${access_token}` };
  return send(new URL('/oauth/userinfo', issuer), { headers });
}

/** Parses the tokens of a successful response. */
export async function parseTokens(response: Response): Promise<Tokens> {
  const body = await response.text();
  assert.equal(response.status, 200, body);
  const tokens: Tokens = JSON.parse(body);
  return tokens;
}

/** Returns the status and the OAuth error of a response. */
export async function parseError(response: Response): Promise<[number, string]> {
  const body: { error: string } = JSON.parse(await response.text());
  return [response.status, body.error];
}

/** Asserts that both tokens of a sign-in are invalid. */
export async function assertEnded(issuer: string, tokens: Tokens): Promise<void> {
  assert.deepEqual(await parseError(await fetchUserInfo(issuer, tokens)), [401, 'invalid_token']);
  assert.deepEqual(await parseError(await refresh(issuer, tokens)), [400, 'invalid_grant']);
}

export const SECRET = 'таємниця для двох';

/** Starts a webhook receiver, which responds with the scripted statuses, then with 200. */
export async function startReceiver(script: (number | 'silence')[] = []) {
  const steps = [...script];
  const server = await startServer((): ScriptedResponse => {
    const step = steps.shift() ?? 200;
    if (step === 'silence') return step;
    return { status: step, headers: { location: '/elsewhere' } };
  });
  return {
    webhook: { url: `${server.url}/webhooks/idp`, secret: SECRET },
    requests: server.requests,
    /** Event and user of each message, in their order. */
    events: () => server.requests.map(({ body }) => [Object(body).event, Object(body).user_id]),
  };
}

type Message = Awaited<ReturnType<typeof startReceiver>>['requests'][number];

/** Asserts that a message follows the Standard Webhooks specification. */
export function assertSigned({ headers, text }: Message, key: Buffer | string): void {
  const [id, timestamp] = [headers['webhook-id'], headers['webhook-timestamp']];
  assert.ok(typeof id === 'string' && /^msg_[\w-]{20,}$/.test(id), String(id));
  assert.ok(typeof timestamp === 'string' && /^\d{10}$/.test(timestamp), String(timestamp));
  const content = `${id}.${timestamp}.${text}`;
  const expected = createHmac('sha256', key).update(content, 'utf8').digest('base64');
  assert.equal(headers['webhook-signature'], `v1,${expected}`);
  assert.equal(headers['content-type'], 'application/json');
}
