import type { Job } from './job.ts';

/** A job in progress. */
export type Slot = {
  readonly job: Job;
  /** Ends the job's work: its lease was lost, or it was returned to the queue. */
  readonly controller: AbortController;
  readonly done: Promise<void>;
};

export type Slots = {
  readonly free: boolean;
  /** Runs the job's work in a slot until it ends, whatever the end. */
  run(job: Job, work: (signal: AbortSignal) => Promise<void>): void;
  all(): Slot[];
  /** Waits until every slot is free, at most so long. Gives whether they are. */
  empty(timeoutMs: number): Promise<boolean>;
};

/** The jobs that one worker process has in progress, at most `count` at once. */
export function createSlots(count: number, onFree: () => void): Slots {
  const slots = new Set<Slot>();
  return {
    get free() {
      return slots.size < count;
    },
    run(job, work) {
      const controller = new AbortController();
      const done = work(controller.signal).finally(() => {
        slots.delete(slot);
        onFree();
      });
      const slot = { job, controller, done };
      slots.add(slot);
    },
    all: () => [...slots],
    async empty(timeoutMs) {
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, timeoutMs);
      await Promise.race([late, Promise.all([...slots].map((slot) => slot.done))]);
      clearTimeout(timer);
      return slots.size === 0;
    },
  };
}
