import { isDatabaseOutage } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import { pause } from '../async/repeat.ts';
import type { Agenda, WaitStep } from './agenda.ts';
import type { AutoResetEvent } from './auto-reset-event.ts';
import type { Claims } from './claims.ts';
import type { GiveBack } from './give-back.ts';
import type { Job } from './job.ts';
import type { Slot, Slots } from './slots.ts';

/** After a claim that failed a word is not listened to for so long: there may be many while the database is away. */
const UNHEARD_MS = 100;

/** What the claims of one worker are made with. */
type ClaimLoopDeps = {
  agenda: Agenda;
  claims: Claims;
  slots: Slots;
  back: GiveBack;
  /** Set by every word that there may be something to do. */
  wake: Pick<AutoResetEvent, 'wait'>;
  /** Asked before each claim. */
  mayClaim: () => Promise<boolean>;
  /** Works on a job that was claimed, as {@link Slots.run} has it. */
  work: (slot: Slot, leave: () => void) => Promise<void>;
  log: Pick<Logger, 'error'>;
};

/**
 * Claims and waits, as the agenda says, until that says to stop; what was claimed is begun in the slots, or given back
 * where it may not be begun any more. A claim that fails is for the log, and for the agenda.
 * @param stopping Aborted when the worker stops.
 */
export async function claimUntilStopped(deps: ClaimLoopDeps, stopping: AbortSignal): Promise<void> {
  const { agenda, claims, slots, back, wake, mayClaim, work, log } = deps;

  /** Starts what was claimed, unless that may not be any more. */
  async function begin(jobs: readonly Job[], isExtra: boolean): Promise<void> {
    // While the claim was on its way.
    if (stopping.aborted || agenda.isKeptBack()) {
      agenda.refused();
      await back.give(jobs);
      return;
    }
    for (const job of jobs) slots.run(job, work, { isExtra });
  }

  async function claim(): Promise<void> {
    // The answer may take a moment.
    if (!(await mayClaim())) return agenda.refused();
    if (agenda.next().do !== 'claim') return;
    await back.strays(slots.all());
    const leftOut = agenda.claiming();
    const isBeyond = slots.free <= 0;
    const jobs = await claims.next(leftOut);
    if (jobs === undefined) return agenda.refused();
    const isEmpty = jobs.length === 0;
    agenda.claimed({ isEmpty, leftOut, isBeyond });
    if (!isEmpty) await begin(jobs, isBeyond);
  }

  async function tryClaim(): Promise<void> {
    try {
      await claim();
    } catch (error) {
      agenda.failed();
      if (isDatabaseOutage(error)) back.noteOutage();
      log.error({ err: error }, 'a job could not be claimed');
    }
  }

  async function wait({ do: kind, ms }: WaitStep): Promise<void> {
    const unheardMs = kind === 'pause' ? Math.min(ms, UNHEARD_MS) : 0;
    if (unheardMs > 0) await pause(unheardMs, stopping);
    await wake.wait(ms - unheardMs);
    agenda.woke();
  }

  for (let step = agenda.next(); step.do !== 'stop'; step = agenda.next()) {
    await ('ms' in step ? wait(step) : tryClaim());
  }
}
