import ipaddr from 'ipaddr.js';
import { type TArray, type TString, Type } from 'typebox';

/** Creates the schema for an integer variable. `min` defaults to 0, and `max` to the largest safe integer. */
export function integer(options: { default: number; min?: number; max?: number }) {
  const { min: minimum = 0, max: maximum = Number.MAX_SAFE_INTEGER } = options;
  return Type.Integer({ default: options.default, minimum, maximum });
}

/** Creates the schema for a boolean variable. */
export function flag(defaultValue: boolean) {
  return Type.Boolean({ default: defaultValue });
}

/** Creates the schema for a string variable. */
export function text(defaultValue: string): TString {
  return Type.String({ default: defaultValue });
}

/** Creates the schema for a secret variable, whose value is never shown or logged. */
export function secret(): TString {
  return Type.String({ default: '', writeOnly: true });
}

/** Creates the schema for an optional variable with the URL of an HTTP server. */
export function httpUrl() {
  return Type.Optional(
    Type.String({ pattern: '^https?://', description: 'must be an http or https URL' }),
  );
}

/** Creates the schema for a variable with comma-separated values. */
export function list(): TArray<TString> {
  return Type.Array(Type.String({ minLength: 1 }), { default: [] });
}

const isAddressOrRange = (value: string) => ipaddr.isValid(value) || ipaddr.isValidCIDR(value);

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

/** Variables that both apps and `oselya dev` read. Contract 1. */
export const commonConfig = {
  DATABASE_URL: Type.Optional(
    Type.String({
      pattern: '^postgres(ql)?://',
      description: 'must begin with postgres:// or postgresql://',
      writeOnly: true,
    }),
  ),
  DATA_DIR: text('var'),
  LOG_LEVEL: Type.Union(
    LOG_LEVELS.map((level) => Type.Literal(level)),
    { default: 'info' },
  ),
  METRICS_TOKEN: Type.String({
    default: '',
    pattern: '^(|[A-Za-z0-9._~+/=-]{16,})$',
    description: 'must have at least 16 of the characters A-Z a-z 0-9 . _ ~ + / = -',
    writeOnly: true,
  }),
};

/** Variables for servers behind a reverse proxy. */
export const proxyConfig = {
  TRUSTED_PROXIES: Type.Array(Type.Refine(Type.String(), isAddressOrRange), {
    default: [],
    description:
      'must be addresses or ranges of reverse proxies, comma separated, such as 127.0.0.1,10.0.0.0/8',
  }),
};

/** Language model variables of both apps. Contract 1. */
export const modelConfig = {
  MODEL_MODE: Type.Union([Type.Literal('mock'), Type.Literal('openai')], { default: 'mock' }),
  MODEL_BASE_URL: httpUrl(),
  MODEL_API_KEY: secret(),
  MODEL_CHAT: text(''),
  MODEL_TIMEOUT_MS: integer({ default: 120_000, min: 100, max: 3_600_000 }),
};
