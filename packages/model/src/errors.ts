/**
 * Every way a model call can fail, and whether the same call may succeed later without any change
 * (Contract 4, Model). `README.md` explains each row to the operator.
 */
export const MODEL_ERRORS = {
  MODEL_UNREACHABLE: { retryable: true },
  MODEL_TIMEOUT: { retryable: true },
  MODEL_RATE_LIMITED: { retryable: true },
  MODEL_UNAVAILABLE: { retryable: true },
  MODEL_BREAKER_OPEN: { retryable: true },
  MODEL_REJECTED: { retryable: false },
  MODEL_REFUSED: { retryable: false },
  MODEL_TRUNCATED: { retryable: false },
  MODEL_INVALID_OUTPUT: { retryable: false },
  MODEL_ABORTED: { retryable: false },
  MODEL_CLOSED: { retryable: false },
  MODEL_MISCONFIGURED: { retryable: false },
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

/** The failures of the server or of the way to it: these are tried again and move the breaker. */
const INFRASTRUCTURE: ReadonlySet<ModelErrorCode> = new Set([
  'MODEL_UNREACHABLE',
  'MODEL_TIMEOUT',
  'MODEL_RATE_LIMITED',
  'MODEL_UNAVAILABLE',
]);

/** Tells whether a failure is the infrastructure's, rather than the request's or the answer's. */
export function isInfrastructureFailure(error: unknown): error is ModelError {
  return error instanceof ModelError && INFRASTRUCTURE.has(error.code);
}
