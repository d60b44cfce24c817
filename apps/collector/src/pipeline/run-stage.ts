import { ModelError } from '@oselya/model';
import { LeaseLostError } from '../queue/job.ts';
import { pause } from '../async/repeat.ts';
import type { Context, StageDeps } from './context.ts';
import { skipped, StageTimeoutError } from './outcome.ts';
import { PICTURE_STAGES, type Stage, type StageResult } from './stage.ts';

const RETRY_DELAY_MS = 200;

/**
 * Runs a stage within its time, and again while it fails and has attempts left: for a database that
 * failed for a moment. The model client has its own attempts, so its errors are final here. One that the
 * payload does not need is skipped.
 * @throws Whatever the last attempt threw; StageTimeoutError where it took too long.
 */
export async function runStage(
  stage: Stage,
  context: Context,
  deps: StageDeps,
  signal: AbortSignal,
): Promise<StageResult> {
  if (context.products.onlyPictures === true && !PICTURE_STAGES.has(stage.name)) return skipped;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await runWithinTime(stage, context, deps, signal);
    } catch (error) {
      const final =
        error instanceof ModelError ||
        error instanceof LeaseLostError ||
        error instanceof StageTimeoutError;
      if (final || signal.aborted || attempt >= stage.attempts) throw error;
      await pause(RETRY_DELAY_MS * attempt, signal);
    }
  }
}

/**
 * A stage that does not heed its signal is left behind. What it would still write is refused, because
 * the claim ends with the job.
 */
async function runWithinTime(
  stage: Stage,
  context: Context,
  deps: StageDeps,
  signal: AbortSignal,
): Promise<StageResult> {
  signal.throwIfAborted();
  const late = new AbortController();
  const limited = AbortSignal.any([signal, late.signal]);
  const cut = Promise.withResolvers<never>();
  limited.addEventListener('abort', () => cut.reject(limited.reason), { once: true });
  const timer = setTimeout(() => {
    const seconds = stage.timeoutMs / 1000;
    late.abort(new StageTimeoutError(`The stage "${stage.name}" took longer than ${seconds} s.`));
  }, stage.timeoutMs);
  try {
    return await Promise.race([stage.run(context, deps, limited), cut.promise]);
  } finally {
    clearTimeout(timer);
  }
}
