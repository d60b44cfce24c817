import { ModelError, type ModelErrorCode } from '@oselya/model';
import { createAskForPicture } from '../../src/images/trials.ts';

/** A call that fails so. */
export const failing =
  (code: ModelErrorCode, status?: number, details: { retryAfterMs?: number } = {}) =>
  () =>
    Promise.reject(
      new ModelError(code, `It is ${code}.`, {
        ...(status !== undefined && { status }),
        ...details,
      }),
    );

/** The turn at a trial, which processes share. */
export function createTurns() {
  let isTaken = false;
  return async () => {
    if (isTaken) return undefined;
    isTaken = true;
    return async () => void (isTaken = false);
  };
}

/** What asks for the pictures of one process. */
export const createAsk = (takeTurn = createTurns()) => createAskForPicture(takeTurn);

/** Calls of one request each that are noted by name, in their order. */
export function calls(
  ask: () => Promise<string>,
  control: () => Promise<unknown> = () => Promise.resolve(),
  options: {
    requestFails?: ModelErrorCode;
    mayBegin?: () => boolean;
    mayWait?: boolean;
    signal?: AbortSignal;
  } = {},
) {
  const noted: string[] = [];
  const { requestFails, mayBegin = () => true, mayWait = true } = options;
  const { signal = new AbortController().signal } = options;
  const noting =
    <Result>(name: string, call: () => Promise<Result>) =>
    () => {
      noted.push(name);
      return call();
    };
  const asking = noting('ask', ask);
  return {
    noted,
    mayBegin,
    mayWait,
    signal,
    async ask(onRequest: (outcome: 'ok' | ModelErrorCode) => void) {
      try {
        const answer = await asking();
        onRequest('ok');
        return answer;
      } catch (error) {
        if (error instanceof ModelError) onRequest(requestFails ?? error.code);
        throw error;
      }
    },
    control: noting('control', control),
  };
}
