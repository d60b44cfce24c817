import type { ModelError, ModelErrorCode } from './errors.ts';
import { NO_TOKENS, type Tokens } from './usage.ts';

/** One request to the model server, reported when it has ended; made for metrics. */
export type ModelCallEvent = {
  /** What the request was for: the operation named by the caller, or `embed`. */
  operation: string;
  outcome: 'ok' | ModelErrorCode;
  durationMs: number;
  /** Of a request that failed: its error's message, which holds no secret and no text of the request. */
  reason?: string;
} & Tokens;

/** The report of a request that is being made. */
export type Report = {
  /** What the request has cost, as far as the server has said. */
  tokens: Tokens;
  /** Sends the report, with the time since it was opened; what ends a request again is passed over. */
  end(outcome: 'ok' | 'MODEL_ABORTED' | ModelError): void;
};

/** Opens the report of a request that begins now. */
export function openReport(
  operation: string,
  observe: ((event: ModelCallEvent) => void) | undefined,
): Report {
  const startedAt = performance.now();
  let isSent = false;
  const report: Report = {
    tokens: NO_TOKENS,
    end(outcome) {
      if (isSent) return;
      isSent = true;
      const durationMs = performance.now() - startedAt;
      const cost = { durationMs, ...report.tokens };
      observe?.(
        typeof outcome === 'string'
          ? { operation, outcome, ...cost }
          : { operation, outcome: outcome.code, reason: outcome.message, ...cost },
      );
    },
  };
  return report;
}
