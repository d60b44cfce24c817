/**
 * Every way a model call can fail: whether the same call may succeed later without any change, and whether it is a
 * failure of the server or of the way to it, which is tried again and moves the breaker (Contract 4, Model).
 * `README.md` explains each row to the operator.
 */
export const MODEL_ERRORS = {
  MODEL_UNREACHABLE: { retryable: true, infrastructure: true },
  MODEL_TIMEOUT: { retryable: true, infrastructure: true },
  MODEL_RATE_LIMITED: { retryable: true, infrastructure: true },
  MODEL_UNAVAILABLE: { retryable: true, infrastructure: true },
  MODEL_BREAKER_OPEN: { retryable: true, infrastructure: false },
  MODEL_REJECTED: { retryable: false, infrastructure: false },
  MODEL_REFUSED: { retryable: false, infrastructure: false },
  MODEL_TRUNCATED: { retryable: false, infrastructure: false },
  MODEL_INVALID_OUTPUT: { retryable: false, infrastructure: false },
  MODEL_ABORTED: { retryable: false, infrastructure: false },
  MODEL_CLOSED: { retryable: false, infrastructure: false },
  MODEL_MISCONFIGURED: { retryable: false, infrastructure: false },
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

/** What is known about a failure beside its code and its message. */
export type ModelErrorDetails = {
  /** The HTTP status the server answered with. */
  status?: number;
  /** How long the server asked to be left alone, in milliseconds. */
  retryAfterMs?: number;
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
  /** Of a failure of the infrastructure: what it is a part of, as the breaker sees it. */
  outage?: Outage;

  constructor(code: ModelErrorCode, message: string, details: ModelErrorDetails = {}) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.name = 'ModelError';
    this.code = code;
    this.retryable = MODEL_ERRORS[code].retryable;
    if (details.status !== undefined) this.status = details.status;
    if (details.retryAfterMs !== undefined) this.retryAfterMs = details.retryAfterMs;
  }
}

/** Tells whether a failure is the infrastructure's, rather than the request's or the answer's. */
export function isInfrastructureFailure(error: unknown): error is ModelError {
  return error instanceof ModelError && MODEL_ERRORS[error.code].infrastructure;
}
