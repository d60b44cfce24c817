import { setTimeout as sleep } from 'node:timers/promises';
import type { AnswerStream, Ask } from './answer.ts';
import { ChatError } from './errors.ts';
import type { Frame, Message } from './frames.ts';
import { type Link, type LinkOptions, LostError } from './link.ts';

/** How often something is asked for again while the assistant cannot tell: for some two minutes. */
const MAX_TRIES = 8;

/**
 * Has an answer come, or go on: on a connection that is new, or has left something out. What is refused for now
 * (503) is asked for again, under its own name or after a look at what there is: it may have been done.
 * It never throws: the answer itself fails, or is gone on with when the link has another connection.
 */
export async function pursue(
  link: Link,
  answer: AnswerStream,
  { delayOf, onStatus }: Pick<LinkOptions, 'delayOf' | 'onStatus'>,
): Promise<void> {
  const { connections } = link;
  for (let tries = 0; !answer.isOver; tries += 1) {
    try {
      return await next(link, answer);
    } catch (error) {
      if (error instanceof LostError) return;
      if (!(error instanceof ChatError)) throw error;
      const { problem } = error;
      if (problem?.status !== 503 || tries === MAX_TRIES) return answer.fail(error);
      const delayMs = delayOf(1011, tries) ?? 0;
      onStatus({ type: 'refused', problem, delayMs });
      await sleep(delayMs, undefined, { ref: false });
      // Another connection has had it asked for as well.
      if (link.connections !== connections) return;
    }
  }
}

/** The step that an answer needs now. */
function next(link: Link, answer: AnswerStream): Promise<void> {
  const { ask, turnId, wasAsked } = answer;
  if (turnId === undefined && ask.type === 'send') return send(link, answer, ask);
  if (turnId === undefined && ask.type === 'retry' && !wasAsked) return retry(link, answer);
  return reopen(link, answer);
}

async function send(link: Link, answer: AnswerStream, ask: Ask & { type: 'send' }): Promise<void> {
  const { sessionId: session_id } = answer;
  const { text, clientMessageId: client_message_id } = ask;
  const message = { type: 'message.send', session_id, text, client_message_id } as const;
  const first = await link.ask(message, bind(answer));
  if (first.type === 'message.repeated') await reopen(link, answer);
}

/** A retry has no name of its own: after a lost connection one has to look whether it was done. */
async function retry(link: Link, answer: AnswerStream): Promise<void> {
  answer.wasAsked = true;
  const { sessionId: session_id } = answer;
  await link.ask({ type: 'message.retry', session_id }, bind(answer));
}

/** The first event is the answer to the message, and says which turn it began. */
function bind(answer: AnswerStream): (frame: Frame) => void {
  return (frame) => {
    if (frame.type === 'message.started') answer.turnId = frame.turn_id;
  };
}

/** Opens the session of an answer, with the events of it that have not come. */
async function reopen(link: Link, answer: AnswerStream): Promise<void> {
  const { sessionId: session_id, turnId: turn_id, seq: after } = answer;
  let stored: readonly Message[] = [];
  let isWritten = false;
  await link.ask(
    { type: 'session.open', session_id, ...(turn_id !== undefined && { turn_id, after }) },
    ({ turn, messages }) => {
      // What came by itself is neither a question nor an answer.
      stored = messages.filter(({ unasked }) => unasked !== true);
      isWritten = turn !== null && answer.isTurn(turn.turn_id, messages);
      if (isWritten) answer.turnId = turn?.turn_id;
      answer.isReplaying = true;
    },
  );
  // Messages are answered in their order: what there was to catch up with has come before this is answered.
  await link.ask({ type: 'ping' });
  answer.isReplaying = false;
  if (isWritten || answer.isOver) return;
  const isUndone = answer.turnId === undefined && answer.ask.type === 'retry';
  if (isUndone && stored.at(-1)?.status !== undefined) return retry(link, answer);
  answer.endWith(stored);
}
