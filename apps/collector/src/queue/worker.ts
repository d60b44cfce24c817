import { randomUUID } from 'node:crypto';
import { isDatabaseOutage } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import type { BreakerView } from '@oselya/model';
import type { Kysely } from 'kysely';
import type { Tables } from '../database/tables.ts';
import type { Metrics } from '../metrics.ts';
import { countDown, inTime } from '../async/in-time.ts';
import { pause, repeat } from '../async/repeat.ts';
import { createAutoResetEvent } from './auto-reset-event.ts';
import { claimJobs } from './claim.sql.ts';
import { createGiveBack } from './give-back.ts';
import type { Job } from './job.ts';
import { createOutages, keepLeases, rescueLostJobs } from './leases.ts';
import { createPrefetch, MAX_PREFETCHED, MAX_WAIT_MS } from './prefetch.ts';
import { processName } from './process-name.ts';
import { createJobRunner, type JobOptions, type ProcessJob } from './run-job.ts';
import { createSlots } from './slots.ts';

/** Specification 001, Limits. */
export const POLL_MS = 1000;
const MAX_BACKOFF_MS = 30_000;
/**
 * How long a stop may take beyond the time that jobs have: for returning those that took longer, and for them to
 * notice.
 */
const GIVE_UP_MS = 1000;

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
};

export type Worker = {
  /** Says that there may be work: the poll is not waited for. */
  notify: () => void;
  /**
   * Stops claiming, waits for the jobs in progress, at most so long, and returns the rest to the
   * queue without costing them an attempt. It takes no longer than a second more, whether or not the database
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
  const {
    db,
    breaker,
    mayClaim = () => Promise.resolve(true),
    log,
    leaseMs,
    maxAttempts,
    pollMs = POLL_MS,
    maxWaitMs = MAX_WAIT_MS,
  } = options;
  const name = processName(randomUUID().slice(0, 8));
  const wake = createAutoResetEvent();
  const slots = createSlots(options.slots, wake.set, MAX_PREFETCHED);
  const prefetch = createPrefetch(slots, maxWaitMs);
  const runJob = createJobRunner(options);
  const stopping = new AbortController();
  const ended = new AbortController();
  const back = createGiveBack({ db, log, worker: name }, stopping.signal);
  /**
   * A job that went back, because what it needs was not there: others go first, once, since it may be what
   * the model fails on.
   */
  let postponed: number | undefined;
  let restUntil = 0;
  /** Where the round over the sources stands. */
  let lastSource: string | undefined;

  async function work(job: Job, jobOptions: JobOptions, leave: () => void): Promise<void> {
    const outcome = await runJob(job, jobOptions, leave);
    if (outcome !== 'postponed') return;
    // What it needs was not there. Asking again at once would only turn in a circle.
    restUntil = Date.now() + pollMs;
    postponed = job.rawId;
    if (isKeptBack()) await back.give(slots.takeWaiting());
  }

  /**
   * Whether the model keeps jobs back. Half-open, it keeps none until one has met the probe and came back: those
   * that ask another of the servers go on. That is looked up and not remembered, so that a probe which ended
   * before the job was back keeps nothing, nor does one whose end nobody told, for longer than a poll.
   */
  function isKeptBack(): boolean {
    return breaker.state === 'open' || (postponed !== undefined && breaker.isProbing);
  }

  /** Claims jobs for the free slots, and starts them. False where there are none. */
  async function claimNext(): Promise<boolean> {
    const spared = postponed;
    const more = prefetch.next();
    await back.strays(slots.all());
    const jobs = await claimJobs(db, {
      worker: name,
      leaseMs,
      count: slots.free + more,
      lastSource,
      except: spared,
    });
    // Where only that job is left, it is as good as any. Another may have come back meanwhile.
    if (postponed === spared) postponed = undefined;
    // While the claim was on its way.
    if (stopping.signal.aborted || isKeptBack()) {
      await back.give(jobs);
      return false;
    }
    for (const job of jobs) {
      slots.run(job, ({ controller: { signal }, stages, cost }, leave) =>
        work(job, { signal, stages, cost }, leave),
      );
    }
    lastSource = jobs.at(-1)?.sourceSlug;
    return jobs.length > 0 || spared !== undefined;
  }

  /** Whether there is a slot for a job, and the model for it. */
  function isReady(): boolean {
    if (stopping.signal.aborted || slots.free <= 0 || Date.now() < restUntil) return false;
    return !isKeptBack();
  }

  async function canClaim(): Promise<boolean> {
    // The answer may take a moment.
    return isReady() && (await mayClaim()) && isReady();
  }

  async function loop(): Promise<void> {
    let failures = 0;
    while (!stopping.signal.aborted) {
      try {
        while ((await canClaim()) && (await claimNext()));
        failures = 0;
        if (!stopping.signal.aborted) await wake.wait(pollMs);
      } catch (error) {
        failures += 1;
        if (isDatabaseOutage(error)) back.noteOutage();
        log.error({ err: error }, 'a job could not be claimed');
        await pause(Math.min(MAX_BACKOFF_MS, pollMs * 2 ** (failures - 1)), stopping.signal);
      }
    }
  }

  /** Returns what is still in progress to the queue, and ends the work on it. */
  async function giveUp(leftMs: () => number): Promise<void> {
    const current = slots.all();
    const jobs = current.map(({ job, cost }) => ({ ...job, modelUsage: cost.usage() }));
    // Returned first: once its work is aborted nothing that it still tries can be written.
    await inTime(back.give(jobs), leftMs());
    for (const { controller } of current) {
      controller.abort(new Error('The worker is shutting down'));
    }
    await slots.empty(leftMs());
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
  const looping = loop();

  return {
    notify: wake.set,
    async stop({ timeoutMs }) {
      const leftMs = countDown(timeoutMs + GIVE_UP_MS);
      stopping.abort();
      wake.set();
      // None follows: what a claim that is on its way brings is given back too.
      void back.give(slots.takeWaiting());
      if (!(await slots.empty(timeoutMs))) await giveUp(leftMs);
      ended.abort();
      forgetBreaker();
      const rest = Promise.all([looping, ...background]).then(() => back.settled());
      if (!(await inTime(rest, leftMs())))
        log.warn('the database did not answer a worker that ends');
    },
  };
}
