import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { isDatabaseOutage } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import type { BreakerView } from '@oselya/model';
import type { Kysely } from 'kysely';
import { countDown, inTime, createAutoResetEvent, pause, repeat } from '../async/wait.ts';
import type { Tables } from '../tables.ts';
import type { Metrics } from '../metrics.ts';
import { claimJobs, releaseMissed } from './claim.ts';
import { type Job, type ListingKey, logFieldsOf, type ProcessJob, ReturnedError } from './job.ts';
import { rescueJobs, returnJobs, returnStrays } from './jobs.ts';
import { createJobRunner } from './run-jobs.ts';

/** Specification 001, Limits. */
export const POLL_MS = 1000;

/** How long a stop may take beyond the time that jobs have. */
const GIVE_UP_MS = 1000;

/** Leases are renewed, and lost jobs looked for, three times a lease, and at least so often. */
const MAX_HEARTBEAT_MS = 30_000;

/** A connection that hangs has used up half of a lease by the time that a renewal fails. */
const HEARTBEAT_RETRY_MS = 1000;

/**
 * Where jobs end within milliseconds, a claim takes as many beside those for free slots as ended since the claim
 * before, at most so many. What gets no slot within the time goes back: other workers may have one.
 */
const MAX_AHEAD = 100;
const MAX_AHEAD_MS = 1000;

/** What a worker works with. */
export type WorkerOptions = {
  db: Kysely<Tables>;
  process: ProcessJob;
  /** Nothing is claimed while it is open, nor while its probe is on its way. */
  breaker: BreakerView;
  /** Tells before each claim whether what else jobs need is available. */
  mayClaim?: () => Promise<boolean>;
  metrics: Pick<Metrics, 'jobs'>;
  log: Logger;
  /** Jobs in progress at once. */
  slots: number;
  leaseMs: number;
  maxAttempts: number;
  pollMs?: number;
  /** How long a stop may take beyond the time that jobs have; a second by default. */
  giveUpMs?: number;
};

/** A worker that was started. */
export type Worker = {
  /** Wakes the worker: there may be work. */
  notify: () => void;
  /**
   * Stops claiming, waits `timeoutMs` at most for the jobs in progress, and returns the rest to the queue at no cost.
   * It takes no longer than `giveUpMs` more; what could not be returned by then waits for its lease.
   */
  stop: (options: { timeoutMs: number }) => Promise<void>;
};

/** Returns the name of a part of this process in claims. */
export function processName(part: string): string {
  return `${hostname()}/${process.pid}/${part}`;
}

/** Returns how often a worker renews its leases and looks for lost jobs. */
export function heartbeatMs(leaseMs: number): number {
  return Math.min(MAX_HEARTBEAT_MS, leaseMs / 3);
}

/**
 * Starts a worker: while it has free slots and there is work it claims at once, and else it waits for a notification
 * or the poll. Specification 001, Raw data status; Contract 4, Queue; docs/adr/0020-fair-share.md.
 */
export function startWorker(options: WorkerOptions): Worker {
  const { db, breaker, log, metrics, slots, leaseMs, maxAttempts } = options;
  const { mayClaim, pollMs = POLL_MS, giveUpMs = GIVE_UP_MS } = options;
  const name = processName(randomUUID().slice(0, 8));
  const wake = createAutoResetEvent();
  const stopping = new AbortController();
  const ended = new AbortController();
  const runner = createJobRunner(options);
  /** Jobs that are being processed; others are in progress until their ends are written. */
  let processing = 0;
  /** Jobs that were claimed and have no slot yet. */
  let ahead: Job[] = [];
  let endedSinceClaim = 0;
  let claimedAt = 0;
  let lastSource: string | undefined;
  /** Whether the table may have jobs of this worker that it does not know of: an outage lost their claims or ends. */
  let mayHaveStrays = false;
  let wasAway = false;
  let sweptTo: ListingKey | undefined;

  const isHeldBack = () => breaker.isOpen;
  const freeSlots = () => Math.min(slots - processing, 2 * (slots + MAX_AHEAD) - runner.size);

  function startAhead(): void {
    while (processing < slots && ahead.length > 0 && !stopping.signal.aborted && !isHeldBack()) {
      const [job] = ahead.splice(0, 1);
      if (job !== undefined) start(job);
    }
  }

  function start(job: Job): void {
    processing += 1;
    let inSlot = true;
    const leave = () => {
      if (!inSlot) return;
      inSlot = false;
      processing -= 1;
      startAhead();
      wake.set();
    };
    const onProcessed = () => {
      endedSinceClaim += 1;
      leave();
    };
    void (async () => {
      const outcome = await runner.run(job, { onProcessed });
      if (outcome === 'lost') mayHaveStrays = true;
      leave();
      wake.set();
    })();
  }

  /** Returns the jobs that were claimed ahead and should not wait any longer. */
  async function giveBackAhead(): Promise<void> {
    const isLate = performance.now() - claimedAt > MAX_AHEAD_MS;
    if (ahead.length === 0 || !(isLate || isHeldBack() || stopping.signal.aborted)) return;
    const back = await returnJobs(db, ahead.splice(0));
    metrics.jobs.inc({ outcome: 'returned' }, back.size);
  }

  async function returnStraysOnce(): Promise<void> {
    if (!mayHaveStrays) return;
    const known = [...runner.ids(), ...ahead.map(({ rawId }) => rawId)];
    const strays = await returnStrays(db, name, known);
    mayHaveStrays = false;
    if (strays.size === 0) return;
    log.warn({ raw_ids: [...strays] }, 'jobs lost in an outage were returned');
    metrics.jobs.inc({ outcome: 'returned' }, strays.size);
  }

  /** Claims jobs for the free slots and starts them. Resolves to whether there may be more at once. */
  async function claim(): Promise<boolean> {
    if (freeSlots() <= 0 || isHeldBack()) return false;
    if (mayClaim !== undefined && !(await mayClaim())) return false;
    await returnStraysOnce();
    const count = freeSlots() + Math.min(MAX_AHEAD, endedSinceClaim);
    endedSinceClaim = 0;
    claimedAt = performance.now();
    const jobs = await claimJobs(db, { worker: name, leaseMs, count, lastSource });
    lastSource = jobs.at(-1)?.sourceSlug ?? lastSource;
    ahead = jobs;
    // The breaker may have opened, or the worker been stopped, since.
    await giveBackAhead();
    startAhead();
    return jobs.length > 0;
  }

  async function claimUntilStopped(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await giveBackAhead();
        if (!(await claim())) await wake.wait(pollMs);
      } catch (error) {
        mayHaveStrays = true;
        log.error({ err: error }, 'a job could not be claimed');
        await pause(pollMs, stopping.signal);
      }
    }
    await giveBackAhead().catch((error: unknown) =>
      log.error({ err: error }, 'jobs could not be returned: their leases expire'),
    );
  }

  async function heartbeat(): Promise<void> {
    try {
      await runner.renew();
      // While the database was away nobody could renew: the first look afterwards takes no lease for lost.
      const rescued = wasAway ? [] : await rescueJobs(db, maxAttempts);
      wasAway = false;
      for (const { status, ...job } of rescued) {
        log.warn({ ...logFieldsOf(job), status }, 'the worker of a job was lost');
      }
      const { released, next } = await releaseMissed(db, sweptTo);
      sweptTo = next;
      if (rescued.length + released > 0) wake.set();
    } catch (error) {
      wasAway ||= isDatabaseOutage(error);
      throw error;
    }
  }

  /** Returns the jobs that are still in progress, and aborts them. */
  async function giveUp(leftMs: () => number): Promise<void> {
    let returned: ReadonlySet<number> = new Set();
    const returning = runner.giveBack().then((ids) => (returned = ids));
    await inTime(returning, leftMs()).catch((error: unknown) =>
      log.error({ err: error }, 'jobs could not be returned: their leases expire'),
    );
    runner.abort((job) =>
      returned.has(job.rawId) ? new ReturnedError(job) : new Error('The worker is shutting down'),
    );
    await runner.ended(leftMs());
  }

  const forgetBreaker = breaker.onChange(wake.set);
  const looping = claimUntilStopped();
  const beating = repeat(heartbeatMs(leaseMs), heartbeat, {
    signal: ended.signal,
    retryMs: HEARTBEAT_RETRY_MS,
    onError: (error) => log.warn({ err: error }, 'leases could not be renewed'),
  });

  return {
    notify: wake.set,
    async stop({ timeoutMs }) {
      const leftMs = countDown(timeoutMs + giveUpMs);
      stopping.abort();
      wake.set();
      if (!(await runner.ended(timeoutMs))) await giveUp(leftMs);
      ended.abort();
      forgetBreaker();
      if (!(await inTime(Promise.all([looping, beating]), leftMs()))) {
        log.warn('the database did not answer a worker that ends');
      }
    },
  };
}
