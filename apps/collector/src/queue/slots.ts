import { inTime } from '../async/in-time.ts';
import type { StageRecord } from '../tables.ts';
import { createModelCost, type ModelCost } from '../model/cost.ts';
import type { Job } from './job.ts';

/** A job that was claimed and has not ended. */
export type Slot = {
  readonly job: Job;
  /** Ends the job's work: its lease was lost, or it was returned to the queue. */
  readonly controller: AbortController;
  /** The stages that it has been through so far. */
  readonly stages: StageRecord[];
  /** What it has cost of the model so far. */
  readonly cost: ModelCost;
  readonly done: Promise<void>;
};

/** The jobs that a process has claimed: those that it works on, and those that wait for a slot. */
export type Slots = {
  /** How many jobs could be begun at once. */
  readonly free: number;
  /** How many jobs could be begun beyond the slots while none is free: a quarter of their number, one at least. */
  readonly extra: number;
  /** Whether all have ended. */
  readonly isEmpty: boolean;
  /** How many jobs have been processed so far. One that went back to the queue says nothing of how fast they end. */
  readonly processed: number;
  /**
   * Runs a job until it ends, whatever the end: in a free slot, or in the next one that is left.
   * @param work Calls `leave` when nothing but the writing of its end is to be done: the next job need not
   *   wait for that.
   * @param options.isExtra It waits for no slot.
   */
  run(
    job: Job,
    work: (slot: Slot, leave: () => void) => Promise<void>,
    options?: { isExtra: boolean },
  ): void;
  /** All that have not ended. */
  all(): Slot[];
  /** Takes out the jobs that have waited for a slot for so long, or all that wait; they will not be run. */
  takeWaiting(forMs?: number): Job[];
  /** Waits until every job has ended, at most so long. Gives whether they have. */
  empty(timeoutMs: number): Promise<boolean>;
};

type Waiting = { job: Job; since: number; begin: () => void; end: () => void };

/**
 * The jobs of one process: at most `count` are worked on at once, and a few more of sources that would else wait for
 * another's. Where their ends cannot be written as fast as they come, no slot is free.
 * @param options.ahead How many may wait for a slot.
 */
export function createSlots(
  count: number,
  onFree: () => void,
  { ahead = 0 }: { ahead?: number } = {},
): Slots {
  const most = count + Math.max(1, Math.floor(count / 4));
  const slots = new Set<Slot>();
  const waiting: Waiting[] = [];
  let working = 0;
  let processed = 0;

  /** How many may come before too many wait for a slot or for their ends to be written. */
  const room = () => 2 * (count + ahead) - slots.size;

  function beginNext(): void {
    while (working < count) {
      const next = waiting.shift();
      if (next === undefined) return;
      working += 1;
      next.begin();
    }
  }

  return {
    get free() {
      return Math.min(count - working, room());
    },
    get extra() {
      return working < count ? 0 : Math.max(0, Math.min(most - working, room()));
    },
    get isEmpty() {
      return slots.size === 0;
    },
    get processed() {
      return processed;
    },
    run(job, work, { isExtra } = { isExtra: false }) {
      const controller = new AbortController();
      const done = Promise.withResolvers<void>();
      const cost = createModelCost();
      const slot: Slot = { job, controller, stages: [], cost, done: done.promise };
      const end = (): void => {
        slots.delete(slot);
        done.resolve();
        onFree();
      };
      let inSlot = true;
      const leave = (): void => {
        if (!inSlot) return;
        inSlot = false;
        working -= 1;
        beginNext();
        onFree();
      };
      const leaveProcessed = (): void => {
        if (inSlot) processed += 1;
        leave();
      };
      const begin = (): void => {
        void work(slot, leaveProcessed).finally(() => {
          leave();
          end();
        });
      };
      slots.add(slot);
      if (isExtra) {
        working += 1;
        return begin();
      }
      waiting.push({ job, since: performance.now(), begin, end });
      beginNext();
    },
    all: () => [...slots],
    takeWaiting(forMs = 0) {
      const before = performance.now() - forMs;
      const patient = waiting.findIndex(({ since }) => since > before);
      return waiting.splice(0, patient === -1 ? waiting.length : patient).map(({ job, end }) => {
        end();
        return job;
      });
    },
    async empty(timeoutMs) {
      await inTime(Promise.all([...slots].map((slot) => slot.done)), timeoutMs);
      return slots.size === 0;
    },
  };
}
