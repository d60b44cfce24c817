import { setTimeout as sleep } from 'node:timers/promises';
import { handleWhen, retry, timeout, TimeoutStrategy } from 'cockatiel';
import { isRetriedInCall, ModelError } from '../errors.ts';
import { backoffMs, type BackoffBounds } from './backoff.ts';

/** The bounds of one call. */
export type CallPolicyOptions = {
  /** Over all attempts. */
  timeoutMs: number;
  /** In all, the first one included. */
  attempts: number;
} & BackoffBounds;

/** What an attempt may know of the call it belongs to. */
export type CallContext = {
  /** Aborted when the caller gives up and when the deadline has passed. */
  signal: AbortSignal;
  /** Why the signal is aborted: MODEL_ABORTED or MODEL_TIMEOUT. Nothing while it is not. */
  interruption(): ModelError | undefined;
};

/** Runs one call: attempts of `run` until one succeeds, the failure is final or the time is up. */
export type CallPolicy = <T>(
  caller: AbortSignal | undefined,
  run: (context: CallContext) => Promise<T>,
) => Promise<T>;

/**
 * The one owner of retries and deadlines (Contract 4, Model). Infrastructure failures and full contexts are tried
 * again, with growing waits or the wait the server asks for; a wait that would outlast the deadline
 * is not begun, and the failure is thrown at once.
 */
export function createCallPolicy(options: CallPolicyOptions): CallPolicy {
  const { timeoutMs } = options;
  const deadline = timeout(timeoutMs, TimeoutStrategy.Cooperative);

  return (caller, run) => {
    const endsAt = performance.now() + timeoutMs;
    let failures = 0;
    let waitMs = 0;

    // Cockatiel asks this once for each failure. The wait is kept for the attempt that follows,
    // which sleeps it itself: unlike cockatiel's own, that sleep ends when the call is aborted.
    const mayRetry = (error: unknown): boolean => {
      if (!isRetriedInCall(error)) return false;
      failures += 1;
      waitMs = Math.max(backoffMs(failures, options, Math.random()), error.retryAfterMs ?? 0);
      return performance.now() + waitMs < endsAt;
    };
    const attempts = retry(handleWhen(mayRetry), { maxAttempts: options.attempts - 1 });

    return deadline.execute(({ signal }) => {
      const interruption = () => interruptionOf({ signal, caller, timeoutMs });
      return attempts.execute(async ({ attempt }) => {
        if (attempt > 0) await sleep(waitMs, undefined, { signal }).catch(() => undefined);
        const interrupted = interruption();
        if (interrupted) throw interrupted;
        return run({ signal, interruption });
      }, signal);
    }, caller);
  };
}

function interruptionOf(call: {
  signal: AbortSignal;
  caller: AbortSignal | undefined;
  timeoutMs: number;
}): ModelError | undefined {
  if (call.caller?.aborted) return givenUp(call.caller);
  if (!call.signal.aborted) return undefined;
  return new ModelError(
    'MODEL_TIMEOUT',
    `The model server did not answer within ${call.timeoutMs} ms. Raise MODEL_TIMEOUT_MS if it needs longer.`,
  );
}

/** What a call fails with whose caller has aborted its signal. */
export function givenUp(caller: AbortSignal): ModelError {
  const cause: unknown = caller.reason;
  return new ModelError('MODEL_ABORTED', 'The caller gave the model call up.', { cause });
}
