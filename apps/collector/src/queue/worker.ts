import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { isDatabaseOutage } from '@oselya/db';
import type { BreakerView } from '@oselya/model';
import pLimit from 'p-limit';
import { waitWithTimeout, pause } from '../async/wait.ts';
import { claimJobs, unblockMissedPayloads } from './claim.ts';
import type { Job, JobHandler, JobOutcome, JobRun, ListingKey } from './job-types.ts';
import { createJobRunner, repeatPerLease, type RunnerOptions } from './job-runner.ts';
import { findOrphanedJobs, rescueJobs } from './job-writes.ts';

export const POLL_MS = 1000;

/** Additional time for stopping, after the time limit for running jobs. */
const STOP_GRACE_MS = 1000;

/** Maximum number of jobs claimed ahead of free slots. After `MAX_PREFETCH_MS`, they are requeued. */
const MAX_PREFETCHED_JOBS = 100;
const MAX_PREFETCH_MS = 1000;

export type WorkerOptions = RunnerOptions & {
  /** Processes a job, but does not store its status. */
  processJob: (job: Job, run: JobRun) => Promise<JobOutcome>;
  /** The worker claims nothing while a breaker is open or its probe is in progress. */
  breaker: BreakerView;
  /** Checks before each claim whether all other dependencies are available. */
  canClaim?: () => Promise<boolean>;
  slots: number;
  maxAttempts: number;
  pollMs?: number;
};

export type Worker = ReturnType<typeof startWorker>;

/** Creates the name that identifies a component of this process in claims. */
export function createClaimantName(component: string): string {
  return `${hostname()}/${process.pid}/${component}`;
}

/**
 * Starts a worker, which claims again immediately while it has free slots and jobs are pending. Otherwise it waits for
 * a notification or the next poll. Specification 001, Raw data status; Contract 4, Queue; docs/adr/0020-fair-share.md.
 */
export function startWorker(options: WorkerOptions) {
  const { db, breaker, log, slots, leaseMs, canClaim, pollMs = POLL_MS } = options;
  const worker = createClaimantName(randomUUID().slice(0, 8));
  const stopping = new AbortController();
  const slotLimit = pLimit({ concurrency: slots, rejectOnClear: true });
  const runner = createJobRunner(options);
  let jobsEndedSinceClaim = 0;
  let claimedAt = 0;
  let lastSource: string | undefined;
  /** Whether an outage may have hidden a successful claim, or prevented storing the outcome of a job. */
  let canHaveOrphanedJobs = false;
  let wakeSignal = Promise.withResolvers<void>();
  const wake = () => wakeSignal.resolve();

  const isPaused = () => breaker.isOpen || stopping.signal.aborted;

  /** Processes a job in the next free slot. Requeues it if the queue is cleared first or the worker is paused. */
  async function processInSlot(job: Job, jobRun: JobRun): Promise<JobOutcome> {
    let hasStarted = false;
    try {
      return await slotLimit(async () => {
        // Each job may begin a probe, which pauses the worker.
        if (isPaused()) return { status: 'returned' };
        hasStarted = true;
        const outcome = await options.processJob(job, jobRun);
        if (outcome.status !== 'returned') jobsEndedSinceClaim += 1;
        return outcome;
      });
    } catch (error) {
      if (hasStarted) throw error;
      return { status: 'returned' };
    } finally {
      if (slotLimit.pendingCount === 0) wake();
    }
  }

  async function run(job: Job, handler: JobHandler): Promise<void> {
    if ((await runner.run(job, handler)) === 'lost') canHaveOrphanedJobs = true;
    // The next payload of the listing is unblocked now, so the worker can claim it.
    if (slotLimit.pendingCount === 0) wake();
  }

  async function requeueOrphanedJobs(): Promise<void> {
    // Reset before the query, because jobs may be lost while it runs.
    canHaveOrphanedJobs = false;
    const orphanedJobs = await findOrphanedJobs(db, worker, runner.getRawIds());
    await Promise.all(orphanedJobs.map((job) => run(job, async () => ({ status: 'returned' }))));
  }

  /** Claims jobs for the free slots, and some ahead of them, and starts them. Returns whether it claimed any. */
  async function claim(): Promise<boolean> {
    // Requeue orphaned jobs even while the worker is paused, because their leases are not renewed.
    if (canHaveOrphanedJobs) await requeueOrphanedJobs();
    if (isPaused() || performance.now() - claimedAt > MAX_PREFETCH_MS) slotLimit.clearQueue();
    // The second bound limits the jobs whose outcomes are still being stored.
    const claimLimit = Math.min(
      slots - slotLimit.activeCount - slotLimit.pendingCount,
      2 * (slots + MAX_PREFETCHED_JOBS) - runner.size,
    );
    if (claimLimit <= 0 || isPaused()) return false;
    if (canClaim !== undefined && !(await canClaim())) return false;
    const count = claimLimit + Math.min(MAX_PREFETCHED_JOBS, jobsEndedSinceClaim);
    jobsEndedSinceClaim = 0;
    claimedAt = performance.now();
    const jobs = await claimJobs(db, { worker, leaseMs, count, lastSource });
    lastSource = jobs.at(-1)?.sourceSlug ?? lastSource;
    const runs = jobs.map((job) => run(job, (jobRun) => processInSlot(job, jobRun)));
    // A claim that was in progress at the stop returns its jobs, and the stop waits until they are requeued.
    if (stopping.signal.aborted) await Promise.all(runs);
    return jobs.length > 0;
  }

  async function claimUntilStopped(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        if (await claim()) continue;
        await waitWithTimeout(wakeSignal.promise, pollMs);
        wakeSignal = Promise.withResolvers();
      } catch (error) {
        canHaveOrphanedJobs = true;
        log.error({ err: error }, 'jobs could not be claimed');
        await pause(pollMs, stopping.signal);
      }
    }
  }

  const unsubscribe = breaker.onChange(wake);
  const loops = Promise.all([
    claimUntilStopped(),
    repeatPerLease(options, createSweep(options, runner.getRawIds), stopping.signal),
  ]);

  return {
    /** Wakes the worker to claim new jobs. */
    notify: wake,
    /**
     * Stops claiming, waits at most `timeoutMs` for the jobs in progress, and requeues the others without using an
     * attempt. A job that cannot be requeued within one more second waits for its lease to expire.
     */
    async stop({ timeoutMs }: { timeoutMs: number }): Promise<void> {
      stopping.abort();
      slotLimit.clearQueue();
      wake();
      unsubscribe();
      await Promise.all([
        waitWithTimeout(loops, timeoutMs + STOP_GRACE_MS),
        runner.close({ timeoutMs }),
      ]);
    },
  };
}

/** Creates a sweep, which rescues jobs of lost workers, and unblocks payloads that a killed process left blocked. */
function createSweep(options: WorkerOptions, getRunningIds: () => number[]) {
  const { db, maxAttempts, leaseMs } = options;
  let sweptAt = 0;
  let cursor: ListingKey | undefined;
  return async (): Promise<void> => {
    try {
      // At the start, and after an outage or a suspension, let the other workers renew their leases first.
      if (Date.now() - sweptAt <= (2 / 3) * leaseMs)
        await rescueJobs(options, { maxAttempts, runningIds: getRunningIds() });
      cursor = await unblockMissedPayloads(db, cursor);
      sweptAt = Date.now();
    } catch (error) {
      sweptAt = isDatabaseOutage(error) ? 0 : Date.now();
      throw error;
    }
  };
}
