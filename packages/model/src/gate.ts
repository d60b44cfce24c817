import { ModelError } from './errors.ts';
import type { CallContext } from './retry.ts';

/** Gate of one server. See {@link createGate}. */
export type Gate = ReturnType<typeof createGate>;

/** Interval after which a limit doubles. */
const DOUBLING_INTERVAL_MS = 60_000;

/** Maximum limit. If doubling would exceed it, the gate removes the limit. */
const MAX_LIMIT = 64;

/**
 * Creates the gate of one server, initially without a limit. llama.cpp shares its context among concurrent requests and
 * fails all of them when it is full (MODEL_CONTEXT_FULL). The gate then halves the number of concurrent requests, and
 * doubles it again step by step.
 */
export function createGate() {
  const waitingRequests = new Set<() => void>();
  let requestCount = 0;
  let limit = Infinity;
  let halvedAt = -Infinity;
  let raisedAt = -Infinity;

  function admit(): void {
    while (limit < Infinity && performance.now() - raisedAt >= DOUBLING_INTERVAL_MS) {
      limit = limit * 2 > MAX_LIMIT ? Infinity : limit * 2;
      raisedAt += DOUBLING_INTERVAL_MS;
    }
    for (const startRequest of waitingRequests) {
      if (requestCount >= limit) return;
      waitingRequests.delete(startRequest);
      startRequest();
    }
  }

  function beginRequest(): (error?: unknown) => void {
    const startedAt = performance.now();
    requestCount += 1;
    return (error) => {
      if (error instanceof ModelError && error.code === 'MODEL_CONTEXT_FULL') {
        error.outage = { since: new Date() };
        // Concurrent failures halve the limit only once.
        if (startedAt >= halvedAt) {
          limit = Math.max(1, Math.floor(requestCount / 2));
          halvedAt = performance.now();
          raisedAt = halvedAt;
        }
      }
      requestCount -= 1;
      admit();
    };
  }

  return {
    /**
     * Waits until a request can be sent.
     * @returns A function to call once at the end of the request, with the error of a failed request.
     * @throws ModelError MODEL_CONTEXT_FULL at the deadline of the call, MODEL_ABORTED if the caller aborts.
     */
    enter(context: CallContext): Promise<(error?: unknown) => void> {
      const admission = Promise.withResolvers<(error?: unknown) => void>();
      const startRequest = () => admission.resolve(beginRequest());
      const onAbort = () => {
        if (waitingRequests.delete(startRequest)) admission.reject(createWaitError(context));
      };
      waitingRequests.add(startRequest);
      context.signal.addEventListener('abort', onAbort);
      admit();
      return admission.promise.finally(() => context.signal.removeEventListener('abort', onAbort));
    },
  };
}

function createWaitError(context: CallContext): ModelError {
  const interruptionError = context.getInterruption();
  if (interruptionError?.code === 'MODEL_ABORTED') return interruptionError;
  return new ModelError(
    'MODEL_CONTEXT_FULL',
    "The model server's context is too small for its concurrent requests, and this one waited until its deadline. Give the server a larger context, or lower COLLECTOR_WORKERS.",
  );
}
