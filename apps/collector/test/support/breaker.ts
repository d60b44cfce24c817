import type { BreakerState, BreakerView } from '@oselya/model';

/** A breaker that a test moves. */
export function fakeBreaker(initial: BreakerState = 'closed'): BreakerView & {
  set(state: BreakerState): void;
} {
  let state = initial;
  const listeners = new Set<(state: BreakerState) => void>();
  return {
    get state() {
      return state;
    },
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    set(next) {
      state = next;
      for (const listener of listeners) listener(next);
    },
  };
}
