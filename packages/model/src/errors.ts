/** A failure of the server or of the way to it: retried within its call, and counted by the breaker. */
const INFRASTRUCTURE = { retryable: true, retriedInCall: true, infrastructure: true } as const;
/** A failure of the request, of its answer or of the caller. */
const FINAL = { retryable: false, retriedInCall: false, infrastructure: false } as const;

/**
 * Every way a model call can fail: whether the same call may succeed later without any change, whether the call itself
 * tries it again, and whether it moves the breaker (Contract 4, Model). `README.md` explains each row to the operator.
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

/**
 * A time in which a server answers nobody: from a first failure of the infrastructure to its next answer.
 * What fails within it refers to the same object.
 */
export type Outage = {
  readonly since: Date;
};

/** How large an input was, and how large it may be, in tokens; a server may name either. */
export type TokenCounts = { given?: number; limit?: number };

/** What is known about a failure beside its code and its message. */
export type ModelErrorDetails = {
  /** The HTTP status the server answered with. */
  status?: number;
  /** How long the server asked to be left alone, in milliseconds. */
  retryAfterMs?: number;
  /** Of an input that is too large, in tokens: its size, and the most that the model takes. */
  tokens?: TokenCounts;
  /**
   * What lies beneath: a connection's error or an abort signal's reason. The SDK's own errors are
   * never kept, because they carry the whole request: people's texts and pictures.
   */
  cause?: unknown;
};

/**
 * The one error that model calls fail with. Its message never contains the API key, the request or
 * the model's answer.
 */
export class ModelError extends Error {
  readonly code: ModelErrorCode;
  /** Whether the same call may succeed later without any change. */
  readonly retryable: boolean;
  readonly status?: number;
  readonly retryAfterMs?: number;
  readonly tokens?: TokenCounts;
  /**
   * Of a failure of the infrastructure: what it is a part of, as the breaker sees it. Of a full context: an object of
   * its own for each request.
   */
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

/** Tells whether a failure is the infrastructure's, rather than the request's or the answer's. */
export function isInfrastructureFailure(error: unknown): error is ModelError {
  return error instanceof ModelError && MODEL_ERRORS[error.code].infrastructure;
}

/** Tells whether the call itself tries again after a failure. */
export function isRetriedInCall(error: unknown): error is ModelError {
  return error instanceof ModelError && MODEL_ERRORS[error.code].retriedInCall;
}
