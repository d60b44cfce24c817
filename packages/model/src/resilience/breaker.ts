import {
  circuitBreaker,
  CircuitState,
  ConsecutiveBreaker,
  DelegateBackoff,
  handleWhen,
  isBrokenCircuitError,
  type IHalfOpenAfterBackoffContext,
} from 'cockatiel';
import { isInfrastructureFailure, ModelError, type Outage } from '../errors.ts';

/** Closed lets everything through, open nothing, half-open one probe. */
export type BreakerState = 'closed' | 'open' | 'half-open';

/** What others may see of a breaker. */
export type BreakerView = {
  readonly state: BreakerState;
  /** Whether calls fail at once: the breaker is open, or its probe is in progress. */
  readonly isOpen: boolean;
  /** Whether the one probe of a half-open breaker is on its way: until it ends every other call is refused. */
  readonly isProbing: boolean;
  /** Calls the listener with each new state. @returns A function that ends it. */
  onChange(listener: (state: BreakerState) => void): () => void;
};

/** The breaker in front of what fails as one. */
export type Breaker = {
  /**
   * Runs one attempt unless the breaker forbids it. A failure of the infrastructure is told its outage.
   *
   * @throws ModelError MODEL_BREAKER_OPEN at once, without running the attempt, while the breaker
   *   is open or its probe is still out; otherwise whatever the attempt throws.
   */
  run<T>(attempt: () => Promise<T>): Promise<T>;
  /**
   * Runs an attempt that continues after it resolves, such as a stream. While the breaker is closed, its success
   * counts only when `settle` is called.
   */
  begin<T>(attempt: () => Promise<T>): Promise<T>;
  /** Counts the end of an attempt of `begin`: a failure with `error`, else a success. */
  settle(error?: unknown): Promise<void>;
} & BreakerView;

/** When a breaker opens, and for how long. */
export type BreakerSettings = {
  /** Failures in a row that open it. */
  failures: number;
  halfOpenAfterMs: number;
  /** The longest wait that a call can make. A server that asks for more has it open at once. */
  patienceMs: number;
};

/** A server that asks for longer, or for ever, is tried once an hour. */
const LONGEST_REST_MS = 3_600_000;

/** Marks the probe that ended without telling anything about the server: it was given up. */
class LostProbe extends Error {}

/**
 * Makes a breaker that judges single attempts (Contract 4, Model). Only infrastructure failures move
 * it; refusals and invalid answers are neither failures nor successes. A server that asks to be left
 * alone for longer than calls can wait is left alone until then.
 */
export function createBreaker(settings: BreakerSettings): Breaker {
  const { halfOpenAfterMs, patienceMs } = settings;
  const inARow = new ConsecutiveBreaker(settings.failures);
  const policy = circuitBreaker(
    handleWhen((error) => error instanceof LostProbe || isInfrastructureFailure(error)),
    {
      breaker: {
        state: undefined,
        success() {
          inARow.success();
          outage = undefined;
        },
        failure: () => inARow.failure() || askedMs >= patienceMs,
      },
      halfOpenAfter: new DelegateBackoff(({ result }: IHalfOpenAfterBackoffContext) => {
        const asked = 'error' in result ? restAskedBy(result.error) : 0;
        restMs = Math.min(LONGEST_REST_MS, Math.max(halfOpenAfterMs, asked));
        return restMs;
      }),
    },
  );
  const listeners = new Set<(state: BreakerState) => void>();
  let outage: Outage | undefined;
  /** The rest that the server asked for when it failed last: cockatiel judges failures without seeing them. */
  let askedMs = 0;
  /** The message of the last failure, for requests that are rejected. */
  let lastFailure = '';
  let openedAt = 0;
  let restMs = halfOpenAfterMs;
  let announced: BreakerState = 'closed';

  // Cockatiel stays open until somebody calls. Whoever waits for the breaker before calling would
  // wait for ever, so the state that is shown changes when a probe has become possible.
  const state = (): BreakerState => {
    if (policy.state === CircuitState.Closed) return 'closed';
    const due = Date.now() - openedAt >= restMs;
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
    setTimeout(announceWhenDue, Math.max(1, openedAt + restMs - Date.now())).unref();
  };
  policy.onStateChange((changed) => {
    if (changed !== CircuitState.Open) return announce();
    openedAt = Date.now();
    announceWhenDue();
  });
  const inOutage = async <T>(attempt: () => Promise<T>): Promise<T> => {
    try {
      return await attempt();
    } catch (error) {
      if (isInfrastructureFailure(error)) {
        askedMs = restAskedBy(error);
        lastFailure = error.message;
        error.outage = outage ??= { since: new Date() };
      }
      throw error;
    }
  };

  return {
    get state() {
      return state();
    },
    get isOpen() {
      return state() === 'open' || policy.state === CircuitState.HalfOpen;
    },
    get isProbing() {
      return policy.state === CircuitState.HalfOpen;
    },
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    run,
    async begin(attempt) {
      if (policy.state !== CircuitState.Closed) return run(attempt);
      try {
        return await attempt();
      } catch (error) {
        await settle(error);
        throw error;
      }
    },
    settle,
  };

  async function run<T>(attempt: () => Promise<T>): Promise<T> {
    // Cockatiel would let these wait for the probe and then pass all at once.
    if (policy.state === CircuitState.HalfOpen) throw refusal(lastFailure);
    const probing = policy.state === CircuitState.Open;
    try {
      return await policy.execute(() => {
        const judged = inOutage(attempt);
        return probing ? asProbe(judged) : judged;
      });
    } catch (error) {
      if (isBrokenCircuitError(error)) throw refusal(lastFailure);
      throw error instanceof LostProbe ? error.cause : error;
    }
  }

  async function settle(failure?: unknown): Promise<void> {
    // An attempt from before the breaker opened says nothing about the server now.
    if (policy.state !== CircuitState.Closed) return;
    if (failure === undefined) return run(async () => undefined);
    if (!isInfrastructureFailure(failure)) return;
    const fail = async () => {
      throw failure;
    };
    await run(fail).catch(() => undefined);
  }
}

/** How long the server asked to be left alone, in milliseconds. */
function restAskedBy(error: unknown): number {
  return error instanceof ModelError ? (error.retryAfterMs ?? 0) : 0;
}

/**
 * Cockatiel takes every error it does not handle for a sign of life and closes. A probe that its
 * caller gave up is none: the breaker opens again.
 */
async function asProbe<T>(attempt: Promise<T>): Promise<T> {
  try {
    return await attempt;
  } catch (error) {
    const reachedServer = error instanceof ModelError && error.code !== 'MODEL_ABORTED';
    throw reachedServer ? error : new LostProbe('The probe was lost.', { cause: error });
  }
}

function refusal(lastFailure: string): ModelError {
  return new ModelError(
    'MODEL_BREAKER_OPEN',
    `The model server failed several times in a row and is left alone for a while. ${lastFailure}`,
  );
}
