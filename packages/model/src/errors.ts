/** A failure of the server or of its connection: retried within its call, and counted by the breaker. */
const INFRASTRUCTURE = { retryable: true, retriedInCall: true, infrastructure: true } as const;
/** A failure of the request, of its answer or of the caller. */
const FINAL = { retryable: false, retriedInCall: false, infrastructure: false } as const;

/**
 * The failures of model calls: whether the same call may succeed later, whether the call itself retries it, and
 * whether the breaker counts it (Contract 4, Model). `README.md` explains each row to the operator.
 */
export const MODEL_ERRORS = {
  MODEL_UNREACHABLE: INFRASTRUCTURE,
  MODEL_TIMEOUT: INFRASTRUCTURE,
  MODEL_RATE_LIMITED: INFRASTRUCTURE,
  MODEL_UNAVAILABLE: INFRASTRUCTURE,
  // The server works, but not on so many requests at once.
  MODEL_CONTEXT_FULL: { retryable: true, retriedInCall: true, infrastructure: false },
  MODEL_BREAKER_OPEN: { retryable: true, retriedInCall: false, infrastructure: false },
  MODEL_REJECTED: FINAL,
  MODEL_UNSUPPORTED: FINAL,
  MODEL_INPUT_TOO_LARGE: FINAL,
  MODEL_REFUSED: FINAL,
  MODEL_TRUNCATED: FINAL,
  MODEL_INVALID_OUTPUT: FINAL,
  MODEL_ABORTED: FINAL,
  MODEL_CLOSED: FINAL,
  MODEL_MISCONFIGURED: FINAL,
} as const;

/** The stable code of a model failure: match on this, never on a message. */
export type ModelErrorCode = keyof typeof MODEL_ERRORS;

/** An outage of a server, from its first infrastructure failure to its next answer; all failures share the object. */
export type Outage = { readonly since: Date };

/** The size of an input and its limit, in tokens; a server may name either. */
export type TokenCounts = { given?: number; limit?: number };

/** Details of a failure beside its code and message. */
export type ModelErrorDetails = {
  /** The HTTP status of the server's answer. */
  status?: number;
  /** How long the server asked not to be called, in milliseconds. */
  retryAfterMs?: number | undefined;
  /** Of an input that is too large. */
  tokens?: TokenCounts | undefined;
  /**
   * Underlying cause: a connection's error or an abort signal's reason. The SDK's errors are never kept, because they
   * carry the whole request: people's texts and images.
   */
  cause?: unknown;
};

/** The error of every failed model call. Its message never contains the API key, the request or the answer. */
export class ModelError extends Error {
  readonly code: ModelErrorCode;
  /** Whether the same call may succeed later without any change. */
  readonly retryable: boolean;
  readonly status?: number;
  readonly retryAfterMs?: number;
  readonly tokens?: TokenCounts;
  /** Of an infrastructure failure: its outage, as the breaker sees it. Of a full context: an object of its own. */
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

/** Returns whether a failure is the infrastructure's, rather than the request's or the answer's. */
export function isInfrastructureFailure(error: unknown): error is ModelError {
  return error instanceof ModelError && MODEL_ERRORS[error.code].infrastructure;
}

/** Returns whether the call itself retries after a failure. */
export function isRetriedInCall(error: unknown): error is ModelError {
  return error instanceof ModelError && MODEL_ERRORS[error.code].retriedInCall;
}
