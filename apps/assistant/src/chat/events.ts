import type { ProblemBody } from '@oselya/kit';
import type { presentMessage, presentSession } from '../sessions/schemas.ts';
import type { MemoryChange } from '../tools/tool.ts';

export type PresentedMessage = ReturnType<typeof presentMessage>;
export type PresentedSession = ReturnType<typeof presentSession>;

/** A tool that is being run, for people. */
export type RunningTool = {
  /** Of the step, as in `GET /sessions/{id}/planning`. */
  step_id: string;
  name: string;
  title: string;
};

/** What happens in a turn, as clients are told. docs/protocol.md. */
export type TurnEvent =
  /** The user's message is stored, and is going to be answered, in the place of an answer where it was before. */
  | { type: 'message.started'; message: PresentedMessage; replaces?: string }
  | { type: 'message.delta'; text: string }
  | { type: 'tool.started'; tool: RunningTool }
  | {
      type: 'tool.finished';
      tool: RunningTool & {
        status: 'done' | 'failed';
        summary: string;
        /** What it changed in the user's memory; `memory.undo` takes it back. */
        changes: readonly MemoryChange[];
      };
    }
  /** The answer is stored, whole or as far as it came. */
  | { type: 'message.completed'; message: PresentedMessage }
  /** The answer failed; what there is of it is stored. */
  | { type: 'error'; problem: ProblemBody; message?: PresentedMessage }
  /** The session got a name, by its first message. It comes after the end of the answer. */
  | { type: 'session.updated'; session: PresentedSession };

/** An event with its place in its turn, from 1. */
export type NumberedEvent = TurnEvent & { seq: number };

/** Whether an event ends the answer. */
export function isEnd({ type }: TurnEvent): boolean {
  return type === 'message.completed' || type === 'error';
}

/** Puts texts that follow one another into one event, with the number of the last of them. */
export function joined(events: readonly NumberedEvent[]): NumberedEvent[] {
  const result: NumberedEvent[] = [];
  for (const event of events) {
    const last = result.at(-1);
    if (event.type === 'message.delta' && last?.type === 'message.delta') {
      result[result.length - 1] = { ...event, text: last.text + event.text };
    } else {
      result.push(event);
    }
  }
  return result;
}

/** What clients get of an event: where it belongs stands beside it. */
export type TurnFrame = NumberedEvent & { session_id: string; turn_id: string };
