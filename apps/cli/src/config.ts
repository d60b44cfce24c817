import { commonConfig, integer } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import type { CollectorConnection } from './http.ts';

const DEFAULT_ASSISTANT_PORT = 8000;
const DEFAULT_COLLECTOR_PORT = 8001;

const MAX_TOKEN_SECONDS = 31_536_000;

const createSecondsSchema = (fallback: number) =>
  integer({ default: fallback, min: 1, max: MAX_TOKEN_SECONDS });

const createPortSchema = (fallback: number) => integer({ default: fallback, min: 1, max: 65_535 });

/** Variables that `oselya dev` itself reads. Contract 1. */
export const devConfig = Type.Object({
  ...commonConfig,
  // The summary and the sample listings need fixed ports, so port 0 is invalid.
  ASSISTANT_PORT: createPortSchema(DEFAULT_ASSISTANT_PORT),
  COLLECTOR_PORT: createPortSchema(DEFAULT_COLLECTOR_PORT),
  DEV_IDP_PORT: createPortSchema(8002),
  DEV_IDP_ACCESS_TOKEN_SECONDS: createSecondsSchema(300),
  DEV_IDP_REFRESH_TOKEN_SECONDS: createSecondsSchema(2_592_000),
});

const collectorUrlSchema = Type.String({
  pattern: '^https?://[^\\s/?#@]+(/[^\\s?#]*)?$',
  description: 'must be the http or https address of the collector',
});

/** Variables of commands that use a running collector. Contract 1. */
export const clientConfig = Type.Object({
  COLLECTOR_PORT: createPortSchema(DEFAULT_COLLECTOR_PORT),
  COLLECTOR_URL: Type.Optional(Type.Refine(collectorUrlSchema, (value) => URL.canParse(value))),
  COLLECTOR_API_KEY: Type.Optional(
    Type.String({
      pattern: '^[\\w.~+/-]+=*$',
      description: 'must be a key as npx oselya api-key create prints it',
      writeOnly: true,
    }),
  ),
});

const originSchema = Type.String({
  pattern: '^https?://',
  description: 'must be the public origin of the assistant, such as https://oselya.example',
});

/** Variables of `oselya chat`. Contract 1. */
export const chatConfig = Type.Object({
  ASSISTANT_PORT: createPortSchema(DEFAULT_ASSISTANT_PORT),
  BASE_URL: Type.Optional(Type.Refine(originSchema, (value) => parseOrigin(value) !== undefined)),
});

/** Returns an http or https origin without a trailing slash. Returns undefined for other texts. */
export function parseOrigin(text: string): string | undefined {
  const origin = text.replace(/\/$/, '');
  return /^https?:/.test(origin) && URL.parse(origin)?.origin === origin ? origin : undefined;
}

/** Returns the origin of the assistant: `BASE_URL`, because sign-in requires the public origin, or the local port. */
export function resolveAssistantUrl(config: Static<typeof chatConfig>): string {
  return parseOrigin(config.BASE_URL ?? `http://127.0.0.1:${config.ASSISTANT_PORT}`) ?? '';
}

export const DEFAULT_ASSISTANT_URL = resolveAssistantUrl({
  ASSISTANT_PORT: DEFAULT_ASSISTANT_PORT,
});

/** Returns the URL and API key of the configured collector. */
export function resolveCollector(config: Static<typeof clientConfig>): CollectorConnection {
  const { COLLECTOR_URL: url, COLLECTOR_PORT: localPort, COLLECTOR_API_KEY: apiKey } = config;
  return { url: url ?? `http://127.0.0.1:${localPort}`, apiKey };
}

export const DEFAULT_COLLECTOR_URL = resolveCollector({
  COLLECTOR_PORT: DEFAULT_COLLECTOR_PORT,
}).url;
