import { setTimeout as sleep } from 'node:timers/promises';
import { isRetriedInCall, ModelError } from './errors.ts';

/** Bounds of one call; times in milliseconds. */
export type RetryOptions = {
  /** The deadline over all attempts. */
  timeoutMs: number;
  /** Attempts, the first one included. */
  attempts: number;
  initialDelayMs: number;
  maxDelayMs: number;
};

/** The state of a call that its attempts share. */
export type CallContext = {
  /** Aborts when the caller aborts and when the deadline passes. */
  signal: AbortSignal;
  /** Returns MODEL_ABORTED or MODEL_TIMEOUT once the signal is aborted. */
  interruption(): ModelError | undefined;
};

/** Runs one call: attempts of `run` until one succeeds, fails for good, or the deadline passes. */
export type Retry = <T>(
  caller: AbortSignal | undefined,
  run: (context: CallContext) => Promise<T>,
) => Promise<T>;

/**
 * Creates the only owner of retries and deadlines (Contract 4, Model). A wait is the backoff or the `Retry-After` of
 * the server, whichever is longer. A wait that would outlast the deadline is not begun: the failure is thrown at once.
 */
export function createRetry(options: RetryOptions): Retry {
  const { timeoutMs, attempts } = options;
  return async (caller, run) => {
    const endsAt = performance.now() + timeoutMs;
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(), timeoutMs);
    const signal = caller ? AbortSignal.any([caller, deadline.signal]) : deadline.signal;
    const interruption = () => {
      if (caller?.aborted) return abortedError(caller);
      return signal.aborted ? timeoutError(timeoutMs) : undefined;
    };
    try {
      for (let attempt = 1; ; attempt += 1) {
        const interrupted = interruption();
        if (interrupted) throw interrupted;
        try {
          return await run({ signal, interruption });
        } catch (error) {
          if (attempt >= attempts || !isRetriedInCall(error)) throw error;
          const waitMs = Math.max(backoffMs(attempt, options), error.retryAfterMs ?? 0);
          if (performance.now() + waitMs >= endsAt) throw error;
          await sleep(waitMs, undefined, { signal }).catch(() => undefined);
        }
      }
    } finally {
      clearTimeout(timer);
    }
  };
}

/** Doubles the delay with each failure; half of it is random, so that callers that failed together part. */
function backoffMs(failures: number, { initialDelayMs, maxDelayMs }: RetryOptions): number {
  const delay = Math.min(maxDelayMs, initialDelayMs * 2 ** Math.min(failures - 1, 40));
  return delay * (0.5 + Math.random() / 2);
}

function timeoutError(timeoutMs: number): ModelError {
  return new ModelError(
    'MODEL_TIMEOUT',
    `The model server did not answer within ${timeoutMs} ms. Raise MODEL_TIMEOUT_MS if it needs longer.`,
  );
}

/** Creates the error of a call whose caller aborted its signal. */
export function abortedError(caller: AbortSignal): ModelError {
  const cause: unknown = caller.reason;
  return new ModelError('MODEL_ABORTED', 'The caller aborted the model call.', { cause });
}
