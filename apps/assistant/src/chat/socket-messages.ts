import { Type } from 'typebox';
import type { User } from '../access/user.ts';
import { storableText } from '../schema.ts';
import type { MessagePage } from '../sessions/messages.ts';
import {
  presentMessage,
  presentSession,
  sessionChanges,
  sessionParams,
} from '../sessions/schemas.ts';
import type { Sessions } from '../sessions/service.ts';
import type { MessageId } from '../sockets/frames.ts';
import { type MessageTypes, type UserSocket, userMessage } from '../sockets/message-type.ts';
import type { Chat, Holder } from './chat.ts';
import { createListening } from './listening.ts';

/** Opening a session, a new one or one that is there, and speaking in it. Contract 3, Answers. */
const useProfiles = { permission: 'svc.profiles.use' } as const;

/** The longest message of a user, in characters. */
const MAX_TEXT_LENGTH = 16_000;

/** How many of the latest messages an opened session comes with: a page of HTTP has ten times as many. */
const OPENED_MESSAGES = 100;

const sessionId = { session_id: sessionParams.properties.id };

const text = Type.String({
  minLength: 1,
  maxLength: MAX_TEXT_LENGTH,
  // Something to read, and nothing that PostgreSQL does not store.
  pattern: '^(?![^]*\\u0000)\\s*\\S',
});

const clientMessageId = Type.Optional(storableText({ minLength: 1, maxLength: 100 }));

/** The messages of conversations. Contract 3, WebSocket; docs/protocol.md. */
export function createChatMessages({
  chat,
  sessions,
}: {
  chat: Chat;
  sessions: Pick<Sessions, 'createSession' | 'openConversation' | 'requireReadable'>;
}) {
  const listening = createListening(chat);
  return {
    'session.create': userMessage(
      useProfiles,
      {
        profile_id: Type.Optional(storableText({ minLength: 1, maxLength: 64 })),
        name: sessionChanges.properties.name,
      },
      async ({ message: { profile_id: profileId, name }, user, answer, socket }) => {
        listening.checkRoom(socket);
        const session = await sessions.createSession(user, { profileId, name });
        listening.begin(socket, session.session_id).listener.begin();
        answer({
          type: 'session.created',
          session_id: session.session_id,
          session: presentSession(session),
        });
      },
    ),

    'session.open': userMessage(
      useProfiles,
      {
        ...sessionId,
        turn_id: Type.Optional(storableText({ minLength: 1, maxLength: 100 })),
        after: Type.Optional(Type.Integer({ minimum: 0 })),
      },
      async ({ message, user, answer, socket }) => {
        const { session_id: id, turn_id: turnId, after = 0 } = message;
        const page = { sessionId: id, limit: OPENED_MESSAGES };
        const { userId } = await sessions.requireReadable(user, id);
        // Others may read what was said, and do not hear what is being said.
        if (userId !== user.id) return answer(await opened(user, page));
        // Before anything is read: what happens from here on is not missed.
        const { listener } = listening.begin(socket, id);
        try {
          const known = turnId === undefined ? undefined : { turnId, after };
          const earlier = await chat.earlier(id, known);
          answer({ ...(await opened(user, page)), turn: presentTurn(earlier) });
          listener.begin(earlier);
        } catch (error) {
          listening.end(socket, id);
          throw error;
        }
      },
    ),

    'session.close': userMessage(
      'signed-in',
      sessionId,
      ({ message: { session_id: id }, answer, socket }) => {
        listening.end(socket, id);
        answer({ type: 'session.closed', session_id: id });
      },
    ),

    'message.send': userMessage(
      useProfiles,
      { ...sessionId, text, client_message_id: clientMessageId },
      async ({ message, user, answer, socket }) => {
        const { session_id: id, text: said, client_message_id: named } = message;
        const sent = { sessionId: id, text: said, clientMessageId: named };
        const began = await speak(socket, message, (asker) => chat.send(user, sent, asker));
        if (!began) answer({ type: 'message.repeated', session_id: id, client_message_id: named });
      },
    ),

    'message.retry': userMessage(useProfiles, sessionId, async ({ message, user, socket }) => {
      await speak(socket, message, (asker) => chat.retry(user, message.session_id, asker));
    }),

    'message.cancel': userMessage('signed-in', sessionId, async ({ message, user, answer }) => {
      const { session_id: id } = message;
      await chat.cancel(user, id);
      answer({ type: 'message.cancelling', session_id: id });
    }),

    'memory.undo': userMessage(
      { permission: 'svc.memory.read_own' },
      { ...sessionId, step_id: storableText({ minLength: 1, maxLength: 100 }) },
      async ({ message, user, answer }) => {
        const { session_id: id, step_id: stepId } = message;
        await chat.undo(user, { sessionId: id, stepId });
        answer({ type: 'memory.undone', session_id: id, step_id: stepId });
      },
    ),
  } satisfies MessageTypes;

  /** Does what begins a turn; who asked for it hears what comes of it, with the id of their message. */
  function speak<Result>(
    socket: UserSocket,
    { session_id: id, id: messageId }: { session_id: string; id?: MessageId },
    work: (asker: Holder) => Promise<Result>,
  ): Promise<Result> {
    const { requestId } = socket;
    return listening.during(socket, { sessionId: id, messageId }, (began) =>
      work({ requestId, began, hold: (onSignedOut) => socket.hold(onSignedOut) }),
    );
  }

  async function opened(user: User, page: MessagePage) {
    const { session, messages } = await sessions.openConversation(user, page);
    return {
      type: 'session.opened',
      session_id: session.session_id,
      session: presentSession(session),
      messages: messages.toReversed().map(presentMessage),
      turn: null,
    };
  }
}

/** The turn that is being answered, whose events follow. */
function presentTurn(earlier: Awaited<ReturnType<Chat['earlier']>>): { turn_id: string } | null {
  return earlier?.isRunning === true ? { turn_id: earlier.key.turnId } : null;
}
