import {
  clientMessages,
  type ClientType,
  type MessageId,
  MAX_OPENED_MESSAGES,
} from '@oselya/protocol';
import type { User } from '../access/permissions.ts';
import { createMinuteBudgets } from '../limits.ts';
import { problem } from '../errors.ts';
import { INITIAL_CURSOR, type ChatService, type MessageSender } from './chat.ts';
import { defineMessage, type MessageType, type UserSocket } from './dispatch.ts';
import { mergeTextEvents, Listener, type SessionFrame } from './listener.ts';
import { presentMessage, presentSession } from './schemas.ts';
import type { SessionService } from './sessions.ts';
import type { TurnKey } from './turns.ts';
import type { UserFeed } from './user-feed.ts';

const MAX_OPEN_SESSIONS = 100;

/**
 * Number of loaded characters after which a user may open no more sessions in a minute, over all sockets of a process.
 * The limit allows about ten sessions with messages of maximum length.
 */
const MAX_OPENED_CHARACTERS_PER_MINUTE = 16_000_000;

/** Fixed cost of opening a session, in characters, in addition to the length of its messages. */
const OPENING_COST_CHARACTERS = 1000;

type OpenSession = {
  listener: Listener;
  /** The latest turn that this socket began with a message that has an ID. The turn's events repeat the ID. */
  latestRequest: { turnId: string; messageId: MessageId } | undefined;
};

type RunningTurnRef = { turn_id: string } | null;

/** Creates the client message handlers. Contract 3, WebSocket; docs/protocol.md. */
export function createHandlers({
  chat,
  sessions,
  userFeed,
}: {
  chat: ChatService;
  sessions: Pick<
    SessionService,
    'createSession' | 'openConversation' | 'requireReadable' | 'markRead'
  >;
  userFeed: Pick<UserFeed, 'subscribe'>;
}): Record<ClientType, MessageType> {
  const openSessionsBySocket = new WeakMap<UserSocket, Map<string, OpenSession>>();
  const openingBudgets = createMinuteBudgets(MAX_OPENED_CHARACTERS_PER_MINUTE);

  return {
    ping: defineMessage(clientMessages.ping, (_, { answer }) => answer({ type: 'pong' })),

    'session.create': defineMessage(
      clientMessages['session.create'],
      async ({ profile_id: profileId, name }, { user, answer, socket }) => {
        checkOpenSessionLimit(socket);
        const createdSession = await sessions.createSession(user, { profileId, name });
        const session = presentSession(createdSession);
        const { listener } = openSession(socket, session.session_id);
        listener.lastSentSession = session;
        answer({ type: 'session.created', session_id: session.session_id, session });
        listener.resume(INITIAL_CURSOR);
      },
    ),

    'session.open': defineMessage(
      clientMessages['session.open'],
      async ({ session_id: id, turn_id: turnId, after = 0 }, { user, answer, socket }) => {
        const waitSeconds = openingBudgets.wait(user.id);
        if (waitSeconds > 0) {
          throw problem('rate_limited', {
            detail: `You opened sessions with ${MAX_OPENED_CHARACTERS_PER_MINUTE} characters in this minute, over all your connections: wait for ${waitSeconds} s, then open it again.`,
          });
        }
        const { userId } = await sessions.requireReadable(user, id);
        // Readers other than the owner get the messages, but no events.
        if (userId !== user.id) return answer(await createOpenedFrame(user, id, null));
        const lastKnownEvent = turnId === undefined ? undefined : { turnId, seq: after };
        await openAtEvent(socket, id, lastKnownEvent, async (runningTurn, listener) => {
          const frame = await createOpenedFrame(user, id, runningTurn);
          listener.lastSentSession = frame.session;
          answer(frame);
        });
      },
    ),

    'session.close': defineMessage(
      clientMessages['session.close'],
      ({ session_id }, { answer, socket }) => {
        closeSession(socket, session_id);
        answer({ type: 'session.closed', session_id });
      },
    ),

    'session.mark_read': defineMessage(
      clientMessages['session.mark_read'],
      async ({ session_id }, { user, answer }) => {
        await sessions.markRead(user, session_id);
        answer({ type: 'session.marked_read', session_id });
      },
    ),

    'message.send': defineMessage(
      clientMessages['message.send'],
      async (message, { user, answer, socket }) => {
        const { session_id, text, client_message_id } = message;
        const { turnId: turn_id, isNew } = await startTurn(socket, message, (sender) =>
          chat.send(
            user,
            { sessionId: session_id, text, clientMessageId: client_message_id },
            sender,
          ),
        );
        if (isNew || client_message_id === undefined) return;
        answer({ type: 'message.repeated', session_id, client_message_id, turn_id });
      },
    ),

    'message.retry': defineMessage(
      clientMessages['message.retry'],
      async (message, { user, socket }) =>
        startTurn(socket, message, (sender) => chat.retry(user, message.session_id, sender)),
    ),

    'message.cancel': defineMessage(
      clientMessages['message.cancel'],
      async ({ session_id }, { user, answer }) => {
        await chat.cancel(user, session_id);
        answer({ type: 'message.cancelling', session_id });
      },
    ),

    'memory.undo': defineMessage(
      clientMessages['memory.undo'],
      async ({ session_id, step_id }, { user, answer }) => {
        await chat.undo(user, { sessionId: session_id, stepId: step_id });
        answer({ type: 'memory.undone', session_id, step_id });
      },
    ),

    'user.subscribe': defineMessage(
      clientMessages['user.subscribe'],
      async (_, { user, answer, socket }) => {
        answer({ type: 'user.subscribed', unread: await userFeed.subscribe(user.id, socket) });
      },
    ),
  };

  function getOpenSessions(socket: UserSocket): Map<string, OpenSession> {
    const existingSessions = openSessionsBySocket.get(socket);
    if (existingSessions !== undefined) return existingSessions;
    const openSessions = new Map<string, OpenSession>();
    openSessionsBySocket.set(socket, openSessions);
    socket.addCloseListener(() => {
      for (const { listener } of openSessions.values()) listener.close();
      openSessions.clear();
    });
    return openSessions;
  }

  /** Checks that a socket may open one more session. @throws ProblemError `too_many_open`. */
  function checkOpenSessionLimit(socket: UserSocket): void {
    if (getOpenSessions(socket).size < MAX_OPEN_SESSIONS) return;
    throw problem('too_many_open', {
      detail: `This connection has ${MAX_OPEN_SESSIONS} sessions open, which is the limit. Close one with \`session.close\`.`,
    });
  }

  /** Returns the open session of a socket, or opens it with a paused listener. @throws ProblemError `too_many_open`. */
  function openSession(socket: UserSocket, sessionId: string): OpenSession {
    const openSessions = getOpenSessions(socket);
    const existingSession = openSessions.get(sessionId);
    if (existingSession !== undefined) return existingSession;
    checkOpenSessionLimit(socket);
    const { requestId, log } = socket;
    const sendToSocket = (frame: SessionFrame) => sendFrame(socket, session, frame);
    const options = { events: chat.events, sessionId, send: sendToSocket, requestId, log };
    const session: OpenSession = { latestRequest: undefined, listener: new Listener(options) };
    // The socket may have closed while the message was being handled.
    if (socket.isOpen()) openSessions.set(sessionId, session);
    else session.listener.close();
    return session;
  }

  function closeSession(socket: UserSocket, sessionId: string): void {
    const openSessions = getOpenSessions(socket);
    openSessions.get(sessionId)?.listener.close();
    openSessions.delete(sessionId);
  }

  /**
   * Opens a session and sends the events after the client's last known event, or from the start of a running turn. On
   * failure, an already open session continues without a gap.
   * @param answer Sends the reply before the first event.
   */
  async function openAtEvent(
    socket: UserSocket,
    sessionId: string,
    lastKnownEvent: { turnId: string; seq: number } | undefined,
    answer?: (runningTurn: RunningTurnRef, listener: Listener) => Promise<void>,
  ): Promise<void> {
    const wasOpen = getOpenSessions(socket).has(sessionId);
    const session = openSession(socket, sessionId);
    const { listener } = session;
    listener.pause();
    try {
      const { cursor, isRunning } = await chat.findCursor(sessionId, lastKnownEvent);
      const rows = mergeTextEvents(await listener.read(cursor));
      await answer?.(isRunning ? { turn_id: cursor.turnId } : null, listener);
      for (const { frame } of rows) {
        // The reply already contains a newer version of the session.
        if (answer === undefined || frame.type !== 'session.updated')
          sendFrame(socket, session, frame);
      }
      listener.resume(rows.at(-1)?.cursor ?? { ...cursor, hasEnded: !isRunning });
    } catch (error) {
      if (wasOpen) listener.resume();
      else closeSession(socket, sessionId);
      throw error;
    }
  }

  /** Begins a turn and follows its session. The turn's events on this socket repeat the `id` of the message, if any. */
  async function startTurn<Result>(
    socket: UserSocket,
    { session_id: sessionId, id: messageId }: { session_id: string; id?: MessageId },
    beginTurn: (sender: MessageSender) => Promise<Result>,
  ): Promise<Result> {
    const wasOpen = getOpenSessions(socket).has(sessionId);
    const session = openSession(socket, sessionId);
    let isFollowing = wasOpen;
    const onBegin = ({ turnId, position }: TurnKey) => {
      if (messageId !== undefined) session.latestRequest = { turnId, messageId };
      if (isFollowing) return;
      isFollowing = true;
      session.listener.resume({ turnId, position, seq: 0, hasEnded: false });
    };
    try {
      const { requestId, watchUser } = socket;
      const result = await beginTurn({ requestId, onBegin, watchUser });
      if (!isFollowing) await openAtEvent(socket, sessionId, undefined);
      return result;
    } catch (error) {
      if (!wasOpen) closeSession(socket, sessionId);
      throw error;
    }
  }

  async function createOpenedFrame(user: User, sessionId: string, turn: RunningTurnRef) {
    const pageQuery = { sessionId, limit: MAX_OPENED_MESSAGES };
    const conversation = await sessions.openConversation(user, pageQuery);
    const session = presentSession(conversation.session);
    const messages = conversation.messages.toReversed().map(presentMessage);
    openingBudgets.spend(user.id, OPENING_COST_CHARACTERS + JSON.stringify(messages).length);
    const type = 'session.opened' as const;
    return { type, session_id: sessionId, session, messages, turn };
  }
}

function sendFrame(
  socket: UserSocket,
  { latestRequest, listener }: OpenSession,
  frame: SessionFrame,
): void {
  if (frame.type === 'session.updated') listener.lastSentSession = frame.session;
  const isRequested = 'turn_id' in frame && latestRequest?.turnId === frame.turn_id;
  socket.send(isRequested ? { ...frame, id: latestRequest.messageId } : frame);
}
