import type { BreakerState, BreakerView } from '@oselya/model';

/** A breaker that a test moves. */
export function fakeBreaker(initial: BreakerState = 'closed'): BreakerView & {
  set(state: BreakerState): void;
  /** Sends the probe on its way, or lets it end; nobody is told of that alone. */
  probe(isOnItsWay: boolean): void;
} {
  let state = initial;
  let isProbing = false;
  const listeners = new Set<(state: BreakerState) => void>();
  return {
    get state() {
      return state;
    },
    get isOpen() {
      return state === 'open' || isProbing;
    },
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    set(next) {
      state = next;
      isProbing = false;
      for (const listener of listeners) listener(next);
    },
    probe(isOnItsWay) {
      isProbing = isOnItsWay;
    },
  };
}
