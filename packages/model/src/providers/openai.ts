import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { wrapEmbeddingModel } from 'ai';
import { ModelError } from '../errors.ts';
import type { ServerSettings } from '../options.ts';
import { createTransport } from '../transport/transport.ts';
import type { ModelBackend } from './backend.ts';
import { embeddingOrder } from './embedding-order.ts';

/** The models of any server that speaks OpenAI's protocol: Ollama, vLLM, llama.cpp, a hosted one. */
export function createOpenAIBackend(settings: ServerSettings): ModelBackend {
  const { baseUrl, apiKey } = settings;
  const transport = createTransport({ apiKey });
  const provider = createOpenAICompatible({
    name: 'model',
    baseURL: baseUrl,
    ...(apiKey === undefined ? {} : { apiKey }),
    supportsStructuredOutputs: true,
    fetch: transport.fetch,
  });

  return {
    chat: provider.chatModel(settings.chat),
    vision: provider.chatModel(settings.vision),
    embedding: wrapEmbeddingModel({
      model: provider.embeddingModel(settings.embedding),
      middleware: embeddingOrder,
    }),
    async health(signal) {
      const headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
      try {
        await transport.fetch(`${baseUrl}/models`, { headers, signal });
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
    close: transport.close,
  };
}
