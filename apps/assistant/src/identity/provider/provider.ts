import {
  authorizationCodeGrant,
  buildAuthorizationUrl,
  buildEndSessionUrl,
  calculatePKCECodeChallenge,
  type CustomFetch,
  fetchProtectedResource,
  refreshTokenGrant,
  type TokenEndpointResponse,
  type TokenEndpointResponseHelpers,
  tokenRevocation,
} from 'openid-client';
import type { User } from '../../access/permissions.ts';
import type { Config } from '../../config.ts';
import { type Client, createClient } from './client.ts';
import type { LogoutTokenCheck } from './logout-tokens.ts';
import { type MeasureRequest, unmeasured } from './measure-request.ts';
import { ProviderError, toProviderError } from './provider-error.ts';
import { createReachability } from './reachability.ts';
import { createTransport } from './transport.ts';
import { readUserData } from './user-data.ts';
import { parseProviderJson, readProviderId } from './user-id.ts';

/** What the provider gives for a code or a refresh token. */
export type Tokens = {
  accessToken: string;
  /** Undefined where the provider gave none: at a refresh the earlier one stays valid. */
  refreshToken: string | undefined;
  /** Undefined where the provider did not say when the access token expires. */
  expiresInSeconds: number | undefined;
  /** The session at the provider, where a verified ID token names it. */
  providerSessionId?: string | undefined;
  /** The verified ID token, where IDP_END_SESSION needs it later. */
  idToken?: string | undefined;
};

/**
 * The identity provider. Every function but the last throws ProviderError when it fails, and
 * `sign_in_not_configured` without a client id.
 */
export type Provider = {
  /**
   * Asks for discovery and for the keys of ID tokens, unless they are at hand or discovery is not
   * configured. The other functions do what of it they need by themselves. After this one they make one
   * call only, and a second where an ID token is signed with a key that is newer.
   */
  prepare(): Promise<void>;
  /** Where the browser goes to sign in. Specification 000, Rules for login. */
  authorizationUrl(login: { state: string; codeVerifier: string }): Promise<string>;
  /** Exchanges a code for tokens, and names the user where an ID token did; that is verified first. */
  redeem(answer: {
    code: string;
    iss: string | undefined;
    codeVerifier: string;
  }): Promise<Tokens & { subject: string | undefined }>;
  /** Exchanges a refresh token for tokens; an ID token beside them is verified. RFC 6749 §6. */
  refresh(refreshToken: string): Promise<Tokens>;
  /** Describes the user that an access token stands for. Contract 3, Identity provider. */
  fetchUser(accessToken: string): Promise<User>;
  /** Verifies a logout token. OpenID Connect Back-Channel Logout 1.0 §2.6. */
  verifyLogoutToken: LogoutTokenCheck;
  /**
   * Where the browser goes to end its session at the provider, which sends it back to BASE_URL. OpenID
   * Connect RP-Initiated Logout 1.0.
   */
  endSessionUrl(idToken: string | undefined): Promise<string>;
  /** RFC 7009. Does nothing where the provider has no such endpoint. */
  revoke(token: string, kind: 'access_token' | 'refresh_token'): Promise<void>;
  /** Why nothing answers at the provider's address; undefined where something does. Shared for a second. */
  findOutage(): Promise<string | undefined>;
};

/** A year: providers that mean "never" send numbers that no timestamp can hold. */
const MAX_EXPIRY_SECONDS = 365 * 24 * 60 * 60;

/** What fits into an address that every server takes; without it the provider asks before it signs out. */
const MAX_HINT_CHARACTERS = 6000;

/** The identity provider as Contract 3 describes it, or any OpenID provider with IDP_DISCOVERY. */
export function createProvider(
  config: Config,
  {
    transport = createTransport(config.IDP_TIMEOUT_MS),
    measure = unmeasured,
  }: { transport?: CustomFetch; measure?: MeasureRequest } = {},
): Provider {
  const isOffline = config.IDP_SCOPES.split(' ').includes('offline_access');
  const getClient = createClient(config, { transport, measure });
  const rules = {
    clientId: config.IDP_CLIENT_ID,
    adminRoleSlug: config.IDP_ADMIN_ROLE_SLUG,
    rolesClaim: config.IDP_ROLES_CLAIM,
    permissionsClaim: config.IDP_PERMISSIONS_CLAIM,
  };

  async function call<Result>(work: (client: Client) => Promise<Result>): Promise<Result> {
    try {
      return await work(await getClient());
    } catch (error) {
      throw toProviderError(error);
    }
  }

  return {
    prepare: () => call(({ idTokens }) => idTokens.prepare()),

    authorizationUrl: ({ state, codeVerifier }) =>
      call(async ({ oauth }) => {
        const url = buildAuthorizationUrl(oauth, {
          redirect_uri: config.IDP_REDIRECT_URI,
          scope: config.IDP_SCOPES,
          // OpenID Connect Core §11: else providers leave `offline_access` out.
          ...(isOffline && { prompt: 'consent' }),
          state,
          code_challenge: await calculatePKCECodeChallenge(codeVerifier),
          code_challenge_method: 'S256',
          return_to: '/',
        });
        return url.href;
      }),

    redeem: ({ code, iss, codeVerifier }) =>
      call(async ({ oauth, idTokens }) => {
        const answer = new URL(config.IDP_REDIRECT_URI);
        answer.searchParams.set('code', code);
        // Without discovery the issuer has no known name to compare with. RFC 9207.
        if (config.IDP_DISCOVERY && iss !== undefined) answer.searchParams.set('iss', iss);
        const tokens = await measure('token', () =>
          authorizationCodeGrant(oauth, answer, { pkceCodeVerifier: codeVerifier }),
        );
        // Not at a refresh, whose answer need not have one: OpenID Connect Core §12.2.
        if (config.IDP_DISCOVERY && tokens.id_token === undefined) {
          throw new ProviderError('unavailable', 'the answer for the scope openid has no ID token');
        }
        await idTokens.verify(tokens.id_token);
        return { ...toTokens(tokens, config), subject: tokens.claims()?.sub };
      }),

    refresh: (refreshToken) =>
      call(async ({ oauth, idTokens }) => {
        const tokens = await measure('refresh', () => refreshTokenGrant(oauth, refreshToken));
        await idTokens.verify(tokens.id_token);
        return toTokens(tokens, config);
      }),

    fetchUser: (accessToken) =>
      call(async ({ oauth }) => {
        const address = oauth.serverMetadata().userinfo_endpoint;
        if (address === undefined) {
          throw new ProviderError('unavailable', 'discovery names no userinfo endpoint');
        }
        const headers = new Headers({ accept: 'application/json' });
        const response = await measure('userinfo', () =>
          fetchProtectedResource(oauth, accessToken, new URL(address), 'GET', null, headers),
        );
        return readUserData(await readJson(response), rules);
      }),

    verifyLogoutToken: (token) => call(({ verifyLogoutToken }) => verifyLogoutToken(token)),

    endSessionUrl: (idToken) =>
      call(async ({ oauth }) => {
        if (oauth.serverMetadata().end_session_endpoint === undefined) {
          throw new ProviderError('unavailable', 'discovery names no end_session_endpoint');
        }
        const parameters = {
          post_logout_redirect_uri: `${config.BASE_URL}/`,
          ...(idToken !== undefined && { id_token_hint: idToken }),
        };
        return buildEndSessionUrl(oauth, parameters).href;
      }),

    revoke: (token, kind) =>
      call(async ({ oauth }) => {
        if (oauth.serverMetadata().revocation_endpoint === undefined) return;
        await measure('revoke', () => tokenRevocation(oauth, token, { token_type_hint: kind }));
      }),

    findOutage: createReachability(config.IDP_BASE_URL),
  };
}

function toTokens(
  answer: TokenEndpointResponse & TokenEndpointResponseHelpers,
  { IDP_END_SESSION: needsIdToken }: Config,
): Tokens {
  const { access_token, refresh_token, expires_in, id_token } = answer;
  return {
    accessToken: access_token,
    refreshToken: refresh_token,
    expiresInSeconds:
      expires_in === undefined ? undefined : Math.min(expires_in, MAX_EXPIRY_SECONDS),
    providerSessionId: readProviderId(answer.claims()?.['sid']),
    idToken: needsIdToken && (id_token?.length ?? 0) <= MAX_HINT_CHARACTERS ? id_token : undefined,
  };
}

async function readJson(response: Response): Promise<unknown> {
  try {
    return parseProviderJson(await response.text());
  } catch {
    throw new ProviderError('unavailable', 'userinfo answered with something else than JSON');
  }
}
