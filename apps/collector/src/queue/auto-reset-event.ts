/** Wakes one who waits, once for however many times it was set before. */
export type AutoResetEvent = {
  /** Ends the wait, or the next one where nobody waits: nothing that is set is lost. */
  set: () => void;
  /** Waits until it is set, at most so long, and resets it. */
  wait: (timeoutMs: number) => Promise<void>;
};

/** What a worker without work waits for. */
export function createAutoResetEvent(): AutoResetEvent {
  let isSet = false;
  let wake: (() => void) | undefined;
  return {
    set() {
      isSet = true;
      wake?.();
    },
    async wait(timeoutMs) {
      if (!isSet) {
        const { promise, resolve } = Promise.withResolvers<void>();
        const timer = setTimeout(resolve, timeoutMs);
        wake = resolve;
        await promise;
        clearTimeout(timer);
        wake = undefined;
      }
      isSet = false;
    },
  };
}
