import { isInfrastructureFailure, ModelError, type Outage } from './errors.ts';

/** State of a breaker: closed admits all calls, open admits none, and half-open admits one probe. */
export type BreakerState = 'closed' | 'open' | 'half-open';

export type BreakerView = {
  readonly state: BreakerState;
  /** Whether calls fail immediately, because the breaker is open or its probe is in progress. */
  readonly isOpen: boolean;
  /** Subscribes to changes of the state. Returns a function that unsubscribes. */
  onChange(listener: (state: BreakerState) => void): () => void;
};

export type Attempt = {
  /** Whether this attempt is the probe. All other calls fail until the probe ends. */
  readonly isProbe: boolean;
  /** Records the outcome. For a probe, a second call counts as an ordinary attempt. */
  end(error?: unknown): void;
};

/** Circuit breaker for one use of a model server. */
export type Breaker = BreakerView & {
  /** Admits an attempt. Throws ModelError MODEL_BREAKER_OPEN if the breaker is open or its probe is in progress. */
  enter(): Attempt;
};

/** Maximum time that a breaker is open, even if a server requests more. */
const MAX_OPEN_MS = 3_600_000;

/**
 * Creates a breaker that counts individual attempts (Contract 4, Model). Only infrastructure failures open it.
 * Rejections and invalid completions close it only as the outcome of a probe.
 * @param options.failures Number of consecutive infrastructure failures that open the breaker.
 * @param options.halfOpenAfterMs Minimum time, in milliseconds, until an open breaker admits a probe.
 * @param options.maxWaitMs Requested delay, in milliseconds, from which the breaker opens immediately.
 */
export function createBreaker(options: {
  failures: number;
  halfOpenAfterMs: number;
  maxWaitMs: number;
}): Breaker {
  const { failures, halfOpenAfterMs, maxWaitMs } = options;
  const { subscribe, notify } = createListeners(() => getState());
  let consecutiveFailures = 0;
  let halfOpenAt: number | undefined;
  let isProbing = false;
  let lastFailure = '';
  let outage: Outage | undefined;

  const getState = (): BreakerState => {
    if (halfOpenAt === undefined) return 'closed';
    return Date.now() < halfOpenAt ? 'open' : 'half-open';
  };

  function open(retryAfterMs: number): void {
    halfOpenAt = Date.now() + Math.min(MAX_OPEN_MS, Math.max(halfOpenAfterMs, retryAfterMs));
    notifyWhenDue();
  }

  // A timer may fire slightly early, so set it again until the state changes.
  function notifyWhenDue(): void {
    notify();
    if (halfOpenAt === undefined || getState() !== 'open') return;
    setTimeout(notifyWhenDue, Math.max(1, halfOpenAt - Date.now())).unref();
  }

  function close(): void {
    consecutiveFailures = 0;
    halfOpenAt = undefined;
    outage = undefined;
    notify();
  }

  function record(error: unknown, wasProbe: boolean): void {
    if (isInfrastructureFailure(error)) {
      consecutiveFailures += 1;
      const retryAfterMs = error.retryAfterMs ?? 0;
      if (wasProbe || consecutiveFailures >= failures || retryAfterMs >= maxWaitMs)
        open(retryAfterMs);
      return;
    }
    // An aborted probe does not show that the server works.
    const hasServerResponded = error instanceof ModelError && error.code !== 'MODEL_ABORTED';
    if (error === undefined || (wasProbe && hasServerResponded)) close();
  }

  return {
    get state() {
      return getState();
    },
    get isOpen() {
      return getState() === 'open' || isProbing;
    },
    onChange: subscribe,
    enter() {
      if (getState() === 'open' || isProbing) {
        const reason =
          'The model server failed several times in a row, and is not called for a while.';
        throw new ModelError('MODEL_BREAKER_OPEN', `${reason} ${lastFailure}`);
      }
      let isProbe = getState() === 'half-open';
      isProbing = isProbe;
      return {
        get isProbe() {
          return isProbe;
        },
        end(error) {
          const wasProbe = isProbe;
          isProbe = false;
          if (wasProbe) isProbing = false;
          if (isInfrastructureFailure(error)) {
            lastFailure = error.message;
            error.outage = outage ??= { since: new Date() };
          }
          // An attempt that started before the breaker opened does not show the server's current state.
          if (wasProbe || halfOpenAt === undefined) record(error, wasProbe);
        },
      };
    },
  };
}

/** Combines breakers. The result is open if any of them is open, otherwise half-open if any is half-open. */
export function joinBreakers(breakers: readonly BreakerView[]): BreakerView {
  const getState = (): BreakerState => {
    const states = new Set(breakers.map(({ state }) => state));
    return (['open', 'half-open'] as const).find((state) => states.has(state)) ?? 'closed';
  };
  const { subscribe, notify } = createListeners(getState);
  for (const breaker of breakers) breaker.onChange(notify);
  return {
    get state() {
      return getState();
    },
    get isOpen() {
      return breakers.some((breaker) => breaker.isOpen);
    },
    onChange: subscribe,
  };
}

function createListeners(getState: () => BreakerState) {
  const listeners = new Set<(state: BreakerState) => void>();
  let lastNotifiedState: BreakerState = 'closed';
  const subscribe: BreakerView['onChange'] = (listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  const notify = (): void => {
    const currentState = getState();
    if (currentState === lastNotifiedState) return;
    lastNotifiedState = currentState;
    for (const listener of listeners) listener(currentState);
  };
  return { subscribe, notify };
}
