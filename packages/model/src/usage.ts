import type { ModelErrorCode } from './errors.ts';

/** Token counts of a request. Null if it got no response, or if the server did not report them. */
export type Tokens = {
  inputTokens: number | null;
  outputTokens: number | null;
};

/** Token counts of one call, and its number of requests, including retries and repairs. */
export type Usage = { calls: number } & Tokens;

export type ModelCallEvent = {
  /** Operation of the caller, or `embed`. */
  operation: string;
  outcome: 'ok' | ModelErrorCode;
  durationMs: number;
  /** Error message without secrets or request text. */
  reason?: string;
} & Tokens;

export type Observer = (event: ModelCallEvent) => void;

/** Token counts of a request without a response, or of a server that does not report them. */
export const NO_TOKENS: Tokens = { inputTokens: null, outputTokens: null };

/** Converts the SDK's token counts. A missing count is undefined or NaN. */
export function readTokens(input: number | undefined, output?: number): Tokens {
  return { inputTokens: normalizeCount(input), outputTokens: normalizeCount(output) };
}

function normalizeCount(tokens: number | undefined): number | null {
  return Number.isFinite(tokens) ? (tokens ?? null) : null;
}

const addCounts = (count: number | null, addend: number | null): number | null =>
  addend === null ? count : (count ?? 0) + addend;

/** Creates an accumulator for the usage of one call. */
export function createUsage(): { add(request: Tokens): void; total(): Usage } {
  const total: Usage = { calls: 0, ...NO_TOKENS };
  return {
    add({ inputTokens, outputTokens }) {
      total.calls += 1;
      total.inputTokens = addCounts(total.inputTokens, inputTokens);
      total.outputTokens = addCounts(total.outputTokens, outputTokens);
    },
    total: () => ({ ...total }),
  };
}
