import { ModelError } from '@oselya/model';
import type { ErrorCode } from '../errors.ts';
import type { RawError } from '../tables.ts';
import { isDiskLow } from '../disk.ts';
import { StoreOutageError } from '../images/store.ts';
import { storableMessage } from '../text.ts';
import type { PipelineOutcome, StageName, StageResult } from './context.ts';

const STORE_FAILED = 'The image store failed to store or read the images; the log has more.';

/** How long a job waits that the breaker rejected, or that met a full disk; nothing is claimed meanwhile. */
const SHORT_RETRY_MS = 1000;

/** The stage did its work. */
export const done: StageResult = { outcome: 'done' };
/** The stage had nothing to do. */
export const skipped: StageResult = { outcome: 'skipped' };
/** All is done that the payload asks for. Specification 001, Raw data status. */
export const completed: PipelineOutcome = { status: 'completed', error: null };
/** The listing was made from the same payload last. */
export const unchanged: StageResult = { outcome: 'unchanged', jobOutcome: completed };
/** The same, but some images are missing: the stages of images go on. */
export const unchangedText: StageResult = { outcome: 'unchanged' };
/** The listing was made from a newer payload. */
export const superseded: StageResult = { outcome: 'superseded', jobOutcome: completed };

/** Returns the result for a payload that is no property listing. */
export function invalid(code: ErrorCode, message: string, stage: StageName): StageResult {
  return {
    outcome: 'invalid',
    jobOutcome: { status: 'invalid', error: rawError(code, message, stage) },
  };
}

/** A stage did not end in its time. */
export class StageTimeoutError extends Error {
  override readonly name = 'StageTimeoutError';
}

/**
 * Returns what an error of a stage means for its job. An outage of the model or of the image store postpones the job,
 * unless it cannot wait, or has met so many outages that it causes them (docs/adr/0010-outages-of-the-model.md).
 * @param options.canWait Whether the job may go back to the queue.
 * @param options.isCause Tells whether the job causes an outage.
 * @param options.retryMs How long a job waits on which a server failed: others go first.
 */
export function toFailureResult(
  error: unknown,
  stage: StageName,
  options: { canWait: boolean; isCause: (outage: object) => boolean; retryMs: number },
): StageResult {
  const { canWait, isCause, retryMs } = options;
  const shortMs = Math.min(SHORT_RETRY_MS, retryMs);
  if (isDiskLow(error)) return postponed(shortMs);
  if (error instanceof ModelError || error instanceof StoreOutageError) {
    const { outage, retryable } = error;
    const isModel = error instanceof ModelError;
    const reason = isModel
      ? rawError('model_unavailable', error.message, stage)
      : rawError('image_store_unavailable', STORE_FAILED, stage);
    if (canWait && retryable && !(outage !== undefined && isCause(outage))) {
      return postponed(outage === undefined ? shortMs : retryMs, reason);
    }
    return failed(isModel ? { ...reason, code: 'model_failed' } : reason);
  }
  return failed(
    error instanceof StageTimeoutError
      ? rawError('stage_timed_out', error.message, stage)
      : rawError('internal_error', `The stage "${stage}" failed; the log has more.`, stage),
  );
}

function postponed(retryMs: number, error?: RawError): StageResult {
  return {
    outcome: 'postponed',
    jobOutcome: { status: 'postponed', retryMs, ...(error && { error }) },
  };
}

function failed(error: RawError): StageResult {
  return { outcome: 'failed', jobOutcome: { status: 'failed', error } };
}

/** Messages come from models and servers. */
function rawError(code: ErrorCode, message: string, stage: StageName): RawError {
  return { code, message: storableMessage(message), stage };
}
