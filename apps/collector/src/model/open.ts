import { type Logger, StartError } from '@oselya/kit';
import {
  createModelClient,
  type ModelClient,
  type ModelClientOptions,
  ModelError,
} from '@oselya/model';
import type { Config } from '../config.ts';
import type { Metrics } from '../metrics.ts';

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
      visionBaseUrl: config.MODEL_VISION_BASE_URL,
      embeddingBaseUrl: config.MODEL_EMBEDDING_BASE_URL,
      apiKey: config.MODEL_API_KEY,
      visionApiKey: config.MODEL_VISION_API_KEY,
      embeddingApiKey: config.MODEL_EMBEDDING_API_KEY,
      chat: config.MODEL_CHAT,
      vision: config.MODEL_VISION === 'off' ? false : config.MODEL_VISION,
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

/** The configured model, whose requests are counted and whose failures are in the log. */
export function openObservedModel(config: Config, metrics: Metrics, log: Logger): ModelClient {
  const model = openModel(config, {
    observe: ({ operation, outcome, durationMs, inputTokens, outputTokens, reason }) => {
      metrics.modelRequests.inc({ operation, outcome });
      metrics.modelRequestDuration.observe({ operation }, durationMs / 1000);
      metrics.modelTokens.inc({ operation, direction: 'input' }, inputTokens ?? 0);
      metrics.modelTokens.inc({ operation, direction: 'output' }, outputTokens ?? 0);
      if (outcome === 'ok') return;
      const duration_ms = Math.round(durationMs);
      log.warn({ operation, outcome, duration_ms, reason }, 'a request to the model failed');
    },
  });
  model.breaker.onChange((state) => log.warn({ state }, 'the breaker of the model server changed'));
  return model;
}
