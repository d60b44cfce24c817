import { isDatabaseOutage } from '@oselya/db';
import { ModelError } from '@oselya/model';
import { pause } from '../async/repeat.ts';
import { isDiskLow } from '../disk/disk.ts';
import { StoreOutageError } from '../images/index.ts';
import {
  LeaseLostError,
  outlastOutages,
  type Patience,
  RepeatedOutageError,
} from '../queue/index.ts';
import type { Context, StageDeps } from './context.ts';
import { skipped, StageTimeoutError } from './outcome.ts';
import { PICTURE_STAGES, type Stage, type StageResult } from './stage.ts';

const RETRY_DELAY_MS = 200;

/**
 * Runs a stage within its time, and again while it fails and has attempts left: for what failed for a moment. An
 * outage of the database takes none of them, it is waited out. The clients of the model and of the image store have
 * their own attempts, so their errors are final here. A stage that the payload does not need is skipped.
 * @param patience How long outages of the database may be waited for.
 * @throws Whatever the last attempt threw; StageTimeoutError where it took too long.
 */
export async function runStage(
  stage: Stage,
  context: Context,
  deps: StageDeps,
  { signal, patience }: Patience,
): Promise<StageResult> {
  if (context.products.onlyPictures === true && !PICTURE_STAGES.has(stage.name)) return skipped;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await outlastOutages(deps, () => runWithinTime(stage, context, deps, signal), {
        signal,
        patience,
      });
    } catch (error) {
      if (isFinal(error) || signal.aborted || attempt >= stage.attempts) throw error;
      await pause(RETRY_DELAY_MS * attempt, signal);
    }
  }
}

/** Whether an error stays the same however often the stage is tried. */
function isFinal(error: unknown): boolean {
  return (
    error instanceof ModelError ||
    error instanceof StoreOutageError ||
    error instanceof LeaseLostError ||
    error instanceof StageTimeoutError ||
    error instanceof RepeatedOutageError ||
    isDatabaseOutage(error) ||
    isDiskLow(error)
  );
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
  // No `AbortSignal.any`: Node keeps one that somebody listens to for as long as it has not been aborted.
  const ending = new AbortController();
  const end = () => ending.abort(signal.reason);
  signal.addEventListener('abort', end);
  const cut = Promise.withResolvers<never>();
  ending.signal.addEventListener('abort', () => cut.reject(ending.signal.reason));
  const timer = setTimeout(() => {
    const seconds = stage.timeoutMs / 1000;
    ending.abort(new StageTimeoutError(`The stage "${stage.name}" took longer than ${seconds} s.`));
  }, stage.timeoutMs);
  try {
    return await Promise.race([stage.run(context, deps, ending.signal), cut.promise]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
  }
}
