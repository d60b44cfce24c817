import { setTimeout as sleep } from 'node:timers/promises';
import type { AnswerStream, Ask } from './answer.ts';
import type { Arrivals } from './arrivals.ts';
import { ChatError } from './errors.ts';
import type { Frame, Message } from './frames.ts';
import { type Link, type LinkOptions, LostError } from './link.ts';

/** How often something is asked for again while the assistant cannot tell: for some two minutes. */
const MAX_TRIES = 8;

/** What asking needs beside the link. */
type Asking = Pick<LinkOptions, 'delayOf' | 'onStatus'> & { arrivals: Arrivals };

/**
 * Has an answer come, or go on: on a connection that is new, or has left something out. What is refused for now
 * (503) is asked for again, under its own name or after a look at what there is: it may have been done.
 * It never throws: the answer itself fails, or is gone on with when the link has another connection.
 */
export async function pursue(link: Link, answer: AnswerStream, asking: Asking): Promise<void> {
  const refusal = await refusalOf(link, asking, async () => {
    if (!answer.isOver) await next(link, answer, asking);
  });
  if (refusal !== undefined) answer.fail(refusal);
}

/**
 * Opens a session again, so that what comes by itself in it is told; what came meanwhile is told now. It never throws:
 * a session that is refused is forgotten, unless it is for now.
 * @param isSpokenIn As of `Arrivals.catchUp`.
 */
export async function hearAgain(
  link: Link,
  { sessionId, isSpokenIn }: { sessionId: string; isSpokenIn: boolean },
  asking: Asking,
): Promise<void> {
  const request = { type: 'session.open', session_id: sessionId } as const;
  const refusal = await refusalOf(link, asking, async () => {
    await link.ask(request, ({ messages, turn }) => {
      // The question that is being answered comes with its events.
      const end =
        turn === null ? messages.length : messages.findLastIndex(({ role }) => role === 'user');
      asking.arrivals.catchUp(sessionId, messages.slice(0, Math.max(0, end)), isSpokenIn);
    });
  });
  if (refusal !== undefined && refusal.problem?.status !== 503) asking.arrivals.forget(sessionId);
}

/**
 * Asks for something until the assistant can tell, or another connection has had it asked for as well.
 * @returns Why it was refused.
 */
async function refusalOf(
  link: Link,
  asking: Asking,
  ask: () => Promise<void>,
): Promise<ChatError | undefined> {
  const { connections } = link;
  try {
    await untilTold(asking, async () => {
      if (link.connections === connections) await ask();
    });
    return undefined;
  } catch (error) {
    if (error instanceof LostError) return undefined;
    if (error instanceof ChatError) return error;
    throw error;
  }
}

/**
 * Asks for something until the assistant can tell.
 * @throws What `ask` throws, but for what is refused for now (503) and for less than some two minutes.
 */
export async function untilTold<Result>(
  { delayOf, onStatus }: Pick<Asking, 'delayOf' | 'onStatus'>,
  ask: () => Promise<Result>,
): Promise<Result> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      const problem = error instanceof ChatError ? error.problem : undefined;
      if (problem?.status !== 503 || tries === MAX_TRIES) throw error;
      const delayMs = delayOf(1011, tries) ?? 0;
      onStatus({ type: 'refused', problem, delayMs });
      await sleep(delayMs, undefined, { ref: false });
    }
  }
}

/** The step that an answer needs now. */
function next(link: Link, answer: AnswerStream, asking: Asking): Promise<void> {
  const { ask } = answer;
  if (answer.isOpenedNext) return reopen(link, answer, asking);
  if (ask.type === 'send') return send(link, answer, { ask, asking });
  return retry(link, answer);
}

async function send(
  link: Link,
  answer: AnswerStream,
  { ask, asking }: { ask: Ask & { type: 'send' }; asking: Asking },
): Promise<void> {
  const { sessionId: session_id } = answer;
  const { text, clientMessageId: client_message_id } = ask;
  const message = { type: 'message.send', session_id, text, client_message_id } as const;
  const first = await link.ask(message, bind(answer));
  if (first.type !== 'message.repeated') return;
  answer.turnId ??= first.turn_id;
  await reopen(link, answer, asking);
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
async function reopen(
  link: Link,
  answer: AnswerStream,
  { arrivals }: Pick<Asking, 'arrivals'>,
): Promise<void> {
  const { sessionId: session_id, turnId: turn_id, seq: after } = answer;
  let stored: readonly Message[] = [];
  let isWritten = false;
  await link.ask(
    { type: 'session.open', session_id, ...(turn_id !== undefined && { turn_id, after }) },
    ({ turn, messages }) => {
      arrivals.catchUp(session_id, messages, true);
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
