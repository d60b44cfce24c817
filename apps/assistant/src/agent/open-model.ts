import { type Logger, StartError } from '@oselya/kit';
import { createModelClient, type ModelClient, ModelError } from '@oselya/model';
import type { Registry } from 'prom-client';
import type { Config } from '../config.ts';
import { createModelMetrics } from './metrics.ts';
import { mockAgent } from './mock/mock-agent.ts';

/** Nothing is embedded here: the collector does that. */
const NO_EMBEDDINGS = { embedding: false, embeddingDimensions: 1 } as const;

/**
 * Opens the model that the configuration names. Contract 1.
 * @throws StartError for settings that the model client refuses.
 */
export function openModel(
  config: Config,
  { registry, log }: { registry: Registry; log: Logger },
): ModelClient {
  const metrics = createModelMetrics(registry);
  try {
    return createModelClient({
      mode: config.MODEL_MODE,
      baseUrl: config.MODEL_BASE_URL,
      apiKey: config.MODEL_API_KEY,
      chat: config.MODEL_CHAT,
      timeoutMs: config.MODEL_TIMEOUT_MS,
      mockAgent,
      observe(event) {
        metrics.observe(event);
        const { operation, outcome, durationMs, reason } = event;
        if (outcome === 'ok' || outcome === 'MODEL_ABORTED') return;
        const duration_ms = Math.round(durationMs);
        log.warn({ operation, outcome, duration_ms, reason }, 'a request to the model failed');
      },
      ...NO_EMBEDDINGS,
    });
  } catch (error) {
    if (error instanceof ModelError) throw new StartError(error.message, { cause: error });
    throw error;
  }
}
