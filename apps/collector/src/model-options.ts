import type { ModelClientOptions } from '@oselya/model';
import type { Config } from './config.ts';

/** The model client's options that the configuration says. Contract 1. */
export function modelOptions(config: Config): ModelClientOptions {
  return {
    mode: config.MODEL_MODE,
    baseUrl: config.MODEL_BASE_URL,
    embeddingBaseUrl: config.MODEL_EMBEDDING_BASE_URL,
    apiKey: config.MODEL_API_KEY,
    chat: config.MODEL_CHAT,
    vision: config.MODEL_VISION,
    embedding: config.MODEL_EMBEDDING,
    timeoutMs: config.MODEL_TIMEOUT_MS,
    embeddingDimensions: config.EMBEDDING_DIMENSIONS,
  };
}
