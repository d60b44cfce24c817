import { StartError } from '@oselya/kit';
import {
  createModelClient,
  type ModelClient,
  type ModelClientOptions,
  ModelError,
} from '@oselya/model';
import type { Config } from './config.ts';

/**
 * Opens the model that the configuration names. Contract 1.
 * @param options What is not for the configuration to say.
 * @throws StartError for settings that the model client refuses.
 */
export function openModel(
  config: Config,
  options: Pick<ModelClientOptions, 'observe' | 'breaker'> = {},
): ModelClient {
  try {
    return createModelClient({
      mode: config.MODEL_MODE,
      baseUrl: config.MODEL_BASE_URL,
      embeddingBaseUrl: config.MODEL_EMBEDDING_BASE_URL,
      apiKey: config.MODEL_API_KEY,
      embeddingApiKey: config.MODEL_EMBEDDING_API_KEY,
      chat: config.MODEL_CHAT,
      vision: config.MODEL_VISION,
      embedding: config.MODEL_EMBEDDING,
      timeoutMs: config.MODEL_TIMEOUT_MS,
      embeddingDimensions: config.EMBEDDING_DIMENSIONS,
      ...options,
    });
  } catch (error) {
    if (error instanceof ModelError) throw new StartError(error.message, { cause: error });
    throw error;
  }
}
