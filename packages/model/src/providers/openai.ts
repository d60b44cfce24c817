import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { wrapEmbeddingModel } from 'ai';
import { ModelError } from '../errors.ts';
import type { ServerAddress, ServerSettings } from '../options.ts';
import { createTransport } from '../transport/transport.ts';
import type { ModelBackend } from './backend.ts';
import { embeddingOrder } from './embedding-order.ts';

/**
 * The models of any server that speaks OpenAI's protocol: Ollama, vLLM, llama.cpp, a hosted one. Those that
 * serve one model each are several: one that chats, one that sees, and one that embeds.
 */
export function createOpenAIBackend(settings: ServerSettings): ModelBackend {
  const { addresses, vision } = settings;
  const servers = new Map(
    Object.values(addresses).map((address) => [address, openServer(address)] as const),
  );
  const providerOf = (address: ServerAddress) => {
    const server = servers.get(address);
    if (server === undefined) throw new Error('Every address has a server');
    return server.provider;
  };
  const chatting = providerOf(addresses.chat);

  return {
    chat: chatting.chatModel(settings.chat),
    chatModel: (name) => chatting.chatModel(name),
    vision: vision === undefined ? undefined : providerOf(addresses.vision).chatModel(vision),
    embedding: wrapEmbeddingModel({
      model: providerOf(addresses.embedding).embeddingModel(settings.embedding),
      middleware: embeddingOrder,
    }),
    addresses,
    async health(signal) {
      try {
        await Promise.all([...servers.values()].map((server) => server.listModels(signal)));
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
      await Promise.all([...servers.values()].map((server) => server.close()));
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
