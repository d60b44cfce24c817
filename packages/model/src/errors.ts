/** Server or connection failure. */
const INFRASTRUCTURE_ERROR = {
  retryable: true,
  retriedInCall: true,
  infrastructure: true,
} as const;
/** Error that repeating the same call cannot fix. */
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

/** Outage of a server, from its first infrastructure failure to its next success. Its failures share this object. */
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

/** Error of a failed model call. The message never contains the API key, the request or the completion. */
export class ModelError extends Error {
  readonly code: ModelErrorCode;
  readonly retryable: boolean;
  readonly status?: number;
  readonly retryAfterMs?: number;
  readonly tokens?: TokenCounts;
  /** Outage to which an infrastructure failure belongs. Each failure due to a full context has a separate object. */
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
