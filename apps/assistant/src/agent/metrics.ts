import type { ModelCallEvent } from '@oselya/model';
import { Counter, Histogram, type Registry } from 'prom-client';

const SECONDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** Counts requests to the model: each attempt, its time and its tokens. */
export function createModelMetrics(registry: Registry): {
  observe: (event: ModelCallEvent) => void;
} {
  const registers = [registry];
  const requests = new Counter({
    name: 'assistant_model_requests_total',
    help: 'Requests to the model server, each attempt counted.',
    labelNames: ['operation', 'outcome'],
    registers,
  });
  const duration = new Histogram({
    name: 'assistant_model_request_duration_seconds',
    help: 'Time of one request to the model server, to the end of its answer.',
    labelNames: ['operation'],
    buckets: SECONDS,
    registers,
  });
  const tokens = new Counter({
    name: 'assistant_model_tokens_total',
    help: 'Tokens that the model server counted, in ("input") and out ("output").',
    labelNames: ['operation', 'direction'],
    registers,
  });
  return {
    observe({ operation, outcome, durationMs, inputTokens, outputTokens }) {
      requests.inc({ operation, outcome });
      duration.observe({ operation }, durationMs / 1000);
      tokens.inc({ operation, direction: 'input' }, inputTokens ?? 0);
      tokens.inc({ operation, direction: 'output' }, outputTokens ?? 0);
    },
  };
}
