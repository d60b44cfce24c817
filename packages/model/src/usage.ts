/** What a call cost. Tokens are as the server counted them; null when it did not. */
export type Usage = {
  /** Requests that were made to the server, retries and repairs included. */
  calls: number;
} & Tokens;

/** Tokens of one request, as the server counted them; null when it did not. */
export type Tokens = {
  inputTokens: number | null;
  outputTokens: number | null;
};

/** Tokens as the SDK hands them on. Where the server leaves them out, they are missing or NaN. */
export type SdkTokens = {
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
};

/** Nothing that was counted: the request failed, or the server does not count. */
export const NO_TOKENS: Tokens = { inputTokens: null, outputTokens: null };

/** What the SDK says of one answer's tokens. */
export function readTokens({ inputTokens, outputTokens }: SdkTokens): Tokens {
  return { inputTokens: counted(inputTokens), outputTokens: counted(outputTokens) };
}

/** Adds up requests, such as those that one call may take. */
export function createUsage(): { add(request: Tokens): void; total(): Usage } {
  const total: Usage = { calls: 0, ...NO_TOKENS };
  return {
    add(request) {
      total.calls += 1;
      total.inputTokens = sum(total.inputTokens, request.inputTokens);
      total.outputTokens = sum(total.outputTokens, request.outputTokens);
    },
    total: () => ({ ...total }),
  };
}

function counted(tokens: number | undefined): number | null {
  return tokens === undefined || Number.isNaN(tokens) ? null : tokens;
}

function sum(known: number | null, more: number | null): number | null {
  return more === null ? known : (known ?? 0) + more;
}
