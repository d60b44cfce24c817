import type { Message, ServerFrame, Session } from '@oselya/protocol';
import {
  AnswerStream,
  ReceivedMessageTracker,
  type ReceivedMessage,
  type AnswerOrigin,
} from './answer.ts';
import { ChatError, reconnectDelayMs } from './errors.ts';
import type { StreamedAnswer, ReceivedFrame, SequencedEvent } from './frames.ts';
import {
  ChatConnection,
  type ConnectionOptions,
  ConnectionLostError,
  type Socket,
} from './connection.ts';

export { MAX_MESSAGE_LENGTH } from '@oselya/protocol';
export type { MemoryChange, Message, Session, ToolCallInfo } from '@oselya/protocol';
export type { ReceivedMessage } from './answer.ts';
export { ChatError, describeClose, describeProblem, reconnectDelayMs } from './errors.ts';
export type { StreamedAnswer, AnswerEvent } from './frames.ts';
export type { Socket, ConnectionStatus } from './connection.ts';

/** Default reconnect time limit. It exceeds the duration of a restart. */
const DEFAULT_RECONNECT_TIMEOUT_MS = 10 * 60_000;

/** Default duration of server silence before the status `quiet`. */
const DEFAULT_QUIET_MS = 3000;

/** Maximum number of retries while the assistant is unavailable. By default, they take one to two minutes. */
const MAX_RETRIES = 8;

export type ChatOptions = Pick<ConnectionOptions, 'url'> &
  Partial<ConnectionOptions> & {
    /** Called when an open session was renamed, pinned or unpinned, or has got its name. */
    onSessionUpdated?: (session: Session) => void;
  };

/** Client of the assistant. See {@link openChat}. */
export type ChatClient = Awaited<ReturnType<typeof openChat>>;

/**
 * Connects to the assistant, and reconnects after a connection loss as docs/protocol.md describes. Answers continue
 * after a reconnect. If the client gives up, all pending calls and answers fail.
 * @throws ChatError if the first connection fails.
 * @example
 * const client = await openChat({ url: 'https://oselya.example' });
 * const { session_id } = await client.createSession();
 * for await (const event of client.send(session_id, 'Two rooms in Lviv')) console.log(event);
 */
export async function openChat({
  url,
  openSocket = (address): Socket => new WebSocket(address),
  checkFrame = () => true,
  onStatus = () => undefined,
  reconnectTimeoutMs = DEFAULT_RECONNECT_TIMEOUT_MS,
  quietMs = DEFAULT_QUIET_MS,
  getDelayMs = reconnectDelayMs,
  onSessionUpdated = () => undefined,
}: ChatOptions) {
  const answers = new Set<AnswerStream>();
  const receivedMessages = new ReceivedMessageTracker();
  /** IDs of running turns in newly opened sessions, until the client follows their answers. */
  const openedTurns = new Set<string>();
  const connection = new ChatConnection(
    { url, openSocket, checkFrame, onStatus, reconnectTimeoutMs, quietMs, getDelayMs },
    { isAwaiting: () => answers.size > 0, onOpen, onEvent, onSessionUpdated, onLost, onEnd },
  );

  function onOpen(): void {
    const answersToReopen = [...answers].filter(({ canHaveTurn }) => canHaveTurn);
    const reopenedSessionIds = new Set(answersToReopen.map(({ sessionId }) => sessionId));
    for (const sessionId of receivedMessages.sessionIds) {
      if (!reopenedSessionIds.has(sessionId)) void reopenSession(sessionId);
    }
    for (const answer of answers) void continueAnswer(answer);
  }

  function onEvent(event: SequencedEvent): void {
    if (receivedMessages.onArrived !== undefined && isFromAnotherClient(event)) {
      const { session_id: sessionId, turn_id: turnId, message } = event;
      const answer = new AnswerStream(sessionId, { type: 'follow', turnId });
      answers.add(answer);
      receivedMessages.onArrived({ sessionId, message, answer });
    }
    receivedMessages.onEvent(event);
    for (const answer of answers) {
      if (answer.sessionId !== event.session_id || answer.turnId !== event.turn_id) continue;
      if (answer.addEvent(event).isGap) void continueAnswer(answer);
      if (answer.isOver) answers.delete(answer);
    }
  }

  function onLost({ code }: { code: number }): void {
    if (code !== 1009) return;
    // 1009 means that an unconfirmed message was too large, so it is not sent again.
    for (const answer of answers) {
      if (answer.turnId !== undefined) continue;
      answer.fail(new ChatError('too_large', 'the message is too large'));
      answers.delete(answer);
    }
  }

  function onEnd(error: ChatError): void {
    for (const answer of answers) answer.fail(error);
    answers.clear();
  }

  /** Returns whether an event begins the answer to a question from another client. */
  function isFromAnotherClient(event: SequencedEvent): event is ServerFrame<'message.started'> {
    if (event.type !== 'message.started' || openedTurns.has(event.turn_id)) return false;
    const { session_id: sessionId, turn_id: turnId, message } = event;
    return [...answers].every(
      (answer) => answer.sessionId !== sessionId || !answer.canBegin(turnId, message),
    );
  }

  function begin(sessionId: string, origin: AnswerOrigin): StreamedAnswer {
    const answer = new AnswerStream(sessionId, origin);
    if (connection.endError === undefined) {
      answers.add(answer);
      void continueAnswer(answer);
    } else {
      answer.fail(connection.endError);
    }
    return answer;
  }

  /** Starts an answer, or continues it after a reconnect or a gap. Errors end the answer. */
  async function continueAnswer(answer: AnswerStream): Promise<void> {
    const error = await tryOnConnection(async () => {
      if (answer.isOver) return;
      if (answer.canHaveTurn) await reopen(answer);
      else if (answer.origin.type === 'send') await send(answer, answer.origin);
      else await retry(answer);
    });
    if (error !== undefined) answer.fail(error);
    if (answer.isOver) answers.delete(answer);
  }

  /** Reopens a session after a reconnect and publishes its new messages. */
  async function reopenSession(sessionId: string): Promise<void> {
    const isAwaiting = [...answers].some((answer) => answer.sessionId === sessionId);
    const request = { type: 'session.open', session_id: sessionId } as const;
    const error = await tryOnConnection(async () => {
      await connection.request(request, ({ messages, turn }) => {
        // Skip the question of a running turn, because it also arrives as an event.
        const endIndex =
          turn === null ? messages.length : messages.findLastIndex(({ role }) => role === 'user');
        receivedMessages.onReopen(sessionId, messages.slice(0, Math.max(0, endIndex)), isAwaiting);
      });
    });
    if (error !== undefined && error.problem?.status !== 503)
      receivedMessages.forgetSession(sessionId);
  }

  /**
   * Sends a request, and retries it while the assistant is unavailable. Stops if the connection was replaced.
   * @returns The error of the request; undefined on success or after a connection loss.
   */
  async function tryOnConnection(request: () => Promise<void>): Promise<ChatError | undefined> {
    const { connectionCount } = connection;
    try {
      await retryUnavailable(async () => {
        if (connection.connectionCount === connectionCount) await request();
      });
      return undefined;
    } catch (error) {
      if (error instanceof ConnectionLostError) return undefined;
      if (error instanceof ChatError) return error;
      throw error;
    }
  }

  /** Retries a request while the assistant is unavailable, at most {@link MAX_RETRIES} times. Rethrows other errors. */
  async function retryUnavailable<Result>(request: () => Promise<Result>): Promise<Result> {
    for (let retries = 0; ; retries += 1) {
      try {
        return await request();
      } catch (error) {
        const problem = error instanceof ChatError ? error.problem : undefined;
        if (problem?.status !== 503 || retries === MAX_RETRIES) throw error;
        const delayMs = getDelayMs(1011, retries) ?? 0;
        onStatus({ type: 'unavailable', problem, delayMs });
        await delay(delayMs);
      }
    }
  }

  async function send(
    answer: AnswerStream,
    { text, clientMessageId: client_message_id }: Extract<AnswerOrigin, { type: 'send' }>,
  ): Promise<void> {
    const message = { session_id: answer.sessionId, text, client_message_id };
    const reply = await connection.request(
      { type: 'message.send', ...message },
      createTurnSetter(answer),
    );
    if (reply.type !== 'message.repeated') return;
    answer.turnId ??= reply.turn_id;
    await reopen(answer);
  }

  /** Sends a retry, which has no idempotency key. After a connection loss, the session shows whether it was handled. */
  async function retry(answer: AnswerStream): Promise<void> {
    answer.wasRetrySent = true;
    const request = { type: 'message.retry', session_id: answer.sessionId } as const;
    await connection.request(request, createTurnSetter(answer));
  }

  /** Opens the session of an answer and replays the missing events. Then ends the answer if its turn no longer runs. */
  async function reopen(answer: AnswerStream): Promise<void> {
    const { sessionId: session_id, turnId: turn_id, seq: after } = answer;
    const position = turn_id === undefined ? {} : { turn_id, after };
    let turnMessages: readonly Message[] = [];
    let isRunning = false;
    await connection.request({ type: 'session.open', session_id, ...position }, (openedSession) => {
      const { turn, messages } = openedSession;
      receivedMessages.onReopen(session_id, messages, true);
      turnMessages = messages.filter(({ unasked }) => unasked !== true);
      isRunning = turn !== null && answer.hasTurn(turn.turn_id, messages);
      if (isRunning) answer.turnId = turn?.turn_id;
      answer.isReplaying = true;
    });
    // Replies come in order, so all replayed events arrive before the pong.
    await connection.request({ type: 'ping' });
    answer.isReplaying = false;
    if (isRunning || answer.isOver) return;
    const isUnhandledRetry = answer.turnId === undefined && answer.origin.type === 'retry';
    if (isUnhandledRetry && turnMessages.at(-1)?.status !== undefined) return retry(answer);
    answer.endWithStoredAnswer(turnMessages);
  }

  await connection.openPromise;

  return {
    /** Creates a session. If the connection is lost before the reply, an extra empty session may exist. */
    async createSession(
      options: { profileId?: string | undefined; name?: string | undefined } = {},
    ): Promise<Session> {
      const { profileId: profile_id, name } = options;
      const request = { type: 'session.create', profile_id, name } as const;
      return (await retryUnavailable(() => connection.requestRepeatedly(request))).session;
    },

    /**
     * Opens a session.
     * @returns The session, its latest 100 messages, and the running answer, if any, from its first event.
     */
    async openSession(
      sessionId: string,
    ): Promise<{ session: Session; messages: Message[]; answer: StreamedAnswer | null }> {
      const request = { type: 'session.open', session_id: sessionId } as const;
      const { session, messages, turn } = await connection.requestRepeatedly(
        request,
        (openedSession) => {
          receivedMessages.addKnownMessages(sessionId, openedSession.messages);
          if (openedSession.turn !== null) openedTurns.add(openedSession.turn.turn_id);
        },
      );
      if (turn === null) return { session, messages, answer: null };
      const answer = begin(sessionId, { type: 'follow', turnId: turn.turn_id });
      openedTurns.delete(turn.turn_id);
      return { session, messages, answer };
    },

    /** Stops the events of a session. */
    async closeSession(sessionId: string): Promise<void> {
      receivedMessages.forgetSession(sessionId);
      await connection.requestRepeatedly({ type: 'session.close', session_id: sessionId });
    },

    /**
     * Sends a message exactly once, even across reconnects.
     * @param clientMessageId Name of the message, with which it can be sent again after a reload of a page.
     */
    send: (
      sessionId: string,
      text: string,
      clientMessageId: string = createMessageId(),
    ): StreamedAnswer => begin(sessionId, { type: 'send', text, clientMessageId }),

    /** Requests a new answer to the last message if the previous answer is incomplete. */
    retry: (sessionId: string): StreamedAnswer => begin(sessionId, { type: 'retry' }),

    /** Cancels the running answer. Its last event still follows. */
    async cancel(sessionId: string): Promise<void> {
      await connection.requestRepeatedly({ type: 'message.cancel', session_id: sessionId });
    },

    /**
     * Reverts all changes that a step made to the user's memory, or none.
     * @throws ChatError `rejected` with the problem `nothing_to_undo` if the changes were already reverted, or their
     *   facts have changed since.
     */
    async undo(session_id: string, step_id: string): Promise<void> {
      await connection.requestRepeatedly({ type: 'memory.undo', session_id, step_id });
    },

    /**
     * Sets the callback for messages that this client did not request. It covers the 20 most recently used sessions.
     * Messages that are stored while the connection is lost are delivered after the reconnect.
     */
    onArrived(callback: (received: ReceivedMessage) => void): void {
      receivedMessages.onArrived = callback;
    },

    /** Ends the wait for the next attempt to reconnect, if there is one. */
    reconnectNow: (): void => connection.reconnectNow(),

    /** Closes the connection. All pending calls and answers fail. */
    close: (): void => connection.close(),
  };
}

const MESSAGE_ID_BYTES = 16;

/** Creates a random name of a message. Pages of plain HTTP have no `crypto.randomUUID`. */
export function createMessageId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(MESSAGE_ID_BYTES));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

const delay = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Creates a callback that assigns the turn of the first event to an answer. */
function createTurnSetter(answer: AnswerStream): (frame: ReceivedFrame) => void {
  return (frame) => {
    if (frame.type === 'message.started') answer.turnId = frame.turn_id;
  };
}
