import {
  type AnswerFrame,
  type Message,
  type Problem,
  type ServerFrame,
  serverMessages,
} from '@oselya/protocol';
import { createProtocolError } from './errors.ts';

/** Turn event with a type that this version does not know. */
type OtherEvent = { type: 'other'; session_id: string; turn_id: string; seq: number };

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

/**
 * Returns whether a frame has the form that the protocol defines for its key.
 * @param key Key of the frame in `serverMessages`, or `other` for a turn event with an unknown type.
 */
export type FrameCheck = (key: string, frame: object) => boolean;

/**
 * Parses a server frame.
 * @returns Undefined for an unknown type outside a turn, which clients must ignore. See docs/protocol.md.
 * @throws ChatError `no_assistant` for a frame that violates the protocol.
 */
export function parseServerFrame(text: string, checkFrame: FrameCheck): ReceivedFrame | undefined {
  const value = parseJson(text);
  const type: unknown = (value as { type?: unknown } | null)?.type;
  if (typeof type !== 'string') throw createProtocolError('a message without a type');
  const frame = value as object;
  const key = type === 'error' && 'seq' in frame ? 'error.event' : type;
  if (!Object.hasOwn(serverMessages, key)) {
    const otherFrame = { ...(frame as OtherEvent), type: 'other' as const, id: undefined };
    return isEvent(otherFrame) && checkFrame('other', otherFrame) ? otherFrame : undefined;
  }
  if (!checkFrame(key, frame)) throw createProtocolError(`a ${type} of a different form`);
  // The cast is safe after the check.
  return frame as ReceivedFrame;
}

/** Parses the problem of a failed answer. Returns undefined if there is none. */
export function parseProblem({ problem }: Message): Problem | undefined {
  const { code, title } = Object(problem) as Partial<Problem>;
  return typeof code === 'string' && typeof title === 'string' ? (problem as Problem) : undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw createProtocolError('no JSON');
  }
}
