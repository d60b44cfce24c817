import { createHash, randomUUID } from 'node:crypto';
import { type ServerResponse } from 'node:http';
import { type ReceivedRequest, type ScriptedResponse, startServer } from '@oselya/testing';
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose';

type Endpoint = 'discovery' | 'keys' | 'authorize' | 'token' | 'userinfo' | 'revoke';

/** Failure that replaces the answer of an endpoint. */
export type Fault =
  | { status: number; body?: string; headers?: Record<string, string> }
  /** Closes the connection without an answer. */
  | 'disconnect'
  /** Writes the response. */
  | ((response: ServerResponse) => void);

export type ScriptedProvider = Awaited<ReturnType<typeof startScriptedProvider>>;

type Login = { challenge: string; redirectUri: string };

const CLIENT = { id: 'oselya', secret: 'client secret/with:odd+characters' };

export const OLENA = {
  sub: 'u-1',
  email: 'olena@example.test',
  profile: { display_name: 'Олена' },
  client_access_list: [
    {
      client_id: CLIENT.id,
      role_ids: ['svc_user'],
      permission_ids: ['svc.sessions.read_own', 'svc.tools.use'],
    },
  ],
};

/**
 * Starts an OAuth provider, which publishes OpenID metadata on demand. It enforces the client secret, the exact
 * redirect URI, PKCE, and single use of codes and, with rotation, of refresh tokens. It fails on demand.
 */
export async function startScriptedProvider() {
  const codes = new Map<string, Login>();
  const accessTokens = new Set<string>();
  const refreshTokens = new Set<string>();
  const faults = new Map<Endpoint, Fault>();
  const gates = new Map<Endpoint, Promise<void>>();
  const calls: { endpoint: Endpoint; form: URLSearchParams }[] = [];
  const revokedTokens: string[] = [];

  const provider = {
    client: CLIENT,
    url: '',
    user: OLENA as unknown,
    /** Options of the token response. */
    token: { rotate: true, expiresIn: 3600 as number | undefined, extra: {} as object },
    /** Response of discovery. If undefined, the provider responds with 404. */
    metadata: undefined as object | undefined,
    keys: [] as JWK[],
    /** Returns the claims of a valid ID token of the user `u-1`. */
    createIdClaims(): JWTPayload {
      const iat = Math.floor(Date.now() / 1000);
      return { iss: provider.url, aud: CLIENT.id, sub: 'u-1', iat, exp: iat + 120 };
    },
    /** Creates the ID token of a token response. */
    idToken: undefined as (() => Promise<string>) | undefined,
    faults,
    calls,
    revokedTokens,
    issued: [] as string[],
    count: (endpoint: Endpoint, grant?: string) =>
      calls.filter(
        (call) =>
          call.endpoint === endpoint &&
          (grant === undefined || call.form.get('grant_type') === grant),
      ).length,
    /** Delays the next answer of an endpoint until the returned function is called. */
    holdNext(endpoint: Endpoint): () => void {
      const { promise, resolve } = Promise.withResolvers<void>();
      gates.set(endpoint, promise);
      return resolve;
    },
    expireAccessTokens: () => accessTokens.clear(),
    expireRefreshTokens: () => refreshTokens.clear(),
    reset() {
      calls.length = 0;
      revokedTokens.length = 0;
      faults.clear();
      gates.clear();
      provider.user = OLENA;
      provider.token = { rotate: true, expiresIn: 3600, extra: {} };
      provider.metadata = undefined;
      provider.keys = [];
      provider.idToken = undefined;
    },
    /** Publishes the metadata for discovery. */
    publishMetadata() {
      const metadata = {
        issuer: provider.url,
        authorization_endpoint: `${provider.url}/oauth/authorize`,
        token_endpoint: `${provider.url}/oauth/token`,
        userinfo_endpoint: `${provider.url}/oauth/userinfo`,
        jwks_uri: `${provider.url}/oauth/keys`,
      };
      // OpenID Connect requires the token type.
      provider.token.extra = { token_type: 'Bearer' };
      provider.metadata = metadata;
      return metadata;
    },
    /** Signs in like a browser, and returns the URL of the callback. */
    async authorize(address: string): Promise<string> {
      const response = await fetch(address, { redirect: 'manual' });
      await response.body?.cancel();
      const location = response.headers.get('location');
      if (location === null) throw new Error(`authorize responded with status ${response.status}`);
      return location;
    },
  };

  const server = await startServer(async (request): Promise<ScriptedResponse> => {
    const url = new URL(request.path, provider.url);
    if (url.pathname === '/') return { body: {} };
    const endpoint =
      url.pathname === '/.well-known/openid-configuration'
        ? 'discovery'
        : (url.pathname.replace('/oauth/', '') as Endpoint);
    const form = new URLSearchParams(request.text);
    calls.push({ endpoint, form: endpoint === 'authorize' ? url.searchParams : form });
    const gate = gates.get(endpoint);
    gates.delete(endpoint);
    await gate;
    const fault = faults.get(endpoint);
    if (fault === 'disconnect') return { write: (response) => response.destroy() };
    if (typeof fault === 'function') return { write: fault };
    if (fault !== undefined) {
      const headers = { 'content-type': 'application/json', ...fault.headers };
      return { status: fault.status, headers, body: fault.body ?? '' };
    }
    switch (endpoint) {
      case 'discovery':
        return { status: provider.metadata ? 200 : 404, body: provider.metadata ?? {} };
      case 'keys':
        return { body: { keys: provider.keys } };
      case 'authorize':
        return { status: 302, headers: { location: createCallbackUrl(url.searchParams) } };
      case 'token':
        return issueTokens(request, form);
      case 'userinfo':
        return sendUserInfo(request);
      case 'revoke':
        revokedTokens.push(form.get('token') ?? '');
        return { body: {} };
      default:
        endpoint satisfies never;
        return { status: 404, body: {} };
    }
  });
  provider.url = server.url;

  function createCallbackUrl(query: URLSearchParams): string {
    const redirectUri = query.get('redirect_uri') ?? '';
    const code = randomUUID();
    codes.set(code, { challenge: query.get('code_challenge') ?? '', redirectUri });
    const callbackUrl = new URL(redirectUri);
    callbackUrl.searchParams.set('code', code);
    callbackUrl.searchParams.set('state', query.get('state') ?? '');
    return callbackUrl.href;
  }

  async function issueTokens(
    request: ReceivedRequest,
    form: URLSearchParams,
  ): Promise<ScriptedResponse> {
    if (!hasClientSecret(request, form)) return { status: 401, body: { error: 'invalid_client' } };
    const isGranted =
      form.get('grant_type') === 'refresh_token' ? redeemRefreshToken(form) : redeemCode(form);
    if (!isGranted) return { status: 400, body: { error: 'invalid_grant' } };
    const accessToken = `access-${randomUUID()}`;
    const refreshToken = `refresh-${randomUUID()}`;
    const hasRefreshToken = form.get('grant_type') !== 'refresh_token' || provider.token.rotate;
    accessTokens.add(accessToken);
    if (hasRefreshToken) refreshTokens.add(refreshToken);
    provider.issued.push(accessToken, refreshToken);
    const body = {
      access_token: accessToken,
      refresh_token: hasRefreshToken ? refreshToken : undefined,
      expires_in: provider.token.expiresIn,
      id_token: await provider.idToken?.(),
      ...provider.token.extra,
    };
    return { body };
  }

  function redeemCode(form: URLSearchParams): boolean {
    const code = form.get('code') ?? '';
    const login = codes.get(code);
    codes.delete(code);
    const verifier = form.get('code_verifier') ?? '';
    const challenge = createHash('sha256').update(verifier).digest('base64url');
    return (
      login !== undefined &&
      login.redirectUri === form.get('redirect_uri') &&
      login.challenge === challenge
    );
  }

  function redeemRefreshToken(form: URLSearchParams): boolean {
    const refreshToken = form.get('refresh_token') ?? '';
    return provider.token.rotate
      ? refreshTokens.delete(refreshToken)
      : refreshTokens.has(refreshToken);
  }

  function sendUserInfo({ headers }: ReceivedRequest): ScriptedResponse {
    const accessToken = headers.authorization?.replace('Bearer ', '') ?? '';
    if (accessTokens.has(accessToken)) return { body: provider.user };
    const challenge = { 'www-authenticate': 'Bearer error="invalid_token"' };
    return { status: 401, headers: challenge, body: { error: 'invalid_token' } };
  }

  return provider;
}

function hasClientSecret({ headers }: ReceivedRequest, form: URLSearchParams): boolean {
  if (form.has('client_secret')) {
    return form.get('client_id') === CLIENT.id && form.get('client_secret') === CLIENT.secret;
  }
  const [id, secret] = Buffer.from(headers.authorization?.slice(6) ?? '', 'base64')
    .toString()
    .split(':')
    .map((part) => new URLSearchParams(`v=${part}`).get('v'));
  return id === CLIENT.id && secret === CLIENT.secret;
}

/** Creates a key for ID tokens. Returns the public key, and a function that signs claims. */
export async function makeSigningKey(kid: string, alg = 'RS256') {
  const { publicKey, privateKey } = await generateKeyPair(alg);
  const publishedKey: JWK = { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' };
  return {
    published: publishedKey,
    sign: (claims: JWTPayload, header?: { typ?: string; kid?: string }) =>
      new SignJWT(claims).setProtectedHeader({ alg, kid, ...header }).sign(privateKey),
  };
}

/** Configures a scripted provider to issue ID tokens of the user `u-1`, signed with a published key. */
export async function giveIdTokens(
  provider: Pick<ScriptedProvider, 'createIdClaims' | 'keys' | 'idToken'>,
): Promise<void> {
  const key = await makeSigningKey('k-1');
  provider.keys = [key.published];
  provider.idToken = () => key.sign(provider.createIdClaims());
}
