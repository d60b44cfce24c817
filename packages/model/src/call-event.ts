import type { ModelErrorCode } from './errors.ts';
import type { Tokens } from './usage.ts';

/** One request to the model server, reported when it has ended; made for metrics. */
export type ModelCallEvent = {
  /** What the request was for: the operation named by the caller, or `embed`. */
  operation: string;
  outcome: 'ok' | ModelErrorCode;
  durationMs: number;
} & Tokens;
