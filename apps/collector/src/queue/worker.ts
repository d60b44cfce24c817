import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { isDatabaseOutage } from '@oselya/db';
import type { BreakerView } from '@oselya/model';
import { waitWithTimeout, pause } from '../async/wait.ts';
import { claimJobs, releaseMissedListings } from './claim.ts';
import { type Job, type ListingKey, getJobLogFields } from './job-types.ts';
import { createJobRunner, type RunnerOptions } from './job-runner.ts';
import { rescueJobs, returnJobs, returnStrays } from './job-writes.ts';

export const POLL_MS = 1000;

/** Time limit of a stop after the timeout of its jobs. */
const MAX_STOP_MS = 1000;

/** Maximum number of jobs claimed ahead of free slots. After `MAX_PREFETCH_MS`, they return to the queue. */
const MAX_PREFETCHED_JOBS = 100;
const MAX_PREFETCH_MS = 1000;

export type WorkerOptions = RunnerOptions & {
  /** The worker claims nothing while the breaker is open or probes. */
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
 * Starts a worker. It claims again immediately while it has free slots and jobs are pending, and otherwise waits for a
 * notification or the poll. Specification 001, Raw data status; Contract 4, Queue; docs/adr/0020-fair-share.md.
 */
export function startWorker(options: WorkerOptions) {
  const { db, breaker, log, metrics, slots, leaseMs, canClaim, pollMs = POLL_MS } = options;
  const name = createClaimantName(randomUUID().slice(0, 8));
  const stopping = new AbortController();
  const jobsInSlots = new Set<Job>();
  let prefetchedJobs: Job[] = [];
  let jobsEndedSinceClaim = 0;
  let claimedAt = 0;
  let lastSource: string | undefined;
  /** Whether an outage may have hidden a successful claim, or prevented the return of a job. */
  let canHaveStrayJobs = false;
  let wakeSignal = Promise.withResolvers<void>();
  const wake = () => wakeSignal.resolve();
  const runner = createJobRunner(options, createSweep(options, wake));

  const isPaused = () => breaker.isOpen || stopping.signal.aborted;

  function startPrefetchedJobs(): void {
    // Each job may begin a probe, which pauses the worker.
    while (jobsInSlots.size < slots && !isPaused()) {
      const job = prefetchedJobs.shift();
      if (job === undefined) return;
      void run(job);
    }
  }

  async function run(job: Job): Promise<void> {
    jobsInSlots.add(job);
    const freeSlot = () => {
      jobsInSlots.delete(job);
      startPrefetchedJobs();
      wake();
    };
    const outcome = await runner.run(job, {
      onProcessed() {
        jobsEndedSinceClaim += 1;
        freeSlot();
      },
    });
    if (outcome === 'lost') canHaveStrayJobs = true;
    freeSlot();
  }

  /** Returns prefetched jobs to the queue if they are late, or if the worker is paused. */
  async function returnPrefetchedJobs(): Promise<void> {
    const isLate = performance.now() - claimedAt > MAX_PREFETCH_MS;
    if (prefetchedJobs.length === 0 || !(isLate || isPaused())) return;
    const returnedIds = await returnJobs(db, prefetchedJobs.splice(0));
    metrics.jobs.inc({ outcome: 'returned' }, returnedIds.size);
  }

  async function returnStrayJobs(): Promise<void> {
    const knownIds = [...runner.getRawIds(), ...prefetchedJobs.map(({ rawId }) => rawId)];
    const strayIds = await returnStrays(db, name, knownIds);
    canHaveStrayJobs = false;
    if (strayIds.size === 0) return;
    log.warn({ raw_ids: [...strayIds] }, 'jobs lost in an outage were returned');
    metrics.jobs.inc({ outcome: 'returned' }, strayIds.size);
  }

  /** Claims jobs for the free slots and starts them. Returns whether it claimed any. */
  async function claim(): Promise<boolean> {
    // Bounds the jobs whose outcomes are still being stored.
    const freeSlotCount = Math.min(
      slots - jobsInSlots.size,
      2 * (slots + MAX_PREFETCHED_JOBS) - runner.size,
    );
    if (freeSlotCount <= 0 || isPaused()) return false;
    if (canClaim !== undefined && !(await canClaim())) return false;
    if (canHaveStrayJobs) await returnStrayJobs();
    const count = freeSlotCount + Math.min(MAX_PREFETCHED_JOBS, jobsEndedSinceClaim);
    jobsEndedSinceClaim = 0;
    claimedAt = performance.now();
    prefetchedJobs = await claimJobs(db, { worker: name, leaseMs, count, lastSource });
    lastSource = prefetchedJobs.at(-1)?.sourceSlug ?? lastSource;
    const hasClaimed = prefetchedJobs.length > 0;
    // The breaker may have opened, or the worker may have been stopped, during the claim.
    await returnPrefetchedJobs();
    startPrefetchedJobs();
    return hasClaimed;
  }

  async function claimUntilStopped(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await returnPrefetchedJobs();
        if (await claim()) continue;
        await waitWithTimeout(wakeSignal.promise, pollMs);
        wakeSignal = Promise.withResolvers();
      } catch (error) {
        canHaveStrayJobs = true;
        log.error({ err: error }, 'a job could not be claimed');
        await pause(pollMs, stopping.signal);
      }
    }
    await returnPrefetchedJobs().catch((error: unknown) =>
      log.error({ err: error }, 'jobs could not be returned: their leases expire'),
    );
  }

  const unsubscribe = breaker.onChange(wake);
  const claimLoop = claimUntilStopped();

  return {
    /** Wakes the worker to claim new jobs. */
    notify: wake,
    /**
     * Stops claiming, waits at most `timeoutMs` for the jobs in progress, and returns the others to the queue without
     * using an attempt. A job that cannot be returned within another second waits for its lease to expire.
     */
    async stop({ timeoutMs }: { timeoutMs: number }): Promise<void> {
      stopping.abort();
      wake();
      unsubscribe();
      await Promise.all([
        waitWithTimeout(claimLoop, timeoutMs + MAX_STOP_MS),
        runner.close({ timeoutMs }),
      ]);
    },
  };
}

/**
 * Creates a sweep, which rescues the jobs of lost workers, and releases payloads that a killed process left waiting.
 * It first renews the leases of this worker, which expire while its process is frozen.
 */
function createSweep({ db, log, maxAttempts, leaseMs }: WorkerOptions, onReleased: () => void) {
  let sweptAt = Date.now();
  let cursor: ListingKey | undefined;
  return async (renew: () => Promise<void>): Promise<void> => {
    try {
      await renew();
      // After an outage or a frozen process, the other workers must renew their leases first.
      const wasInterrupted = Date.now() - sweptAt > leaseMs;
      const rescuedJobs = wasInterrupted ? [] : await rescueJobs(db, maxAttempts);
      sweptAt = Date.now();
      for (const { status, ...job } of rescuedJobs) {
        log.warn({ ...getJobLogFields(job), status }, 'the worker of a job was lost');
      }
      const { releasedCount, nextCursor } = await releaseMissedListings(db, cursor);
      cursor = nextCursor;
      if (rescuedJobs.length + releasedCount > 0) onReleased();
    } catch (error) {
      if (isDatabaseOutage(error)) sweptAt = 0;
      throw error;
    }
  };
}
