import { ModelError } from '@oselya/model';
import pLimit from 'p-limit';
import { isOfPicture } from './refusal.ts';

/** A picture that failed in so many trials is what the server fails on. */
export const MOST_TRIALS = 3;

/** So many pictures are remembered; those that failed longest ago are forgotten first. */
const MAX_SUSPECTS = 10_000;

/** What came of asking the model for a picture: its answer, or why the picture is at fault. */
type Verdict<Answer> = { answer: Answer } | { refusal: ModelError };

/** @param onRequest To be told of each request that was made: a breaker may refuse all of them, or the second. */
type Ask<Answer> = (onRequest: () => void) => Promise<Answer>;

/**
 * Asks the model for a picture. Where the server fails, that may be an outage, which is no picture's fault, or it
 * may be this picture that it fails on. A trial tells: the server is shown a control, a picture that it has no
 * reason to fail on, and directly after that one's answer this one again. Without an answer to the control nothing
 * is held against the picture; one that failed in `MOST_TRIALS` is refused. ADR 0017.
 * @throws ModelError that says nothing of the picture, but of an outage, of settings, or of a call that was given up.
 */
type AskForPicture = <Answer>(
  sha256: string,
  calls: { ask: Ask<Answer>; control: () => Promise<unknown> },
) => Promise<Verdict<Answer>>;

/**
 * Makes what asks for the pictures of a process. Its trials are made one at a time: what merely was on its way when
 * another picture brought the server down is tried without that one. What is known of a picture is kept in memory
 * until there is a verdict, so trials go on where an outage ended an earlier attempt.
 */
export function createAskForPicture(): AskForPicture {
  /** In how many trials a picture has failed, by its hash. */
  const failures = new Map<string, number>();
  const inTurn = pLimit(1);

  function note(sha256: string, count: number): void {
    failures.delete(sha256);
    failures.set(sha256, count);
    const [oldest] = failures.keys();
    if (failures.size > MAX_SUSPECTS && oldest !== undefined) failures.delete(oldest);
  }

  return async (sha256, { ask, control }) => {
    if (!failures.has(sha256)) {
      const first = await outcomeOf(ask);
      if (!('failure' in first)) return first;
      note(sha256, 0);
    }
    for (;;) {
      const outcome = await inTurn(async () => {
        await showControl(control);
        return outcomeOf(ask);
      });
      if (!('failure' in outcome)) {
        failures.delete(sha256);
        return outcome;
      }
      // Others have failed so often meanwhile that nothing is asked.
      if (outcome.failure.code === 'MODEL_BREAKER_OPEN') throw outcome.failure;
      const count = (failures.get(sha256) ?? 0) + 1;
      if (count >= MOST_TRIALS) {
        failures.delete(sha256);
        return { refusal: atFault(outcome.failure) };
      }
      note(sha256, count);
    }
  };
}

/** A failure is one of the server, of which nothing tells yet whose fault it is. */
async function outcomeOf<Answer>(
  ask: Ask<Answer>,
): Promise<Verdict<Answer> | { failure: ModelError }> {
  let isRequested = false;
  try {
    return { answer: await ask(() => (isRequested = true)) };
  } catch (error) {
    if (isOfPicture(error)) return { refusal: error };
    // The one request of a half-open breaker opens it again, and then that is what the call fails with.
    const isOfServer = error instanceof ModelError && error.retryable && isRequested;
    if (isOfServer) return { failure: error };
    throw error;
  }
}

/** Whatever the model says of the control, its server has answered. */
async function showControl(control: () => Promise<unknown>): Promise<void> {
  try {
    await control();
  } catch (error) {
    if (!isOfPicture(error)) throw error;
  }
}

function atFault(failure: ModelError): ModelError {
  const { code, message, status } = failure;
  return new ModelError(
    code,
    `The model server failed on it in ${MOST_TRIALS} trials, each just after it had answered another picture: ${message}`,
    { ...(status !== undefined && { status }), cause: failure },
  );
}
