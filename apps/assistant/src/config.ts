import {
  commonConfig,
  type ConfigRule,
  flag,
  integer,
  loadConfig,
  modelConfig,
  proxyConfig,
  secret,
  text,
} from '@oselya/kit';
import { type Static, Type } from 'typebox';

/** Pattern of 32 bytes as URL-safe base64: 43 digits, with or without padding. Two bits of the last digit are zero. */
const KEY_PATTERN = '^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]=?$';
const KEY_RULE =
  'must be 32 bytes as url-safe base64 (43 digits): create one with `npx oselya keygen`, once for all instances';

/** Pattern of header and cookie names. RFC 9110 §5.6.2. */
const NAME_PATTERN = "^[\\w!#$%&'*+.^`|~-]{1,64}$";

/** Pattern of an OAuth scope. RFC 6749 §3.3. */
const SCOPE_PATTERN = '[\\x21\\x23-\\x5b\\x5d-\\x7e]+';

const MAX_COOKIE_DAYS = 400;

const buildServerUrlSchema = (url: string, server: string) =>
  Type.String({
    default: url,
    pattern: '^https?://[^\\s/?#]+[^\\s?#]*$',
    description: `must be the http or https URL of the ${server}`,
  });

const isNormalizedUrl = (value: string) => URL.parse(value)?.href === value;
const isOrigin = (value: string) => URL.parse(value)?.origin === value.replace(/\/$/, '');

const buildProviderPathSchema = (path: string) =>
  Type.String({
    default: path,
    pattern: '^/[^\\s?#]*$',
    description: 'must be a path, such as /oauth/token',
  });

/** Schema of the assistant's environment variables. Specification 000, Configuration; Contract 1. */
export const configSchema = Type.Object({
  ...commonConfig,
  ...proxyConfig,
  ASSISTANT_HOST: text('127.0.0.1'),
  ASSISTANT_PORT: integer({ default: 8000, max: 65_535 }),
  BASE_URL: Type.Refine(
    Type.String({
      default: 'http://127.0.0.1:8000',
      pattern: '^https?://',
      description: 'must be the public origin of the assistant, such as https://oselya.example',
    }),
    isOrigin,
  ),
  IDP_BASE_URL: buildServerUrlSchema('http://127.0.0.1:8002', 'identity provider'),
  IDP_CLIENT_ID: text(''),
  IDP_CLIENT_SECRET: secret(),
  IDP_CLIENT_AUTH: Type.Union([Type.Literal('basic'), Type.Literal('post')], { default: 'basic' }),
  IDP_REDIRECT_URI: Type.Optional(
    Type.Refine(
      Type.String({
        pattern: '^https?://[^\\s?#]+$',
        description:
          'must be the URL of /auth/callback as registered at the provider: http or https, host in lower case, no query',
      }),
      isNormalizedUrl,
    ),
  ),
  IDP_ADMIN_ROLE_SLUG: text('svc_admin'),
  IDP_DISCOVERY: flag(false),
  IDP_SCOPES: Type.String({
    default: 'openid email profile roles permissions',
    pattern: `^${SCOPE_PATTERN}( ${SCOPE_PATTERN})*$`,
    description: 'must be scopes with a space between them, such as openid email offline_access',
  }),
  IDP_AUTHORIZE_PATH: buildProviderPathSchema('/oauth/authorize'),
  IDP_TOKEN_PATH: buildProviderPathSchema('/oauth/token'),
  IDP_USERINFO_PATH: buildProviderPathSchema('/oauth/userinfo'),
  IDP_REVOKE_PATH: buildProviderPathSchema('/oauth/revoke'),
  IDP_END_SESSION: flag(false),
  IDP_ROLES_CLAIM: text(''),
  IDP_PERMISSIONS_CLAIM: text(''),
  IDP_USER_MAX_AGE_SECONDS: integer({ default: 0, max: 86_400 }),
  IDP_WEBHOOK_SECRET: secret(),
  IDP_WEBHOOK_SECRETS_OLD: Type.Array(Type.String(), { default: [], writeOnly: true }),
  IDP_WEBHOOK_STANDARD_ONLY: flag(false),
  IDP_WEBHOOK_SIGNATURE_HEADER: Type.String({
    default: 'x-webhook-signature',
    pattern: NAME_PATTERN,
    description: 'must be the name of a header, such as x-webhook-signature',
  }),
  IDP_TIMEOUT_MS: integer({ default: 5000, min: 1, max: 120_000 }),
  SVC_AUTH_ENCRYPTION_KEY: Type.String({
    pattern: KEY_PATTERN,
    description: KEY_RULE,
    writeOnly: true,
  }),
  SVC_AUTH_ENCRYPTION_KEYS_OLD: Type.Array(Type.String({ pattern: KEY_PATTERN }), {
    default: [],
    description: `holds earlier keys, comma separated; each ${KEY_RULE}`,
    writeOnly: true,
  }),
  SVC_AUTH_COOKIE_NAME: Type.String({
    default: 'svc_auth_session',
    pattern: NAME_PATTERN,
    description: 'must be the name of a cookie: letters, digits, _ and -',
  }),
  SVC_AUTH_COOKIE_SECURE: flag(false),
  SVC_AUTH_COOKIE_SAMESITE: Type.Union(
    [Type.Literal('lax'), Type.Literal('strict'), Type.Literal('none')],
    { default: 'lax' },
  ),
  SVC_AUTH_COOKIE_MAX_AGE_DAYS: integer({ default: 30, min: 1, max: MAX_COOKIE_DAYS }),
  SVC_AUTH_IDLE_DAYS: integer({ default: 0, max: MAX_COOKIE_DAYS }),
  LOGIN_PER_MINUTE: integer({ default: 600 }),
  SOCKETS_PER_USER: integer({ default: 20, min: 1 }),
  SOCKETS_PER_ADDRESS: integer({ default: 200, min: 1 }),
  AUDIT_RETENTION_DAYS: integer({ default: 365, min: 1, max: 36_500 }),
  PROFILES_DIR: Type.Optional(Type.String({ minLength: 1 })),
  ...modelConfig,
  MODEL_CONTEXT_TOKENS: integer({ default: 32_768, min: 2048, max: 10_000_000 }),
  ANSWER_MAX_TOKENS: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 4_000_000,
      description: 'must be a whole number, 1 to 4000000',
    }),
  ),
  ANSWER_MAX_SECONDS: integer({ default: 300, min: 1, max: 3600 }),
  COLLECTOR_URL: buildServerUrlSchema('http://127.0.0.1:8001', 'collector'),
  COLLECTOR_API_KEY: secret(),
  COLLECTOR_ADMIN_API_KEY: secret(),
  SAVED_SEARCH_POLL_SECONDS: integer({ default: 20, max: 3600 }),
  INVENTORY_FILE: Type.Optional(Type.String({ minLength: 1 })),
  ANDROID_APP_PACKAGE: Type.String({
    default: 'app.oselya.android',
    pattern: '^[A-Za-z]\\w*(\\.[A-Za-z]\\w*)+$',
    description: 'must be the name of an Android package, such as app.oselya.android',
  }),
});

/** Configuration with dependent defaults. BASE_URL, IDP_BASE_URL and COLLECTOR_URL have no trailing slash. */
export type Config = Static<typeof configSchema> & {
  IDP_REDIRECT_URI: string;
  ANSWER_MAX_TOKENS: number;
};

const DEFAULT_ANSWER_TOKENS = 4000;

/** Maximum share of a model's context window for the answer. */
const MAX_ANSWER_SHARE = 0.4;

/** Returns the maximum value of ANSWER_MAX_TOKENS for a value of MODEL_CONTEXT_TOKENS. */
export const computeMaxAnswerTokens = (contextTokens: number): number =>
  Math.floor(contextTokens * MAX_ANSWER_SHARE);

/** Checks rules between variables. In `values`, an invalid or missing variable is undefined. */
const checkDependencies: ConfigRule<typeof configSchema> = (values) => {
  const isCookieInsecure = values.SVC_AUTH_COOKIE_SECURE === false;
  const { MODEL_CONTEXT_TOKENS: contextTokens = Infinity, ANSWER_MAX_TOKENS: answerTokens = 0 } =
    values;
  const needsModel = values.MODEL_MODE === 'openai';
  const rules: [name: keyof Config, isBroken: boolean, rule: string][] = [
    // Browsers silently reject cookies that break the next two rules.
    [
      'SVC_AUTH_COOKIE_SAMESITE',
      isCookieInsecure && values.SVC_AUTH_COOKIE_SAMESITE === 'none',
      'can be none only with SVC_AUTH_COOKIE_SECURE=true',
    ],
    [
      'SVC_AUTH_COOKIE_NAME',
      isCookieInsecure && /^__(Host|Secure)-/i.test(values.SVC_AUTH_COOKIE_NAME ?? ''),
      'can begin with __Host- or __Secure- only with SVC_AUTH_COOKIE_SECURE=true',
    ],
    [
      'MODEL_BASE_URL',
      needsModel && !values.MODEL_BASE_URL,
      'is not set: MODEL_MODE=openai needs it',
    ],
    ['MODEL_CHAT', needsModel && !values.MODEL_CHAT, 'is not set: MODEL_MODE=openai needs it'],
    [
      'ANSWER_MAX_TOKENS',
      answerTokens > computeMaxAnswerTokens(contextTokens),
      `can be at most ${MAX_ANSWER_SHARE * 100} % of MODEL_CONTEXT_TOKENS: lower it, or unset it for a default that fits, or raise MODEL_CONTEXT_TOKENS if the model's server allows it`,
    ],
    [
      'IDP_WEBHOOK_SECRET',
      values.IDP_WEBHOOK_SECRET === '' && (values.IDP_WEBHOOK_SECRETS_OLD ?? []).length > 0,
      'is not set: IDP_WEBHOOK_SECRETS_OLD needs it',
    ],
    // Without this scope the provider issues no ID token, which every sign-in with discovery requires.
    [
      'IDP_SCOPES',
      values.IDP_DISCOVERY === true && values.IDP_SCOPES?.split(' ').includes('openid') === false,
      'must contain openid: IDP_DISCOVERY=true needs it',
    ],
    [
      'IDP_END_SESSION',
      values.IDP_END_SESSION === true && values.IDP_DISCOVERY === false,
      'can be true only with IDP_DISCOVERY=true',
    ],
  ];
  return rules.filter(([, isBroken]) => isBroken).map(([name, , rule]) => [name, rule]);
};

/** Reads the configuration. Throws ConfigError with the names and rules of invalid variables, without their values. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const values = loadConfig(configSchema, env, [checkDependencies]);
  const baseUrl = values.BASE_URL.replace(/\/$/, '');
  return {
    ...values,
    BASE_URL: baseUrl,
    IDP_BASE_URL: values.IDP_BASE_URL.replace(/\/+$/, ''),
    COLLECTOR_URL: values.COLLECTOR_URL.replace(/\/+$/, ''),
    IDP_REDIRECT_URI: values.IDP_REDIRECT_URI ?? `${baseUrl}/auth/callback`,
    ANSWER_MAX_TOKENS:
      values.ANSWER_MAX_TOKENS ??
      Math.min(DEFAULT_ANSWER_TOKENS, computeMaxAnswerTokens(values.MODEL_CONTEXT_TOKENS)),
  };
}

/** Returns warnings for the startup log about settings that are unsafe or do not work in production. */
export function findUnsafeSettings(config: Config): string[] {
  const isHttps = config.BASE_URL.startsWith('https:');
  const { protocol, hostname } = new URL(config.IDP_BASE_URL);
  const isLocal = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
  const warnings: [isUnsafe: boolean, text: string][] = [
    [config.IDP_CLIENT_ID === '', 'IDP_CLIENT_ID is not set: sign-in does not work'],
    [
      isHttps && !config.SVC_AUTH_COOKIE_SECURE,
      'BASE_URL is https: set SVC_AUTH_COOKIE_SECURE=true to keep the cookie off http',
    ],
    [
      isHttps && config.MODEL_MODE === 'mock',
      'BASE_URL is https and MODEL_MODE is mock: answers come from rules, not from a model',
    ],
    [
      new URL(config.IDP_REDIRECT_URI).origin !== new URL(config.BASE_URL).origin,
      'IDP_REDIRECT_URI has a different origin than BASE_URL: sign-ins fail without their cookie unless a proxy connects the two',
    ],
    [
      protocol === 'http:' && !isLocal,
      'IDP_BASE_URL is http on a different host: tokens are sent unencrypted',
    ],
  ];
  return warnings.filter(([isUnsafe]) => isUnsafe).map(([, warning]) => warning);
}
