export type Alarm = {
  /** Ends the wait, or the next one where nobody waits: no ring is lost. */
  ring: () => void;
  /** Waits for a ring, at most so long. */
  wait: (timeoutMs: number) => Promise<void>;
};

/** What a worker without work waits for. */
export function createAlarm(): Alarm {
  let rung = false;
  let wake: (() => void) | undefined;
  return {
    ring() {
      rung = true;
      wake?.();
    },
    async wait(timeoutMs) {
      if (!rung) {
        const { promise, resolve } = Promise.withResolvers<void>();
        const timer = setTimeout(resolve, timeoutMs);
        wake = resolve;
        await promise;
        clearTimeout(timer);
        wake = undefined;
      }
      rung = false;
    },
  };
}
