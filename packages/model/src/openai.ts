import type { EmbeddingModelV4, LanguageModelV4 } from '@ai-sdk/provider';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ModelError } from './errors.ts';
import {
  type CallKind,
  type ModelClientOptions,
  resolveServers,
  type ServerAddress,
} from './options.ts';
import type { Lane } from './request.ts';
import { createTransport } from './transport.ts';

/** Model health. `failing` if the servers are reachable, but requests for one of the uses fail. */
export type ModelHealth = {
  status: 'ok' | 'failing' | 'down';
  detail?: string;
};

export type ModelBackend = {
  chat: LanguageModelV4;
  /** Returns a model of the chat server by name. The mock behaves the same for all names. */
  chatModel(name: string): LanguageModelV4;
  /** Vision model. Undefined if `MODEL_VISION=off`. */
  vision: LanguageModelV4 | undefined;
  embedding: EmbeddingModelV4;
  /** Server for each use. Uses with the same URL and key share its object. */
  addresses: Record<CallKind, Lane<unknown>['address']>;
  health(signal: AbortSignal): Promise<ModelHealth>;
  close(): Promise<void>;
};

/**
 * Creates models of servers that implement the API of OpenAI, such as Ollama, vLLM, llama.cpp and hosted services.
 * Chat, vision and embeddings can have separate servers.
 */
export function createOpenAIBackend(options: ModelClientOptions): ModelBackend {
  const { chat = '', vision, embedding } = options;
  const addresses = resolveServers(options);
  const serverByAddress = new Map<ServerAddress, ReturnType<typeof openServer>>();
  const getServer = (kind: CallKind) => {
    const server = serverByAddress.get(addresses[kind]) ?? openServer(addresses[kind]);
    serverByAddress.set(addresses[kind], server);
    return server;
  };
  const { provider } = getServer('chat');
  return {
    chat: provider.chatModel(chat),
    chatModel: (name) => provider.chatModel(name),
    vision: vision === false ? undefined : getServer('vision').provider.chatModel(vision || chat),
    embedding: getServer('embedding').provider.embeddingModel(embedding || ''),
    addresses,
    async health(signal) {
      try {
        await Promise.all(
          [...serverByAddress.values()].map(({ listModels }) => listModels(signal)),
        );
        return { status: 'ok' };
      } catch (error) {
        const isModelError = error instanceof ModelError;
        const detail = isModelError ? error.message : 'The model server did not respond.';
        return { status: 'down', detail };
      }
    },
    async close() {
      await Promise.all([...serverByAddress.values()].map(({ close }) => close()));
    },
  };
}

function openServer(address: ServerAddress) {
  const { baseUrl, apiKey } = address;
  const { fetch, close } = createTransport(address);
  const provider = createOpenAICompatible({
    name: 'model',
    baseURL: baseUrl,
    ...(apiKey !== undefined && { apiKey }),
    supportsStructuredOutputs: true,
    // Sends `stream_options.include_usage`. Otherwise, streams do not report tokens.
    includeUsage: true,
    fetch,
  });
  async function listModels(signal: AbortSignal): Promise<void> {
    const headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
    await fetch(`${baseUrl}/models`, { headers, signal });
  }
  return { provider, listModels, close };
}
