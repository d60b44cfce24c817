import { type ModelCallEvent, ModelError, type ModelErrorCode } from '@oselya/model';
import { pause } from '../async/repeat.ts';
import { isOfPicture } from './refusal.ts';

/** A picture that failed in so many trials is what the server fails on. */
export const MOST_TRIALS = 3;

/**
 * So long after the first one begin the trials of a listing's pictures. Then its job is put back, so that bad
 * pictures do not hold a slot for hours, and its next attempt goes on with them.
 */
export const TRIALS_MS = 10 * 60_000;

/** How often it is asked whether another trial, in whatever process, has ended. */
const TURN_POLL_MS = 250;

/** So many pictures are remembered; those that failed longest ago are forgotten first. */
const MAX_SUSPECTS = 10_000;

/** Failures of which nothing tells yet whose fault they are. */
const OF_SERVER = new Set<ModelCallEvent['outcome']>([
  'MODEL_UNAVAILABLE',
  'MODEL_TIMEOUT',
  'MODEL_UNREACHABLE',
  'MODEL_RATE_LIMITED',
] satisfies ModelErrorCode[]);

/** What came of asking the model for a picture: its answer, or why the picture is at fault. */
type Verdict<Answer> = { answer: Answer } | { refusal: ModelError };

/** A call that the server failed. */
type Failure = {
  error: ModelError;
  /** Of its last request: where the breaker refuses the one after it, the error is of the breaker. */
  code: ModelErrorCode;
};

/** @param onRequest To be told of each request that has ended: a breaker may refuse all of them, or the second. */
type Ask<Answer> = (onRequest: (outcome: ModelCallEvent['outcome']) => void) => Promise<Answer>;

/**
 * Asks the model for a picture. Where the server fails, that may be an outage, which is no picture's fault, or it
 * may be this picture that it fails on. A trial tells: the server is shown a control, a picture that it has no
 * reason to fail on, and directly after that one's answer this one again. Without an answer to the control nothing
 * is held against the picture; one that failed in `MOST_TRIALS` is refused. ADR 0017.
 * @param calls.mayBegin Whether another trial may begin; see `createTrialTime`.
 * @throws ModelError that says nothing of the picture, but of an outage, of settings, or of a call that was given
 *   up; what the picture failed with, where no more trials may begin; `signal.reason`; what taking a turn throws.
 */
type AskForPicture = <Answer>(
  sha256: string,
  calls: {
    ask: Ask<Answer>;
    control: () => Promise<unknown>;
    mayBegin: () => boolean;
    signal: AbortSignal;
  },
) => Promise<Verdict<Answer>>;

/**
 * Makes what asks for the pictures of a process. Trials are made one at a time, in all processes: what merely was on
 * its way when another picture brought the server down is tried without that one. What is known of a picture is
 * kept in memory until there is a verdict, so trials go on where an outage ended an earlier attempt.
 * @param takeTurn Takes the turn that all processes share: gives what ends it, nothing while another trial has it.
 */
export function createAskForPicture(
  takeTurn: () => Promise<(() => Promise<void>) | undefined>,
): AskForPicture {
  /** In how many trials a picture has failed, and how it failed last, by its hash. */
  const suspects = new Map<string, { count: number; error: ModelError }>();

  function note(sha256: string, count: number, error: ModelError): void {
    suspects.delete(sha256);
    suspects.set(sha256, { count, error });
    const [oldest] = suspects.keys();
    if (suspects.size > MAX_SUSPECTS && oldest !== undefined) suspects.delete(oldest);
  }

  return async (sha256, { ask, control, mayBegin, signal }) => {
    let last = suspects.get(sha256)?.error;
    if (last === undefined) {
      const first = await outcomeOf(ask);
      if (!('failure' in first)) return first;
      last = first.failure.error;
      note(sha256, 0, last);
    }
    for (;;) {
      signal.throwIfAborted();
      if (!mayBegin()) throw last;
      const endTurn = await takeTurn();
      if (endTurn === undefined) {
        await pause(TURN_POLL_MS, signal);
        continue;
      }
      const outcome = await trial(ask, control, endTurn);
      if (!('failure' in outcome)) {
        suspects.delete(sha256);
        return outcome;
      }
      last = outcome.failure.error;
      // A limit passes: the control is answered by what is left of it, and this picture is later on.
      if (outcome.failure.code === 'MODEL_RATE_LIMITED') throw last;
      const count = (suspects.get(sha256)?.count ?? 0) + 1;
      if (count >= MOST_TRIALS) {
        suspects.delete(sha256);
        return { refusal: atFault(outcome.failure) };
      }
      note(sha256, count, last);
    }
  };
}

/** @returns Whether trials of one listing may still begin: for `TRIALS_MS` from when it is first asked. */
export function createTrialTime(): () => boolean {
  let end: number | undefined;
  return () => {
    const now = performance.now();
    end ??= now + TRIALS_MS;
    return now < end;
  };
}

type Outcome<Answer> = Verdict<Answer> | { failure: Failure };

async function trial<Answer>(
  ask: Ask<Answer>,
  control: () => Promise<unknown>,
  endTurn: () => Promise<void>,
): Promise<Outcome<Answer>> {
  try {
    await control().catch((error: unknown) => {
      // Whatever the model says of the control, its server has answered.
      if (!isOfPicture(error)) throw error;
    });
    return await outcomeOf(ask);
  } finally {
    await endTurn();
  }
}

async function outcomeOf<Answer>(ask: Ask<Answer>): Promise<Outcome<Answer>> {
  let last: ModelCallEvent['outcome'] = 'ok';
  try {
    return { answer: await ask((outcome) => (last = outcome)) };
  } catch (error) {
    if (isOfPicture(error)) return { refusal: error };
    const code = failedWith(last);
    if (error instanceof ModelError && error.retryable && code !== undefined) {
      return { failure: { error, code } };
    }
    throw error;
  }
}

function failedWith(outcome: ModelCallEvent['outcome']): ModelErrorCode | undefined {
  return outcome !== 'ok' && OF_SERVER.has(outcome) ? outcome : undefined;
}

function atFault({ error, code }: Failure): ModelError {
  const { message, status } = error;
  return new ModelError(
    code,
    `The model server failed on it in ${MOST_TRIALS} trials, each just after it had answered another picture: ${message}`,
    { ...(status !== undefined && { status }), cause: error },
  );
}
