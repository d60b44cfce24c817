import { isDatabaseOutage } from '@oselya/db';
import { commonProblem, describeErrors, type Logger, problemBody, ProblemError } from '@oselya/kit';
import {
  MAX_ID_LENGTH,
  messageId,
  type MessageId,
  type ServerFrame,
  type ServerKey,
} from '@oselya/protocol';
import { type Static, type TObject, type TProperties, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { RawData } from 'ws';
import { type Access, checkAccess } from '../access/guards.ts';
import type { User } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import type { LiveUser } from './live-users.ts';
import type { SocketMetrics } from './metrics.ts';

/** Maximum length of the name of an unknown member in an error. */
const SHOWN_LENGTH = 60;

/** A message of the server with the `id` that it repeats. */
export type Frame = ServerFrame & { id?: MessageId | undefined };

/** The socket of a signed-in user, for work that outlasts a message. */
export type UserSocket = {
  /** Of the handshake, for errors and log lines. */
  readonly requestId: string;
  readonly log: Pick<Logger, 'error' | 'info' | 'debug'>;
  send: (frame: Frame) => void;
  /** Watches the sign-in until it is released, also after the socket has closed. */
  hold: (onSignedOut: () => void) => LiveUser;
  isOpen: () => boolean;
  /** Calls a function when the open socket closes. */
  onClose: (work: () => void) => void;
};

/** The sender of a message: who it is, and how to answer. */
export type Peer = Pick<UserSocket, 'requestId' | 'log' | 'send'> & {
  /** Resolves the user; undefined on an anonymous socket. Throws as `LiveUser.current` does. */
  user: () => Promise<User | undefined>;
  /** Undefined for an anonymous socket. */
  socket: UserSocket | undefined;
};

/** Sends an answer, which repeats the `id` of the message. */
export type Answer<Key extends ServerKey = ServerKey> = (frame: ServerFrame<Key>) => void;

type Handling<Answer_> = { answer: Answer_; user: User; socket: UserSocket };

/** A type of message: its permission, and its handler, which throws `validation_failed` for wrong members. */
export type MessageType =
  | { access: 'public'; handle: (frame: RawFrame, answer: Answer<never>) => void | Promise<void> }
  | {
      access: Exclude<Access, 'public'>;
      handle: (frame: RawFrame, context: Handling<Answer<never>>) => void | Promise<void>;
    };

/** A message of a client, of which only the type is known. */
type RawFrame = Readonly<Record<string, unknown>> & { readonly type: string };

type Definition<Who extends Access, Members extends TProperties, Key extends ServerKey> = {
  access: Who;
  members: Members;
  answers: readonly Key[];
};

/** Makes a type of message that needs no sign-in. */
export function publicMessage<Members extends TProperties, Key extends ServerKey>(
  { members }: Definition<'public', Members, Key>,
  handle: (message: Static<TObject<Members>>, answer: Answer<Key>) => void | Promise<void>,
): MessageType {
  const read = reader(members);
  // The dispatch sends any frame, but the compiler cannot tell that of a generic key.
  return {
    access: 'public',
    handle: (frame, answer) => handle(read(frame), answer as Answer<Key>),
  };
}

/** Makes a type of message of signed-in users. The permission is checked before the members. */
export function userMessage<
  Who extends Exclude<Access, 'public'>,
  Members extends TProperties,
  Key extends ServerKey,
>(
  { access, members }: Definition<Who, Members, Key>,
  handle: (
    message: Static<TObject<Members>>,
    context: Handling<Answer<Key>>,
  ) => void | Promise<void>,
): MessageType {
  const read = reader(members);
  return {
    access,
    handle: (frame, { answer, ...context }) =>
      handle(read(frame), { ...context, answer: answer as Answer<Key> }),
  };
}

/** Returns a function that checks the members of messages. An optional member may be null: many languages need that. */
function reader<Members extends TProperties>(members: Members) {
  const schema = Type.Object(
    { id: Type.Optional(messageId), ...members, type: Type.String() },
    { additionalProperties: false },
  );
  const validator = Compile(schema);
  // The type of the validator does not know the members.
  const isMessage = (frame: unknown): frame is Static<TObject<Members>> => validator.Check(frame);
  const optional = new Set(
    Object.entries(schema.properties).flatMap(([name, own]) => (Type.IsOptional(own) ? name : [])),
  );
  return (frame: RawFrame): Static<TObject<Members>> => {
    const message: unknown = Object.fromEntries(
      Object.entries(frame).filter(([name, value]) => value !== null || !optional.has(name)),
    );
    if (isMessage(message)) return message;
    // An unknown member is one error, not also a value that no schema allows.
    const errors = validator.Errors(message).filter(({ keyword }) => keyword !== 'boolean');
    const described = errors.map((error) => ({
      ...error,
      // TypeBox leaves the keyword out.
      schemaPath: `${error.schemaPath}/${error.keyword}`,
      message:
        error.keyword === 'additionalProperties'
          ? `${error.message}: ${error.params.additionalProperties.map((name) => name.slice(0, SHOWN_LENGTH)).join(', ')}`
          : error.message,
    }));
    throw problem('validation_failed', { errors: describeErrors('message', described) });
  };
}

/**
 * Creates the function that handles a message of a client: it finds the type, checks the permission, and calls the
 * handler, or answers with `error`. Contract 3, WebSocket.
 * @returns The HTTP status of the error that was answered. It never throws.
 */
export function createDispatch(
  types: Readonly<Record<string, MessageType>>,
  metrics: SocketMetrics,
) {
  const byName = new Map(Object.entries(types));

  return async (peer: Peer, data: RawData, isBinary: boolean): Promise<number | undefined> => {
    let id: MessageId | undefined;
    let name = 'unknown';
    const answer: Answer = (frame) => peer.send({ ...frame, ...(id !== undefined && { id }) });
    try {
      const frame = readFrame(data, isBinary);
      id = idOf(frame);
      const type = byName.get(frame.type);
      if (type === undefined) {
        const detail = `Send a message of one of the types ${[...byName.keys()].join(', ')}.`;
        throw problem('unknown_message_type', { detail });
      }
      name = frame.type;
      await handleFrame(type, frame, { peer, answer });
      metrics.countMessage(name, 'ok');
      return undefined;
    } catch (error) {
      const failure = toProblem(error);
      const { code, status, title, detail, cause } = failure;
      metrics.countMessage(name, code);
      if (status >= 500) peer.log.error({ err: cause ?? failure, code, type: name }, title);
      else peer.log.debug({ code, type: name, detail }, title);
      answer({ type: 'error', problem: problemBody(failure, peer.requestId) });
      return status;
    }
  };
}

async function handleFrame(
  type: MessageType,
  frame: RawFrame,
  { peer, answer }: { peer: Peer; answer: Answer },
): Promise<void> {
  if (type.access === 'public') return type.handle(frame, answer);
  const user = await peer.user();
  if (user === undefined || peer.socket === undefined) throw problem('not_signed_in');
  checkAccess(user, type.access);
  await type.handle(frame, { user, answer, socket: peer.socket });
}

function toProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  const code = isDatabaseOutage(error) ? 'unavailable' : 'internal_error';
  return commonProblem(code, { cause: error });
}

/**
 * Reads a message of a client.
 * @throws ProblemError `malformed_message` for anything but a text frame with a JSON object that has a `type`.
 */
export function readFrame(data: RawData, isBinary: boolean): RawFrame {
  if (isBinary || !Buffer.isBuffer(data)) {
    throw problem('malformed_message', { detail: 'Send text frames, not binary ones.' });
  }
  let value: unknown;
  try {
    value = JSON.parse(data.toString());
  } catch (cause) {
    throw problem('malformed_message', { detail: 'The message is not well-formed JSON.', cause });
  }
  if (isFrame(value)) return value;
  const detail = 'The message must be a JSON object with a text as its `type`.';
  throw problem('malformed_message', { detail });
}

function isFrame(value: unknown): value is RawFrame {
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.hasOwn(value, 'type') &&
    typeof Reflect.get(value, 'type') === 'string'
  );
}

/** Returns the id of a message for its answers; undefined if it has none that is valid. */
export function idOf({ id }: RawFrame): MessageId | undefined {
  if (typeof id === 'number') return Number.isSafeInteger(id) ? id : undefined;
  return typeof id === 'string' && id.length <= MAX_ID_LENGTH ? id : undefined;
}
