import { isDatabaseOutage } from '@oselya/db';
import { ModelError, type ModelErrorCode } from '@oselya/model';
import type { RawError } from '../tables.ts';
import type { ErrorCode } from '../errors.ts';
import { isDiskLow } from '../disk/disk.ts';
import { StoreOutageError } from '../images/index.ts';
import { storableMessage } from '../text.ts';
import type { Ending, StageName, StageResult } from './stage.ts';

const UNSENT: ReadonlySet<ModelErrorCode> = new Set(['MODEL_BREAKER_OPEN', 'MODEL_CONTEXT_FULL']);

const STORE_FAILED = 'The image store did not take or give the pictures; the log has more.';

/** The stage did its work, and the next one follows. */
export const done: StageResult = { outcome: 'done' };
/** There was nothing for the stage to do, and the next one follows. */
export const skipped: StageResult = { outcome: 'skipped' };

/** All is done that the payload asks for. Specification 001, Raw data status. */
export const completed: Ending = { status: 'completed', error: null };

/** What the job needs is not there at present. */
const postponed = (error?: RawError): StageResult => ({
  outcome: 'postponed',
  ending: { status: 'postponed', ...(error && { error }) },
});

/** The model's server, or the image store, failed while it worked on the job. */
const suspect = (error: RawError): StageResult => ({
  outcome: 'postponed',
  ending: { status: 'postponed', isSuspect: true, error },
});

/** The payload is what the listing was made from last: nothing is to be done. */
export const unchanged: StageResult = { outcome: 'unchanged', ending: completed };

/** The same, but for pictures that are not had yet: the stages that are about them go on. */
export const unchangedText: StageResult = { outcome: 'unchanged' };

/** The listing was made from a newer payload already. */
export const superseded: StageResult = { outcome: 'superseded', ending: completed };

/** The payload is no property listing. */
export function invalid(code: ErrorCode, message: string, stage: StageName): StageResult {
  return {
    outcome: 'invalid',
    ending: { status: 'invalid', error: rawError(code, message, stage) },
  };
}

/** A stage did not end in its time. */
export class StageTimeoutError extends Error {
  override readonly name = 'StageTimeoutError';
}

/**
 * What an error of a stage means for its job; the one place that decides it.
 *
 * An outage of the model costs no job anything: one that the breaker kept from the model, or that the
 * model's server failed, is put back. One that the server fails again and again while others succeed is
 * failed, and so is one that cannot wait: `model_failed` either way (ADR 0010). An outage of the image store is dealt
 * with in the same way, `image_store_unavailable`. What meets a full disk, or a database that stays away for longer
 * than the job may wait for it, is put back too.
 * @param options.canWait Whether nobody waits for its end.
 * @param options.isVictim Whether it met an outage, rather than made it.
 * @returns Its ending's message is meant for whoever sent the payload.
 */
export function failure(
  error: unknown,
  stage: StageName,
  { canWait, isVictim }: { canWait: boolean; isVictim: (outage: object) => boolean },
): StageResult {
  // Nothing is taken off the queue then until it is there again, so this costs no more calls.
  if (isDiskLow(error) || isDatabaseOutage(error)) return postponed();
  if (error instanceof StoreOutageError) {
    const reason = rawError('image_store_unavailable', STORE_FAILED, stage);
    if (canWait && isVictim(error.outage)) return suspect(reason);
    return failed('image_store_unavailable', STORE_FAILED, stage);
  }
  if (error instanceof ModelError) {
    const { code, outage, message } = error;
    const reason = rawError('model_unavailable', message, stage);
    if (canWait && outage !== undefined && isVictim(outage)) return suspect(reason);
    // It was not sent: the breaker kept it from the server, or it has waited for others in vain.
    const isUnsent = outage === undefined && UNSENT.has(code);
    if (canWait && isUnsent) return postponed(reason);
    return failed('model_failed', message, stage);
  }
  return error instanceof StageTimeoutError
    ? failed('stage_timed_out', error.message, stage)
    : failed('internal_error', `The stage "${stage}" failed; the log has more.`, stage);
}

function failed(code: ErrorCode, message: string, stage: StageName): StageResult {
  return { outcome: 'failed', ending: { status: 'failed', error: rawError(code, message, stage) } };
}

/** Reasons come from models and servers. */
function rawError(code: ErrorCode, message: string, stage: StageName): RawError {
  return { code, message: storableMessage(message), stage };
}
