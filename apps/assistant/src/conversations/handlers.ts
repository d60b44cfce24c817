import {
  clientMessages,
  type ClientType,
  type MessageId,
  MAX_OPENED_MESSAGES,
} from '@oselya/protocol';
import type { User } from '../access/permissions.ts';
import { createMinuteBudgets } from '../limits.ts';
import { problem } from '../errors.ts';
import { INITIAL_CURSOR, type Chat, type MessageSender } from './chat.ts';
import {
  type MessageType,
  definePublicMessage,
  defineUserMessage,
  type UserSocket,
} from './dispatch.ts';
import { mergeTextEvents, Listener, type SessionFrame } from './listener.ts';
import { presentMessage, presentSession } from './schemas.ts';
import type { SessionService } from './sessions.ts';
import type { TurnKey } from './turns.ts';

/** Maximum number of open sessions per socket. */
const MAX_OPEN = 100;

/**
 * Maximum number of letters that a user may load per minute by opening sessions, over all sockets of a process. It
 * allows about ten sessions with messages of maximum length.
 */
const OPENED_LETTERS_PER_MINUTE = 16_000_000;

/** Letters counted for each opened session, in addition to its messages. */
const OPENED_LETTERS = 1000;

/** A session that a socket has open. */
type OpenSession = {
  listener: Listener;
  /** The latest turn that this socket began, and the message id that its events repeat. */
  asked: { turnId: string; messageId: MessageId } | undefined;
};

/** Creates the handlers of all client messages. Contract 3, WebSocket; docs/protocol.md. */
export function createHandlers({
  chat,
  sessions,
}: {
  chat: Chat;
  sessions: Pick<SessionService, 'createSession' | 'openConversation' | 'requireReadable'>;
}): Record<ClientType, MessageType> {
  const sockets = new WeakMap<UserSocket, Map<string, OpenSession>>();
  const openings = createMinuteBudgets(OPENED_LETTERS_PER_MINUTE);

  return {
    ping: definePublicMessage(clientMessages.ping, (_, answer) => answer({ type: 'pong' })),

    'session.create': defineUserMessage(
      clientMessages['session.create'],
      async ({ profile_id: profileId, name }, { user, answer, socket }) => {
        checkRoom(socket);
        const session = await sessions.createSession(user, { profileId, name });
        const { listener } = open(socket, session.session_id);
        listener.known = session;
        answer({
          type: 'session.created',
          session_id: session.session_id,
          session: presentSession(session),
        });
        listener.resume(INITIAL_CURSOR);
      },
    ),

    'session.open': defineUserMessage(
      clientMessages['session.open'],
      async ({ session_id: id, turn_id: turnId, after = 0 }, { user, answer, socket }) => {
        const seconds = openings.wait(user.id);
        if (seconds > 0) {
          throw problem('rate_limited', {
            detail: `You opened sessions with ${OPENED_LETTERS_PER_MINUTE} letters in this minute, over all your connections: wait for ${seconds} s, then open it again.`,
          });
        }
        const { userId } = await sessions.requireReadable(user, id);
        // Readers other than the owner get the messages, but no events.
        if (userId !== user.id) return answer(await opened(user, id, null));
        const known = turnId === undefined ? undefined : { turnId, seq: after };
        await openAt(socket, id, known, async (running, listener) => {
          const frame = await opened(user, id, running);
          listener.known = frame.session;
          answer(frame);
        });
      },
    ),

    'session.close': defineUserMessage(
      clientMessages['session.close'],
      ({ session_id: id }, { answer, socket }) => {
        close(socket, id);
        answer({ type: 'session.closed', session_id: id });
      },
    ),

    'message.send': defineUserMessage(
      clientMessages['message.send'],
      async (message, { user, answer, socket }) => {
        const { session_id: sessionId, text, client_message_id: clientMessageId } = message;
        const { turnId, isNew } = await speak(socket, message, (sender) =>
          chat.send(user, { sessionId, text, clientMessageId }, sender),
        );
        if (isNew || clientMessageId === undefined) return;
        answer({
          type: 'message.repeated',
          session_id: sessionId,
          client_message_id: clientMessageId,
          turn_id: turnId,
        });
      },
    ),

    'message.retry': defineUserMessage(
      clientMessages['message.retry'],
      async (message, { user, socket }) =>
        speak(socket, message, (sender) => chat.retry(user, message.session_id, sender)),
    ),

    'message.cancel': defineUserMessage(
      clientMessages['message.cancel'],
      async ({ session_id: id }, { user, answer }) => {
        await chat.cancel(user, id);
        answer({ type: 'message.cancelling', session_id: id });
      },
    ),

    'memory.undo': defineUserMessage(
      clientMessages['memory.undo'],
      async ({ session_id: id, step_id: stepId }, { user, answer }) => {
        await chat.undo(user, { sessionId: id, stepId });
        answer({ type: 'memory.undone', session_id: id, step_id: stepId });
      },
    ),
  };

  function openOn(socket: UserSocket): Map<string, OpenSession> {
    const known = sockets.get(socket);
    if (known !== undefined) return known;
    const own = new Map<string, OpenSession>();
    sockets.set(socket, own);
    socket.onClose(() => {
      for (const { listener } of own.values()) listener.close();
      own.clear();
    });
    return own;
  }

  /** @throws ProblemError `too_many_open`. */
  function checkRoom(socket: UserSocket): void {
    if (openOn(socket).size < MAX_OPEN) return;
    throw problem('too_many_open', {
      detail: `This connection has ${MAX_OPEN} sessions open, which is the limit. Close one with \`session.close\`.`,
    });
  }

  /** Returns the open session of a socket, or opens it with a paused listener. */
  function open(socket: UserSocket, sessionId: string): OpenSession {
    const own = openOn(socket);
    const known = own.get(sessionId);
    if (known !== undefined) return known;
    checkRoom(socket);
    const { requestId, log } = socket;
    const session: OpenSession = {
      asked: undefined,
      listener: new Listener({
        events: chat.events,
        sessionId,
        send: (frame) => send(socket, session, frame),
        requestId,
        log,
      }),
    };
    // The socket may have closed while the message was handled.
    if (socket.isOpen()) own.set(sessionId, session);
    else session.listener.close();
    return session;
  }

  function close(socket: UserSocket, sessionId: string): void {
    const own = openOn(socket);
    own.get(sessionId)?.listener.close();
    own.delete(sessionId);
  }

  /**
   * Opens a session after the client's last known event. On failure, a session that was open before stays open without a
   * gap.
   * @param answer Sends the reply before the first event. It gets the running turn.
   */
  async function openAt(
    socket: UserSocket,
    sessionId: string,
    known: { turnId: string; seq: number } | undefined,
    answer?: (running: { turn_id: string } | null, listener: Listener) => Promise<void>,
  ): Promise<void> {
    const wasOpen = openOn(socket).has(sessionId);
    const session = open(socket, sessionId);
    const { listener } = session;
    listener.pause();
    try {
      const { cursor, isRunning } = await chat.cursorOf(sessionId, known);
      const rows = mergeTextEvents(await listener.read(cursor));
      await answer?.(isRunning ? { turn_id: cursor.turnId } : null, listener);
      for (const { frame } of rows) {
        // The reply has a newer state of the session.
        if (answer === undefined || frame.type !== 'session.updated') send(socket, session, frame);
      }
      listener.resume(rows.at(-1)?.position ?? { ...cursor, hasEnded: !isRunning });
    } catch (error) {
      if (wasOpen) listener.resume();
      else close(socket, sessionId);
      throw error;
    }
  }

  /** Begins a turn. The sender gets the events of the turn with the `id` of its message. */
  async function speak<Result>(
    socket: UserSocket,
    { session_id: sessionId, id: messageId }: { session_id: string; id?: MessageId },
    begin: (sender: MessageSender) => Promise<Result>,
  ): Promise<Result> {
    const wasOpen = openOn(socket).has(sessionId);
    const session = open(socket, sessionId);
    let hasBegun = wasOpen;
    const onBegin = ({ turnId, position }: TurnKey) => {
      if (messageId !== undefined) session.asked = { turnId, messageId };
      if (hasBegun) return;
      hasBegun = true;
      session.listener.resume({ turnId, position, seq: 0, hasEnded: false });
    };
    try {
      const { requestId } = socket;
      const hold: MessageSender['hold'] = (onSignedOut) => socket.hold(onSignedOut);
      const result = await begin({ requestId, onBegin, hold });
      if (!hasBegun) await openAt(socket, sessionId, undefined);
      return result;
    } catch (error) {
      if (!wasOpen) close(socket, sessionId);
      throw error;
    }
  }

  async function opened(user: User, sessionId: string, turn: { turn_id: string } | null) {
    const page = { sessionId, limit: MAX_OPENED_MESSAGES };
    const { session, messages } = await sessions.openConversation(user, page);
    const shown = messages.toReversed().map(presentMessage);
    openings.spend(user.id, OPENED_LETTERS + JSON.stringify(shown).length);
    const type = 'session.opened' as const;
    return { type, session_id: sessionId, session: presentSession(session), messages: shown, turn };
  }
}

function send(socket: UserSocket, { asked, listener }: OpenSession, frame: SessionFrame): void {
  if (frame.type === 'session.updated') listener.known = frame.session;
  const isAsked = 'turn_id' in frame && asked?.turnId === frame.turn_id;
  socket.send(isAsked ? { ...frame, id: asked.messageId } : frame);
}
