import type { ModelErrorCode } from './errors.ts';

/** Tokens of one request as the server counted them; null when it did not. */
export type Tokens = {
  inputTokens: number | null;
  outputTokens: number | null;
};

/** The cost of one call. */
export type Usage = {
  /** Requests to the server, retries and repairs included. */
  calls: number;
} & Tokens;

/** One request to the model server, reported when it has ended. */
export type ModelCallEvent = {
  /** The operation named by the caller, or `embed`. */
  operation: string;
  outcome: 'ok' | ModelErrorCode;
  durationMs: number;
  /** The message of the error, which holds no secret and no text of the request. */
  reason?: string;
} & Tokens;

/** Receives the event of each request. */
export type Observer = (event: ModelCallEvent) => void;

/** The tokens of a failed request, or of a server that counts none. */
export const NO_TOKENS: Tokens = { inputTokens: null, outputTokens: null };

/** Reads the SDK's counts; where the server leaves them out they are missing or NaN. */
export function readTokens(input: number | undefined, output?: number): Tokens {
  return { inputTokens: counted(input), outputTokens: counted(output) };
}

function counted(count: number | undefined): number | null {
  return count === undefined || Number.isNaN(count) ? null : count;
}

function sum(known: number | null, more: number | null): number | null {
  return more === null ? known : (known ?? 0) + more;
}

/** Adds up the requests of one call. */
export function createUsage(): { add(request: Tokens): void; total(): Usage } {
  const total: Usage = { calls: 0, ...NO_TOKENS };
  return {
    add({ inputTokens, outputTokens }) {
      total.calls += 1;
      total.inputTokens = sum(total.inputTokens, inputTokens);
      total.outputTokens = sum(total.outputTokens, outputTokens);
    },
    total: () => ({ ...total }),
  };
}
