import { type Static, type TObject, type TProperties, Type } from 'typebox';
import {
  finishedToolCallSchema,
  messageIdSchema,
  messageSchema,
  problemSchema,
  sessionSchema,
  startedToolCallSchema,
  STORABLE_PATTERN,
  createTextSchema,
  unreadSchema,
  userParts,
} from './data.ts';
import { MAX_MESSAGE_LENGTH, MAX_OPENED_MESSAGES } from './limits.ts';

export * from './data.ts';
export * from './limits.ts';

const sessionMembers = { session_id: Type.String() };
const turnMembers = {
  ...sessionMembers,
  turn_id: Type.String(),
  seq: Type.Integer({
    minimum: 1,
    description: 'Number of the event in its turn, from 1 without gaps.',
  }),
};
const idMember = { id: Type.Optional(messageIdSchema) };

/** Defines a reply to a client message. The reply repeats the message's `id`. */
const defineReply = <Members extends TProperties>(members: Members, description: string) => ({
  isEvent: false,
  description,
  members: { ...idMember, ...members },
});

/** Defines a turn event. On the socket that began the turn, the event repeats the `id` of the client message. */
const defineEvent = <Members extends TProperties>(members: Members, description: string) => ({
  isEvent: true,
  description,
  members: { ...idMember, ...turnMembers, ...members },
});

/** Server messages by key. Each key is the message's type, except that `error.event` has the type `error`. */
export const serverMessages = {
  pong: defineReply({}, 'The connection is alive.'),
  'session.created': defineReply(
    { ...sessionMembers, session: sessionSchema },
    'The session exists, and the socket receives its events.',
  ),
  'session.opened': defineReply(
    {
      ...sessionMembers,
      session: sessionSchema,
      messages: Type.Array(messageSchema, {
        maxItems: MAX_OPENED_MESSAGES,
        description:
          'The latest messages, oldest first; `GET /sessions/{id}` returns the earlier messages.',
      }),
      turn: Type.Union([Type.Object({ turn_id: Type.String() }), Type.Null()], {
        description: 'The running turn, or null; always null unless the user owns the session.',
      }),
    },
    'The current state of the session. Its owner then receives the events of the running turn, and of later turns.',
  ),
  'session.closed': defineReply(
    sessionMembers,
    'The socket receives no more events of the session.',
  ),
  'session.marked_read': defineReply(sessionMembers, 'The messages so far count as read.'),
  'message.repeated': defineReply(
    {
      ...sessionMembers,
      client_message_id: Type.String(),
      turn_id: Type.String({ description: 'ID of the turn; after a retry, of the latest turn.' }),
    },
    'The message was stored before, under the same name. Open the session with this turn to receive its events.',
  ),
  'message.cancelling': defineReply(
    sessionMembers,
    'The answer is being cancelled; its end follows as an event.',
  ),
  'memory.undone': defineReply(
    { ...sessionMembers, step_id: Type.String() },
    'The memory is as it was before the step.',
  ),
  'user.subscribed': defineReply(
    { unread: unreadSchema },
    'The socket receives `user.changed` from now on.',
  ),
  error: defineReply(
    { problem: problemSchema },
    'The message failed; the socket stays open. The `id` is absent if the message is not a JSON object with a `type`.',
  ),
  'message.started': defineEvent(
    {
      message: messageSchema,
      replaces: Type.Optional(
        Type.String({
          description:
            'ID of the answer that the new answer replaces. The earlier answer stays until the new answer has ended.',
        }),
      ),
    },
    "The user's message is stored, and an answer begins: the first event of a turn.",
  ),
  'message.delta': defineEvent(
    { text: Type.String({ description: 'Text to append to the previous text.' }) },
    'More text of the answer. A client that opens the session later gets consecutive texts as one event, with the number of the last event.',
  ),
  'tool.started': defineEvent({ tool: startedToolCallSchema }, 'A tool starts.'),
  'tool.finished': defineEvent({ tool: finishedToolCallSchema }, 'A tool has finished.'),
  'message.completed': defineEvent(
    { message: messageSchema },
    'The answer is stored, complete or as far as it came: then its `status` is `cancelled` or `cut`. An attempt without any text leaves the earlier answer, which is the message then. It ends the answer whatever its number: after a process has died, numbers continue from the last stored event, and a client may have more.',
  ),
  'error.event': defineEvent(
    {
      problem: problemSchema,
      message: Type.Optional({
        ...messageSchema,
        description:
          'The stored part of the answer, or the earlier answer that stays. Absent if the session was deleted.',
      }),
    },
    'The answer failed and has ended.',
  ),
  'message.arrived': defineEvent(
    { message: messageSchema },
    'A message of the assistant that does not answer another message, such as the digest of a saved search. It is the only event of its turn, and never arrives between the events of an answer.',
  ),
  'session.updated': {
    isEvent: true,
    description:
      'The session was renamed, pinned or unpinned, or got its name from the first message that was answered completely. The event belongs to no turn, and may arrive at any time.',
    members: { ...sessionMembers, session: sessionSchema },
  },
  'user.changed': {
    isEvent: true,
    description:
      'Data of the user changed, also by other clients: read the part again. The event belongs to no session.',
    members: {
      part: Type.Enum(userParts, {
        description: 'The changed part. Later versions may add parts.',
      }),
      unread: Type.Optional(unreadSchema),
    },
  },
};
type ServerMessages = typeof serverMessages;
export type ServerKey = keyof ServerMessages;

export type ServerFrame<Key extends ServerKey = ServerKey> = {
  [Name in Key]: { type: Name extends 'error.event' ? 'error' : Name } & Static<
    TObject<ServerMessages[Name]['members']>
  >;
}[Key];

/** Keys of answer events, roughly in order of arrival. */
const answerEventKeys = [
  'message.started',
  'message.delta',
  'tool.started',
  'tool.finished',
  'message.completed',
  'error.event',
] as const;

/** Event of an answer. The last event is `message.completed` or `error`. */
export type AnswerFrame = ServerFrame<(typeof answerEventKeys)[number]>;

export type TurnFrame = AnswerFrame | ServerFrame<'message.arrived'>;

/** Returns whether an event is the last one of its answer. */
export function isFinalEvent({ type }: Pick<TurnFrame, 'type'>): boolean {
  return type === 'message.completed' || type === 'error';
}

/** Defines a client message. Unknown members are rejected, and optional members may be null. */
const defineRequest = <
  const Access extends 'public' | 'signed-in' | { permission: string },
  Members extends TProperties,
  const Answer extends ServerKey,
>(
  access: Access,
  members: Members,
  details: { description: string; answers: readonly Answer[] },
) => ({ access, members: { ...idMember, ...members }, ...details });

const sessionIdMember = {
  session_id: createTextSchema(300, 'ID of the session. IDs of an older system may be any text.'),
};
const profilesAccess = { permission: 'svc.profiles.use' } as const;

/** Client messages by type, with their permission, members and replies. Each may also be answered with `error`. */
export const clientMessages = {
  ping: defineRequest('public', {}, { description: 'Checks the connection.', answers: ['pong'] }),
  'session.create': defineRequest(
    profilesAccess,
    {
      profile_id: Type.Optional(createTextSchema(64, 'Defaults to the default profile.')),
      name: Type.Optional(Type.String({ pattern: STORABLE_PATTERN, maxLength: 200 })),
    },
    {
      description:
        'Creates a session and opens it. An admin-only profile requires the role `admin`.',
      answers: ['session.created'],
    },
  ),
  'session.open': defineRequest(
    profilesAccess,
    {
      ...sessionIdMember,
      turn_id: Type.Optional(
        createTextSchema(100, 'ID of the turn of the last event that the client has.'),
      ),
      after: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: 2 ** 31 - 1,
          description: 'The highest `seq` of that turn that the client has.',
        }),
      ),
    },
    {
      description:
        'Opens a session. Like `GET /sessions/{id}`, it requires the owner, an administrator, or the permission `svc.sessions.read_all`. With `turn_id` and `after`, an interrupted answer continues.',
      answers: ['session.opened'],
    },
  ),
  'session.close': defineRequest('signed-in', sessionIdMember, {
    description: 'Stops the events of a session. The session need not be open.',
    answers: ['session.closed'],
  }),
  'session.mark_read': defineRequest('signed-in', sessionIdMember, {
    description: 'Marks the messages so far in a session of the user as read.',
    answers: ['session.marked_read'],
  }),
  'message.send': defineRequest(
    profilesAccess,
    {
      ...sessionIdMember,
      // The pattern rejects blank text, and NUL characters because PostgreSQL cannot store them.
      text: Type.String({
        minLength: 1,
        maxLength: MAX_MESSAGE_LENGTH,
        pattern: '^(?![^]*\\u0000)\\s*\\S',
      }),
      client_message_id: Type.Optional(
        createTextSchema(
          100,
          'Name that the client gives the message. A message that is sent again under the same name is stored once.',
        ),
      ),
    },
    {
      description:
        'Sends a message in a session of the user, which begins a turn. Every socket that has the session open receives the events. On the sending socket, they repeat the `id`.',
      answers: ['message.repeated', ...answerEventKeys],
    },
  ),
  'message.retry': defineRequest(profilesAccess, sessionIdMember, {
    description:
      'Answers the last message of a session of the user again, if its answer is incomplete.',
    answers: answerEventKeys,
  }),
  'message.cancel': defineRequest('signed-in', sessionIdMember, {
    description: 'Cancels the running answer in a session of the user. The text so far is kept.',
    answers: ['message.cancelling'],
  }),
  'memory.undo': defineRequest(
    { permission: 'svc.memory.read_own' },
    {
      ...sessionIdMember,
      step_id: createTextSchema(
        100,
        'ID of the step that changed the memory, from `tool.finished`.',
      ),
    },
    {
      description:
        'Reverts the changes of a tool in the memory of the user, in a session of the user.',
      answers: ['memory.undone'],
    },
  ),
  'user.subscribe': defineRequest(
    'signed-in',
    {},
    {
      description:
        'Reports changes of the sessions and marks of the user, and the number of unread messages.',
      answers: ['user.subscribed'],
    },
  ),
};
type ClientMessages = typeof clientMessages;
export type ClientType = keyof ClientMessages;
