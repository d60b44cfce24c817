import {
  type AnswerFrame,
  type Message,
  type Problem,
  problemSchema,
  type ServerFrame,
  serverMessages,
} from '@oselya/protocol';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { createProtocolError } from './errors.ts';

/** Turn event with a type that this version does not know. */
const otherEventSchema = Type.Object({
  type: Type.Literal('other'),
  session_id: Type.String(),
  turn_id: Type.String(),
  seq: Type.Integer({ minimum: 1 }),
});
type OtherEvent = Static<typeof otherEventSchema>;

export type ReceivedFrame = ServerFrame | (OtherEvent & { id?: undefined });

/** Event of an answer. The last event is `message.completed` or `error`. */
export type AnswerEvent = AnswerFrame;

export type SequencedEvent = AnswerEvent | ServerFrame<'message.arrived'> | OtherEvent;

/** The events of an answer as they arrive. The iteration throws ChatError if the answer cannot be completed. */
export type StreamedAnswer = AsyncIterable<AnswerEvent>;

/** Returns whether a frame is an event of a turn. */
export function isEvent(frame: ReceivedFrame): frame is SequencedEvent {
  return 'seq' in frame;
}

const schemasByKey = new Map(
  Object.entries(serverMessages).map(([key, { members }]) => [key, Type.Object(members)]),
);

/**
 * Parses a server frame.
 * @returns Undefined for an unknown type outside a turn, which clients must ignore. See docs/protocol.md.
 * @throws ChatError `no_assistant` for a frame that violates the protocol.
 */
export function parseServerFrame(text: string): ReceivedFrame | undefined {
  const value = parseJson(text);
  const type: unknown = (value as { type?: unknown } | null)?.type;
  if (typeof type !== 'string') throw createProtocolError('a message without a type');
  const frame = value as object;
  const schema = schemasByKey.get(type === 'error' && 'seq' in frame ? 'error.event' : type);
  if (schema === undefined) {
    const otherFrame = { ...frame, type: 'other', id: undefined };
    return Value.Check(otherEventSchema, otherFrame) ? otherFrame : undefined;
  }
  if (!Value.Check(schema, frame)) throw createProtocolError(`a ${type} of a different form`);
  // The cast is safe after the schema check.
  return frame as ReceivedFrame;
}

/** Parses the problem of a failed answer. Returns undefined if there is none. */
export function parseProblem({ problem }: Message): Problem | undefined {
  return Value.Check(problemSchema, problem) ? problem : undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw createProtocolError('no JSON');
  }
}
