import type { BreakerState, BreakerView } from './breaker.ts';

/**
 * Shows several breakers as one, for whoever needs what is behind all of them: open while any is open,
 * half-open while any may be tried, and closed when all are; probing while any is. Where the probe of one ends
 * while another may be tried, the state does not change, and nobody is told.
 */
export function joinBreakers(breakers: readonly BreakerView[]): BreakerView {
  const listeners = new Set<(state: BreakerState) => void>();
  const state = (): BreakerState => {
    const states = new Set(breakers.map((breaker) => breaker.state));
    return (['open', 'half-open'] as const).find((worse) => states.has(worse)) ?? 'closed';
  };
  let announced = state();
  const announce = (): void => {
    const current = state();
    if (current === announced) return;
    announced = current;
    for (const listener of listeners) listener(current);
  };
  for (const breaker of breakers) breaker.onChange(announce);

  return {
    get state() {
      return state();
    },
    get isOpen() {
      return breakers.some((breaker) => breaker.isOpen);
    },
    get isProbing() {
      return breakers.some((breaker) => breaker.isProbing);
    },
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
