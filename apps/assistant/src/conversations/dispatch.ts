import { isDatabaseOutage } from '@oselya/db';
import {
  commonProblem,
  describeErrors,
  type Logger,
  createProblemBody,
  ProblemError,
} from '@oselya/kit';
import {
  MAX_ID_LENGTH,
  messageIdSchema,
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

/** Maximum length of an unknown member's name in an error message. */
const SHOWN_LENGTH = 60;

/** A server message with the `id` of the client message that it answers. */
export type ReplyFrame = ServerFrame & { id?: MessageId | undefined };

/** The socket of a signed-in user, for work that continues after a message was handled. */
export type UserSocket = {
  /** Request id of the handshake, for errors and log lines. */
  readonly requestId: string;
  readonly log: Pick<Logger, 'error' | 'info' | 'debug'>;
  send: (frame: ReplyFrame) => void;
  /** Watches the auth session until the result is released, even after the socket has closed. */
  hold: (onSignedOut: () => void) => LiveUser;
  isOpen: () => boolean;
  /** Adds a callback for the close of the socket. */
  onClose: (work: () => void) => void;
};

/** The sender of a message. */
export type Peer = Pick<UserSocket, 'requestId' | 'log' | 'send'> & {
  /** Resolves the current user; undefined on an anonymous socket. Throws the same errors as `LiveUser.current`. */
  user: () => Promise<User | undefined>;
  /** Undefined for an anonymous socket. */
  socket: UserSocket | undefined;
};

/** Sends a reply that repeats the `id` of the client message. */
export type SendReply<Key extends ServerKey = ServerKey> = (frame: ServerFrame<Key>) => void;

type HandlerContext<Answer_> = { answer: Answer_; user: User; socket: UserSocket };

/** A type of client message: its permission and its handler. The handler throws `validation_failed` for invalid members. */
export type MessageType =
  | {
      access: 'public';
      handle: (frame: RawFrame, answer: SendReply<never>) => void | Promise<void>;
    }
  | {
      access: Exclude<Access, 'public'>;
      handle: (frame: RawFrame, context: HandlerContext<SendReply<never>>) => void | Promise<void>;
    };

/** A client message before validation: only its type is known. */
type RawFrame = Readonly<Record<string, unknown>> & { readonly type: string };

type MessageDefinition<Who extends Access, Members extends TProperties, Key extends ServerKey> = {
  access: Who;
  members: Members;
  answers: readonly Key[];
};

/** Defines a type of client message that needs no sign-in. */
export function definePublicMessage<Members extends TProperties, Key extends ServerKey>(
  { members }: MessageDefinition<'public', Members, Key>,
  handle: (message: Static<TObject<Members>>, answer: SendReply<Key>) => void | Promise<void>,
): MessageType {
  const read = createMemberValidator(members);
  // The dispatcher can send every frame, but TypeScript cannot infer that for a generic key.
  return {
    access: 'public',
    handle: (frame, answer) => handle(read(frame), answer as SendReply<Key>),
  };
}

/** Defines a type of client message that needs a sign-in. The permission is checked before the members. */
export function defineUserMessage<
  Who extends Exclude<Access, 'public'>,
  Members extends TProperties,
  Key extends ServerKey,
>(
  { access, members }: MessageDefinition<Who, Members, Key>,
  handle: (
    message: Static<TObject<Members>>,
    context: HandlerContext<SendReply<Key>>,
  ) => void | Promise<void>,
): MessageType {
  const read = createMemberValidator(members);
  return {
    access,
    handle: (frame, { answer, ...context }) =>
      handle(read(frame), { ...context, answer: answer as SendReply<Key> }),
  };
}

/** Creates a validator of message members. It treats null in an optional member as absent. */
function createMemberValidator<Members extends TProperties>(members: Members) {
  const schema = Type.Object(
    { id: Type.Optional(messageIdSchema), ...members, type: Type.String() },
    { additionalProperties: false },
  );
  const validator = Compile(schema);
  // The compiled validator does not carry the type of the members.
  const isMessage = (frame: unknown): frame is Static<TObject<Members>> => validator.Check(frame);
  const optional = new Set(
    Object.entries(schema.properties).flatMap(([name, own]) => (Type.IsOptional(own) ? name : [])),
  );
  return (frame: RawFrame): Static<TObject<Members>> => {
    const message: unknown = Object.fromEntries(
      Object.entries(frame).filter(([name, value]) => value !== null || !optional.has(name)),
    );
    if (isMessage(message)) return message;
    // TypeBox reports an unknown member twice; drop the second report.
    const errors = validator.Errors(message).filter(({ keyword }) => keyword !== 'boolean');
    const described = errors.map((error) => ({
      ...error,
      // TypeBox omits the keyword from the path.
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
 * Creates the dispatcher of client messages. It checks the permission, calls the handler of the message type, and
 * replies with `error` on failure. Contract 3, WebSocket.
 * @returns A function that never throws and resolves to the HTTP status of the error; undefined on success.
 */
export function createDispatch(
  types: Readonly<Record<string, MessageType>>,
  metrics: SocketMetrics,
) {
  const byName = new Map(Object.entries(types));

  return async (peer: Peer, data: RawData, isBinary: boolean): Promise<number | undefined> => {
    let id: MessageId | undefined;
    let name = 'unknown';
    const answer: SendReply = (frame) => peer.send({ ...frame, ...(id !== undefined && { id }) });
    try {
      const frame = parseFrame(data, isBinary);
      id = messageIdOf(frame);
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
      answer({ type: 'error', problem: createProblemBody(failure, peer.requestId) });
      return status;
    }
  };
}

async function handleFrame(
  type: MessageType,
  frame: RawFrame,
  { peer, answer }: { peer: Peer; answer: SendReply },
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
 * Parses a client message.
 * @throws ProblemError `malformed_message` unless it is a text frame with a JSON object that has a `type`.
 */
function parseFrame(data: RawData, isBinary: boolean): RawFrame {
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

/** Returns the `id` of a client message; undefined if it is absent or invalid. */
function messageIdOf({ id }: RawFrame): MessageId | undefined {
  if (typeof id === 'number') return Number.isSafeInteger(id) ? id : undefined;
  return typeof id === 'string' && id.length <= MAX_ID_LENGTH ? id : undefined;
}
