import { ModelError } from './errors.ts';

/** The calls of one client that have not ended. */
export type InProgress = {
  /** Whether no further call is taken. */
  readonly isClosed: boolean;
  /** Makes a call. @throws ModelError MODEL_CLOSED at once; what the call throws. */
  call<T>(start: () => Promise<T>): Promise<T>;
  /**
   * Makes a call whose answer comes in parts: it has ended when the last one was taken, or nobody asks for more.
   * @throws ModelError MODEL_CLOSED with the first part; what the call throws.
   */
  stream<T>(start: () => AsyncIterable<T>): AsyncGenerator<T, void, undefined>;
  /** Takes no further calls, and lets go of what they use when those in progress have ended; once. */
  close(release: () => Promise<void>): Promise<void>;
};

/** Counts the calls of a client, so that it closes when the last one has ended. */
export function createInProgress(): InProgress {
  const calls = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;

  function refuseWhenClosed(): void {
    if (closing) throw new ModelError('MODEL_CLOSED', 'The model client has been closed.');
  }

  return {
    get isClosed() {
      return closing !== undefined;
    },
    async call(start) {
      refuseWhenClosed();
      const call = start();
      calls.add(call);
      try {
        return await call;
      } finally {
        calls.delete(call);
      }
    },
    async *stream(start) {
      refuseWhenClosed();
      const ended = Promise.withResolvers<void>();
      calls.add(ended.promise);
      try {
        yield* start();
      } finally {
        calls.delete(ended.promise);
        ended.resolve();
      }
    },
    close(release) {
      closing ??= Promise.allSettled(calls).then(release);
      return closing;
    },
  };
}
