import { randomUUID } from 'node:crypto';
import { AnswerStream, type Ask } from './answer.ts';
import { Arrivals, type Arrived } from './arrivals.ts';
import { hearAgain, pursue, untilTold } from './asking.ts';
import { ChatError } from './errors.ts';
import type { Answer, FrameOf, Message, NumberedEvent, Session } from './frames.ts';
import { Link, type LinkOptions } from './link.ts';
import { reconnectDelayMs } from './reconnect.ts';

/** How long a connection that was lost is tried again: longer than any restart. */
const PATIENCE_MS = 10 * 60_000;

/** How long a server that is waited for may be silent before that is told: so long nobody doubts it. */
const QUIET_MS = 3000;

export type ChatOptions = Pick<LinkOptions, 'url' | 'cookie'> &
  Partial<Pick<LinkOptions, 'onStatus' | 'patienceMs' | 'quietMs' | 'delayOf'>>;

/** A client of the assistant that is connected, and connects again by itself. */
export type ChatClient = Awaited<ReturnType<typeof openChat>>;

/**
 * Connects to the assistant, and stays so: a connection that is lost is made again as docs/protocol.md asks,
 * and answers go on from where they were. When it cannot go on, whatever is waited for fails.
 * @throws ChatError where the first connection does not come about.
 */
export async function openChat({
  url,
  cookie,
  onStatus = () => undefined,
  patienceMs = PATIENCE_MS,
  quietMs = QUIET_MS,
  delayOf = reconnectDelayMs,
}: ChatOptions) {
  const answers = new Set<AnswerStream>();
  const arrivals = new Arrivals();
  /** Turns of sessions that are being opened, whose answers are followed in a moment. */
  const openedTurns = new Set<string>();
  const asking = { delayOf, onStatus, arrivals };
  const link = new Link(
    { url, cookie, onStatus, patienceMs, quietMs, delayOf },
    {
      isAwaiting: () => answers.size > 0,
      onOpen() {
        const reopening = [...answers].filter(({ isOpenedNext }) => isOpenedNext);
        const reopened = new Set(reopening.map(({ sessionId }) => sessionId));
        for (const sessionId of arrivals.sessions) {
          if (reopened.has(sessionId)) continue;
          const isSpokenIn = [...answers].some((answer) => answer.sessionId === sessionId);
          void hearAgain(link, { sessionId, isSpokenIn }, asking);
        }
        for (const answer of answers) void follow(answer);
      },
      onEvent(event) {
        if (arrivals.hear !== undefined && isOfAnotherClient(event)) {
          const answer = new AnswerStream(event.session_id, {
            type: 'follow',
            turnId: event.turn_id,
          });
          answers.add(answer);
          arrivals.hear({ sessionId: event.session_id, message: event.message, answer });
        }
        arrivals.take(event);
        for (const answer of answers) {
          if (answer.sessionId !== event.session_id || answer.turnId !== event.turn_id) continue;
          if (answer.take(event) === 'gap') void follow(answer);
          if (answer.isOver) answers.delete(answer);
        }
      },
      onLost({ code }) {
        if (code !== 1009) return;
        // What the server had not taken by then is what was too large, and is not sent again.
        for (const answer of answers) {
          if (answer.turnId !== undefined) continue;
          answer.fail(new ChatError('too_large', 'the message is too large'));
          answers.delete(answer);
        }
      },
      onEnd(error) {
        for (const answer of answers) answer.fail(error);
        answers.clear();
      },
    },
  );

  /** Whether an event begins the answer to what this client has not asked. */
  function isOfAnotherClient(event: NumberedEvent): event is FrameOf<'message.started'> {
    if (event.type !== 'message.started' || openedTurns.has(event.turn_id)) return false;
    const { session_id: sessionId, turn_id: turnId, message } = event;
    return [...answers].every(
      (answer) => answer.sessionId !== sessionId || !answer.mayBegin(turnId, message),
    );
  }

  async function follow(answer: AnswerStream): Promise<void> {
    await pursue(link, answer, asking);
    if (answer.isOver) answers.delete(answer);
  }

  function begin(sessionId: string, ask: Ask): Answer {
    const answer = new AnswerStream(sessionId, ask);
    if (link.end === undefined) {
      answers.add(answer);
      void follow(answer);
    } else {
      answer.fail(link.end);
    }
    return answer;
  }

  await link.opened;

  return {
    /**
     * Makes a session. Where the connection is lost meanwhile, or it is refused for now, there may be an empty one more.
     */
    async createSession(
      options: { profileId?: string | undefined; name?: string | undefined } = {},
    ): Promise<Session> {
      const { profileId: profile_id, name } = options;
      const request = { type: 'session.create', profile_id, name } as const;
      return (await untilTold(asking, () => link.insist(request))).session;
    },

    /**
     * Opens a session.
     * @returns Its latest 100 messages, and the answer that is being written, from its beginning.
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

    /** Says something in a session: once, however often the connection is lost. */
    send: (sessionId: string, text: string): Answer =>
      begin(sessionId, { type: 'send', text, clientMessageId: randomUUID() }),

    /** Has the last message answered again, whose answer is not complete. */
    retry: (sessionId: string): Answer => begin(sessionId, { type: 'retry' }),

    /** Ends the answer that is being written; its end comes with its events. */
    async cancel(sessionId: string): Promise<void> {
      await link.insist({ type: 'message.cancel', session_id: sessionId });
    },

    /**
     * Takes back what a step changed in the user's memory: its `changes`, all of them or none.
     * @throws ChatError `refused` with the problem `nothing_to_undo` where it was taken back before, which after a lost
     *   connection may have been by this, or the memory has changed since.
     */
    async undo(sessionId: string, stepId: string): Promise<void> {
      await link.insist({ type: 'memory.undo', session_id: sessionId, step_id: stepId });
    },

    /**
     * Has what comes by itself told from now on, and what another client of the user asks and is answered, in the
     * latest 20 sessions that were opened or spoken in; what came before that is in the messages of its session. What
     * comes while the connection is lost is told as soon as there is one again.
     */
    hearArrivals(hear: (arrived: Arrived) => void): void {
      arrivals.hear = hear;
    },

    /** Closes the connection; whatever is waited for fails. */
    close: (): void => link.close(),
  };
}
