import type { EmbeddingModelV4, LanguageModelV4 } from '@ai-sdk/provider';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ModelError } from './errors.ts';
import type { CallKind, ServerAddress, ServerSettings } from './options.ts';
import type { Lane } from './request.ts';
import { createTransport } from './transport.ts';

/** Health of the models. */
export type ModelHealth = {
  /** Status of the servers. `failing` if they are reachable, but the last request of a kind failed. */
  status: 'ok' | 'failing' | 'down';
  /** Reason without secrets. */
  detail?: string;
};

/** Models of one mode. */
export type ModelBackend = {
  chat: LanguageModelV4;
  /** Returns a model of the chat server by its name. The mock has the same model for all names. */
  chatModel(name: string): LanguageModelV4;
  /** Vision model. Undefined if `MODEL_VISION=off`. */
  vision: LanguageModelV4 | undefined;
  embedding: EmbeddingModelV4;
  /** Server for each use. Uses with the same server share one object. */
  addresses: Record<CallKind, Lane<unknown>['address']>;
  health(signal: AbortSignal): Promise<ModelHealth>;
  close(): Promise<void>;
};

/**
 * Creates models of servers that implement the API of OpenAI, such as Ollama, vLLM, llama.cpp and hosted services.
 * Chat, vision and embeddings can have separate servers.
 */
export function createOpenAIBackend(settings: ServerSettings): ModelBackend {
  const { addresses, vision } = settings;
  const servers = new Map<ServerAddress, ReturnType<typeof openServer>>();
  const serverOf = (kind: CallKind) => {
    const server = servers.get(addresses[kind]) ?? openServer(addresses[kind]);
    servers.set(addresses[kind], server);
    return server;
  };
  const { provider } = serverOf('chat');
  return {
    chat: provider.chatModel(settings.chat),
    chatModel: (name) => provider.chatModel(name),
    vision: vision === undefined ? undefined : serverOf('vision').provider.chatModel(vision),
    embedding: serverOf('embedding').provider.embeddingModel(settings.embedding),
    addresses,
    async health(signal) {
      try {
        await Promise.all([...servers.values()].map((server) => server.listModels(signal)));
        return { status: 'ok' };
      } catch (error) {
        const isAnswer = error instanceof ModelError;
        const detail = isAnswer ? error.message : 'The model server did not answer.';
        return { status: 'down', detail };
      }
    },
    async close() {
      await Promise.all([...servers.values()].map((server) => server.close()));
    },
  };
}

function openServer(server: ServerAddress) {
  const { baseUrl, apiKey } = server;
  const { fetch, close } = createTransport(server);
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
