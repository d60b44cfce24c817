import { MODEL_ERRORS, type ModelCallEvent, ModelError, type ModelErrorCode } from '@oselya/model';
import { pause } from '../async/repeat.ts';
import { isOfPicture } from './refusal.ts';

/** A picture that failed in so many trials is what the server fails on. */
export const MOST_TRIALS = 3;

/**
 * A picture that met the server's limit (429) in so many trials will not pass it, such as one that is larger than what
 * the limit allows at once. Each waited before for as long as the server asked, and for `LIMIT_PAUSE_MS` at least.
 */
export const MOST_LIMITED_TRIALS = 5;

/** Limits are by the minute or longer, and a server that has a longer one says so in `Retry-After`. */
const LIMIT_PAUSE_MS = 60_000;

/** The longest wait that a server is given: no limit of a hosted model is longer than a day's. */
const LONGEST_LIMIT_MS = 24 * 3_600_000;

/**
 * So long after the first one begin the trials of a listing's pictures. Then its job is put back, so that bad
 * pictures do not hold a slot for hours, and its next attempt goes on with them.
 */
export const TRIALS_MS = 10 * 60_000;

/** How often it is asked whether another trial, in whatever process, has ended. */
const TURN_POLL_MS = 250;

/** So many pictures are remembered; those that failed longest ago are forgotten first. */
const MAX_SUSPECTS = 10_000;

/** A picture that failed and has no verdict yet. */
type Suspect = {
  /** In how many trials it has failed, and in how many it met a limit. */
  failed: number;
  limited: number;
  /** How it failed last. */
  error: ModelError;
  /** When the server may be shown it again, as `performance.now()` tells time. */
  notBefore: number;
};

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
 * is held against the picture; one that failed in `MOST_TRIALS`, or met a limit in `MOST_LIMITED_TRIALS`, is refused.
 * ADR 0017.
 * @param calls.mayBegin Whether another trial may begin; see `createTrialTime`.
 * @param calls.mayWait Whether there is time to wait for as long as a server asks. Otherwise the picture is tried at
 *   once, which counts only where that time is over.
 * @throws ModelError that says nothing of the picture, but of an outage, of settings, or of a call that was given
 *   up; what the picture failed with, where no more trials may begin, or a limit cannot be waited for;
 *   `signal.reason`; what taking a turn throws.
 */
type AskForPicture = <Answer>(
  sha256: string,
  calls: {
    ask: Ask<Answer>;
    control: () => Promise<unknown>;
    mayBegin: () => boolean;
    mayWait: boolean;
    signal: AbortSignal;
  },
) => Promise<Verdict<Answer>>;

/**
 * Makes what asks for the pictures of a process. Trials are made one at a time, in all processes: what merely was on
 * its way when another picture brought the server down is tried without that one. What is known of a picture is
 * kept in memory until there is a verdict, so trials go on where an outage ended an earlier attempt.
 * @param takeTurn Takes the turn that all processes share: gives what ends it, nothing while another trial has it.
 * @param options.limitPauseMs See `LIMIT_PAUSE_MS`.
 */
export function createAskForPicture(
  takeTurn: () => Promise<(() => Promise<void>) | undefined>,
  { limitPauseMs = LIMIT_PAUSE_MS }: { limitPauseMs?: number | undefined } = {},
): AskForPicture {
  /** By hash. */
  const suspects = new Map<string, Suspect>();

  const isEarly = (sha256: string) => msUntilDue(sha256) > 0;
  const msUntilDue = (sha256: string) => (suspects.get(sha256)?.notBefore ?? 0) - performance.now();

  function remember(sha256: string, suspect: Suspect): Suspect {
    suspects.delete(sha256);
    suspects.set(sha256, suspect);
    const [oldest] = suspects.keys();
    if (suspects.size > MAX_SUSPECTS && oldest !== undefined) suspects.delete(oldest);
    return suspect;
  }

  /** The first trial follows at once, unless the server has asked for patience. */
  function begin(sha256: string, { error }: Failure): Suspect {
    return remember(sha256, {
      failed: 0,
      limited: 0,
      error,
      notBefore: performance.now() + askedMs(error),
    });
  }

  function noteTrial(sha256: string, failure: Failure, wasEarly: boolean): Suspect {
    const { failed, limited, notBefore } = suspects.get(sha256) ?? begin(sha256, failure);
    const { error } = failure;
    if (!isLimit(failure)) {
      return remember(sha256, { failed: failed + 1, limited, error, notBefore });
    }
    return remember(sha256, {
      failed,
      limited: wasEarly ? limited : limited + 1,
      error,
      notBefore: Math.max(notBefore, performance.now() + Math.max(limitPauseMs, askedMs(error))),
    });
  }

  return async (sha256, { ask, control, mayBegin, mayWait, signal }) => {
    let last = suspects.get(sha256)?.error;
    if (last === undefined) {
      const first = await outcomeOf(ask);
      if (!('failure' in first)) return first;
      last = begin(sha256, first.failure).error;
    }
    for (;;) {
      signal.throwIfAborted();
      if (!mayBegin()) throw last;
      if (mayWait && isEarly(sha256)) {
        await pause(Math.min(msUntilDue(sha256), limitPauseMs), signal);
        continue;
      }
      const endTurn = await takeTurn();
      if (endTurn === undefined) {
        await pause(TURN_POLL_MS, signal);
        continue;
      }
      const wasEarly = isEarly(sha256);
      const outcome = await trial(ask, control, endTurn);
      if (!('failure' in outcome)) {
        suspects.delete(sha256);
        return outcome;
      }
      const { failure } = outcome;
      const { failed, limited } = noteTrial(sha256, failure, wasEarly);
      if (failed >= MOST_TRIALS || limited >= MOST_LIMITED_TRIALS) {
        suspects.delete(sha256);
        return { refusal: atFault(failure) };
      }
      last = failure.error;
      if (isLimit(failure) && !mayWait) throw last;
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

/** The failure of a request, where nothing tells yet whether it is the server's or the picture's. */
function failedWith(outcome: ModelCallEvent['outcome']): ModelErrorCode | undefined {
  return outcome !== 'ok' && MODEL_ERRORS[outcome].retriedInCall ? outcome : undefined;
}

/** How long a server asked to be left alone, as far as it is waited for. */
function askedMs({ retryAfterMs = 0 }: ModelError): number {
  return Math.min(retryAfterMs, LONGEST_LIMIT_MS);
}

function isLimit({ code }: Failure): boolean {
  return code === 'MODEL_RATE_LIMITED';
}

function atFault(failure: Failure): ModelError {
  const { error, code } = failure;
  const { message, status } = error;
  const what = isLimit(failure)
    ? `did not let it pass in ${MOST_LIMITED_TRIALS} trials, each after the time that it asks for and`
    : `failed on it in ${MOST_TRIALS} trials, each`;
  return new ModelError(
    code,
    `The model server ${what} just after it had answered another picture: ${message}`,
    { ...(status !== undefined && { status }), cause: error },
  );
}
