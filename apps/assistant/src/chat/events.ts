import { problemBody } from '@oselya/kit';
import { type Static, type TObject, Type } from 'typebox';
import { problem } from '../errors.ts';
import { memoryChange, type MemoryChange } from '../memory/facts.ts';
import { exampleMessage, exampleSession, messageRef, summaryRef } from '../sessions/index.ts';
import { type FrameOf, serverMessage } from '../sockets/definitions.ts';
import { problemRef } from '../sockets/messages.ts';

const toolMembers = {
  step_id: Type.String({ description: 'Of the step, as in `GET /sessions/{id}/planning`.' }),
  name: Type.String(),
  title: Type.String({ description: 'What is being done, for people.' }),
};

const runningTool = Type.Object(toolMembers);

/** A tool that is being run, for people. */
export type RunningTool = Static<typeof runningTool>;

const finishedTool = Type.Object({
  ...toolMembers,
  status: Type.Enum(['done', 'failed']),
  summary: Type.String({ description: 'What came of it, for people.' }),
  changes: Type.Unsafe<readonly MemoryChange[]>(
    Type.Array(memoryChange, {
      description: "What it changed in the user's memory; `memory.undo` takes it back.",
    }),
  ),
});

const exampleTool = {
  step_id: '9f4c0a56-1f6e-4f5e-8f57-0a1b2c3d4e5f',
  name: 'remember_fact',
  title: 'Запам’ятовую: район',
};

const exampleAnswer = {
  ...exampleMessage,
  id: '0a4a3f2c-0f6e-4d44-9d0a-6b0f2f0e5b1e',
  role: 'assistant',
  content: 'Знайшлося три квартири.',
};

/** What happens in the turn of an answer, by type and in about its order. docs/protocol.md. */
export const answerEvents = {
  'message.started': serverMessage({
    type: 'message.started',
    description: "The user's message is stored, and is going to be answered. It begins a turn.",
    members: {
      message: messageRef,
      replaces: Type.Optional(
        Type.String({
          description:
            'The answer in whose place this one comes; it stays until this one has ended.',
        }),
      ),
    },
    example: { message: exampleMessage },
  }),
  'message.delta': serverMessage({
    type: 'message.delta',
    description:
      'More of the answer. Texts that follow one another come as one, with the number of the last, to who opens the session later.',
    members: { text: Type.String({ description: 'To be put after what came before.' }) },
    example: { text: 'Знайшлося ' },
  }),
  'tool.started': serverMessage({
    type: 'tool.started',
    description: 'A tool is being run.',
    members: { tool: runningTool },
    example: { tool: exampleTool },
  }),
  'tool.finished': serverMessage({
    type: 'tool.finished',
    description: 'A tool has been run.',
    members: { tool: finishedTool },
    example: {
      tool: {
        ...exampleTool,
        status: 'done',
        summary: 'Запам’ятовано',
        changes: [
          { category: 'preferences', key: 'district', value: 'Near the park', previous: null },
        ],
      },
    },
  }),
  'message.completed': serverMessage({
    type: 'message.completed',
    description:
      'The answer is stored, whole or as far as it came: then its `status` is `cancelled` or `cut`. The message is the one in whose place it would have come where not a word came of it. It ends the answer whatever its number is: of an answer whose process has gone that follows what was stored, which may be less than a client had.',
    members: { message: messageRef },
    example: { message: exampleAnswer },
  }),
  error: serverMessage({
    type: 'error',
    description: 'The answer failed, which ends it.',
    members: {
      problem: problemRef,
      message: Type.Optional({
        ...messageRef,
        description:
          'What there is of the answer, as it is stored, or the one in whose place it would have come, where that says more; not there where the session is gone.',
      }),
    },
    example: {
      problem: problemBody(problem('model_unavailable'), '2f1d9c52-6a0e-4a39-9c55-0f6c1f8f5b1e'),
      message: { ...exampleAnswer, status: 'failed' },
    },
  }),
};

/** Those of what comes by itself, which is a turn of one event. */
export const ownEvents = {
  'message.arrived': serverMessage({
    type: 'message.arrived',
    description:
      "A message of the assistant's that nobody asked for, such as the digest of a saved search. It is the only event of its turn, and comes never between those of an answer.",
    members: { message: messageRef },
    example: { message: { ...exampleAnswer, content: 'Двокімнатні: 1 нове оголошення.' } },
  }),
};

/** What becomes of a session beside its turns. */
export const sessionEvents = {
  'session.updated': serverMessage({
    type: 'session.updated',
    description:
      'The session was renamed, pinned or unpinned, or got its name: by the first message that was answered whole while it had none. It belongs to no turn, and comes at any time.',
    members: { session_id: Type.String(), session: summaryRef },
    example: { session_id: exampleSession.session_id, session: exampleSession },
  }),
};

/** What became of a session, as clients are told. */
export type SessionFrame = FrameOf<(typeof sessionEvents)[keyof typeof sessionEvents]>;

/** What happens in a turn, as clients are told. */
export type TurnEvent = FrameOf<
  (typeof answerEvents)[keyof typeof answerEvents] | (typeof ownEvents)[keyof typeof ownEvents]
>;

/** What every event of a turn has beside its own members: where it belongs. */
export const eventPlace = {
  session_id: Type.String(),
  turn_id: Type.String(),
  seq: Type.Integer({
    minimum: 1,
    description: 'Its number in the turn, from 1 and without a gap.',
  }),
};

type EventPlace = Static<TObject<typeof eventPlace>>;

/** An event with its number in its turn. */
export type NumberedEvent = TurnEvent & Pick<EventPlace, 'seq'>;

/** An event as clients get it. */
export type TurnFrame = TurnEvent & EventPlace;

/** Whether an event ends the answer. What comes by itself is no answer, and ends its turn all the same. */
export function isEnd({ type }: TurnEvent): boolean {
  return type === 'message.completed' || type === 'error';
}

/** Of the events of a turn those that are new to who knows it up to one of them: its end is, whatever its number. */
export function newAfter(events: readonly NumberedEvent[], after: number): NumberedEvent[] {
  return events.filter((event) => isEnd(event) || event.seq > after);
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
