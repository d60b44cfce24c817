import { ModelError } from './errors.ts';
import type { MockAgent } from './conversation.ts';
import type { Observer } from './usage.ts';

/** Uses of models. Each use can have its own server. */
export type CallKind = 'chat' | 'vision' | 'embedding';

/** Options of a model client. Names in capitals are configuration variables (Contract 1). */
export type ModelClientOptions = {
  /** `MODEL_MODE`. */
  mode: 'mock' | 'openai';
  /** `MODEL_BASE_URL`: the URL up to and including `/v1`. */
  baseUrl?: string | undefined;
  /** `MODEL_EMBEDDING_BASE_URL`. Defaults to `baseUrl`. */
  embeddingBaseUrl?: string | undefined;
  /** `MODEL_VISION_BASE_URL`. Defaults to `baseUrl`. */
  visionBaseUrl?: string | undefined;
  /** `MODEL_API_KEY`. */
  apiKey?: string | undefined;
  /** `MODEL_EMBEDDING_API_KEY`. Defaults to `apiKey`. */
  embeddingApiKey?: string | undefined;
  /** `MODEL_VISION_API_KEY`. Defaults to `apiKey`. */
  visionApiKey?: string | undefined;
  /** `MODEL_CHAT`. */
  chat?: string | undefined;
  /** `MODEL_VISION`. Defaults to the chat model. False disables image descriptions. */
  vision?: string | false | undefined;
  /** `MODEL_EMBEDDING`. False disables embeddings. */
  embedding?: string | false | undefined;
  /** `MODEL_TIMEOUT_MS`: the time limit for all attempts of one call. */
  timeoutMs: number;
  /** `EMBEDDING_DIMENSIONS`: the number of dimensions of embeddings. */
  embeddingDimensions: number;
  /** Agent for conversations in `mock` mode. Without an agent, they are rejected. */
  mockAgent?: MockAgent | undefined;
  /** Called at the end of each request to the server. */
  observe?: Observer | undefined;
  /** Retry settings. By default 3 attempts, with a delay of 500 ms that doubles up to 10 s. */
  retry?: { attempts?: number; initialDelayMs?: number; maxDelayMs?: number } | undefined;
  /** Breaker settings. By default, a breaker opens after 5 consecutive failures and allows a probe after 30 s. */
  breaker?: { failures?: number; halfOpenAfterMs?: number } | undefined;
};

/** Names of the variables for the URL and the key of a server, for error messages. */
export type ServerVariables = { baseUrl: string; apiKey: string };

/** Validated settings of an OpenAI-compatible server. */
export type ServerAddress = {
  baseUrl: string;
  apiKey: string | undefined;
  variables: ServerVariables;
};

/** Validated servers and models of the `openai` mode. */
export type ServerSettings = {
  /** Server for each use. Uses with the same server share one object. */
  addresses: Record<CallKind, ServerAddress>;
  chat: string;
  vision: string | undefined;
  embedding: string;
};

/** Maximum delay of a timer in Node. Longer delays overflow and fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Validates the numeric options.
 * @throws ModelError MODEL_MISCONFIGURED with the name of the variable or option.
 */
export function validateNumbers(options: ModelClientOptions): void {
  const { retry, breaker } = options;
  const rules: [name: string, value: number | undefined, min: number, max: number][] = [
    ['MODEL_TIMEOUT_MS', options.timeoutMs, 1, MAX_TIMER_MS],
    ['EMBEDDING_DIMENSIONS', options.embeddingDimensions, 1, 16_000],
    ['retry.attempts', retry?.attempts, 1, 100],
    ['retry.initialDelayMs', retry?.initialDelayMs, 0, MAX_TIMER_MS],
    ['retry.maxDelayMs', retry?.maxDelayMs, 0, MAX_TIMER_MS],
    ['breaker.failures', breaker?.failures, 1, 1_000_000],
    ['breaker.halfOpenAfterMs', breaker?.halfOpenAfterMs, 0, MAX_TIMER_MS],
  ];
  for (const [name, value, min, max] of rules) {
    if (value !== undefined && !(Number.isInteger(value) && value >= min && value <= max)) {
      throw createMisconfiguredError(`${name} must be a whole number from ${min} to ${max}.`);
    }
  }
}

/**
 * Validates the settings of the `openai` mode.
 * @throws ModelError MODEL_MISCONFIGURED with the names of missing or invalid variables, without their values.
 */
export function resolveServerSettings(options: ModelClientOptions): ServerSettings {
  const { baseUrl = '', apiKey, chat = '', vision, embedding = '' } = options;
  const needed = { MODEL_BASE_URL: baseUrl, MODEL_CHAT: chat, MODEL_EMBEDDING: embedding };
  const missing = Object.entries(needed).flatMap(([name, value]) => (value === '' ? [name] : []));
  if (missing.length > 0) {
    const pronoun = missing.length === 1 ? 'it' : 'them';
    throw createMisconfiguredError(
      `MODEL_MODE=openai needs ${missing.join(', ')}. Set ${pronoun}, or use MODEL_MODE=mock.`,
    );
  }
  const common = checkAddress({
    baseUrl,
    apiKey,
    variables: { baseUrl: 'MODEL_BASE_URL', apiKey: 'MODEL_API_KEY' },
  });
  const own = (name: 'VISION' | 'EMBEDDING', ownUrl?: string, ownKey?: string): ServerAddress => {
    const address = checkAddress({
      baseUrl: ownUrl || baseUrl,
      apiKey: ownKey || apiKey,
      variables: {
        baseUrl: ownUrl ? `MODEL_${name}_BASE_URL` : 'MODEL_BASE_URL',
        apiKey: ownKey ? `MODEL_${name}_API_KEY` : 'MODEL_API_KEY',
      },
    });
    const isCommon = address.baseUrl === common.baseUrl && address.apiKey === common.apiKey;
    return isCommon ? common : address;
  };
  const visionAddress = own('VISION', options.visionBaseUrl, options.visionApiKey);
  const embeddingAddress = own('EMBEDDING', options.embeddingBaseUrl, options.embeddingApiKey);
  return {
    addresses: {
      chat: common,
      // The health check skips servers that are not used.
      vision: vision === false ? common : visionAddress,
      embedding: embedding === false ? common : embeddingAddress,
    },
    chat,
    vision: vision === false ? undefined : vision || chat,
    embedding: embedding === false ? '' : embedding,
  };
}

function checkAddress({ baseUrl, apiKey, variables }: ServerAddress): ServerAddress {
  const url = URL.parse(baseUrl);
  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    throw createMisconfiguredError(
      `${variables.baseUrl} must be an http or https address ending in /v1.`,
    );
  }
  if (url.username !== '' || url.password !== '') {
    throw createMisconfiguredError(
      `${variables.baseUrl} must not hold credentials; put the key in ${variables.apiKey}.`,
    );
  }
  if (url.search !== '' || url.hash !== '') {
    throw createMisconfiguredError(`${variables.baseUrl} must end with its path, without ? or #.`);
  }
  if (apiKey && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw createMisconfiguredError(
      `${variables.apiKey} must be printable ASCII without spaces. Was a line end copied with it?`,
    );
  }
  return { baseUrl: baseUrl.replace(/\/+$/, ''), apiKey: apiKey || undefined, variables };
}

function createMisconfiguredError(message: string): ModelError {
  return new ModelError('MODEL_MISCONFIGURED', message);
}
