import { ModelError } from './errors.ts';
import type { MockAgent } from './conversation.ts';
import type { Observer } from './usage.ts';

/** Uses of models. Each use can have a separate server. */
export type CallKind = 'chat' | 'vision' | 'embedding';

/** Model client options. The apps validate the configuration variables (Contract 1). */
export type ModelClientOptions = {
  mode: 'mock' | 'openai';
  /** `MODEL_BASE_URL`: the URL up to and including `/v1`. The other URLs default to it. */
  baseUrl?: string | undefined;
  embeddingBaseUrl?: string | undefined;
  visionBaseUrl?: string | undefined;
  /** `MODEL_API_KEY`. The other keys default to it, even for servers with other URLs. */
  apiKey?: string | undefined;
  embeddingApiKey?: string | undefined;
  visionApiKey?: string | undefined;
  chat?: string | undefined;
  /** `MODEL_VISION`. Defaults to the chat model. False disables image descriptions. */
  vision?: string | false | undefined;
  /** `MODEL_EMBEDDING`. False if the caller embeds nothing: the health check then skips the embedding server. */
  embedding?: string | false | undefined;
  /** `MODEL_TIMEOUT_MS`: the time limit for all attempts of a call or batch, and for each further part of a stream. */
  timeoutMs: number;
  embeddingDimensions: number;
  /** Agent for conversations in `mock` mode. Without an agent, the client rejects them. */
  mockAgent?: MockAgent | undefined;
  /** Called at the end of each request, including those that the mock answers. */
  observe?: Observer | undefined;
  /** By default 3 attempts, with a delay of 500 ms that doubles up to 10 s. */
  retry?: { attempts?: number; initialDelayMs?: number; maxDelayMs?: number } | undefined;
  /** By default, a breaker opens after 5 consecutive infrastructure failures and allows a probe after 30 s. */
  breaker?: { failures?: number; halfOpenAfterMs?: number } | undefined;
};

/** Names of a server's URL and key variables, for error messages. */
export type ServerVariables = { baseUrl: string; apiKey: string };

export type ServerAddress = {
  baseUrl: string;
  apiKey: string | undefined;
  variables: ServerVariables;
};

/**
 * Returns the server for each use in `openai` mode. Uses with the same URL and key share its object.
 * @throws ModelError MODEL_MISCONFIGURED with the name of an invalid variable, without its value.
 */
export function resolveServers(options: ModelClientOptions): Record<CallKind, ServerAddress> {
  const chat = checkAddress(options.baseUrl, options.apiKey, {
    baseUrl: 'MODEL_BASE_URL',
    apiKey: 'MODEL_API_KEY',
  });
  const servers = [chat];
  const resolveUse = (use: 'VISION' | 'EMBEDDING', baseUrl?: string, apiKey?: string) => {
    const address = checkAddress(baseUrl || options.baseUrl, apiKey || options.apiKey, {
      baseUrl: baseUrl ? `MODEL_${use}_BASE_URL` : 'MODEL_BASE_URL',
      apiKey: apiKey ? `MODEL_${use}_API_KEY` : 'MODEL_API_KEY',
    });
    const isSame = (server: ServerAddress) =>
      server.baseUrl === address.baseUrl && server.apiKey === address.apiKey;
    const server = servers.find(isSame) ?? address;
    servers.push(server);
    return server;
  };
  const vision = resolveUse('VISION', options.visionBaseUrl, options.visionApiKey);
  const embedding = resolveUse('EMBEDDING', options.embeddingBaseUrl, options.embeddingApiKey);
  // Uses that are off get the server of the chat, so the health check skips their own servers.
  return {
    chat,
    vision: options.vision === false ? chat : vision,
    embedding: options.embedding === false ? chat : embedding,
  };
}

function checkAddress(
  baseUrl = '',
  apiKey: string | undefined,
  variables: ServerVariables,
): ServerAddress {
  const url = URL.parse(baseUrl);
  const problems: [isBroken: boolean, message: string][] = [
    [
      !/^https?:$/.test(url?.protocol ?? ''),
      `${variables.baseUrl} must be an http or https URL that ends in /v1.`,
    ],
    [
      Boolean(url?.username || url?.password),
      `${variables.baseUrl} must not contain credentials. Put the key in ${variables.apiKey}.`,
    ],
    [
      Boolean(url?.search || url?.hash),
      `${variables.baseUrl} must end with its path, without ? or #.`,
    ],
    [
      !/^[\x21-\x7e]*$/.test(apiKey ?? ''),
      `${variables.apiKey} must be printable ASCII without spaces. Remove spaces and line ends from the value.`,
    ],
  ];
  const problem = problems.find(([isBroken]) => isBroken);
  if (problem !== undefined) throw new ModelError('MODEL_MISCONFIGURED', problem[1]);
  return { baseUrl: baseUrl.replace(/\/+$/, ''), apiKey: apiKey || undefined, variables };
}
