import type { User } from '../access/permissions.ts';
import {
  type MessagePage,
  presentMessage,
  presentSession,
  type Sessions,
} from '../sessions/index.ts';
import { perMinuteOfEach } from '../limits.ts';
import { problem } from '../errors.ts';
import type { MessageId } from '../sockets/frames.ts';
import { type MessageType, type UserSocket, userMessage } from '../sockets/message-type.ts';
import type { Chat, Holder } from './chat.ts';
import {
  chatDefinitions,
  OPENED_LETTERS,
  OPENED_LETTERS_PER_MINUTE,
  OPENED_MESSAGES,
} from './client-messages.ts';
import { createListening } from './listening.ts';

/** The messages of conversations. Contract 3, WebSocket; docs/protocol.md. */
export function createChatMessages({
  chat,
  sessions,
}: {
  chat: Chat;
  sessions: Pick<Sessions, 'createSession' | 'openConversation' | 'requireReadable'>;
}) {
  const listening = createListening(chat);
  const openings = perMinuteOfEach(OPENED_LETTERS_PER_MINUTE);
  return {
    'session.create': userMessage(
      chatDefinitions['session.create'],
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
      chatDefinitions['session.open'],
      async ({ message, user, answer, socket }) => {
        const { session_id: id, turn_id: turnId, after = 0 } = message;
        const seconds = openings.wait(user.id);
        if (seconds > 0) {
          throw problem('rate_limited', {
            detail: `You opened sessions with ${OPENED_LETTERS_PER_MINUTE} letters in this minute, over all your connections: wait for ${seconds} s, then open it again.`,
          });
        }
        const page = { sessionId: id, limit: OPENED_MESSAGES };
        const { userId } = await sessions.requireReadable(user, id);
        // Others may read what was said, and do not hear what is being said.
        if (userId !== user.id) return answer(await opened(user, page));
        await listening.open(socket, id, async () => {
          const known = turnId === undefined ? undefined : { turnId, after };
          const earlier = await chat.earlier(id, known);
          answer({ ...(await opened(user, page)), turn: presentTurn(earlier) });
          return earlier;
        });
      },
    ),

    'session.close': userMessage(
      chatDefinitions['session.close'],
      ({ message: { session_id: id }, answer, socket }) => {
        listening.end(socket, id);
        answer({ type: 'session.closed', session_id: id });
      },
    ),

    'message.send': userMessage(
      chatDefinitions['message.send'],
      async ({ message, user, answer, socket }) => {
        const { session_id: id, text, client_message_id: clientMessageId } = message;
        const sent = { sessionId: id, text, clientMessageId };
        const { turnId, isNew } = await speak(socket, message, (asker) =>
          chat.send(user, sent, asker),
        );
        // Only what has a name can have been sent before.
        if (isNew || clientMessageId === undefined) return;
        answer({
          type: 'message.repeated',
          session_id: id,
          client_message_id: clientMessageId,
          turn_id: turnId,
        });
      },
    ),

    'message.retry': userMessage(
      chatDefinitions['message.retry'],
      async ({ message, user, socket }) => {
        await speak(socket, message, (asker) => chat.retry(user, message.session_id, asker));
      },
    ),

    'message.cancel': userMessage(
      chatDefinitions['message.cancel'],
      async ({ message: { session_id: id }, user, answer }) => {
        await chat.cancel(user, id);
        answer({ type: 'message.cancelling', session_id: id });
      },
    ),

    'memory.undo': userMessage(
      chatDefinitions['memory.undo'],
      async ({ message: { session_id: id, step_id: stepId }, user, answer }) => {
        await chat.undo(user, { sessionId: id, stepId });
        answer({ type: 'memory.undone', session_id: id, step_id: stepId });
      },
    ),
  } satisfies Record<keyof typeof chatDefinitions, MessageType>;

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
    const shown = messages.toReversed().map(presentMessage);
    openings.spend(user.id, OPENED_LETTERS + JSON.stringify(shown).length);
    return {
      type: 'session.opened' as const,
      session_id: session.session_id,
      session: presentSession(session),
      messages: shown,
      turn: null,
    };
  }
}

/** The turn that is being answered, whose events follow. */
function presentTurn(earlier: Awaited<ReturnType<Chat['earlier']>>): { turn_id: string } | null {
  return earlier?.isRunning === true ? { turn_id: earlier.key.turnId } : null;
}
