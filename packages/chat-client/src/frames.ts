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
import { malformed } from './errors.ts';

/** An event of an unknown type, which has a place in its turn. */
const otherEvent = Type.Object({
  type: Type.Literal('other'),
  session_id: Type.String(),
  turn_id: Type.String(),
  seq: Type.Integer({ minimum: 1 }),
});
type OtherEvent = Static<typeof otherEvent>;

/** A message of the server. */
export type Frame = ServerFrame | (OtherEvent & { id?: undefined });

/** An event of an answer. The last one is `message.completed` or `error`. */
export type TurnEvent = AnswerFrame;

/** An event with a place in a turn. */
export type NumberedEvent = TurnEvent | ServerFrame<'message.arrived'> | OtherEvent;

/** An answer as it is written. It throws ChatError where it cannot be followed to its end. */
export type Answer = AsyncIterable<TurnEvent>;

/** Returns whether a frame is an event of a turn. */
export function isEvent(frame: Frame): frame is NumberedEvent {
  return 'seq' in frame;
}

const schemas = new Map(
  Object.entries(serverMessages).map(([key, { members }]) => [key, Type.Object(members)]),
);

/**
 * Reads a frame of the server.
 * @returns Undefined for an unknown type without a place in a turn, as docs/protocol.md asks.
 * @throws ChatError `no_assistant` for anything that is not of this protocol.
 */
export function readFrame(text: string): Frame | undefined {
  const value = parse(text);
  const type: unknown = (value as { type?: unknown } | null)?.type;
  if (typeof type !== 'string') throw malformed('a message without a type');
  const frame = value as object;
  const schema = schemas.get(type === 'error' && 'seq' in frame ? 'error.event' : type);
  if (schema === undefined) {
    const other = { ...frame, type: 'other', id: undefined };
    return Value.Check(otherEvent, other) ? other : undefined;
  }
  if (!Value.Check(schema, frame)) throw malformed(`a ${type} of another form`);
  // The schema of its type has accepted it.
  return frame as Frame;
}

/** Returns the problem of a stored answer that failed. */
export function problemOf({ problem }: Message): Problem | undefined {
  return Value.Check(problemSchema, problem) ? problem : undefined;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw malformed('no JSON');
  }
}
