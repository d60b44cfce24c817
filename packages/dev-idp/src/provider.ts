import { html } from '@oselya/kit';
import {
  type Configuration,
  errors,
  interactionPolicy,
  type KoaContextWithOIDC,
  Provider,
} from 'oidc-provider';
import type { Accounts, DevAccount } from './accounts.ts';
import { createMessagePage } from './pages.ts';
import type { Artifacts, ProviderKeys } from './store.ts';

type ProviderOptions = {
  issuer: string;
  client: { id: string; secret: string; redirectUris: string[] };
  accessTokenSeconds: number;
  refreshTokenSeconds: number;
  accounts: Accounts;
  artifacts: Artifacts;
  keys: ProviderKeys;
};

/** Returns the path of the page for an interaction. */
export const getInteractionPath = (uid: string): string => `/interaction/${uid}`;

/**
 * Creates an `oidc-provider` instance with the paths, scopes and responses of Contract 3, Identity provider.
 * @throws Error `invalid_client_metadata` or `invalid_redirect_uri` for an invalid client.
 */
export async function createProvider(options: ProviderOptions): Promise<Provider> {
  const provider = new Provider(options.issuer, createConfiguration(options));
  endSessionWithSignIn(provider);
  // Validates the client at startup instead of at the first sign-in.
  await provider.Client.find(options.client.id);
  return provider;
}

function createConfiguration(options: ProviderOptions): Configuration {
  const { client, accounts, artifacts, keys, accessTokenSeconds, refreshTokenSeconds } = options;
  return {
    adapter: artifacts.createAdapter,
    jwks: keys.jwks,
    cookies: {
      keys: keys.cookieKeys,
      // Servers on other ports of the host share the cookies, so the names must be unique.
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
        scope: 'openid email profile roles permissions',
      },
    ],
    clientAuthMethods: ['client_secret_basic', 'client_secret_post'],
    responseTypes: ['code'],
    scopes: ['openid'],
    pkce: { required: () => true },
    allowOmittingSingleRegisteredRedirectUri: false,
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
    ttl: {
      AccessToken: accessTokenSeconds,
      AuthorizationCode: 60,
      Grant: refreshTokenSeconds,
      IdToken: 300,
      // The same as the lifetime of a pending sign-in at the assistant.
      Interaction: 600,
      // A rotated token inherits the remaining lifetime, so that refreshing does not extend a sign-in.
      RefreshToken: (ctx) => {
        const rotatedToken = ctx.oidc.entities.RotatedRefreshToken;
        return rotatedToken ? Math.max(1, rotatedToken.remainingTTL) : refreshTokenSeconds;
      },
      // Only the request that ends an interaction uses the session.
      Session: 60,
    },
    // Contract 3 requires refresh tokens even without the scope `offline_access`.
    issueRefreshToken: (_ctx, { grantTypes }) => grantTypes?.includes('refresh_token') ?? false,
    rotateRefreshToken: true,
    // The provider session ends after each sign-in, so tokens cannot be bound to it.
    expiresWithSession: () => false,
    claims: {
      openid: ['sub'],
      email: ['email'],
      profile: ['profile'],
      roles: ['client_access_list'],
      permissions: ['client_access_list'],
    },
    // Blocked accounts are treated as missing: they cannot sign in, refresh tokens or get user data.
    findAccount(_ctx, sub) {
      const account = accounts.find(sub);
      if (!account || account.blocked) return undefined;
      const claims = (_use: string, scope: string) => createUserInfo(account, client.id, scope);
      return { accountId: sub, claims };
    },
    interactions: {
      url: (_ctx, interaction) => getInteractionPath(interaction.uid),
      policy: createPolicy(),
    },
    loadExistingGrant: createGrant,
    renderError(ctx, { error, error_description: detail }) {
      const text = html`${error}: ${detail ?? 'no further details'}. Compare the client ID and
      redirect address of the application with the ones of the provider.`;
      const page = createMessagePage('The sign-in request was rejected', text, client.redirectUris);
      ctx.set(page.headers);
      ctx.body = page.html;
    },
  };
}

/** Creates user data as Contract 3 defines it. The scopes select the members of `client_access_list`. */
function createUserInfo(account: DevAccount, clientId: string, scope: string) {
  const scopes = new Set(scope.split(' '));
  return {
    sub: account.sub,
    email: account.email,
    profile: { display_name: account.display_name },
    client_access_list: [
      {
        client_id: clientId,
        ...(scopes.has('roles') && { role_ids: account.role_ids }),
        ...(scopes.has('permissions') && { permission_ids: account.permission_ids }),
      },
    ],
  };
}

/** Creates an interaction policy without consent: the user only chooses an account. */
function createPolicy(): interactionPolicy.DefaultPolicy {
  const policy = interactionPolicy.base();
  policy.remove('consent');
  policy.get('login')?.checks.add(
    new interactionPolicy.Check('account_blocked', 'the account is blocked', ({ oidc }) => {
      // The account was blocked after the user chose it.
      if (oidc.session?.accountId && !oidc.entities.Account) {
        throw new errors.AccessDenied('The account cannot sign in.');
      }
      return interactionPolicy.Check.NO_NEED_TO_PROMPT;
    }),
  );
  return policy;
}

/** Creates a new grant for each sign-in, so that sign-ins can be revoked separately. */
async function createGrant(ctx: KoaContextWithOIDC) {
  const { Account, Client } = ctx.oidc.entities;
  const grant = new ctx.oidc.provider.Grant({
    accountId: Account?.accountId,
    clientId: Client?.clientId,
  });
  grant.addOIDCScope([...ctx.oidc.requestParamOIDCScopes].join(' '));
  await grant.save();
  return grant;
}

/** Ends the provider session after each sign-in, so that the next sign-in shows the accounts again. */
function endSessionWithSignIn(provider: Provider): void {
  provider.use(async (ctx, next) => {
    await next();
    // oidc-provider adds `oidc` to the context of the requests that it routes.
    const { oidc } = ctx as Partial<KoaContextWithOIDC>;
    if (!oidc?.session?.accountId) return;
    await oidc.session.destroy();
    ctx.cookies.set(provider.cookieName('session'), null, { overwrite: true });
  });
}
