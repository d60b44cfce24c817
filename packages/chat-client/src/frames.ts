import { type Static, type TProperties, Type } from 'typebox';
import { Value } from 'typebox/value';
import { ChatError } from './errors.ts';
import { type Problem, problem } from './problem.ts';

// As much of what the server sends as is used; docs/protocol.md has all of it. Members and types that are
// not known here are passed over, as that page asks.

const session = Type.Object({
  session_id: Type.String(),
  profile_id: Type.String(),
  name: Type.String(),
  message_count: Type.Integer(),
  last_active: Type.String(),
});

/** A conversation. */
export type Session = Static<typeof session>;

const message = Type.Object({
  id: Type.String(),
  role: Type.String(),
  content: Type.String(),
  status: Type.Optional(Type.String({ description: 'Why an answer is not complete.' })),
  problem: Type.Optional(Type.Unknown()),
  client_message_id: Type.Optional(Type.String()),
  unasked: Type.Optional(Type.Boolean({ description: 'Whether it answers no other message.' })),
});

/** A stored message. */
export type Message = Static<typeof message>;

const toolMembers = { step_id: Type.String(), name: Type.String(), title: Type.String() };
const startedTool = Type.Object(toolMembers);
const textOrNull = Type.Union([Type.String(), Type.Null()]);
const memoryChange = Type.Object({
  category: Type.String(),
  key: Type.String(),
  value: textOrNull,
  previous: textOrNull,
});
const finishedTool = Type.Object({
  ...toolMembers,
  status: Type.Union([Type.Literal('done'), Type.Literal('failed')]),
  summary: Type.String(),
  changes: Type.Array(memoryChange),
});

/** A fact that a tool wrote, or removed where its value is null, and what it said before; null where it was new. */
export type MemoryChange = Static<typeof memoryChange>;

/** A tool that the agent runs or has run. */
export type Tool = Static<typeof startedTool>;

const ofSession = { session_id: Type.String() };
const ofTurn = { ...ofSession, turn_id: Type.String(), seq: Type.Integer({ minimum: 1 }) };
const messageId = Type.Optional(Type.Unknown());

const frame = <Name extends string, Members extends TProperties>(type: Name, members: Members) =>
  Type.Object({ type: Type.Literal(type), id: messageId, ...members });

const error = frame('error', {
  problem,
  message: Type.Optional(message),
  session_id: Type.Optional(Type.String()),
  turn_id: Type.Optional(Type.String()),
  seq: Type.Optional(Type.Integer()),
});

const schemas = {
  pong: frame('pong', {}),
  'session.created': frame('session.created', { ...ofSession, session }),
  'session.opened': frame('session.opened', {
    ...ofSession,
    session,
    messages: Type.Array(message),
    turn: Type.Union([Type.Object({ turn_id: Type.String() }), Type.Null()]),
  }),
  'message.repeated': frame('message.repeated', {
    ...ofSession,
    turn_id: Type.Optional(Type.String()),
  }),
  'message.cancelling': frame('message.cancelling', ofSession),
  'memory.undone': frame('memory.undone', { ...ofSession, step_id: Type.String() }),
  'message.started': frame('message.started', { ...ofTurn, message }),
  'message.delta': frame('message.delta', { ...ofTurn, text: Type.String() }),
  'tool.started': frame('tool.started', { ...ofTurn, tool: startedTool }),
  'tool.finished': frame('tool.finished', { ...ofTurn, tool: finishedTool }),
  'message.completed': frame('message.completed', { ...ofTurn, message }),
  'message.arrived': frame('message.arrived', { ...ofTurn, message }),
  error,
};

/** An event of a type that is not known here: it has its place in the turn all the same. */
const otherEvent = frame('other', ofTurn);

type Schemas = typeof schemas;

/** What the server sends. */
export type Frame =
  | { [Type in keyof Schemas]: Static<Schemas[Type]> }[keyof Schemas]
  | Static<typeof otherEvent>;

/** A frame of one type. */
export type FrameOf<Name extends Frame['type']> = Extract<Frame, { type: Name }>;

type InTurn = { turn_id: string; seq: number };

/** What happens in a turn. The last one is `message.completed` or `error`. */
export type TurnEvent =
  | FrameOf<
      'message.started' | 'message.delta' | 'tool.started' | 'tool.finished' | 'message.completed'
    >
  | (FrameOf<'error'> & InTurn & { session_id: string });

/** Whatever has a place in a turn. A message that came by itself is the only event of its turn. */
export type NumberedEvent = TurnEvent | FrameOf<'other' | 'message.arrived'>;

/** What is being said to a message, as it comes. It throws ChatError where it cannot be followed to its end. */
export type Answer = AsyncIterable<TurnEvent>;

/** Whether a frame is an event of a turn: those have a number. */
export function isEvent(received: Frame): received is NumberedEvent {
  return 'seq' in received && received.seq !== undefined;
}

/** Whether an event ends the answer. */
export function isEnd({ type }: NumberedEvent): boolean {
  return type === 'message.completed' || type === 'error';
}

/**
 * Reads what the server sent.
 * @returns Nothing for a type that is not known here, unless it has a place in a turn.
 * @throws ChatError `no_assistant` for what is no message of this protocol.
 */
export function readFrame(text: string): Frame | undefined {
  const value = parse(text);
  const type: unknown = (value as { type?: unknown } | null)?.type;
  if (typeof type !== 'string') throw malformed('a message without a type');
  const schema = Object.entries(schemas).find(([name]) => name === type)?.[1];
  if (schema === undefined) {
    const other = { ...(value as object), type: 'other' };
    return Value.Check(otherEvent, other) ? other : undefined;
  }
  if (!Value.Check(schema, value)) throw malformed(`a ${type} of another form`);
  return value;
}

/** What was wrong with a stored answer, where that is said. */
export function problemOf({ problem: said }: Message): Problem | undefined {
  return Value.Check(problem, said) ? said : undefined;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw malformed('no JSON');
  }
}

/** What is no message of this protocol. */
export function malformed(what: string): ChatError {
  return new ChatError('no_assistant', `the server sent ${what}`);
}
