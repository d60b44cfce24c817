import { ModelError } from '../errors.ts';
import type { CallContext } from './call-policy.ts';

/** Limits the requests in progress at a server after its context was full. */
export type Gate = {
  /**
   * Waits until a request may be sent.
   * @returns A function to be called once when the request has ended, with its error if it failed.
   * @throws ModelError MODEL_CONTEXT_FULL when the deadline of the call passes first, MODEL_ABORTED.
   */
  enter(context: CallContext): Promise<(error?: unknown) => void>;
  /** Runs one request between `enter` and its end. */
  run<T>(context: CallContext, request: () => Promise<T>): Promise<T>;
};

/** How long a limit holds before it doubles. */
const HOLD_MS = 60_000;

/** A limit that would grow beyond this is removed. */
const MAX_LIMIT = 64;

/**
 * Creates the gate of one server, without a limit at first. llama.cpp shares its context among the requests in
 * progress, and fails all of them when it is full (MODEL_CONTEXT_FULL): then half as many are sent at once.
 * @param options.clock A monotonic clock in milliseconds.
 */
export function createGate({ clock = () => performance.now() } = {}): Gate {
  const waiting = new Set<() => void>();
  let inProgress = 0;
  let limit = Infinity;
  let limitedAt = -Infinity;

  function widen(): void {
    while (limit < Infinity && clock() - limitedAt >= HOLD_MS) {
      limit = limit * 2 > MAX_LIMIT ? Infinity : limit * 2;
      limitedAt += HOLD_MS;
    }
  }

  /** Halves the limit once for requests that failed together. */
  function narrow(startedAt: number): void {
    if (startedAt < limitedAt) return;
    limit = Math.max(1, Math.floor(inProgress / 2));
    limitedAt = clock();
  }

  function admit(): void {
    widen();
    for (const go of waiting) {
      if (inProgress >= limit) return;
      go();
    }
  }

  function begin(): (error?: unknown) => void {
    const startedAt = clock();
    inProgress += 1;
    return (error) => {
      if (error instanceof ModelError && error.code === 'MODEL_CONTEXT_FULL') {
        error.outage = { since: new Date() };
        narrow(startedAt);
      }
      inProgress -= 1;
      admit();
    };
  }

  async function enter(context: CallContext): Promise<(error?: unknown) => void> {
    widen();
    if (inProgress < limit) return begin();
    const admitted = Promise.withResolvers<(error?: unknown) => void>();
    const go = () => {
      waiting.delete(go);
      admitted.resolve(begin());
    };
    const giveUp = () => {
      if (waiting.delete(go)) admitted.reject(lateError(context));
    };
    waiting.add(go);
    context.signal.addEventListener('abort', giveUp);
    return admitted.promise.finally(() => context.signal.removeEventListener('abort', giveUp));
  }

  return {
    enter,
    async run(context, request) {
      const leave = await enter(context);
      try {
        const answer = await request();
        leave();
        return answer;
      } catch (error) {
        leave(error);
        throw error;
      }
    },
  };
}

function lateError(context: CallContext): ModelError {
  const given = context.interruption();
  if (given?.code === 'MODEL_ABORTED') return given;
  return new ModelError(
    'MODEL_CONTEXT_FULL',
    "The model server's context is too small for the requests that are sent at once, and this one waited until its deadline. Give the server a larger context, or lower COLLECTOR_WORKERS.",
  );
}
