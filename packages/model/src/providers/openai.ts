import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { wrapEmbeddingModel } from 'ai';
import { ModelError } from '../errors.ts';
import type { ServerAddress, ServerSettings } from '../options.ts';
import { createTransport } from '../transport/transport.ts';
import type { ModelBackend } from './backend.ts';
import { embeddingOrder } from './embedding-order.ts';

/**
 * The models of any server that speaks OpenAI's protocol: Ollama, vLLM, llama.cpp, a hosted one. Those that
 * serve one model each are two: one that chats, and one that embeds.
 */
export function createOpenAIBackend(settings: ServerSettings): ModelBackend {
  const { chatServer, embeddingServer } = settings;
  const chatting = openServer(chatServer);
  const embedding = embeddingServer === chatServer ? chatting : openServer(embeddingServer);
  const servers = new Set([chatting, embedding]);

  return {
    chat: chatting.provider.chatModel(settings.chat),
    chatModel: (name) => chatting.provider.chatModel(name),
    vision: chatting.provider.chatModel(settings.vision),
    embedding: wrapEmbeddingModel({
      model: embedding.provider.embeddingModel(settings.embedding),
      middleware: embeddingOrder,
    }),
    addresses: { chat: chatServer.variables.baseUrl, embedding: embeddingServer.variables.baseUrl },
    async health(signal) {
      try {
        await Promise.all([...servers].map((server) => server.listModels(signal)));
        return { status: 'ok' };
      } catch (error) {
        // The transport throws nothing else but what the aborted signal brings.
        const answered = error instanceof ModelError;
        return {
          status: 'down',
          detail: answered ? error.message : 'The model server did not answer.',
        };
      }
    },
    async close() {
      await Promise.all([...servers].map((server) => server.close()));
    },
  };
}

function openServer(server: ServerAddress) {
  const { baseUrl, apiKey } = server;
  const transport = createTransport(server);
  const provider = createOpenAICompatible({
    name: 'model',
    baseURL: baseUrl,
    ...(apiKey === undefined ? {} : { apiKey }),
    supportsStructuredOutputs: true,
    // Streams count no tokens unless asked to (`stream_options.include_usage`).
    includeUsage: true,
    fetch: transport.fetch,
  });
  return {
    provider,
    async listModels(signal: AbortSignal) {
      const headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
      await transport.fetch(`${baseUrl}/models`, { headers, signal });
    },
    close: transport.close,
  };
}
