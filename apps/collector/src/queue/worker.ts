import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { BreakerView } from '@oselya/model';
import {
  startCountdown,
  createAutoResetEvent,
  settlesWithin,
  pause,
  repeat,
} from '../async/wait.ts';
import { claimJobs } from './claim.ts';
import { createHeartbeat } from './heartbeat.ts';
import type { Job } from './job-types.ts';
import { returnJobs, returnStrays } from './job-writes.ts';
import { createJobRunner, type RunnerOptions } from './job-runner.ts';

/** Specification 001, Limits. */
export const POLL_MS = 1000;

/** Maximum time to stop after the timeout of the jobs, in milliseconds. */
const GIVE_UP_MS = 1000;

/** Maximum interval between heartbeats. The default is a third of the lease. */
const MAX_HEARTBEAT_MS = 30_000;

/** Retry soon: a hung connection may already have used half of the lease. */
const HEARTBEAT_RETRY_MS = 1000;

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
  /** Maximum number of concurrent jobs. */
  slots: number;
  maxAttempts: number;
  pollMs?: number;
};

/** A running worker. */
export type Worker = {
  /** Wakes the worker: there may be work. */
  notify: () => void;
  /**
   * Stops claiming, waits at most `timeoutMs` for the jobs in progress, and returns the rest to the queue at no
   * cost. A
   * job that could not be returned within another second waits for its lease.
   */
  stop: (options: { timeoutMs: number }) => Promise<void>;
};

/** Creates the name that identifies a component of this process in claims. */
export function createClaimantName(part: string): string {
  return `${hostname()}/${process.pid}/${part}`;
}

/**
 * Starts a worker: while it has free slots and there is work it claims at once, and otherwise it waits for a
 * notification or the poll. Specification 001, Raw data status; Contract 4, Queue; docs/adr/0020-fair-share.md.
 */
export function startWorker(options: WorkerOptions): Worker {
  const { db, breaker, log, metrics, slots, leaseMs, mayClaim, pollMs = POLL_MS } = options;
  const name = createClaimantName(randomUUID().slice(0, 8));
  const wake = createAutoResetEvent();
  const stopping = new AbortController();
  const ended = new AbortController();
  const runner = createJobRunner(options);
  let freeSlots = slots;
  /** Jobs that are claimed but have no slot yet. */
  let ahead: Job[] = [];
  let endedSinceClaim = 0;
  let claimedAt = 0;
  let lastSource: string | undefined;
  /** Whether the table may have jobs of this worker that it does not know of: an outage lost their claims or ends. */
  let mayHaveStrays = false;

  const isHeldBack = () => breaker.isOpen || stopping.signal.aborted;

  function startAhead(): void {
    // Each start may begin a probe, which holds back the next one.
    while (freeSlots > 0 && !isHeldBack()) {
      const job = ahead.shift();
      if (job === undefined) return;
      void run(job);
    }
  }

  async function run(job: Job): Promise<void> {
    let hasSlot = true;
    freeSlots -= 1;
    const leaveSlot = () => {
      if (hasSlot) freeSlots += 1;
      hasSlot = false;
      startAhead();
      wake.set();
    };
    const outcome = await runner.run(job, {
      onProcessed() {
        endedSinceClaim += 1;
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

  /** Claims jobs for the free slots and starts them. Resolves to whether there may be more at once. */
  async function claim(): Promise<boolean> {
    // Bounds the jobs whose ends are still being written.
    const free = Math.min(freeSlots, 2 * (slots + MAX_AHEAD) - runner.size);
    if (free <= 0 || isHeldBack()) return false;
    if (mayClaim !== undefined && !(await mayClaim())) return false;
    if (mayHaveStrays) await returnLost();
    const count = free + Math.min(MAX_AHEAD, endedSinceClaim);
    endedSinceClaim = 0;
    claimedAt = performance.now();
    ahead = await claimJobs(db, { worker: name, leaseMs, count, lastSource });
    lastSource = ahead.at(-1)?.sourceSlug ?? lastSource;
    const hasClaimed = ahead.length > 0;
    // The breaker may have opened, or the worker been stopped, since.
    await returnAhead();
    startAhead();
    return hasClaimed;
  }

  async function claimUntilStopped(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await returnAhead();
        if (!(await claim())) await wake.wait(pollMs);
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

  const unsubscribe = breaker.onChange(wake.set);
  const claiming = claimUntilStopped();
  const heartbeat = createHeartbeat({
    ...options,
    renew: () => runner.renew(),
    onReleased: wake.set,
  });
  const beating = repeat(Math.min(MAX_HEARTBEAT_MS, leaseMs / 3), heartbeat, {
    signal: ended.signal,
    retryMs: HEARTBEAT_RETRY_MS,
    onError: (error) => log.warn({ err: error }, 'leases could not be renewed'),
  });

  return {
    notify: wake.set,
    async stop({ timeoutMs }) {
      const leftMs = startCountdown(timeoutMs + GIVE_UP_MS);
      stopping.abort();
      wake.set();
      await runner.end(timeoutMs, leftMs);
      ended.abort();
      unsubscribe();
      if (!(await settlesWithin(Promise.all([claiming, beating]), leftMs()))) {
        log.warn('the database did not answer a worker that ends');
      }
    },
  };
}
