import { type Configuration, Provider } from 'oidc-provider';
import type { Accounts } from './accounts.ts';
import { sendToKoa } from './pages/layout.ts';
import { refusalPage } from './pages/sign-in.ts';
import { endSessionWithSignIn, grantWhatIsAsked, pickWithoutConsent } from './sign-in-policy.ts';
import type { Artifacts } from './store/artifacts.ts';
import type { ProviderKeys } from './store/keys.ts';
import { userData } from './user-data.ts';

/** What {@link createProvider} needs. Lifetimes are in seconds. */
export type ProviderOptions = {
  issuer: string;
  client: { id: string; secret: string; redirectUris: string[] };
  accessTokenSeconds: number;
  refreshTokenSeconds: number;
  accounts: Accounts;
  artifacts: Artifacts;
  keys: ProviderKeys;
};

const scope = 'openid email profile roles permissions';
const authorizationCodeSeconds = 60;
const idTokenSeconds = 300;

/** How long somebody may take to pick an account: as long as a pending login at the assistant. */
const interactionSeconds = 600;
/** oidc-provider's session only serves the one request that ends an interaction. */
const sessionSeconds = 60;

/** The path of the page on which an interaction takes place. */
export const interactionPath = (uid: string): string => `/interaction/${uid}`;

/**
 * An oidc-provider with the paths, scopes and answers of Contract 3, Identity provider.
 *
 * @throws Error `invalid_client_metadata` or `invalid_redirect_uri` when the client's registration is not
 *   acceptable
 */
export async function createProvider(options: ProviderOptions): Promise<Provider> {
  const provider = new Provider(options.issuer, configure(options));
  endSessionWithSignIn(provider);
  // The provider reads its client's registration on first use. A mistake in it should stop the start
  // and not the first sign-in.
  await provider.Client.find(options.client.id);
  return provider;
}

function configure(options: ProviderOptions): Configuration {
  const { client, accounts, artifacts, keys } = options;
  return {
    adapter: artifacts.adapterFor,
    jwks: keys.jwks,
    cookies: {
      keys: keys.cookieKeys,
      // Cookies are shared by all ports of a host, so the names must not meet another program's.
      names: {
        session: 'oselya_idp_session',
        interaction: 'oselya_idp_interaction',
        resume: 'oselya_idp_resume',
      },
    },
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        redirect_uris: client.redirectUris,
        grant_types: ['authorization_code', 'refresh_token'],
        scope,
      },
    ],
    // Registered for either, the client may use both.
    clientAuthMethods: ['client_secret_basic', 'client_secret_post'],
    responseTypes: ['code'],
    scopes: ['openid'],
    pkce: { required: () => true },
    allowOmittingSingleRegisteredRedirectUri: false,
    // Issuer and verifier are one process with one clock.
    clockTolerance: 0,
    routes: {
      authorization: '/oauth/authorize',
      token: '/oauth/token',
      userinfo: '/oauth/userinfo',
      revocation: '/oauth/revoke',
      jwks: '/oauth/jwks',
    },
    features: {
      devInteractions: { enabled: false },
      dPoP: { enabled: false },
      pushedAuthorizationRequests: { enabled: false },
      resourceIndicators: { enabled: false },
      rpInitiatedLogout: { enabled: false },
      revocation: {
        enabled: true,
        allowedPolicy: (_ctx, caller, token) => token.clientId === caller.clientId,
      },
    },
    clientBasedCORS: () => false,
    ...tokens(options),
    ...userData(accounts, client.id),
    interactions: {
      url: (_ctx, interaction) => interactionPath(interaction.uid),
      policy: pickWithoutConsent(),
    },
    loadExistingGrant: grantWhatIsAsked,
    renderError: (ctx, out) => sendToKoa(ctx, refusalPage(out, client.redirectUris)),
  };
}

/**
 * A sign-in ends {@link ProviderOptions.refreshTokenSeconds} after it began however often it is
 * refreshed, because a rotated token takes over what is left of the one before. Without asking for
 * `offline_access` the client gets a refresh token, as Contract 3 has it.
 */
function tokens({ accessTokenSeconds, refreshTokenSeconds }: ProviderOptions): Configuration {
  return {
    ttl: {
      AccessToken: accessTokenSeconds,
      AuthorizationCode: authorizationCodeSeconds,
      Grant: refreshTokenSeconds,
      IdToken: idTokenSeconds,
      Interaction: interactionSeconds,
      RefreshToken: (ctx) => {
        const rotated = ctx.oidc.entities.RotatedRefreshToken;
        return rotated ? Math.max(1, rotated.remainingTTL) : refreshTokenSeconds;
      },
      Session: sessionSeconds,
    },
    issueRefreshToken: (_ctx, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    // No provider session outlives its sign-in, so tokens cannot be bound to one.
    expiresWithSession: () => false,
  };
}
