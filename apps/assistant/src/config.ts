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

/**
 * Url-safe base64 of exactly 32 bytes. They take 43 digits; the last one carries 4 bits only, so its
 * lower two must be zero: otherwise several texts would stand for one key.
 */
const KEY_PATTERN = '^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]=?$';
const KEY_RULE =
  'must be 32 bytes as url-safe base64 (43 digits): make one with `npx oselya keygen`, once for all instances';

const COOKIE_NAME = "^[\\w!#$%&'*+.^`|~-]{1,64}$";

/** RFC 6749 §3.3. */
const SCOPE = '[\\x21\\x23-\\x5b\\x5d-\\x7e]+';

/** Browsers keep no cookie longer. */
const MAX_COOKIE_DAYS = 400;

const isNormalUrl = (value: string) => URL.parse(value)?.href === value;
const isOrigin = (value: string) => URL.parse(value)?.origin === value.replace(/\/$/, '');

const endpoint = (path: string) =>
  Type.String({
    default: path,
    pattern: '^/[^\\s?#]*$',
    description: 'must be a path, such as /oauth/token',
  });

/** The assistant's variables. Specification 000, Configuration; Contract 1. */
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
  IDP_BASE_URL: Type.String({
    default: 'http://127.0.0.1:8002',
    pattern: '^https?://[^\\s/?#]+[^\\s?#]*$',
    description: 'must be the http or https address of the identity provider',
  }),
  IDP_CLIENT_ID: text(''),
  IDP_CLIENT_SECRET: secret(),
  IDP_CLIENT_AUTH: Type.Union([Type.Literal('basic'), Type.Literal('post')], { default: 'basic' }),
  IDP_REDIRECT_URI: Type.Optional(
    Type.Refine(
      Type.String({
        pattern: '^https?://[^\\s?#]+$',
        description:
          'must be the address of /auth/callback as registered at the provider: http or https, host in lower case, no query',
      }),
      isNormalUrl,
    ),
  ),
  IDP_ADMIN_ROLE_SLUG: text('svc_admin'),
  IDP_DISCOVERY: flag(false),
  IDP_SCOPES: Type.String({
    default: 'openid email profile roles permissions',
    pattern: `^${SCOPE}( ${SCOPE})*$`,
    description: 'must be scopes with a space between them, such as openid email offline_access',
  }),
  IDP_AUTHORIZE_PATH: endpoint('/oauth/authorize'),
  IDP_TOKEN_PATH: endpoint('/oauth/token'),
  IDP_USERINFO_PATH: endpoint('/oauth/userinfo'),
  IDP_REVOKE_PATH: endpoint('/oauth/revoke'),
  IDP_END_SESSION: flag(false),
  IDP_ROLES_CLAIM: text(''),
  IDP_PERMISSIONS_CLAIM: text(''),
  IDP_USER_MAX_AGE_SECONDS: integer({ default: 0, max: 86_400 }),
  IDP_WEBHOOK_SECRET: secret(),
  IDP_WEBHOOK_SECRETS_OLD: Type.Array(Type.String(), { default: [], writeOnly: true }),
  IDP_WEBHOOK_STANDARD_ONLY: flag(false),
  IDP_WEBHOOK_SIGNATURE_HEADER: Type.String({
    default: 'x-webhook-signature',
    pattern: "^[\\w!#$%&'*+.^`|~-]{1,64}$",
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
    pattern: COOKIE_NAME,
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
  COLLECTOR_URL: Type.String({
    default: 'http://127.0.0.1:8001',
    pattern: '^https?://[^\\s/?#]+[^\\s?#]*$',
    description: 'must be the http or https address of the collector',
  }),
  COLLECTOR_API_KEY: secret(),
  SAVED_SEARCH_POLL_SECONDS: integer({ default: 20, max: 3600 }),
  INVENTORY_FILE: Type.Optional(Type.String({ minLength: 1 })),
  ANDROID_APP_PACKAGE: Type.String({
    default: 'app.oselya.android',
    pattern: '^[A-Za-z]\\w*(\\.[A-Za-z]\\w*)+$',
    description: 'must be the name of an Android package, such as app.oselya.android',
  }),
});

/** The configuration, with what follows from other variables filled in, and addresses without a final slash. */
export type Config = Static<typeof configSchema> & {
  IDP_REDIRECT_URI: string;
  ANSWER_MAX_TOKENS: number;
};

/** How much a model may write for one answer where nothing is said and its window is large enough. */
const ANSWER_TOKENS = 4000;

/** What of a model's window is never taken by what is sent first, so that there is always room for an answer. */
const ANSWER_SHARE = 0.4;

/**
 * How many tokens ANSWER_MAX_TOKENS can be.
 * @param contextTokens MODEL_CONTEXT_TOKENS.
 */
export const mostAnswerTokens = (contextTokens: number): number =>
  Math.floor(contextTokens * ANSWER_SHARE);

/** Browsers would throw the cookie away silently, so that nobody could stay signed in. */
const keptCookie: ConfigRule<typeof configSchema> = ({
  SVC_AUTH_COOKIE_SECURE: secure,
  SVC_AUTH_COOKIE_SAMESITE: sameSite,
  SVC_AUTH_COOKIE_NAME: name = '',
}) => {
  if (secure !== false) return [];
  const problems: [keyof Config, string][] = [];
  if (sameSite === 'none') {
    problems.push([
      'SVC_AUTH_COOKIE_SAMESITE',
      'can be none only with SVC_AUTH_COOKIE_SECURE=true',
    ]);
  }
  if (/^__(Host|Secure)-/i.test(name)) {
    problems.push([
      'SVC_AUTH_COOKIE_NAME',
      'can begin with __Host- or __Secure- only with SVC_AUTH_COOKIE_SECURE=true',
    ]);
  }
  return problems;
};

/** A real model needs an address and a name. */
const completeModel: ConfigRule<typeof configSchema> = (values) =>
  values.MODEL_MODE === 'openai'
    ? (['MODEL_BASE_URL', 'MODEL_CHAT'] as const)
        .filter((name) => !values[name])
        .map((name) => [name, 'is not set: MODEL_MODE=openai needs it'])
    : [];

/** What is asked of a model and what it may write have to fit into its window together. */
const fittingAnswer: ConfigRule<typeof configSchema> = ({
  MODEL_CONTEXT_TOKENS: contextTokens,
  ANSWER_MAX_TOKENS: answerTokens,
}) => {
  if (contextTokens === undefined || answerTokens === undefined) return [];
  if (answerTokens <= mostAnswerTokens(contextTokens)) return [];
  return [
    [
      'ANSWER_MAX_TOKENS',
      `can be at most ${ANSWER_SHARE * 100} % of MODEL_CONTEXT_TOKENS: lower it, or unset it to have it follow; or raise MODEL_CONTEXT_TOKENS where the model's server takes more`,
    ],
  ];
};

/** Where the provider's sessions end stands in discovery alone. */
const knownEndSession: ConfigRule<typeof configSchema> = ({ IDP_END_SESSION, IDP_DISCOVERY }) =>
  IDP_END_SESSION === true && IDP_DISCOVERY === false
    ? [['IDP_END_SESSION', 'can be true only with IDP_DISCOVERY=true']]
    : [];

/** Without a current secret every webhook is rejected, so an old one alone is a mistake. */
const currentSecret: ConfigRule<typeof configSchema> = ({
  IDP_WEBHOOK_SECRET: current,
  IDP_WEBHOOK_SECRETS_OLD: old = [],
}) =>
  current === '' && old.length > 0
    ? [['IDP_WEBHOOK_SECRET', 'is not set: IDP_WEBHOOK_SECRETS_OLD needs it']]
    : [];

/** Without it the provider's answer is not OpenID Connect's, by which it would be judged. */
const openIdScope: ConfigRule<typeof configSchema> = ({ IDP_DISCOVERY, IDP_SCOPES = '' }) =>
  IDP_DISCOVERY === true && !IDP_SCOPES.split(' ').includes('openid')
    ? [['IDP_SCOPES', 'must contain openid: IDP_DISCOVERY=true needs it']]
    : [];

/**
 * Reads the assistant's configuration.
 * @throws ConfigError naming every bad variable with its rule, never its value.
 */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const values = loadConfig(configSchema, env, [
    keptCookie,
    completeModel,
    fittingAnswer,
    currentSecret,
    openIdScope,
    knownEndSession,
  ]);
  const baseUrl = values.BASE_URL.replace(/\/$/, '');
  return {
    ...values,
    BASE_URL: baseUrl,
    IDP_BASE_URL: values.IDP_BASE_URL.replace(/\/+$/, ''),
    COLLECTOR_URL: values.COLLECTOR_URL.replace(/\/+$/, ''),
    IDP_REDIRECT_URI: values.IDP_REDIRECT_URI ?? `${baseUrl}/auth/callback`,
    ANSWER_MAX_TOKENS:
      values.ANSWER_MAX_TOKENS ??
      Math.min(ANSWER_TOKENS, mostAnswerTokens(values.MODEL_CONTEXT_TOKENS)),
  };
}

/** What is set in a way that works but should not stay so in production; told at the start. */
export function unsafeSettings(config: Config): string[] {
  const warnings: string[] = [];
  if (config.IDP_CLIENT_ID === '') {
    warnings.push('IDP_CLIENT_ID is not set: nobody can sign in');
  }
  if (config.BASE_URL.startsWith('https:') && !config.SVC_AUTH_COOKIE_SECURE) {
    warnings.push('BASE_URL is https: set SVC_AUTH_COOKIE_SECURE=true to keep the cookie off http');
  }
  if (config.BASE_URL.startsWith('https:') && config.MODEL_MODE === 'mock') {
    warnings.push('BASE_URL is https and MODEL_MODE is mock: people talk to rules, not to a model');
  }
  if (new URL(config.IDP_REDIRECT_URI).origin !== new URL(config.BASE_URL).origin) {
    warnings.push(
      'IDP_REDIRECT_URI is on another origin than BASE_URL: sign-ins end where the browser has no cookie of theirs, unless a proxy leads one to the other',
    );
  }
  if (isPlainHttp(config.IDP_BASE_URL)) {
    warnings.push('IDP_BASE_URL is http on another host: tokens travel there unencrypted');
  }
  return warnings;
}

function isPlainHttp(address: string): boolean {
  const { protocol, hostname } = new URL(address);
  return protocol === 'http:' && !/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}
