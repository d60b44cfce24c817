import { compactVerify, createRemoteJWKSet, customFetch as joseFetch } from 'jose';
import * as oidc from 'openid-client';
import type { User } from '../../access/permissions.ts';
import type { Config } from '../../config.ts';
import { problem } from '../../errors.ts';
import { createLogoutTokenCheck, type LogoutTokenCheck } from './logout-tokens.ts';
import {
  createTransport,
  describeFailure,
  type MeasureRequest,
  ProviderError,
  toProviderError,
} from './transport.ts';
import { parseProviderJson, readProviderId, readUserData } from './user-data.ts';

/** Tokens that the provider issues for a code or a refresh token. */
export type Tokens = {
  accessToken: string;
  /** Undefined if the provider issued none. After a refresh, the previous refresh token is then still valid. */
  refreshToken?: string;
  /** Undefined if the provider did not say when the access token expires. */
  expiresInSeconds: number | undefined;
  providerSessionId?: string | undefined;
  /** Verified ID token, if IDP_END_SESSION needs it later and it has at most MAX_HINT_CHARACTERS. */
  idToken?: string | undefined;
};

type Client = {
  oauth: oidc.Configuration;
  prepareKeys: () => Promise<void>;
  verifyIdToken: (token: string) => Promise<unknown>;
  verifyLogoutToken: LogoutTokenCheck;
};

export type Provider = ReturnType<typeof createProvider>;

/** One year. Some providers send numbers too large for a timestamp if a token never expires. */
const MAX_EXPIRY_SECONDS = 365 * 24 * 60 * 60;

/** Maximum length of the ID token hint, because servers limit URLs. Without a hint, the provider asks the user. */
const MAX_HINT_CHARACTERS = 6000;

const CLOCK_TOLERANCE_SECONDS = 30;

const HEALTH_TIMEOUT_MS = 2000;
/** Maximum age of a shared health check result. */
const HEALTH_MAX_AGE_MS = 1000;

/** Maximum age of cached keys. A key that the provider withdraws verifies tokens until then. */
const KEYS_MAX_AGE_MS = 5 * 60 * 1000;

/** Minimum interval between key requests for logout tokens with unknown keys, because anyone can forge such tokens. */
const UNKNOWN_KEY_COOLDOWN_MS = 30_000;

const KEY_SET_TYPES = 'application/jwk-set+json, application/json';

/**
 * Creates a client of the identity provider that Contract 3 describes, or, with IDP_DISCOVERY, of any OpenID provider.
 * @returns Functions that throw ProviderError, or `sign_in_not_configured` if the client ID is not configured.
 */
export function createProvider(config: Config, measure: MeasureRequest) {
  const transport = createTransport(config, measure);
  let clientPromise: Promise<Client> | undefined;
  let health: { checkedAt: number; outage: Promise<string | undefined> } | undefined;

  /** Returns the client. Retries discovery if it failed at the previous call. */
  function getClient(): Promise<Client> {
    if (config.IDP_CLIENT_ID === '') throw problem('sign_in_not_configured');
    const createClient = config.IDP_DISCOVERY ? discover : configure;
    clientPromise ??= createClient(config, transport);
    clientPromise.catch(() => {
      clientPromise = undefined;
    });
    return clientPromise;
  }

  async function callProvider<Result>(work: (client: Client) => Promise<Result>): Promise<Result> {
    try {
      return await work(await getClient());
    } catch (error) {
      throw toProviderError(error);
    }
  }

  async function readTokens(
    response: oidc.TokenEndpointResponse & oidc.TokenEndpointResponseHelpers,
    { verifyIdToken }: Client,
  ): Promise<Tokens> {
    const { access_token, refresh_token, expires_in, id_token } = response;
    if (id_token !== undefined) await verifyIdToken(id_token);
    const claims = response.claims();
    if ((claims?.iat ?? 0) > Date.now() / 1000 + CLOCK_TOLERANCE_SECONDS) {
      throw new ProviderError(
        'unavailable',
        'an ID token was issued in the future: set the clocks of this machine and of the provider',
      );
    }
    const isHintUsable = config.IDP_END_SESSION && (id_token?.length ?? 0) <= MAX_HINT_CHARACTERS;
    return {
      accessToken: access_token,
      ...(refresh_token !== undefined && { refreshToken: refresh_token }),
      expiresInSeconds: expires_in && Math.min(expires_in, MAX_EXPIRY_SECONDS),
      providerSessionId: readProviderId(claims?.['sid']),
      idToken: isHintUsable ? id_token : undefined,
    };
  }

  return {
    /**
     * Fetches the discovery document unless it is known, and the keys unless they are fresh. Without them, a code or
     * refresh token would be wasted.
     */
    prepare: () => callProvider(({ prepareKeys }) => prepareKeys()),

    /** Returns the URL of the provider's sign-in page. Specification 000, Rules for login. */
    buildAuthorizationUrl: ({ state, codeVerifier }: { state: string; codeVerifier: string }) =>
      callProvider(async ({ oauth }) => {
        const needsConsent = config.IDP_SCOPES.split(' ').includes('offline_access');
        const url = oidc.buildAuthorizationUrl(oauth, {
          redirect_uri: config.IDP_REDIRECT_URI,
          scope: config.IDP_SCOPES,
          // Without consent, providers ignore `offline_access`: OpenID Connect Core §11.
          ...(needsConsent && { prompt: 'consent' }),
          state,
          code_challenge: await oidc.calculatePKCECodeChallenge(codeVerifier),
          code_challenge_method: 'S256',
          return_to: '/',
        });
        return url.href;
      }),

    /** Exchanges a code for tokens, and returns them with the subject of the verified ID token, if there is one. */
    redeem: ({ code, iss, codeVerifier }: { code: string; iss?: string; codeVerifier: string }) =>
      callProvider(async (client) => {
        const url = new URL(config.IDP_REDIRECT_URI);
        url.searchParams.set('code', code);
        // Only discovery returns the issuer, which RFC 9207 requires for this check.
        if (config.IDP_DISCOVERY && iss !== undefined) url.searchParams.set('iss', iss);
        const checks = { pkceCodeVerifier: codeVerifier };
        const tokens = await oidc.authorizationCodeGrant(client.oauth, url, checks);
        // Only the response to a refresh may omit the ID token: OpenID Connect Core §12.2.
        if (config.IDP_DISCOVERY && tokens.id_token === undefined) {
          throw new ProviderError('unavailable', 'the answer for the scope openid has no ID token');
        }
        return { tokens: await readTokens(tokens, client), subject: tokens.claims()?.sub };
      }),

    /** Exchanges a refresh token for tokens. RFC 6749 §6. */
    refresh: (refreshToken: string): Promise<Tokens> =>
      callProvider(async (client) =>
        readTokens(await oidc.refreshTokenGrant(client.oauth, refreshToken), client),
      ),

    /** Fetches the data of the user to whom an access token belongs. Contract 3, Identity provider. */
    fetchUser: (accessToken: string): Promise<User> =>
      callProvider(async ({ oauth }) => {
        const url = new URL(requireEndpoint(oauth, 'userinfo_endpoint'));
        const headers = new Headers({ accept: 'application/json' });
        const response = await oidc.fetchProtectedResource(
          oauth,
          accessToken,
          url,
          'GET',
          null,
          headers,
        );
        return readUserData(parseUserInfo(await response.text()), config);
      }),

    /** Verifies a logout token. OpenID Connect Back-Channel Logout 1.0 §2.6. */
    verifyLogoutToken: (token: string) =>
      callProvider(({ verifyLogoutToken }) => verifyLogoutToken(token)),

    /** Returns the URL that ends the browser's session at the provider. OpenID Connect RP-Initiated Logout 1.0. */
    buildEndSessionUrl: (idToken: string | undefined) =>
      callProvider(async ({ oauth }) => {
        requireEndpoint(oauth, 'end_session_endpoint');
        return oidc.buildEndSessionUrl(oauth, {
          post_logout_redirect_uri: `${config.BASE_URL}/`,
          ...(idToken !== undefined && { id_token_hint: idToken }),
        }).href;
      }),

    /** Revokes a token if the provider has a revocation endpoint. RFC 7009. */
    revoke: (token: string, kind: 'access_token' | 'refresh_token') =>
      callProvider(async ({ oauth }) => {
        if (oauth.serverMetadata().revocation_endpoint === undefined) return;
        await oidc.tokenRevocation(oauth, token, { token_type_hint: kind });
      }),

    /** Describes a provider outage, or returns undefined. Checks the provider at most once a second. */
    findOutage(): Promise<string | undefined> {
      const now = performance.now();
      if (health === undefined || now - health.checkedAt >= HEALTH_MAX_AGE_MS) {
        health = { checkedAt: now, outage: findOutage(config.IDP_BASE_URL) };
      }
      return health.outage;
    },
  };
}

function requireEndpoint(
  oauth: oidc.Configuration,
  name: keyof oidc.ServerMetadata & string,
): string {
  const url = oauth.serverMetadata()[name];
  if (typeof url === 'string') return url;
  throw new ProviderError('unavailable', `discovery names no ${name}`);
}

function createClientAuth({
  IDP_CLIENT_SECRET: secret,
  IDP_CLIENT_AUTH: method,
}: Config): oidc.ClientAuth {
  if (secret === '') return oidc.None();
  return method === 'post' ? oidc.ClientSecretPost(secret) : oidc.ClientSecretBasic(secret);
}

async function configure(config: Config, transport: oidc.CustomFetch): Promise<Client> {
  const baseUrl = config.IDP_BASE_URL;
  const metadata = {
    issuer: baseUrl,
    authorization_endpoint: baseUrl + config.IDP_AUTHORIZE_PATH,
    token_endpoint: baseUrl + config.IDP_TOKEN_PATH,
    userinfo_endpoint: baseUrl + config.IDP_USERINFO_PATH,
    revocation_endpoint: baseUrl + config.IDP_REVOKE_PATH,
  };
  const clientAuth = createClientAuth(config);
  const oauth = new oidc.Configuration(metadata, config.IDP_CLIENT_ID, undefined, clientAuth);
  oauth[oidc.customFetch] = transport;
  if (baseUrl.startsWith('http:')) oidc.allowInsecureRequests(oauth);
  return { oauth, ...clientWithoutKeys };
}

async function discover(config: Config, transport: oidc.CustomFetch): Promise<Client> {
  const { IDP_BASE_URL: baseUrl, IDP_CLIENT_ID: clientId } = config;
  const isHttpAllowed = baseUrl.startsWith('http:');
  const oauth = await reportAsOutage(
    oidc.discovery(new URL(baseUrl), clientId, undefined, createClientAuth(config), {
      [oidc.customFetch]: transport,
      execute: isHttpAllowed ? [oidc.allowInsecureRequests] : [],
    }),
  );
  const { issuer, jwks_uri, id_token_signing_alg_values_supported } = oauth.serverMetadata();
  const url = URL.parse(jwks_uri ?? '');
  const isUsable = url?.protocol === 'https:' || (isHttpAllowed && url?.protocol === 'http:');
  if (url === null || !isUsable) return { oauth, ...clientWithoutKeys };
  const headers = { accept: KEY_SET_TYPES };
  const createKeys = (cooldownDuration: number) =>
    createRemoteJWKSet(url, {
      cacheMaxAge: KEYS_MAX_AGE_MS,
      cooldownDuration,
      [joseFetch]: (address) =>
        transport(address, { method: 'GET', headers, redirect: 'manual', body: undefined }),
    });
  const keys = createKeys(0);
  return {
    oauth,
    prepareKeys: () => reportAsOutage(keys.fresh ? Promise.resolve() : keys.reload()),
    verifyIdToken: (token) => reportAsOutage(compactVerify(token, keys)),
    verifyLogoutToken: createLogoutTokenCheck(createKeys(UNKNOWN_KEY_COOLDOWN_MS), {
      issuer,
      audience: clientId,
      algorithms: id_token_signing_alg_values_supported,
    }),
  };
}

const clientWithoutKeys = {
  prepareKeys: () => Promise.resolve(),
  verifyIdToken: rejectUnverifiable,
  verifyLogoutToken: rejectUnverifiable,
};

async function rejectUnverifiable(): Promise<never> {
  throw new ProviderError('unavailable', 'there are no keys to verify a token with');
}

/** Converts an error of discovery, keys or a signature to `unavailable`, because it does not reject a code or token. */
async function reportAsOutage<Result>(work: Promise<Result>): Promise<Result> {
  return work.catch((error: unknown) => {
    throw new ProviderError('unavailable', toProviderError(error).message);
  });
}

function parseUserInfo(text: string): unknown {
  try {
    return parseProviderJson(text);
  } catch {
    throw new ProviderError('unavailable', 'the answer of userinfo is not JSON');
  }
}

async function findOutage(url: string): Promise<string | undefined> {
  try {
    const signal = AbortSignal.timeout(HEALTH_TIMEOUT_MS);
    await fetch(url, { method: 'HEAD', redirect: 'manual', signal });
    return undefined;
  } catch (error) {
    return describeFailure(error, HEALTH_TIMEOUT_MS);
  }
}
