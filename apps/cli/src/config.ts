import { commonConfig, integer } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import type { CollectorConnection } from './http.ts';

const DEFAULT_ASSISTANT_PORT = 8000;
const DEFAULT_COLLECTOR_PORT = 8001;

/** A year: longer than any sign-in should last, and short enough for every clock. */
const MAX_TOKEN_SECONDS = 31_536_000;

const tokenSeconds = (fallback: number) =>
  integer({ default: fallback, min: 1, max: MAX_TOKEN_SECONDS });

const port = (fallback: number) => integer({ default: fallback, min: 1, max: 65_535 });

/** The variables that `oselya dev` reads itself; the apps in it read theirs. Contract 1. */
export const devConfig = Type.Object({
  ...commonConfig,
  // The summary and the sample listings name both ports, so that neither is left to chance.
  ASSISTANT_PORT: port(DEFAULT_ASSISTANT_PORT),
  COLLECTOR_PORT: port(DEFAULT_COLLECTOR_PORT),
  DEV_IDP_PORT: port(8002),
  DEV_IDP_ACCESS_TOKEN_SECONDS: tokenSeconds(300),
  DEV_IDP_REFRESH_TOKEN_SECONDS: tokenSeconds(2_592_000),
});

/** The variables of commands that ask a running collector. Contract 1. */
export const clientConfig = Type.Object({
  COLLECTOR_PORT: port(DEFAULT_COLLECTOR_PORT),
  COLLECTOR_URL: Type.Optional(
    Type.Refine(
      Type.String({
        pattern: '^https?://[^\\s/?#@]+(/[^\\s?#]*)?$',
        description: 'must be the http or https address of the collector',
      }),
      (value) => URL.canParse(value),
    ),
  ),
  COLLECTOR_API_KEY: Type.Optional(
    Type.String({
      pattern: '^[\\w.~+/-]+=*$',
      description: 'must be a key as npx oselya api-key create prints it',
      writeOnly: true,
    }),
  ),
});

/** The variables of the command that talks to a running assistant. Contract 1. */
export const chatConfig = Type.Object({
  ASSISTANT_PORT: port(DEFAULT_ASSISTANT_PORT),
  BASE_URL: Type.Optional(
    Type.Refine(
      Type.String({
        pattern: '^https?://',
        description: 'must be the public origin of the assistant, such as https://oselya.example',
      }),
      (value) => parseOrigin(value) !== undefined,
    ),
  ),
});

/** The origin that a text is, with or without a final slash; undefined for what is none. */
export function parseOrigin(text: string): string | undefined {
  const origin = text.replace(/\/$/, '');
  return /^https?:/.test(origin) && URL.parse(origin)?.origin === origin ? origin : undefined;
}

/** The assistant that the command talks to: sign-ins begin and end at its public origin alone. */
export function resolveAssistantUrl({
  BASE_URL,
  ASSISTANT_PORT,
}: Static<typeof chatConfig>): string {
  return parseOrigin(BASE_URL ?? `http://127.0.0.1:${ASSISTANT_PORT}`) ?? '';
}

/** Where the assistant is unless a variable says otherwise. */
export const DEFAULT_ASSISTANT_URL = resolveAssistantUrl({
  ASSISTANT_PORT: DEFAULT_ASSISTANT_PORT,
});

/** Where a collector of this machine is. */
export function getLocalCollectorUrl(collectorPort: number): string {
  return `http://127.0.0.1:${collectorPort}`;
}

/** The collector that a command asks. */
export function resolveCollector(config: Static<typeof clientConfig>): CollectorConnection {
  return {
    url: config.COLLECTOR_URL ?? getLocalCollectorUrl(config.COLLECTOR_PORT),
    apiKey: config.COLLECTOR_API_KEY,
  };
}

/** Where the collector is unless a variable says otherwise. */
export const DEFAULT_COLLECTOR_URL = getLocalCollectorUrl(DEFAULT_COLLECTOR_PORT);
