import { describeErrors } from '@oselya/kit';
import { type Static, type TObject, type TProperties, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Access } from '../access/guards.ts';
import type { User } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import type { ClientMessage, FrameOf, ServerMessage } from './definitions.ts';
import { type ClientFrame, messageId, type MessageId, type ServerFrame } from './frames.ts';
import type { LiveUser } from './live-users.ts';

/** Sends an answer, which repeats the message's `id`; as often as there is something to tell. */
export type Answer<Frame extends ServerFrame = ServerFrame> = (frame: Frame) => void;

type UserAccess = Exclude<Access, 'public'>;

/** The socket of somebody who is signed in, for what goes on beyond one message. */
export type UserSocket = {
  /** Of the handshake: error answers and log lines have it. */
  readonly requestId: string;
  /** Sends what nobody asked for at this moment. */
  send: (frame: ServerFrame & { id?: MessageId }) => void;
  /** Watches that the user stays signed in, for as long as it is held: also after the socket has closed. */
  hold: (onSignedOut: () => void) => LiveUser;
  /** Calls a function when the socket closes: at once where it has. */
  onClose: (work: () => void) => void;
};

/**
 * A type of message as the dispatch uses it: who may send it, and how it is handled whatever its members
 * are. Handling throws `validation_failed`, and what the handler throws.
 */
export type MessageType =
  | { access: 'public'; handle: (frame: ClientFrame, context: { answer: Answer }) => Promise<void> }
  | {
      access: UserAccess;
      handle: (
        frame: ClientFrame,
        context: { user: User; answer: Answer; socket: UserSocket },
      ) => Promise<void>;
    };

/** Every type of message that clients may send, by name. */
export type MessageTypes = Readonly<Record<string, MessageType>>;

/** As much of a message's definition as handling it takes. */
type Handled<
  Who extends Access,
  Members extends TProperties,
  Answered extends ServerMessage,
> = Pick<ClientMessage<Who, Members, Answered>, 'access' | 'members' | 'answers'>;

/**
 * Makes a type of message that anybody may send.
 * @param handle Answers with what the definition names, and with nothing else.
 */
export function publicMessage<Members extends TProperties, Answered extends ServerMessage>(
  { members }: Handled<'public', Members, Answered>,
  handle: (context: {
    message: Message<Members>;
    answer: Answer<FrameOf<Answered>>;
  }) => void | Promise<void>,
): MessageType {
  const read = reader(members);
  return {
    access: 'public',
    handle: async (frame, { answer }) => handle({ message: read(frame), answer }),
  };
}

/**
 * Makes a type of message for who is signed in. Its access is held against the user for each message, before
 * its members are looked at.
 * @param handle As of `publicMessage`.
 */
export function userMessage<Members extends TProperties, Answered extends ServerMessage>(
  { access, members }: Handled<UserAccess, Members, Answered>,
  handle: (context: {
    message: Message<Members>;
    user: User;
    answer: Answer<FrameOf<Answered>>;
    socket: UserSocket;
  }) => void | Promise<void>,
): MessageType {
  const read = reader(members);
  return {
    access,
    handle: async (frame, context) => handle({ message: read(frame), ...context }),
  };
}

type Message<Members extends TProperties> = Static<TObject<Members>> & { id?: MessageId };

/** What a longer name of an unknown member is cut to. */
const SHOWN_LENGTH = 60;

/**
 * Checks the members of messages; others than those named are errors. What may be left out may be null
 * as well: many languages write absence so.
 */
function reader<Members extends TProperties>(members: Members) {
  const id = Type.Optional(messageId);
  const validator = Compile(
    Type.Object({ ...members, type: Type.String(), id }, { additionalProperties: false }),
  );
  // The validator's own type is lost in the members that are not known here.
  const isMessage = (frame: unknown): frame is Message<Members> => validator.Check(frame);
  const optional = new Set(['id']);
  for (const [name, schema] of Object.entries(members)) {
    if (Type.IsOptional(schema)) optional.add(name);
  }
  const isPresent = ([name, value]: [string, unknown]) => value !== null || !optional.has(name);
  return (frame: ClientFrame): Message<Members> => {
    const message: unknown = Object.fromEntries(Object.entries(frame).filter(isPresent));
    if (isMessage(message)) return message;
    throw problem('validation_failed', { errors: describe(validator.Errors(message)) });
  };
}

type ValidationErrors = ReturnType<ReturnType<typeof Compile>['Errors']>;

function describe(errors: ValidationErrors) {
  // An unknown member is told of once, not also as a value that no schema allows.
  const broken = errors.filter(({ keyword }) => keyword !== 'boolean');
  return describeErrors(
    'message',
    broken.map((error) => ({
      ...error,
      // TypeBox leaves the keyword out.
      schemaPath: `${error.schemaPath}/${error.keyword}`,
      message: describeRule(error),
    })),
  );
}

function describeRule(error: ValidationErrors[number]): string {
  if (error.keyword !== 'additionalProperties') return error.message;
  const names = error.params.additionalProperties.map((name) => name.slice(0, SHOWN_LENGTH));
  return `${error.message}: ${names.join(', ')}`;
}
