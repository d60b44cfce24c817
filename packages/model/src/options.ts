import { ModelError } from './errors.ts';
import type { MockAgent } from './conversation.ts';
import type { Observer } from './usage.ts';

/** The uses of models; each may have a server of its own. */
export type CallKind = 'chat' | 'vision' | 'embedding';

/** Settings of a model client. The names in capitals are the variables of Contract 1. */
export type ModelClientOptions = {
  /** `MODEL_MODE`. */
  mode: 'mock' | 'openai';
  /** `MODEL_BASE_URL`: up to and including `/v1`. */
  baseUrl?: string | undefined;
  /** `MODEL_EMBEDDING_BASE_URL`; `baseUrl` unless given. */
  embeddingBaseUrl?: string | undefined;
  /** `MODEL_VISION_BASE_URL`; `baseUrl` unless given. */
  visionBaseUrl?: string | undefined;
  /** `MODEL_API_KEY`. */
  apiKey?: string | undefined;
  /** `MODEL_EMBEDDING_API_KEY`; `apiKey` unless given. */
  embeddingApiKey?: string | undefined;
  /** `MODEL_VISION_API_KEY`; `apiKey` unless given. */
  visionApiKey?: string | undefined;
  /** `MODEL_CHAT`. */
  chat?: string | undefined;
  /** `MODEL_VISION`; the chat model unless given, false for a client that shows no image to a model. */
  vision?: string | false | undefined;
  /** `MODEL_EMBEDDING`; false for a client that embeds nothing. */
  embedding?: string | false | undefined;
  /** `MODEL_TIMEOUT_MS`: the deadline over all attempts of one request. */
  timeoutMs: number;
  /** `EMBEDDING_DIMENSIONS`: the width of every embedding. */
  embeddingDimensions: number;
  /** Answers the conversations of the `mock` mode, which rejects them without it. */
  mockAgent?: MockAgent | undefined;
  /** Called for each request to the server when it has ended. */
  observe?: Observer | undefined;
  /** By default 3 attempts, with a delay of 500 ms that doubles up to 10 s. */
  retry?: { attempts?: number; initialDelayMs?: number; maxDelayMs?: number } | undefined;
  /** By default a breaker opens after 5 infrastructure failures in a row, and allows a probe after 30 s. */
  breaker?: { failures?: number; halfOpenAfterMs?: number } | undefined;
};

/** The variables that hold a server's address and key, for error messages. */
export type ServerVariables = { baseUrl: string; apiKey: string };

/** One OpenAI-compatible server, checked. */
export type ServerAddress = {
  baseUrl: string;
  apiKey: string | undefined;
  variables: ServerVariables;
};

/** The servers and models of the `openai` mode, checked. */
export type ServerSettings = {
  /** The same object where one server does several. */
  addresses: Record<CallKind, ServerAddress>;
  chat: string;
  vision: string | undefined;
  embedding: string;
};

/** A longer timer overflows in Node and would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Checks the numbers of the options.
 * @throws ModelError MODEL_MISCONFIGURED, naming the variable or option.
 */
export function checkNumbers(options: ModelClientOptions): void {
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
      throw misconfigured(`${name} must be a whole number from ${min} to ${max}.`);
    }
  }
}

/**
 * Reads the settings of the `openai` mode.
 * @throws ModelError MODEL_MISCONFIGURED, naming every variable that is missing, or the one that is malformed; never a
 *   value.
 */
export function serverSettings(options: ModelClientOptions): ServerSettings {
  const { baseUrl = '', apiKey, chat = '', vision, embedding = '' } = options;
  const needed = { MODEL_BASE_URL: baseUrl, MODEL_CHAT: chat, MODEL_EMBEDDING: embedding };
  const missing = Object.entries(needed).flatMap(([name, value]) => (value === '' ? [name] : []));
  if (missing.length > 0) {
    const pronoun = missing.length === 1 ? 'it' : 'them';
    throw misconfigured(
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
      // Health does not ask a server without a use.
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
    throw misconfigured(`${variables.baseUrl} must be an http or https address ending in /v1.`);
  }
  if (url.username !== '' || url.password !== '') {
    throw misconfigured(
      `${variables.baseUrl} must not hold credentials; put the key in ${variables.apiKey}.`,
    );
  }
  if (url.search !== '' || url.hash !== '') {
    throw misconfigured(`${variables.baseUrl} must end with its path, without ? or #.`);
  }
  if (apiKey && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw misconfigured(
      `${variables.apiKey} must be printable ASCII without spaces. Was a line end copied with it?`,
    );
  }
  return { baseUrl: baseUrl.replace(/\/+$/, ''), apiKey: apiKey || undefined, variables };
}

function misconfigured(message: string): ModelError {
  return new ModelError('MODEL_MISCONFIGURED', message);
}
