/** Failure of the server or the connection, or a rate limit. */
const INFRASTRUCTURE_ERROR = {
  retryable: true,
  retriedInCall: true,
  infrastructure: true,
} as const;
/** Error after which the same call should not be repeated. */
const NON_RETRYABLE_ERROR = {
  retryable: false,
  retriedInCall: false,
  infrastructure: false,
} as const;

/**
 * Error codes of model calls (Contract 4, Model), explained in `README.md`. Each entry says whether the same call may
 * succeed later, whether it is retried automatically, and whether the breaker counts it.
 */
export const MODEL_ERRORS = {
  MODEL_UNREACHABLE: INFRASTRUCTURE_ERROR,
  MODEL_TIMEOUT: INFRASTRUCTURE_ERROR,
  MODEL_RATE_LIMITED: INFRASTRUCTURE_ERROR,
  MODEL_UNAVAILABLE: INFRASTRUCTURE_ERROR,
  // The server works, but has too many concurrent requests.
  MODEL_CONTEXT_FULL: { retryable: true, retriedInCall: true, infrastructure: false },
  MODEL_BREAKER_OPEN: { retryable: true, retriedInCall: false, infrastructure: false },
  MODEL_REJECTED: NON_RETRYABLE_ERROR,
  MODEL_UNSUPPORTED: NON_RETRYABLE_ERROR,
  MODEL_INPUT_TOO_LARGE: NON_RETRYABLE_ERROR,
  MODEL_REFUSED: NON_RETRYABLE_ERROR,
  MODEL_TRUNCATED: NON_RETRYABLE_ERROR,
  MODEL_INVALID_OUTPUT: NON_RETRYABLE_ERROR,
  MODEL_ABORTED: NON_RETRYABLE_ERROR,
  MODEL_CLOSED: NON_RETRYABLE_ERROR,
  MODEL_MISCONFIGURED: NON_RETRYABLE_ERROR,
} as const;

export type ModelErrorCode = keyof typeof MODEL_ERRORS;

/**
 * Outage of a server for one use, from the first infrastructure failure until a request shows that the server works.
 * Its failures share this object.
 */
export type Outage = { readonly since: Date };

/** Size of an input and its limit in tokens, if the server reports them. */
export type TokenCounts = { inputTokens?: number; limit?: number };

/** Additional details of a model error. `retryAfterMs` is the delay that the server requested. */
type ModelErrorDetails = {
  status?: number;
  retryAfterMs?: number | undefined;
  tokens?: TokenCounts | undefined;
  /** Never an SDK error: it would include the whole request, and so personal data. */
  cause?: unknown;
};

/** Error of the model client. Its message contains no API key, no completion, and no long echo of a request text. */
export class ModelError extends Error {
  readonly code: ModelErrorCode;
  readonly retryable: boolean;
  readonly status?: number;
  readonly retryAfterMs?: number;
  readonly tokens?: TokenCounts;
  /** Outage to which an infrastructure failure belongs. Each request that a full context fails has a separate one. */
  outage?: Outage;

  constructor(code: ModelErrorCode, message: string, details: ModelErrorDetails = {}) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.name = 'ModelError';
    this.code = code;
    this.retryable = MODEL_ERRORS[code].retryable;
    if (details.status !== undefined) this.status = details.status;
    if (details.retryAfterMs !== undefined) this.retryAfterMs = details.retryAfterMs;
    if (details.tokens !== undefined) this.tokens = details.tokens;
  }
}

/** Returns whether a failure is caused by the infrastructure instead of the request or the completion. */
export function isInfrastructureFailure(error: unknown): error is ModelError {
  return error instanceof ModelError && MODEL_ERRORS[error.code].infrastructure;
}

/** Returns whether a call is retried automatically after this failure. */
export function isRetriedInCall(error: unknown): error is ModelError {
  return error instanceof ModelError && MODEL_ERRORS[error.code].retriedInCall;
}
