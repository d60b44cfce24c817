import { readFileSync } from 'node:fs';
import { type Logger, StartError } from '@oselya/kit';
import {
  type BreakerView,
  createModelClient,
  imageDescription,
  type ModelCallEvent,
  type ModelClient,
  type ModelClientOptions,
  ModelError,
  PROBE_PREFIX,
  type Probe,
  startProbes,
} from '@oselya/model';
import { Gauge, type Registry } from 'prom-client';
import type { Config } from './config.ts';
import type { Metrics } from './metrics.ts';
import type { ModelUsage } from './tables.ts';

/**
 * Opens the configured model. Contract 1.
 * @throws StartError if the model client rejects the settings.
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

/**
 * Opens the configured model, records request metrics, and logs failures and changes of the breaker.
 * @throws StartError if the model client rejects the settings.
 */
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

/** Registers the breaker gauge. Contract 4, Metrics. */
export function registerModelMetrics(
  registry: Registry,
  { breaker }: { breaker: Pick<BreakerView, 'isOpen'> },
): void {
  const openGauge = new Gauge({
    name: 'collector_model_breaker_open',
    help: '1 while a breaker of the model server is open or its probe is in progress.',
    registers: [registry],
    collect() {
      openGauge.set(breaker.isOpen ? 1 : 0);
    },
  });
}

/**
 * Probes in the background whether embeddings have the configured number of dimensions and whether the vision model
 * accepts images. Neither the mock model nor a disabled vision model is probed.
 * @param deps.image Creates a test JPEG; undefined if the process does not describe images.
 * @returns A handle whose `close` aborts the probe in progress.
 */
export function startModelProbes(
  config: Pick<Config, 'MODEL_MODE' | 'MODEL_VISION'>,
  deps: {
    model: Pick<ModelClient, 'embed' | 'generateObject'>;
    log: Pick<Logger, 'info' | 'warn'>;
    image: (() => Promise<Uint8Array>) | undefined;
  },
): { close: () => Promise<void> } {
  const { model, log, image } = deps;
  const probes: Probe[] = [
    {
      name: 'embeddings',
      run: (signal) => model.embed([PROBE_PREFIX], { signal }),
      advice: 'Until then no listing is completed, and search by meaning fails.',
    },
  ];
  if (image !== undefined && config.MODEL_VISION !== 'off') {
    probes.push({
      name: 'images',
      run: async (signal) =>
        model.generateObject({
          ...imageDescription,
          operation: 'probe',
          system: 'Describe the image.',
          data: { hint: PROBE_PREFIX },
          image: { bytes: await image(), mediaType: 'image/jpeg' },
          signal,
        }),
      advice: 'Set MODEL_VISION to a model that sees, or MODEL_VISION=off.',
    });
  }
  return startProbes(config.MODEL_MODE === 'mock' ? [] : probes, log);
}

/** System prompt, and its version in the records of completions. */
export type Prompt = { version: string; text: string };

/** Reads `prompts/VERSION.md` next to a module. */
export function readPrompt(version: string, module: string): Prompt {
  return { version, text: readFileSync(new URL(`prompts/${version}.md`, module), 'utf8') };
}

/** Counter of the requests and tokens of a job or command. */
export type ModelUsageCounter = ReturnType<typeof createModelUsageCounter>;

/** Creates a counter of model usage. Unreported tokens count as 0. */
export function createModelUsageCounter() {
  const totalUsage: ModelUsage = { calls: 0, input_tokens: 0, output_tokens: 0 };
  return {
    /** Adds the usage of a request, even if the request failed. */
    observe: ({ inputTokens, outputTokens }: ModelCallEvent): void => {
      totalUsage.calls += 1;
      totalUsage.input_tokens += inputTokens ?? 0;
      totalUsage.output_tokens += outputTokens ?? 0;
    },
    getUsage: (): ModelUsage => ({ ...totalUsage }),
  };
}

/** Maximum number of keys. The least recently updated key is evicted first. */
const MAX_KEYS = 10_000;

/**
 * Creates a counter of outages per job or image. A key with many outages probably causes them, because other requests
 * succeeded between the outages.
 */
export function createOutageCounter<Key>() {
  const counts = new Map<Key, { count: number; last: object }>();
  const reset = (key: Key): void => void counts.delete(key);
  return {
    /**
     * Counts an outage once per key, and returns whether the key has reached `max` outages,
     * which resets the count.
     * @param outage Object that all failures of one outage share.
     */
    isCause(key: Key, outage: object, max: number): boolean {
      const previousCount = counts.get(key);
      const count = (previousCount?.count ?? 0) + (previousCount?.last === outage ? 0 : 1);
      reset(key);
      if (count >= max) return true;
      counts.set(key, { count, last: outage });
      const [oldestKey] = counts.keys();
      if (counts.size > MAX_KEYS && oldestKey !== undefined) reset(oldestKey);
      return false;
    },
    has: (key: Key) => counts.has(key),
    reset,
  };
}
