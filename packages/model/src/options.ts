import type { MockAgent } from './conversation.ts';
import type { ModelCallEvent } from './call-event.ts';
import type { CallKind } from './call-health.ts';
import { ModelError } from './errors.ts';

/** How a model client is set up. The names in capitals are the variables of Contract 1. */
export type ModelClientOptions = {
  /** `MODEL_MODE`. */
  mode: 'mock' | 'openai';
  /** `MODEL_BASE_URL`: up to and including `/v1`. */
  baseUrl?: string | undefined;
  /** `MODEL_EMBEDDING_BASE_URL`: the same of the server that embeds; `baseUrl` when it is not given. */
  embeddingBaseUrl?: string | undefined;
  /** `MODEL_VISION_BASE_URL`: the same of the server that sees; `baseUrl` when it is not given. */
  visionBaseUrl?: string | undefined;
  /** `MODEL_API_KEY`. */
  apiKey?: string | undefined;
  /** `MODEL_EMBEDDING_API_KEY`: the key of the server that embeds; `apiKey` when it is not given. */
  embeddingApiKey?: string | undefined;
  /** `MODEL_VISION_API_KEY`: the key of the server that sees; `apiKey` when it is not given. */
  visionApiKey?: string | undefined;
  /** `MODEL_CHAT`. */
  chat?: string | undefined;
  /** `MODEL_VISION`; the chat model when it is not given, false for a client that shows no image to a model. */
  vision?: string | false | undefined;
  /** `MODEL_EMBEDDING`; false for a client that embeds nothing. */
  embedding?: string | false | undefined;
  /** `MODEL_TIMEOUT_MS`: the deadline over all attempts of one request. */
  timeoutMs: number;
  /** `EMBEDDING_DIMENSIONS`: the width that every embedding must have. */
  embeddingDimensions: number;
  /** How the `mock` mode answers in conversations, which it refuses without it. */
  mockAgent?: MockAgent | undefined;
  /** Told of each request to the server when it has ended. */
  observe?: ((event: ModelCallEvent) => void) | undefined;
  /** 3 attempts, waiting about 500 ms and doubling up to 10 s, when nothing else is said. */
  retry?: RetryOptions | undefined;
  /** Each opens after 5 failures in a row and probes after 30 s when nothing else is said. */
  breaker?: BreakerOptions | undefined;
};

/** How often, and how far apart, a request is tried. */
export type RetryOptions = {
  /** Attempts in all, the first one included. */
  attempts?: number;
  initialDelayMs?: number;
  maxDelayMs?: number;
};

/** When a breaker opens, and when it lets a probe through. */
export type BreakerOptions = {
  /** Infrastructure failures in a row. */
  failures?: number;
  halfOpenAfterMs?: number;
};

/** The variables that say where a server is and what it is opened with, for error messages. */
export type ServerVariables = {
  baseUrl: string;
  apiKey: string;
};

/** One OpenAI-compatible server, checked. */
export type ServerAddress = {
  baseUrl: string;
  apiKey: string | undefined;
  variables: ServerVariables;
};

/** The servers and the models of the `openai` mode, checked. */
export type ServerSettings = {
  /** The same object where one server does several. */
  addresses: Record<CallKind, ServerAddress>;
  chat: string;
  vision: string | undefined;
  embedding: string;
};

// A longer timer overflows in Node and would fire at once.
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Checks the numbers of the options.
 *
 * @throws ModelError MODEL_MISCONFIGURED, naming the variable or option.
 */
export function checkNumbers(options: ModelClientOptions): void {
  const rules: [name: string, value: number | undefined, least: number, most: number][] = [
    ['MODEL_TIMEOUT_MS', options.timeoutMs, 1, LONGEST_TIMER_MS],
    ['EMBEDDING_DIMENSIONS', options.embeddingDimensions, 1, 16_000],
    ['retry.attempts', options.retry?.attempts, 1, 100],
    ['retry.initialDelayMs', options.retry?.initialDelayMs, 0, LONGEST_TIMER_MS],
    ['retry.maxDelayMs', options.retry?.maxDelayMs, 0, LONGEST_TIMER_MS],
    ['breaker.failures', options.breaker?.failures, 1, 1_000_000],
    ['breaker.halfOpenAfterMs', options.breaker?.halfOpenAfterMs, 0, LONGEST_TIMER_MS],
  ];
  for (const [name, value, least, most] of rules) {
    if (value !== undefined && !(Number.isInteger(value) && value >= least && value <= most)) {
      throw misconfigured(`${name} must be a whole number from ${least} to ${most}.`);
    }
  }
}

/**
 * Takes what the `openai` mode needs out of the options.
 *
 * @throws ModelError MODEL_MISCONFIGURED, naming every variable that is missing, or the one that
 *   is malformed; never a value.
 */
export function serverSettings(options: ModelClientOptions): ServerSettings {
  const { baseUrl = '', chat = '', embedding = '' } = options;
  const missing = Object.entries({
    MODEL_BASE_URL: baseUrl,
    MODEL_CHAT: chat,
    ...(embedding !== false && { MODEL_EMBEDDING: embedding }),
  }).flatMap(([name, value]) => (value === '' ? [name] : []));
  if (missing.length > 0) {
    throw misconfigured(
      `MODEL_MODE=openai needs ${missing.join(', ')}. Set ${missing.length === 1 ? 'it' : 'them'}, or use MODEL_MODE=mock.`,
    );
  }
  const chatAddress = serverAddress(
    { baseUrl: 'MODEL_BASE_URL', apiKey: 'MODEL_API_KEY' },
    { baseUrl, apiKey: options.apiKey },
  );
  const ownAddress = (
    kind: 'VISION' | 'EMBEDDING',
    own: { baseUrl: string | undefined; apiKey: string | undefined },
  ) => {
    const address = serverAddress(
      {
        baseUrl: own.baseUrl ? `MODEL_${kind}_BASE_URL` : 'MODEL_BASE_URL',
        apiKey: own.apiKey ? `MODEL_${kind}_API_KEY` : 'MODEL_API_KEY',
      },
      { baseUrl: own.baseUrl || baseUrl, apiKey: own.apiKey || options.apiKey },
    );
    const isSame = address.baseUrl === chatAddress.baseUrl && address.apiKey === chatAddress.apiKey;
    return isSame ? chatAddress : address;
  };
  const visionAddress = ownAddress('VISION', {
    baseUrl: options.visionBaseUrl,
    apiKey: options.visionApiKey,
  });
  const embeddingAddress = ownAddress('EMBEDDING', {
    baseUrl: options.embeddingBaseUrl,
    apiKey: options.embeddingApiKey,
  });
  return {
    addresses: {
      chat: chatAddress,
      // A server that nothing is asked of is not asked how it is either.
      vision: options.vision === false ? chatAddress : visionAddress,
      embedding: embedding === false ? chatAddress : embeddingAddress,
    },
    chat,
    vision: options.vision === false ? undefined : options.vision || chat,
    // Of a client that embeds nothing no embedding is asked.
    embedding: embedding === false ? '' : embedding,
  };
}

function serverAddress(
  variables: ServerVariables,
  { baseUrl, apiKey }: { baseUrl: string; apiKey: string | undefined },
): ServerAddress {
  return {
    baseUrl: checkedBaseUrl(variables, baseUrl),
    apiKey: checkedApiKey(variables.apiKey, apiKey),
    variables,
  };
}

function checkedBaseUrl({ baseUrl: name, apiKey }: ServerVariables, text: string): string {
  const url = URL.parse(text);
  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    throw misconfigured(`${name} must be an http or https address ending in /v1.`);
  }
  if (url.username !== '' || url.password !== '') {
    throw misconfigured(`${name} must not hold credentials; put the key in ${apiKey}.`);
  }
  if (url.search !== '' || url.hash !== '') {
    throw misconfigured(`${name} must end with its path, without ? or #.`);
  }
  return text.replace(/\/+$/, '');
}

function checkedApiKey(name: string, key: string | undefined): string | undefined {
  if (key === undefined || key === '') return undefined;
  if (!/^[\x21-\x7e]+$/.test(key)) {
    throw misconfigured(
      `${name} must be printable ASCII without spaces. Was a line end copied with it?`,
    );
  }
  return key;
}

function misconfigured(message: string): ModelError {
  return new ModelError('MODEL_MISCONFIGURED', message);
}
