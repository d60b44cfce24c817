import type { Message, ServerFrame, Session } from '@oselya/protocol';
import { AnswerStream, Arrivals, type Arrived, type Ask } from './answer.ts';
import { ChatError, reconnectDelayMs } from './errors.ts';
import type { Answer, Frame, NumberedEvent } from './frames.ts';
import { delay, Link, type LinkOptions, LostError, type Socket } from './link.ts';

export type { MemoryChange, Message, Session, Tool } from '@oselya/protocol';
export type { Arrived } from './answer.ts';
export { ChatError, describeClose, reconnectDelayMs } from './errors.ts';
export type { Answer, TurnEvent } from './frames.ts';
export type { Socket, Status } from './link.ts';

/** How long a lost connection is tried again: longer than any restart. */
const PATIENCE_MS = 10 * 60_000;

/** How long a server that is waited for may be silent before the status says so. */
const QUIET_MS = 3000;

/** Attempts while the assistant is unavailable: about two minutes. */
const MAX_TRIES = 8;

export type ChatOptions = Pick<LinkOptions, 'url'> & Partial<LinkOptions>;

/** A connected client of the assistant, which reconnects by itself. */
export type ChatClient = Awaited<ReturnType<typeof openChat>>;

/**
 * Connects to the assistant and stays connected: lost connections are made again as docs/protocol.md asks, and answers
 * continue where they were. If no connection can be made, everything that is waited for fails.
 * @throws ChatError where the first connection fails.
 * @example
 * const client = await openChat({ url: 'https://oselya.example' });
 * const { session_id } = await client.createSession();
 * for await (const event of client.send(session_id, 'Two rooms in Lviv')) console.log(event);
 */
export async function openChat({
  url,
  openSocket = (address): Socket => new WebSocket(address),
  onStatus = () => undefined,
  patienceMs = PATIENCE_MS,
  quietMs = QUIET_MS,
  delayOf = reconnectDelayMs,
}: ChatOptions) {
  const answers = new Set<AnswerStream>();
  const arrivals = new Arrivals();
  /** Turns of sessions that were just opened, whose answers are about to be followed. */
  const openedTurns = new Set<string>();
  const link = new Link(
    { url, openSocket, onStatus, patienceMs, quietMs, delayOf },
    { isAwaiting: () => answers.size > 0, onOpen, onEvent, onLost, onEnd },
  );

  function onOpen(): void {
    const reopening = [...answers].filter(({ isOpenedNext }) => isOpenedNext);
    const reopened = new Set(reopening.map(({ sessionId }) => sessionId));
    for (const sessionId of arrivals.sessions) {
      if (!reopened.has(sessionId)) void listenAgain(sessionId);
    }
    for (const answer of answers) void pursue(answer);
  }

  function onEvent(event: NumberedEvent): void {
    if (arrivals.onArrived !== undefined && isOfAnotherClient(event)) {
      const { session_id: sessionId, turn_id: turnId, message } = event;
      const answer = new AnswerStream(sessionId, { type: 'follow', turnId });
      answers.add(answer);
      arrivals.onArrived({ sessionId, message, answer });
    }
    arrivals.take(event);
    for (const answer of answers) {
      if (answer.sessionId !== event.session_id || answer.turnId !== event.turn_id) continue;
      if (answer.take(event) === 'gap') void pursue(answer);
      if (answer.isOver) answers.delete(answer);
    }
  }

  function onLost({ code }: { code: number }): void {
    if (code !== 1009) return;
    // A message that the server has not accepted by now was too large, and is not sent again.
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

  /** Returns whether an event begins the answer to a question that this client has not asked. */
  function isOfAnotherClient(event: NumberedEvent): event is ServerFrame<'message.started'> {
    if (event.type !== 'message.started' || openedTurns.has(event.turn_id)) return false;
    const { session_id: sessionId, turn_id: turnId, message } = event;
    return [...answers].every(
      (answer) => answer.sessionId !== sessionId || !answer.mayBegin(turnId, message),
    );
  }

  function begin(sessionId: string, ask: Ask): Answer {
    const answer = new AnswerStream(sessionId, ask);
    if (link.end === undefined) {
      answers.add(answer);
      void pursue(answer);
    } else {
      answer.fail(link.end);
    }
    return answer;
  }

  /** Makes an answer begin, or continue on a new connection or after a gap. It never throws: the answer fails. */
  async function pursue(answer: AnswerStream): Promise<void> {
    const refusal = await onThisConnection(async () => {
      if (!answer.isOver) await nextStep(answer);
    });
    if (refusal !== undefined) answer.fail(refusal);
    if (answer.isOver) answers.delete(answer);
  }

  /** Opens a session on a new connection, and publishes its new messages. It never throws. */
  async function listenAgain(sessionId: string): Promise<void> {
    const hasAsked = [...answers].some((answer) => answer.sessionId === sessionId);
    const request = { type: 'session.open', session_id: sessionId } as const;
    const refusal = await onThisConnection(async () => {
      await link.ask(request, ({ messages, turn }) => {
        // The question of a running turn comes with its events.
        const end =
          turn === null ? messages.length : messages.findLastIndex(({ role }) => role === 'user');
        arrivals.catchUp(sessionId, messages.slice(0, Math.max(0, end)), hasAsked);
      });
    });
    if (refusal !== undefined && refusal.problem?.status !== 503) arrivals.forget(sessionId);
  }

  /**
   * Asks until the assistant is available, or another connection has taken over.
   * @returns The error that the assistant answered.
   */
  async function onThisConnection(ask: () => Promise<void>): Promise<ChatError | undefined> {
    const { connections } = link;
    try {
      await untilAvailable(async () => {
        if (link.connections === connections) await ask();
      });
      return undefined;
    } catch (error) {
      if (error instanceof LostError) return undefined;
      if (error instanceof ChatError) return error;
      throw error;
    }
  }

  /** Repeats while the assistant answers 503, for about two minutes. Throws what `ask` throws. */
  async function untilAvailable<Result>(ask: () => Promise<Result>): Promise<Result> {
    for (let tries = 0; ; tries += 1) {
      try {
        return await ask();
      } catch (error) {
        const problem = error instanceof ChatError ? error.problem : undefined;
        if (problem?.status !== 503 || tries === MAX_TRIES) throw error;
        const delayMs = delayOf(1011, tries) ?? 0;
        onStatus({ type: 'refused', problem, delayMs });
        await delay(delayMs);
      }
    }
  }

  async function nextStep(answer: AnswerStream): Promise<void> {
    const { ask, sessionId: session_id } = answer;
    if (answer.isOpenedNext) return reopen(answer);
    if (ask.type !== 'send') return retry(answer);
    const { text, clientMessageId: client_message_id } = ask;
    const request = { type: 'message.send', session_id, text, client_message_id } as const;
    const first = await link.ask(request, bindTo(answer));
    if (first.type !== 'message.repeated') return;
    answer.turnId ??= first.turn_id;
    await reopen(answer);
  }

  /** A retry has no name: after a lost connection the session shows whether it was handled. */
  async function retry(answer: AnswerStream): Promise<void> {
    answer.wasAsked = true;
    const request = { type: 'message.retry', session_id: answer.sessionId } as const;
    await link.ask(request, bindTo(answer));
  }

  /** Opens the session of an answer, with the events that it lacks. */
  async function reopen(answer: AnswerStream): Promise<void> {
    const { sessionId: session_id, turnId: turn_id, seq: after } = answer;
    const known = turn_id === undefined ? {} : { turn_id, after };
    let stored: readonly Message[] = [];
    let isRunning = false;
    await link.ask({ type: 'session.open', session_id, ...known }, ({ turn, messages }) => {
      arrivals.catchUp(session_id, messages, true);
      stored = messages.filter(({ unasked }) => unasked !== true);
      isRunning = turn !== null && answer.isTurn(turn.turn_id, messages);
      if (isRunning) answer.turnId = turn?.turn_id;
      answer.isReplaying = true;
    });
    // Messages are answered in order: earlier events come before this answer.
    await link.ask({ type: 'ping' });
    answer.isReplaying = false;
    if (isRunning || answer.isOver) return;
    const isUnhandled = answer.turnId === undefined && answer.ask.type === 'retry';
    if (isUnhandled && stored.at(-1)?.status !== undefined) return retry(answer);
    answer.endWith(stored);
  }

  await link.opened;

  return {
    /** Creates a session. After a lost connection there may be an empty one more. */
    async createSession(
      options: { profileId?: string | undefined; name?: string | undefined } = {},
    ): Promise<Session> {
      const { profileId: profile_id, name } = options;
      const request = { type: 'session.create', profile_id, name } as const;
      return (await untilAvailable(() => link.insist(request))).session;
    },

    /**
     * Opens a session.
     * @returns Its latest 100 messages, and the running answer from its beginning.
     */
    async openSession(
      sessionId: string,
    ): Promise<{ session: Session; messages: Message[]; answer: Answer | null }> {
      const request = { type: 'session.open', session_id: sessionId } as const;
      const { session, messages, turn } = await link.insist(request, (opened) => {
        arrivals.note(sessionId, opened.messages);
        if (opened.turn !== null) openedTurns.add(opened.turn.turn_id);
      });
      if (turn === null) return { session, messages, answer: null };
      const answer = begin(sessionId, { type: 'follow', turnId: turn.turn_id });
      openedTurns.delete(turn.turn_id);
      return { session, messages, answer };
    },

    /** Sends a message, once over any number of connections. */
    send: (sessionId: string, text: string): Answer =>
      begin(sessionId, { type: 'send', text, clientMessageId: crypto.randomUUID() }),

    /** Answers the last message again, whose answer is incomplete. */
    retry: (sessionId: string): Answer => begin(sessionId, { type: 'retry' }),

    /** Cancels the running answer; its end comes with its events. */
    async cancel(sessionId: string): Promise<void> {
      await link.insist({ type: 'message.cancel', session_id: sessionId });
    },

    /**
     * Undoes the changes of a step in the user's memory, all or none.
     * @throws ChatError `refused` with the problem `nothing_to_undo` where it was undone before, or the memory has
     *   changed since.
     */
    async undo(sessionId: string, stepId: string): Promise<void> {
      await link.insist({ type: 'memory.undo', session_id: sessionId, step_id: stepId });
    },

    /**
     * Calls a function for each message that this client did not ask for, in the latest 20 sessions that it opened or
     * spoke in. Messages that come while the connection is lost follow with the next connection.
     */
    onArrived(callback: (arrived: Arrived) => void): void {
      arrivals.onArrived = callback;
    },

    /** Closes the connection; everything that is waited for fails. */
    close: (): void => link.close(),
  };
}

/** Binds an answer to the turn of its first event. */
function bindTo(answer: AnswerStream): (frame: Frame) => void {
  return (frame) => {
    if (frame.type === 'message.started') answer.turnId = frame.turn_id;
  };
}
