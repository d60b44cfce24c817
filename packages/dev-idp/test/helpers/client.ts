import { hash, randomBytes } from 'node:crypto';
import { Browser, locationOf } from './browser.ts';
import { send } from './http.ts';

export const client = {
  id: 'oselya',
  secret: 'a secret with : and % for the encoding',
  redirectUris: ['http://127.0.0.1:8000/auth/callback'],
};
export const redirectUri = 'http://127.0.0.1:8000/auth/callback';

/** The token endpoint's answer. */
export type Tokens = {
  access_token: string;
  refresh_token: string;
  expires_in: number;
  id_token: string;
};

/** An authorization request as the assistant sends it, and the verifier that belongs to it. */
export function authorization(issuer: string, changes: Record<string, string | undefined> = {}) {
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

/** Begins a sign-in and gives the address of the page with the choice of an account. */
export async function openPicker(
  issuer: string,
  browser: Browser,
  url = authorization(issuer).url,
) {
  return locationOf(await browser.get(url));
}

/** Picks the account on that page and gives the address that the application is called back at. */
export async function pick(browser: Browser, picker: URL, form: Record<string, string>) {
  const resume = locationOf(await browser.post(picker, form));
  return locationOf(await browser.get(resume));
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

/** Signs in from the authorization request to the tokens. */
export async function signIn(
  issuer: string,
  sub = 'u-olena',
  browser = new Browser(),
): Promise<Tokens> {
  const { url, verifier } = authorization(issuer);
  const callback = await pick(browser, await openPicker(issuer, browser, url), { account: sub });
  return tokensOf(await redeem(issuer, callback, verifier));
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

export function userInfo(issuer: string, { access_token }: Tokens): Promise<Response> {
  return send(new URL('/oauth/userinfo', issuer), {
    headers: { authorization: `Bearer ${access_token}` },
  });
}

/** Reads the tokens of a successful answer. */
export async function tokensOf(response: Response): Promise<Tokens> {
  const body = await response.text();
  if (response.status !== 200) throw new Error(`The token endpoint answered ${body}`);
  const tokens: Tokens = JSON.parse(body);
  return tokens;
}

/** Status and OAuth error of an answer, to compare at once. */
export async function refusalOf(response: Response): Promise<[number, string]> {
  const body: { error: string } = JSON.parse(await response.text());
  return [response.status, body.error];
}
