import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { BreakerView } from '@oselya/model';
import { settlesWithin, pause } from '../async/wait.ts';
import { claimJobs, releaseMissedListings } from './claim.ts';
import { type Job, type ListingKey, getJobLogFields } from './job-types.ts';
import { createJobRunner, repeatPerLease, type RunnerOptions } from './job-runner.ts';
import { rescueJobs, returnJobs, returnStrays } from './job-writes.ts';

export const POLL_MS = 1000;

/** Maximum time to stop after the timeout of the jobs. */
const MAX_STOP_MS = 1000;

/**
 * Maximum number of jobs claimed ahead of free slots, to keep up with fast jobs. Jobs without a slot after
 * `MAX_AHEAD_MS` return to the queue.
 */
const MAX_AHEAD = 100;
const MAX_AHEAD_MS = 1000;

export type WorkerOptions = RunnerOptions & {
  /** While it is open or probing, the worker claims nothing. */
  breaker: BreakerView;
  /** Checks before each claim whether all other dependencies are available. */
  mayClaim?: () => Promise<boolean>;
  slots: number;
  maxAttempts: number;
  pollMs?: number;
};

/** A running worker. */
export type Worker = ReturnType<typeof startWorker>;

/** Creates the name that identifies a component of this process in claims. */
export function createClaimantName(part: string): string {
  return `${hostname()}/${process.pid}/${part}`;
}

/**
 * Starts a worker. It claims again at once while it has free slots and jobs are pending, and otherwise waits for a
 * notification or the poll. Specification 001, Raw data status; Contract 4, Queue; docs/adr/0020-fair-share.md.
 */
export function startWorker(options: WorkerOptions) {
  const { db, breaker, log, metrics, slots, leaseMs, mayClaim, pollMs = POLL_MS } = options;
  const name = createClaimantName(randomUUID().slice(0, 8));
  const stopping = new AbortController();
  const runner = createJobRunner(options);
  const inSlots = new Set<Job>();
  /** Claimed jobs without a slot. */
  let ahead: Job[] = [];
  let jobsEndedSinceClaim = 0;
  let claimedAt = 0;
  let lastSource: string | undefined;
  /** Whether an outage may have hidden a successful claim, or prevented the return of a job. */
  let mayHaveStrays = false;
  let woken = Promise.withResolvers<void>();
  const wake = () => woken.resolve();

  const isHeldBack = () => breaker.isOpen || stopping.signal.aborted;

  function startAhead(): void {
    // Each job may begin a probe, which holds back the next job.
    while (inSlots.size < slots && !isHeldBack()) {
      const job = ahead.shift();
      if (job === undefined) return;
      void run(job);
    }
  }

  async function run(job: Job): Promise<void> {
    inSlots.add(job);
    const leaveSlot = () => {
      inSlots.delete(job);
      startAhead();
      wake();
    };
    const outcome = await runner.run(job, {
      onProcessed() {
        jobsEndedSinceClaim += 1;
        leaveSlot();
      },
    });
    if (outcome === 'lost') mayHaveStrays = true;
    leaveSlot();
  }

  /** Returns the jobs that were claimed ahead and should not wait any longer. */
  async function returnAhead(): Promise<void> {
    const isLate = performance.now() - claimedAt > MAX_AHEAD_MS;
    if (ahead.length === 0 || !(isLate || isHeldBack())) return;
    const back = await returnJobs(db, ahead.splice(0));
    metrics.jobs.inc({ outcome: 'returned' }, back.size);
  }

  async function returnLost(): Promise<void> {
    const known = [...runner.ids(), ...ahead.map(({ rawId }) => rawId)];
    const strays = await returnStrays(db, name, known);
    mayHaveStrays = false;
    if (strays.size === 0) return;
    log.warn({ raw_ids: [...strays] }, 'jobs lost in an outage were returned');
    metrics.jobs.inc({ outcome: 'returned' }, strays.size);
  }

  /** Claims jobs for the free slots and starts them. Resolves to whether it claimed any. */
  async function claim(): Promise<boolean> {
    // Bounds the jobs whose outcomes are still being stored.
    const free = Math.min(slots - inSlots.size, 2 * (slots + MAX_AHEAD) - runner.size);
    if (free <= 0 || isHeldBack()) return false;
    if (mayClaim !== undefined && !(await mayClaim())) return false;
    if (mayHaveStrays) await returnLost();
    const count = free + Math.min(MAX_AHEAD, jobsEndedSinceClaim);
    jobsEndedSinceClaim = 0;
    claimedAt = performance.now();
    ahead = await claimJobs(db, { worker: name, leaseMs, count, lastSource });
    lastSource = ahead.at(-1)?.sourceSlug ?? lastSource;
    const hasClaimed = ahead.length > 0;
    // The breaker may have opened, or the worker may have been stopped, during the claim.
    await returnAhead();
    startAhead();
    return hasClaimed;
  }

  async function claimUntilStopped(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await returnAhead();
        if (await claim()) continue;
        await settlesWithin(woken.promise, pollMs);
        woken = Promise.withResolvers();
      } catch (error) {
        mayHaveStrays = true;
        log.error({ err: error }, 'a job could not be claimed');
        await pause(pollMs, stopping.signal);
      }
    }
    await returnAhead().catch((error: unknown) =>
      log.error({ err: error }, 'jobs could not be returned: their leases expire'),
    );
  }

  const unsubscribe = breaker.onChange(wake);
  const claiming = claimUntilStopped();
  const sweeping = repeatPerLease(leaseMs, createSweep(options, wake), {
    signal: stopping.signal,
    onError: (error) => log.warn({ err: error }, 'jobs of lost workers could not be rescued'),
  });

  return {
    /** Wakes the worker to claim new jobs. */
    notify: wake,
    /**
     * Stops claiming, waits at most `timeoutMs` for the jobs in progress, and returns the rest to the queue at no cost.
     * A job that could not be returned within another second waits for its lease.
     */
    async stop({ timeoutMs }: { timeoutMs: number }): Promise<void> {
      stopping.abort();
      wake();
      unsubscribe();
      await Promise.all([
        settlesWithin(Promise.all([claiming, sweeping]), timeoutMs + MAX_STOP_MS),
        runner.close({ timeoutMs }),
      ]);
    },
  };
}

/** Creates a sweep, which rescues the jobs of lost workers, and releases payloads whose release a killed process missed. */
function createSweep({ db, log, maxAttempts }: WorkerOptions, onReleased: () => void) {
  let hasFailed = false;
  let cursor: ListingKey | undefined;
  return async (): Promise<void> => {
    // No worker can renew its leases during an outage, so the first sweep after it rescues nothing.
    const mayRescue = !hasFailed;
    hasFailed = true;
    const rescued = mayRescue ? await rescueJobs(db, maxAttempts) : [];
    for (const { status, ...job } of rescued) {
      log.warn({ ...getJobLogFields(job), status }, 'the worker of a job was lost');
    }
    const { released, next } = await releaseMissedListings(db, cursor);
    hasFailed = false;
    cursor = next;
    if (rescued.length + released > 0) onReleased();
  };
}
