import { ModelError } from '@oselya/model';
import type { ErrorCode } from '../errors.ts';
import type { RawError } from '../tables.ts';
import { isDiskLow } from '../free-disk-space.ts';
import { StoreOutageError } from '../images/store.ts';
import type { JobOutcome } from '../queue/job-types.ts';
import { toStorableMessage } from '../text.ts';
import type { StageName, StageResult } from './context.ts';

/**
 * Delay after an open breaker, low disk space, or a wait for the model server's context. It is short, because the first
 * two prevent all claims of the process.
 */
const SHORT_RETRY_MS = 1000;

export const DONE_RESULT: StageResult = { outcome: 'done' };
export const SKIPPED_RESULT: StageResult = { outcome: 'skipped' };
/** Outcome of a job that completed. Specification 001, Raw data status. */
export const COMPLETED_OUTCOME: JobOutcome = { status: 'completed' };
/** Result for content that the listing already reflects. */
export const UNCHANGED_RESULT: StageResult = {
  outcome: 'unchanged',
  jobOutcome: COMPLETED_OUTCOME,
};
/** Result for unchanged content whose images are missing or are described again. The image stages still run. */
export const UNCHANGED_TEXT_RESULT: StageResult = { outcome: 'unchanged' };
/** Result for a payload that is older than the latest payload of the listing. */
export const SUPERSEDED_RESULT: StageResult = {
  outcome: 'superseded',
  jobOutcome: COMPLETED_OUTCOME,
};

/** Creates the result for a payload that is not a property listing. */
export function createInvalidResult(
  code: ErrorCode,
  message: string,
  stage: StageName,
): StageResult {
  return {
    outcome: 'invalid',
    jobOutcome: { status: 'invalid', error: createRawError(code, message, stage) },
  };
}

export class StageTimeoutError extends Error {
  override readonly name = 'StageTimeoutError';
}

/**
 * Converts a stage error to a result. Low disk space postpones the job. A model or image store outage does too, unless
 * the job cannot wait or causes the outages (docs/adr/0010-outages-of-the-model.md).
 * @param options.isCause Counts an outage, and returns whether the job counts as the cause of its outages.
 * @param options.retryMs Delay after a server failure, in milliseconds.
 */
export function toFailureResult(
  error: unknown,
  stage: StageName,
  options: { canWait: boolean; isCause: (outage: object) => boolean; retryMs: number },
): StageResult {
  const { canWait, isCause, retryMs } = options;
  const shortRetryMs = Math.min(SHORT_RETRY_MS, retryMs);
  if (isDiskLow(error)) return createPostponedResult(shortRetryMs);
  if (error instanceof ModelError || error instanceof StoreOutageError) {
    const { outage, retryable } = error;
    const isModelError = error instanceof ModelError;
    const rawError = isModelError
      ? createRawError('model_unavailable', error.message, stage)
      : createRawError(
          'image_store_unavailable',
          'The image store failed to store or read the images; see the log.',
          stage,
        );
    if (canWait && retryable && !(outage !== undefined && isCause(outage))) {
      return createPostponedResult(outage === undefined ? shortRetryMs : retryMs, rawError);
    }
    return createFailedResult(isModelError ? { ...rawError, code: 'model_failed' } : rawError);
  }
  return createFailedResult(
    error instanceof StageTimeoutError
      ? createRawError('stage_timed_out', error.message, stage)
      : createRawError('internal_error', `The stage "${stage}" failed; see the log.`, stage),
  );
}

function createPostponedResult(retryDelayMs: number, error?: RawError): StageResult {
  return { outcome: 'postponed', jobOutcome: { status: 'returned', retryDelayMs, error } };
}

function createFailedResult(error: RawError): StageResult {
  return { outcome: 'failed', jobOutcome: { status: 'failed', error } };
}

function createRawError(code: ErrorCode, message: string, stage: StageName): RawError {
  return { code, message: toStorableMessage(message), stage };
}
