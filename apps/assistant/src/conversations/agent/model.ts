import { type Logger, StartError } from '@oselya/kit';
import {
  createModelClient,
  type ModelCallEvent,
  type ModelClient,
  ModelError,
  PROBE_PREFIX,
  startProbes,
} from '@oselya/model';
import { Counter, Histogram, type Registry } from 'prom-client';
import type { Config } from '../../config.ts';
import { toDefinitions, TOOLS } from '../tools/tools.ts';
import { mockAgent } from './mock-agent.ts';

/**
 * Creates the model client from the configuration. Contract 1.
 * @throws StartError if the model client rejects the settings.
 */
export function openModel(
  config: Config,
  { registry, log }: { registry: Registry; log: Logger },
): ModelClient {
  const countAttempt = createModelMetrics(registry);
  try {
    return createModelClient({
      mode: config.MODEL_MODE,
      baseUrl: config.MODEL_BASE_URL,
      apiKey: config.MODEL_API_KEY,
      chat: config.MODEL_CHAT,
      timeoutMs: config.MODEL_TIMEOUT_MS,
      mockAgent,
      observe(event) {
        countAttempt(event);
        const { operation, outcome, durationMs, reason } = event;
        if (outcome === 'ok' || outcome === 'MODEL_ABORTED') return;
        const duration_ms = Math.round(durationMs);
        log.warn({ operation, outcome, duration_ms, reason }, 'a request to the model failed');
      },
      // Only the collector computes embeddings, so the dimension is unused.
      embedding: false,
      embeddingDimensions: 1,
    });
  } catch (error) {
    if (error instanceof ModelError) throw new StartError(error.message, { cause: error });
    throw error;
  }
}

/** Registers the metrics of model requests and returns a function that counts an attempt. */
function createModelMetrics(registry: Registry): (event: ModelCallEvent) => void {
  const registers = [registry];
  const requests = new Counter({
    name: 'assistant_model_requests_total',
    help: 'Requests to the model server, including retries.',
    labelNames: ['operation', 'outcome'],
    registers,
  });
  const duration = new Histogram({
    name: 'assistant_model_request_duration_seconds',
    help: 'Time of one request to the model server, to the end of its answer.',
    labelNames: ['operation'],
    buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300],
    registers,
  });
  const tokens = new Counter({
    name: 'assistant_model_tokens_total',
    help: 'Tokens that the model server counted, by direction: "input" or "output".',
    labelNames: ['operation', 'direction'],
    registers,
  });
  return ({ operation, outcome, durationMs, inputTokens, outputTokens }) => {
    requests.inc({ operation, outcome });
    duration.observe({ operation }, durationMs / 1000);
    tokens.inc({ operation, direction: 'input' }, inputTokens ?? 0);
    tokens.inc({ operation, direction: 'output' }, outputTokens ?? 0);
  };
}

/** Maximum number of output tokens of a probe. Some models reason before they call a tool. */
const MAX_PROBE_TOKENS = 1_000;

/**
 * Starts a background probe that checks whether the chat model calls tools. The probe runs no tool and skips the mock.
 * @returns An object whose `close` aborts the probe.
 */
export function probeTools(
  config: Pick<Config, 'MODEL_MODE'>,
  model: Pick<ModelClient, 'streamChat' | 'chatModel'>,
  log: Pick<Logger, 'info' | 'warn'>,
): { close: () => Promise<void> } {
  async function probe(signal: AbortSignal): Promise<void> {
    const parts = model.streamChat({
      operation: 'probe',
      system: `${PROBE_PREFIX} Search property listings with your tools.`,
      messages: [{ role: 'user', content: 'Знайди двокімнатну квартиру у Львові.' }],
      tools: toDefinitions(TOOLS),
      maxOutputTokens: MAX_PROBE_TOKENS,
      signal,
    });
    for await (const part of parts) if (part.type === 'tool_call') return;
    const message = `MODEL_CHAT (${model.chatModel}) answered a search without calling a tool.`;
    throw new ModelError('MODEL_INVALID_OUTPUT', message);
  }
  const advice =
    'The assistant needs a MODEL_CHAT that calls tools: docs/models.md, The assistant.';
  const probes = config.MODEL_MODE === 'mock' ? [] : [{ name: 'tools', run: probe, advice }];
  return startProbes(probes, log);
}
