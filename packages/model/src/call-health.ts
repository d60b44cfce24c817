import type { ModelCallEvent } from './call-event.ts';
import type { ModelErrorCode } from './errors.ts';

/** What requests are made for; each may have a server of its own. */
export type CallKind = 'chat' | 'vision' | 'embedding';

/** How the last requests of each kind have ended. */
export type CallHealth = {
  /** Makes an observer of one kind, which passes every event on. */
  watch(kind: CallKind, observe?: (event: ModelCallEvent) => void): (event: ModelCallEvent) => void;
  /** Why the last request of each kind that failed did so; nothing where all were answered. */
  failures(): string[];
};

/** Failures that are of one input, or of the caller: they say nothing of how the server is. */
const NOT_OF_THE_SERVER: ReadonlySet<ModelErrorCode> = new Set([
  'MODEL_ABORTED',
  'MODEL_CLOSED',
  'MODEL_INPUT_TOO_LARGE',
  'MODEL_REFUSED',
  'MODEL_TRUNCATED',
]);

/** Remembers for each kind of request whether the last one failed, and why: a list of models says little. */
export function createCallHealth(): CallHealth {
  const reasons = new Map<CallKind, string>();
  return {
    watch: (kind, observe) => (event) => {
      const { outcome, reason = '' } = event;
      if (outcome === 'ok') reasons.delete(kind);
      else if (!NOT_OF_THE_SERVER.has(outcome)) reasons.set(kind, reason);
      observe?.(event);
    },
    failures: () =>
      [...reasons].map(([kind, reason]) => `The last ${kind} request failed: ${reason}`),
  };
}
