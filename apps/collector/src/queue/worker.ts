import { randomUUID } from 'node:crypto';
import type { Logger } from '@oselya/kit';
import type { BreakerView } from '@oselya/model';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import type { Metrics } from '../metrics.ts';
import { countDown, inTime } from '../async/in-time.ts';
import { repeat } from '../async/repeat.ts';
import { createAutoResetEvent } from './auto-reset-event.ts';
import { createAgenda } from './agenda.ts';
import { claimUntilStopped } from './claim-loop.ts';
import { createClaims } from './claims.ts';
import { createGiveBack, type GiveBack } from './give-back.ts';
import { type Job, ReturnedError } from './job.ts';
import { createOutages, keepLeases, rescueLostJobs } from './leases.ts';
import { createPrefetch, MAX_PREFETCHED, MAX_WAIT_MS } from './prefetch.ts';
import { processName } from './process-name.ts';
import {
  createJobRunner,
  type JobOptions,
  type ProcessJob,
  type ProcessResult,
} from './run-job.ts';
import { createSlots, type Slot, type Slots } from './slots.ts';

/** Specification 001, Limits. */
export const POLL_MS = 1000;
/**
 * How long a stop may take beyond the time that jobs have: for returning those that took longer, and for them to
 * notice.
 */
const GIVE_UP_MS = 1000;

/** What a worker works with, and how much at once. */
export type WorkerOptions = {
  db: Kysely<Tables>;
  process: ProcessJob;
  /**
   * While it is open nothing is claimed, and while its probe is on its way nothing more once a job came back:
   * what is next would only be refused too.
   */
  breaker: BreakerView;
  /** Whether what else jobs need is there. It is asked before each claim, and at each poll while it says no. */
  mayClaim?: () => Promise<boolean>;
  metrics: Pick<Metrics, 'jobs'>;
  log: Logger;
  /** Jobs in progress at once. */
  slots: number;
  leaseMs: number;
  maxAttempts: number;
  pollMs?: number;
  maxWaitMs?: number;
  /** How long a stop may take beyond the time that jobs have; a second unless told. */
  giveUpMs?: number;
};

/** A worker that was started: all else it does by itself. */
export type Worker = {
  /** Says that there may be work: the poll is not waited for. */
  notify: () => void;
  /**
   * Stops claiming, waits for the jobs in progress, at most so long, and returns the rest to the
   * queue without costing them an attempt. It takes no longer than `giveUpMs` more, whether or not the database
   * answers: what could not be returned by then waits for its lease.
   */
  stop: (options: { timeoutMs: number }) => Promise<void>;
};

/**
 * Starts to take jobs off the queue: with a free slot it claims again at once while there is work, and
 * otherwise waits for a notification or the poll. Whatever fails, the worker goes on.
 * Specification 001, Raw data status; Contract 4, Queue.
 */
export function startWorker(options: WorkerOptions): Worker {
  const { db, breaker, log, metrics, leaseMs, maxAttempts } = options;
  const {
    mayClaim = () => Promise.resolve(true),
    pollMs = POLL_MS,
    maxWaitMs = MAX_WAIT_MS,
    giveUpMs = GIVE_UP_MS,
  } = options;
  const name = processName(randomUUID().slice(0, 8));
  const wake = createAutoResetEvent();
  const stopping = new AbortController();
  const ended = new AbortController();
  const slots = createSlots(options.slots, wake.set, { ahead: MAX_PREFETCHED });
  const prefetch = createPrefetch(slots, maxWaitMs);
  const claimant = { worker: name, leaseMs };
  const claims = createClaims({ db, claimant, slots, prefetch, maxAttempts, pollMs });
  const agenda = createAgenda({ slots, breaker, stopping: stopping.signal, pollMs });
  const runJob = createJobRunner({ ...options, process: watched });
  const back = createGiveBack({ db, log, metrics, worker: name }, stopping.signal);

  async function watched(job: Job, jobOptions: JobOptions): Promise<ProcessResult> {
    const result = await options.process(job, jobOptions);
    if (result.status === 'postponed' && result.isSuspect === true) agenda.suspected(job.rawId);
    return result;
  }

  async function work(
    { job, controller: { signal }, stages, cost }: Slot,
    leave: () => void,
  ): Promise<void> {
    const outcome = await runJob(job, { signal, stages, cost }, leave);
    if (outcome !== 'postponed') return;
    agenda.postponed();
    if (agenda.isKeptBack()) await back.give(slots.takeWaiting());
  }

  const forgetBreaker = breaker.onChange((state) => {
    if (state === 'open') void back.give(slots.takeWaiting());
    wake.set();
  });
  const outages = createOutages();
  const background = [
    keepLeases({ db, slots, log, leaseMs, outages }, ended.signal),
    rescueLostJobs({ db, log, leaseMs, maxAttempts, outages, onRescued: wake.set }, ended.signal),
    repeat(maxWaitMs, () => back.give(prefetch.takeLate()), {
      signal: ended.signal,
      onError: (error) => log.error({ err: error }, 'jobs that waited could not be returned'),
    }),
  ];
  const looping = claimUntilStopped(
    { agenda, claims, slots, back, wake, mayClaim, work, log },
    stopping.signal,
  );

  return {
    notify: wake.set,
    async stop({ timeoutMs }) {
      const leftMs = countDown(timeoutMs + giveUpMs);
      stopping.abort();
      wake.set();
      // None follows: what a claim that is on its way brings is given back too.
      void back.give(slots.takeWaiting());
      if (!(await slots.empty(timeoutMs))) await giveUp({ slots, back }, leftMs);
      ended.abort();
      forgetBreaker();
      const rest = Promise.all([looping, ...background]).then(() => back.settled());
      if (!(await inTime(rest, leftMs())))
        log.warn('the database did not answer a worker that ends');
    },
  };
}

/**
 * Returns what is still in progress to the queue, and ends the work on it.
 * @param leftMs Gives how many milliseconds are left for that.
 */
async function giveUp(
  { slots, back }: { slots: Slots; back: GiveBack },
  leftMs: () => number,
): Promise<void> {
  const current = slots.all();
  const jobs = current.map(({ job, stages, cost }) => ({
    ...job,
    stages,
    modelUsage: cost.usage(),
  }));
  // Returned first: once its work is aborted nothing that it still tries can be written.
  let returned: ReadonlySet<number> = new Set();
  await inTime(
    back.giveBegun(jobs).then((ids) => (returned = ids)),
    leftMs(),
  );
  for (const { job, controller } of current) {
    controller.abort(
      returned.has(job.rawId) ? new ReturnedError(job) : new Error('The worker is shutting down'),
    );
  }
  await slots.empty(leftMs());
}
