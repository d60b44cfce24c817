import { setTimeout as sleep } from 'node:timers/promises';
import { isInfrastructureFailure, isRetriedInCall, ModelError } from './errors.ts';

/** Limits on one call. The time limit applies to all attempts together. */
type RetryOptions = {
  timeoutMs: number;
  attempts: number;
  initialDelayMs: number;
  maxDelayMs: number;
};

/** State of a call, shared by its attempts. */
export type CallContext = {
  /** Aborts when the caller aborts, or at the deadline. */
  signal: AbortSignal;
  /** Returns MODEL_ABORTED or MODEL_TIMEOUT once the signal is aborted. */
  getInterruption(): ModelError | undefined;
};

/** Function that runs one call: retries `run` until it succeeds or fails permanently, or until a limit is reached. */
export type Retry = <T>(
  caller: AbortSignal | undefined,
  run: (context: CallContext) => Promise<T>,
) => Promise<T>;

/**
 * Creates the function that handles retries and deadlines (Contract 4, Model). The delay between attempts is the longer
 * of the backoff and the server's `Retry-After`. A call throws its error immediately if the delay would exceed the
 * deadline. A call that finds the breaker open after an infrastructure failure throws that failure.
 */
export function createRetry(options: RetryOptions): Retry {
  const { timeoutMs, attempts } = options;
  return async (caller, run) => {
    const deadlineTime = performance.now() + timeoutMs;
    const deadlineController = new AbortController();
    const timer = setTimeout(() => deadlineController.abort(), timeoutMs);
    const signal = caller
      ? AbortSignal.any([caller, deadlineController.signal])
      : deadlineController.signal;
    const getInterruption = () => {
      if (caller?.aborted) return createAbortedError(caller);
      if (!signal.aborted) return undefined;
      const message = `The model server did not respond within ${timeoutMs} ms. Raise MODEL_TIMEOUT_MS if it needs longer.`;
      return new ModelError('MODEL_TIMEOUT', message);
    };
    let failure: ModelError | undefined;
    try {
      for (let attempt = 1; ; attempt += 1) {
        const interruptionError = getInterruption();
        if (interruptionError) throw interruptionError;
        try {
          return await run({ signal, getInterruption });
        } catch (error) {
          const isBreakerOpen = error instanceof ModelError && error.code === 'MODEL_BREAKER_OPEN';
          // The failure of this call describes the outage better than the rejection.
          if (isBreakerOpen && isInfrastructureFailure(failure)) throw failure;
          if (attempt >= attempts || !isRetriedInCall(error)) throw error;
          failure = error;
          const waitMs = Math.max(computeBackoffMs(attempt, options), error.retryAfterMs ?? 0);
          if (performance.now() + waitMs >= deadlineTime) throw error;
          await sleep(waitMs, undefined, { signal }).catch(() => undefined);
        }
      }
    } finally {
      clearTimeout(timer);
    }
  };
}

/**
 * Returns a delay in milliseconds that doubles with each failure up to `maxDelayMs`. Up to half of it is randomly
 * subtracted, which spreads out concurrent callers.
 */
export function computeBackoffMs(
  failures: number,
  { initialDelayMs, maxDelayMs }: Pick<RetryOptions, 'initialDelayMs' | 'maxDelayMs'>,
): number {
  const delay = Math.min(maxDelayMs, initialDelayMs * 2 ** Math.min(failures - 1, 40));
  return delay * (0.5 + Math.random() / 2);
}

/** Creates the error for a call that its caller aborted. */
export function createAbortedError(caller: AbortSignal): ModelError {
  const cause: unknown = caller.reason;
  return new ModelError('MODEL_ABORTED', 'The caller aborted the model call.', { cause });
}
