import { isDatabaseOutage } from '@oselya/db';
import { commonProblem, ProblemError } from '@oselya/kit';
import { ModelError } from '@oselya/model';
import { problem } from '../errors.ts';
import type { Unfinished } from '../tables.ts';
import type { StopReason } from './turn.ts';

/** How a turn ended. */
export type Outcome =
  | { status: 'completed' }
  | { status: Exclude<Unfinished, 'failed'> }
  | { status: 'failed'; problem: ProblemError };

/**
 * What becomes of a turn that was stopped, or whose work failed.
 * @returns Nothing for a turn that is another process's to end, or nobody's.
 */
export function outcomeOf(
  error: unknown,
  { stopReason, isLate }: { stopReason: StopReason | undefined; isLate: boolean },
): Outcome | undefined {
  switch (stopReason) {
    case 'lost':
      return undefined;
    case 'cancelled':
      return { status: 'cancelled' };
    case 'closing':
      return { status: 'cut' };
    case 'signed-out':
      return { status: 'failed', problem: problem('not_signed_in') };
    default:
      if (isLate) return { status: 'failed', problem: problem('answer_too_slow') };
      return { status: 'failed', problem: toProblem(error) };
  }
}

function toProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  if (error instanceof ModelError) {
    return problem(error.retryable ? 'model_unavailable' : 'model_failed', { cause: error });
  }
  const code = isDatabaseOutage(error) ? 'unavailable' : 'internal_error';
  return commonProblem(code, { cause: error });
}
