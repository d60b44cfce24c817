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

/** Failures of the caller; they say nothing about the server. */
const OF_THE_CALLER: ReadonlySet<ModelErrorCode> = new Set(['MODEL_ABORTED', 'MODEL_CLOSED']);

/** Failures that may be of one input. MANY_INPUTS in a row mean that the server's context is too small. */
const OF_AN_INPUT: ReadonlySet<ModelErrorCode> = new Set([
  'MODEL_INPUT_TOO_LARGE',
  'MODEL_REFUSED',
  'MODEL_TRUNCATED',
]);
const MANY_INPUTS = 5;

/** Creates a record of the last failure of each kind. A server that lists its models may still fail every request. */
export function createCallHealth(): CallHealth {
  const reasons = new Map<CallKind, string>();
  const inputs = new Map<CallKind, number>();
  return {
    watch: (kind, observe) => (event) => {
      const { outcome, reason = '' } = event;
      if (outcome === 'ok') {
        reasons.delete(kind);
        inputs.delete(kind);
      } else if (OF_AN_INPUT.has(outcome)) {
        const inARow = (inputs.get(kind) ?? 0) + 1;
        inputs.set(kind, inARow);
        if (inARow >= MANY_INPUTS) reasons.set(kind, reason);
      } else if (!OF_THE_CALLER.has(outcome)) reasons.set(kind, reason);
      observe?.(event);
    },
    failures: () =>
      [...reasons].map(([kind, reason]) => `The last ${kind} request failed: ${reason}`),
  };
}
