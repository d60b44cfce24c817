import { ModelError } from '@oselya/model';
import type { ErrorCode } from '../errors.ts';
import type { RawError } from '../tables.ts';
import { isDiskLow } from '../free-disk-space.ts';
import { StoreOutageError } from '../images/store.ts';
import { storableMessage } from '../text.ts';
import type { PipelineOutcome, StageName, StageResult } from './context.ts';

const STORE_FAILED = 'The image store failed to store or read the images; the log has more.';

/** Delay of a job after an open breaker or a full disk, during which no job is claimed. */
const SHORT_RETRY_MS = 1000;

/** Result of a stage that ran to its end. */
export const done: StageResult = { outcome: 'done' };
/** Result of a stage that had nothing to do. */
export const skipped: StageResult = { outcome: 'skipped' };
/** Outcome of a completed job. Specification 001, Raw data status. */
export const completed: PipelineOutcome = { status: 'completed', error: null };
/** Result for a payload whose content the listing already reflects. */
export const unchanged: StageResult = { outcome: 'unchanged', jobOutcome: completed };
/** Result for an unchanged payload with missing images: the image stages still run. */
export const unchangedText: StageResult = { outcome: 'unchanged' };
/** Result for a payload that is older than the listing's latest one. */
export const superseded: StageResult = { outcome: 'superseded', jobOutcome: completed };

/** Creates the result for a payload that is not a property listing. */
export function invalid(code: ErrorCode, message: string, stage: StageName): StageResult {
  return {
    outcome: 'invalid',
    jobOutcome: { status: 'invalid', error: rawError(code, message, stage) },
  };
}

/** A stage exceeded its timeout. */
export class StageTimeoutError extends Error {
  override readonly name = 'StageTimeoutError';
}

/**
 * Converts an error of a stage to a result. An outage of the model or the image store postpones the job, unless
 * the job cannot wait or causes the outages (docs/adr/0010-outages-of-the-model.md).
 * @param options.canWait Whether the job may go back to the queue.
 * @param options.isCause Returns whether the job itself causes the outage.
 * @param options.retryMs Delay of a job after a server failure, in milliseconds.
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

/** Messages can contain text of models and servers, so they are sanitized for storage. */
function rawError(code: ErrorCode, message: string, stage: StageName): RawError {
  return { code, message: storableMessage(message), stage };
}
