import { Type } from 'typebox';
import ipaddr from 'ipaddr.js';
import { httpAddress, integer, secret, text } from './fields.ts';

/** Whether a text is an address or a range of addresses, such as 10.0.0.0/8. */
const isRange = (value: string) => ipaddr.isValid(value) || ipaddr.isValidCIDR(value);

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

/** What every process reads. Contract 1. */
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
    LEVELS.map((level) => Type.Literal(level)),
    { default: 'info' },
  ),
  METRICS_TOKEN: Type.String({
    default: '',
    pattern: '^(|[A-Za-z0-9._~+/=-]{16,})$',
    description: 'must have at least 16 of the characters A-Z a-z 0-9 . _ ~ + / = -',
    writeOnly: true,
  }),
};

/** What servers behind a reverse proxy read, to know their callers' addresses. */
export const proxyConfig = {
  TRUSTED_PROXIES: Type.Array(Type.Refine(Type.String(), isRange), {
    default: [],
    description:
      'holds the addresses or ranges of reverse proxies, comma separated, such as 127.0.0.1,10.0.0.0/8',
  }),
};

/** The language model that both apps ask. Contract 1. */
export const modelConfig = {
  MODEL_MODE: Type.Union([Type.Literal('mock'), Type.Literal('openai')], { default: 'mock' }),
  MODEL_BASE_URL: httpAddress(),
  MODEL_API_KEY: secret(),
  MODEL_CHAT: text(''),
  MODEL_TIMEOUT_MS: integer({ default: 120_000, min: 100, max: 3_600_000 }),
};
