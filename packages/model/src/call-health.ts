import type { ModelCallEvent } from './call-event.ts';
import type { ModelErrorCode } from './errors.ts';

/** What requests are made for; each may have a server of its own. */
export type CallKind = 'chat' | 'vision' | 'embedding';

/** Outcomes of the last requests of each kind. */
export type CallHealth = {
  /** Creates an observer of one kind that forwards every event to `observe`. */
  watch(kind: CallKind, observe?: (event: ModelCallEvent) => void): (event: ModelCallEvent) => void;
  /** Describes the failures of kinds whose last request failed. */
  failures(): string[];
};

/** Failures of one input or of the caller; they say nothing about the server. */
const NOT_OF_THE_SERVER: ReadonlySet<ModelErrorCode> = new Set([
  'MODEL_ABORTED',
  'MODEL_CLOSED',
  'MODEL_INPUT_TOO_LARGE',
  'MODEL_REFUSED',
  'MODEL_TRUNCATED',
]);

/** Creates a record of the last failure of each kind. A server that lists its models may still fail every request. */
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
