import {
  allowInsecureRequests,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  Configuration,
  type CustomFetch,
  customFetch,
  type CustomFetchOptions,
  discovery,
  None,
} from 'openid-client';
import type { Config } from '../../config.ts';
import { problem } from '../../errors.ts';
import { createIdTokenCheck, type IdTokenCheck, publicKeys } from './id-tokens.ts';
import { createLogoutTokenCheck, type LogoutTokenCheck } from './logout-tokens.ts';
import type { MeasureRequest } from './measure-request.ts';
import { ProviderError, toProviderError } from './provider-error.ts';
import { readTokenAnswer, type TokenAnswerRules } from './token-answer.ts';

/** How the provider is reached. */
type Means = { transport: CustomFetch; measure: MeasureRequest };

/** The OAuth client, and what verifies the tokens that the provider signs. */
export type Client = {
  oauth: Configuration;
  idTokens: IdTokenCheck;
  verifyLogoutToken: LogoutTokenCheck;
};

/**
 * Gives the client, made on first use. Without discovery the endpoints are the configured paths
 * on IDP_BASE_URL; with it they come from the provider, which is asked again until it has answered.
 * @returns A function that throws `sign_in_not_configured`, and ProviderError `unavailable`: a
 * discovery that fails says nothing about anybody's token, whatever its status.
 */
export function createClient(config: Config, means: Means): () => Promise<Client> {
  let client: Promise<Client> | undefined;
  return () => {
    if (config.IDP_CLIENT_ID === '') throw problem('sign_in_not_configured');
    client ??= (config.IDP_DISCOVERY ? discover(config, means) : configure(config, means)).catch(
      (error: unknown) => {
        client = undefined;
        throw new ProviderError('unavailable', toProviderError(error).message);
      },
    );
    return client;
  };
}

async function configure(config: Config, means: Means): Promise<Client> {
  const base = config.IDP_BASE_URL;
  const oauth = new Configuration(
    {
      issuer: base,
      authorization_endpoint: base + config.IDP_AUTHORIZE_PATH,
      token_endpoint: base + config.IDP_TOKEN_PATH,
      userinfo_endpoint: base + config.IDP_USERINFO_PATH,
      revocation_endpoint: base + config.IDP_REVOKE_PATH,
    },
    config.IDP_CLIENT_ID,
    undefined,
    authentication(config),
  );
  oauth[customFetch] = withTokenAnswers(means.transport, { withIdToken: false });
  if (base.startsWith('http:')) allowInsecureRequests(oauth);
  return {
    oauth,
    idTokens: createIdTokenCheck(undefined, means),
    verifyLogoutToken: withoutKeys,
  };
}

async function discover(config: Config, means: Means): Promise<Client> {
  const base = config.IDP_BASE_URL;
  const isHttpAllowed = base.startsWith('http:');
  const auth = authentication(config);
  const oauth = await means.measure('discovery', () =>
    discovery(new URL(base), config.IDP_CLIENT_ID, undefined, auth, {
      [customFetch]: withTokenAnswers(means.transport, { withIdToken: true }),
      execute: isHttpAllowed ? [allowInsecureRequests] : [],
    }),
  );
  const provider = oauth.serverMetadata();
  const address = URL.parse(provider.jwks_uri ?? '');
  const isUsable =
    address?.protocol === 'https:' || (isHttpAllowed && address?.protocol === 'http:');
  const keySet = isUsable ? address : undefined;
  return {
    oauth,
    idTokens: createIdTokenCheck(keySet, means),
    verifyLogoutToken:
      keySet === undefined
        ? withoutKeys
        : createLogoutTokenCheck(publicKeys(keySet, means), {
            issuer: provider.issuer,
            clientId: config.IDP_CLIENT_ID,
            algorithms: provider.id_token_signing_alg_values_supported,
          }),
  };
}

async function withoutKeys(): Promise<never> {
  throw new ProviderError('unavailable', 'there are no keys to verify a logout token with');
}

/** Other answers may have members of the same names, which say something else. */
function withTokenAnswers(transport: CustomFetch, rules: TokenAnswerRules): CustomFetch {
  return async (url, options) => {
    const answer = await transport(url, options);
    return isTokenRequest(options) ? readTokenAnswer(answer, rules) : answer;
  };
}

/** RFC 6749 §4.1.3 and §6: only they have a `grant_type`. */
const isTokenRequest = ({ body }: CustomFetchOptions) =>
  body instanceof URLSearchParams && body.has('grant_type');

function authentication(config: Config): ClientAuth {
  if (config.IDP_CLIENT_SECRET === '') return None();
  const method = config.IDP_CLIENT_AUTH === 'post' ? ClientSecretPost : ClientSecretBasic;
  return method(config.IDP_CLIENT_SECRET);
}
