import {
  circuitBreaker,
  CircuitState,
  ConsecutiveBreaker,
  handleWhen,
  isBrokenCircuitError,
} from 'cockatiel';
import { isInfrastructureFailure, ModelError } from '../errors.ts';

/** Closed lets everything through, open nothing, half-open one probe. */
export type BreakerState = 'closed' | 'open' | 'half-open';

/** What others may see of the breaker. */
export interface BreakerView {
  readonly state: BreakerState;
  /** Calls the listener with each new state. @returns A function that ends it. */
  onChange(listener: (state: BreakerState) => void): () => void;
}

/** The breaker in front of the model server. */
export interface Breaker extends BreakerView {
  /**
   * Runs one attempt unless the breaker forbids it.
   *
   * @throws {ModelError} MODEL_BREAKER_OPEN at once, without running the attempt, while the breaker
   *   is open or its probe is still out; otherwise whatever the attempt throws.
   */
  run<T>(attempt: () => Promise<T>): Promise<T>;
}

/** Marks the probe that ended without telling anything about the server: it was given up. */
class LostProbe extends Error {}

/**
 * Makes a breaker that judges single attempts (Contract 4, Model). Only infrastructure failures move
 * it; refusals and invalid answers are neither failures nor successes.
 */
export function createBreaker(options: { failures: number; halfOpenAfterMs: number }): Breaker {
  const { halfOpenAfterMs } = options;
  const policy = circuitBreaker(
    handleWhen((error) => error instanceof LostProbe || isInfrastructureFailure(error)),
    { breaker: new ConsecutiveBreaker(options.failures), halfOpenAfter: halfOpenAfterMs },
  );
  const listeners = new Set<(state: BreakerState) => void>();
  let openedAt = 0;
  let announced: BreakerState = 'closed';

  // Cockatiel stays open until somebody calls. Whoever waits for the breaker before calling would
  // wait for ever, so the state that is shown changes when a probe has become possible.
  const state = (): BreakerState => {
    if (policy.state === CircuitState.Closed) return 'closed';
    const due = Date.now() - openedAt >= halfOpenAfterMs;
    return policy.state === CircuitState.Open && !due ? 'open' : 'half-open';
  };
  const announce = (): void => {
    const current = state();
    if (current === announced) return;
    announced = current;
    for (const listener of listeners) listener(current);
  };
  // A timer may fire a moment before the clock agrees, so it is set again until it does.
  const announceWhenDue = (): void => {
    announce();
    if (state() !== 'open') return;
    setTimeout(announceWhenDue, Math.max(1, openedAt + halfOpenAfterMs - Date.now())).unref();
  };
  policy.onStateChange((changed) => {
    if (changed !== CircuitState.Open) return announce();
    openedAt = Date.now();
    announceWhenDue();
  });

  return {
    get state() {
      return state();
    },
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async run(attempt) {
      // Cockatiel would let these wait for the probe and then pass all at once.
      if (policy.state === CircuitState.HalfOpen) throw refusal();
      const probing = policy.state === CircuitState.Open;
      try {
        return await policy.execute(() => (probing ? asProbe(attempt) : attempt()));
      } catch (error) {
        if (isBrokenCircuitError(error)) throw refusal();
        throw error instanceof LostProbe ? error.cause : error;
      }
    },
  };
}

/**
 * Cockatiel takes every error it does not handle for a sign of life and closes. A probe that its
 * caller gave up is none: the breaker opens again.
 */
async function asProbe<T>(attempt: () => Promise<T>): Promise<T> {
  try {
    return await attempt();
  } catch (error) {
    const reachedServer = error instanceof ModelError && error.code !== 'MODEL_ABORTED';
    throw reachedServer ? error : new LostProbe('The probe was lost.', { cause: error });
  }
}

function refusal(): ModelError {
  return new ModelError(
    'MODEL_BREAKER_OPEN',
    'The model server failed several times in a row and is left alone for a while.',
  );
}
