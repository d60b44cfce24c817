import type { EmbeddingModelV4, LanguageModelV4 } from '@ai-sdk/provider';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ModelError } from './errors.ts';
import type { CallKind, ServerAddress, ServerSettings } from './options.ts';
import type { Lane } from './request.ts';
import { createTransport } from './transport.ts';

/** Whether the models can be reached, and answer. */
export type ModelHealth = {
  /** `failing`: they can be reached, and the last request of some kind failed. */
  status: 'ok' | 'failing' | 'down';
  /** The reason; holds no secret. */
  detail?: string;
};

/** The models of one mode. Everything above is the same for each of them. */
export type ModelBackend = {
  chat: LanguageModelV4;
  /** Returns a model of the chat server by its name there; the mock has one for all names. */
  chatModel(name: string): LanguageModelV4;
  /** Undefined where no image is shown to a model: `MODEL_VISION=off`. */
  vision: LanguageModelV4 | undefined;
  embedding: EmbeddingModelV4;
  /** The same object where one server does several. */
  addresses: Record<CallKind, Lane<unknown>['address']>;
  health(signal: AbortSignal): Promise<ModelHealth>;
  close(): Promise<void>;
};

/**
 * Creates the models of servers that speak OpenAI's protocol: Ollama, vLLM, llama.cpp, a hosted one. Servers of one
 * model each are several: for chat, vision and embeddings.
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
    // Streams count no tokens unless asked to (`stream_options.include_usage`).
    includeUsage: true,
    fetch,
  });
  async function listModels(signal: AbortSignal): Promise<void> {
    const headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
    await fetch(`${baseUrl}/models`, { headers, signal });
  }
  return { provider, listModels, close };
}
