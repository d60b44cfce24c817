import { isInfrastructureFailure, ModelError, type Outage } from './errors.ts';

/** Closed lets every call through, open none, half-open one probe. */
export type BreakerState = 'closed' | 'open' | 'half-open';

/** The observable side of a breaker. */
export type BreakerView = {
  readonly state: BreakerState;
  /** Whether calls fail at once: the breaker is open, or its probe is in progress. */
  readonly isOpen: boolean;
  /** Calls the listener with each new state. @returns A function that unsubscribes. */
  onChange(listener: (state: BreakerState) => void): () => void;
};

/** A call that a breaker let through. */
export type Attempt = {
  /** Whether this is the probe: all other calls fail until it ends. */
  readonly isProbe: boolean;
  /** Records the outcome. A probe that ended counts as an ordinary attempt if it is recorded again. */
  end(error?: unknown): void;
};

/** A circuit breaker in front of one use of a model server. */
export type Breaker = BreakerView & {
  /** Lets a call through. @throws ModelError MODEL_BREAKER_OPEN. */
  enter(): Attempt;
};

/** When a breaker opens, and for how long. */
export type BreakerSettings = {
  /** Infrastructure failures in a row that open it. */
  failures: number;
  halfOpenAfterMs: number;
  /** The longest wait of a call. A server that asks for more opens the breaker at once. */
  maxWaitMs: number;
};

/** Bounds the time that a server may ask for. */
const MAX_OPEN_MS = 3_600_000;

/**
 * Creates a breaker that judges single attempts (Contract 4, Model). Only infrastructure failures open it. Rejections
 * and invalid answers count as neither failures nor successes, except that they prove a probed server alive.
 */
export function createBreaker({ failures, halfOpenAfterMs, maxWaitMs }: BreakerSettings): Breaker {
  const { subscribe, announce } = createListeners(() => state());
  let failuresInRow = 0;
  let reopensAt: number | undefined;
  let isProbing = false;
  let lastFailure = '';
  let outage: Outage | undefined;

  const state = (): BreakerState => {
    if (reopensAt === undefined) return 'closed';
    return Date.now() < reopensAt ? 'open' : 'half-open';
  };

  function open(retryAfterMs: number): void {
    reopensAt = Date.now() + Math.min(MAX_OPEN_MS, Math.max(halfOpenAfterMs, retryAfterMs));
    announceWhenDue();
  }

  // A timer may fire a moment before the clock agrees, so it is set again until it does.
  function announceWhenDue(): void {
    announce();
    if (reopensAt === undefined || state() !== 'open') return;
    setTimeout(announceWhenDue, Math.max(1, reopensAt - Date.now())).unref();
  }

  function close(): void {
    failuresInRow = 0;
    reopensAt = undefined;
    outage = undefined;
    announce();
  }

  function record(error: unknown, wasProbe: boolean): void {
    if (isInfrastructureFailure(error)) {
      failuresInRow += 1;
      const retryAfterMs = error.retryAfterMs ?? 0;
      if (wasProbe || failuresInRow >= failures || retryAfterMs >= maxWaitMs) open(retryAfterMs);
      return;
    }
    // A probe that the caller aborted proves nothing.
    const provesAlive = error instanceof ModelError && error.code !== 'MODEL_ABORTED';
    if (error === undefined || (wasProbe && provesAlive)) close();
  }

  return {
    get state() {
      return state();
    },
    get isOpen() {
      return state() === 'open' || isProbing;
    },
    onChange: subscribe,
    enter() {
      if (state() === 'open' || isProbing) throw openError(lastFailure);
      let isProbe = state() === 'half-open';
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
          // An attempt from before the breaker opened says nothing about the server now.
          if (wasProbe || reopensAt === undefined) record(error, wasProbe);
        },
      };
    },
  };
}

/** Joins breakers: open while any is open, half-open while any allows a probe, else closed. */
export function joinBreakers(breakers: readonly BreakerView[]): BreakerView {
  const state = (): BreakerState => {
    const states = new Set(breakers.map((breaker) => breaker.state));
    return (['open', 'half-open'] as const).find((worse) => states.has(worse)) ?? 'closed';
  };
  const { subscribe, announce } = createListeners(state);
  for (const breaker of breakers) breaker.onChange(announce);
  return {
    get state() {
      return state();
    },
    get isOpen() {
      return breakers.some((breaker) => breaker.isOpen);
    },
    onChange: subscribe,
  };
}

/** Publishes each change of a state. */
function createListeners(state: () => BreakerState) {
  const listeners = new Set<(state: BreakerState) => void>();
  let announced: BreakerState = 'closed';
  const subscribe: BreakerView['onChange'] = (listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  const announce = (): void => {
    const current = state();
    if (current === announced) return;
    announced = current;
    for (const listener of listeners) listener(current);
  };
  return { subscribe, announce };
}

function openError(lastFailure: string): ModelError {
  return new ModelError(
    'MODEL_BREAKER_OPEN',
    `The model server failed several times in a row and is not called for a while. ${lastFailure}`,
  );
}
