import { isDatabaseOutage } from '@oselya/db';
import {
  commonProblem,
  createProblemBody,
  describeErrors,
  type Logger,
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

const MAX_UNKNOWN_NAME_LENGTH = 60;

/** A frame for the client, with the `id` of the client message that caused it, if any. */
export type ReplyFrame = ServerFrame & { id?: MessageId | undefined };

/** The socket of a signed-in user. */
export type UserSocket = {
  readonly requestId: string;
  readonly log: Pick<Logger, 'error' | 'info' | 'debug'>;
  send: (frame: ReplyFrame) => void;
  /** Watches the auth session until the returned user is released, even after the socket has closed. */
  watchUser: (onSignedOut: () => void) => LiveUser;
  isOpen: () => boolean;
  addCloseListener: (onClose: () => void) => void;
};

/** The sender of a message, which may be anonymous. */
export type Peer = Pick<UserSocket, 'requestId' | 'log' | 'send'> & {
  /** Returns the user; undefined for an anonymous or closing socket. Throws the errors of `LiveUser.current`. */
  resolveUser: () => Promise<User | undefined>;
  /** Undefined for an anonymous socket. */
  socket: UserSocket | undefined;
};

type SendReply<Key extends ServerKey> = (frame: ServerFrame<Key>) => void;

type PublicContext<Key extends ServerKey> = { answer: SendReply<Key> };
type UserContext<Key extends ServerKey> = PublicContext<Key> & { user: User; socket: UserSocket };

/** A client message before validation. */
type RawFrame = Readonly<Record<string, unknown>> & { readonly type: string };
const rawFrameValidator = Compile(Type.Unsafe<RawFrame>(Type.Object({ type: Type.String() })));

/** A client message type. Its handler throws `validation_failed` for invalid members. */
export type MessageType = {
  access: Access;
  handle: (frame: RawFrame, context: UserContext<ServerKey>) => void | Promise<void>;
};

/** Defines a client message type. The dispatcher checks the access before the members. */
export function defineMessage<
  MessageAccess extends Access,
  Members extends TProperties,
  Key extends ServerKey,
>(
  { access, members }: { access: MessageAccess; members: Members; answers: readonly Key[] },
  handle: (
    message: Static<TObject<Members>>,
    context: MessageAccess extends 'public' ? PublicContext<Key> : UserContext<Key>,
  ) => void | Promise<void>,
): MessageType {
  const parse = createMemberParser(members);
  return {
    access,
    // TypeScript cannot resolve the conditional type of the context, so a cast is needed.
    handle: (frame, context) => handle(parse(frame), context as Parameters<typeof handle>[1]),
  };
}

/** Creates a parser for message members. The parser treats null in an optional member as absent. */
function createMemberParser<Members extends TProperties>(members: Members) {
  const schema = Type.Object(
    { id: Type.Optional(messageIdSchema), ...members, type: Type.String() },
    { additionalProperties: false },
  );
  const validator = Compile(schema);
  // The compiled validator does not carry the type of the members, so this guard adds it.
  const isMessage = (frame: unknown): frame is Static<TObject<Members>> => validator.Check(frame);
  const optionalNames = new Set(
    Object.entries(schema.properties).flatMap(([name, memberSchema]) =>
      Type.IsOptional(memberSchema) ? name : [],
    ),
  );
  return (frame: RawFrame): Static<TObject<Members>> => {
    const message: unknown = Object.fromEntries(
      Object.entries(frame).filter(([name, value]) => value !== null || !optionalNames.has(name)),
    );
    if (isMessage(message)) return message;
    // TypeBox reports an unknown member twice: the second report has the keyword `boolean`.
    const errors = validator.Errors(message).filter(({ keyword }) => keyword !== 'boolean');
    const describedErrors = errors.map((error) => ({
      ...error,
      // TypeBox omits the keyword from `schemaPath`, and `describeErrors` needs it.
      schemaPath: `${error.schemaPath}/${error.keyword}`,
      message:
        error.keyword === 'additionalProperties'
          ? `${error.message}: ${error.params.additionalProperties.map((name) => name.slice(0, MAX_UNKNOWN_NAME_LENGTH)).join(', ')}`
          : error.message,
    }));
    throw problem('validation_failed', { errors: describeErrors('message', describedErrors) });
  };
}

/**
 * Creates the dispatcher for client messages. It checks the access, calls the handler of the message type, and
 * replies with `error` on failure. Contract 3, WebSocket.
 * @returns A function that never rejects, and resolves to the HTTP status of the error; undefined on success.
 */
export function createDispatcher(
  types: Readonly<Record<string, MessageType>>,
  metrics: SocketMetrics,
) {
  const typesByName = new Map(Object.entries(types));

  return async (peer: Peer, data: RawData, isBinary: boolean): Promise<number | undefined> => {
    let id: MessageId | undefined;
    let name = 'unknown';
    const answer = (frame: ServerFrame) => peer.send({ ...frame, ...(id !== undefined && { id }) });
    try {
      const frame = parseFrame(data, isBinary);
      id = parseMessageId(frame);
      const messageType = typesByName.get(frame.type);
      if (messageType === undefined) {
        const detail = `Send a message of one of the types ${[...typesByName.keys()].join(', ')}.`;
        throw problem('unknown_message_type', { detail });
      }
      name = frame.type;
      const context =
        messageType.access === 'public' ? {} : await authorize(peer, messageType.access);
      // Handlers of public messages get no user, and their type keeps them from reading one.
      await messageType.handle(frame, {
        ...(context as { user: User; socket: UserSocket }),
        answer,
      });
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

/**
 * Returns the user and socket of a peer that has access.
 * @throws ProblemError `not_signed_in`, `admin_only` or `permission_missing`; the errors of `resolveUser`.
 */
async function authorize({ resolveUser, socket }: Peer, access: Exclude<Access, 'public'>) {
  const user = await resolveUser();
  if (user === undefined || socket === undefined) throw problem('not_signed_in');
  checkAccess(user, access);
  return { user, socket };
}

function toProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  const code = isDatabaseOutage(error) ? 'unavailable' : 'internal_error';
  return commonProblem(code, { cause: error });
}

/** Parses a frame. @throws ProblemError `malformed_message` unless the frame is a JSON object with a `type`. */
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
  if (rawFrameValidator.Check(value)) return value;
  const detail = 'The message must be a JSON object with a text as its `type`.';
  throw problem('malformed_message', { detail });
}

/** Returns the `id` of a client message; undefined if it is absent or invalid. */
function parseMessageId({ id }: RawFrame): MessageId | undefined {
  if (typeof id === 'number') return Number.isSafeInteger(id) ? id : undefined;
  return typeof id === 'string' && id.length <= MAX_ID_LENGTH ? id : undefined;
}
