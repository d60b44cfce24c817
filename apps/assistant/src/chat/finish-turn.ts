import { setTimeout as sleep } from 'node:timers/promises';
import { isDatabaseOutage } from '@oselya/db';
import { problemBody } from '@oselya/kit';
import type { Kysely, Transaction } from 'kysely';
import type { UsedTool } from '../agent/request.ts';
import { type Message, presentMessage } from '../sessions/index.ts';
import type { Tables } from '../tables.ts';
import type { NumberedEvent, TurnEvent } from './events.ts';
import { deleteAnswer, findAnswer, insertMessage, type NewMessage } from './messages.sql.ts';
import type { Outcome } from './outcome.ts';
import type { Turn, TurnKey } from './turn.ts';
import { insertEvents, readEvents, storeAllEvents } from './turn-events.sql.ts';
import { endTurn, findTurn, tell } from './turns.sql.ts';
import { untoldChanges } from './untold-changes.ts';

/** How long the end of a turn waits for a database that does not answer; at a shutdown nobody waits. */
const PATIENCE_MS = 10 * 60_000;
const RETRY_MS = 1000;

/** An answer, as far as it came. */
export type Answer = { content: string; used: readonly UsedTool[] };

/** How a turn ends, who tells of it, and which request it goes back to. */
export type Ending = { outcome: Outcome; answer: Answer; sender: string; requestId: string };

/**
 * Ends a turn: its answer, and that it has ended, are stored together, and only then it is told. While the
 * database does not answer this is tried again; it may have been stored, and only the answer lost.
 * @returns Whether it was this turn's to end: another process may have taken it for dead.
 * @throws What the database throws otherwise, or at the end of that time.
 */
export async function finishTurn(db: Kysely<Tables>, turn: Turn, ending: Ending): Promise<boolean> {
  const deadline = performance.now() + PATIENCE_MS;
  for (let isAgain = false; ; isAgain = true) {
    try {
      let last = await db.transaction().execute((trx) => storeEnd(trx, turn, ending));
      if (last.length === 0 && isAgain) last = await readEnd(db, turn, ending);
      for (const event of last) turn.add(event);
      return last.length > 0;
    } catch (error) {
      const isOver = performance.now() >= deadline || turn.isClosing;
      if (!isDatabaseOutage(error) || isOver) throw error;
      await sleep(RETRY_MS);
    }
  }
}

/** @returns What is to be told, its end last; nothing where it was not this turn's to end. */
async function storeEnd(
  trx: Transaction<Tables>,
  turn: Turn,
  { outcome, answer, sender, requestId }: Ending,
): Promise<TurnEvent[]> {
  const { turnId, sessionId } = turn;
  const ended = await endTurn(trx, { turnId, sessionId, status: outcome.status });
  if (ended === undefined) return [];
  const body = outcome.status === 'failed' ? problemBody(outcome.problem, requestId) : undefined;
  const message = await storeAnswer(trx, ended.question_id, {
    sessionId,
    turnId,
    content: answer.content,
    ...(answer.used.length > 0 && { toolCalls: answer.used }),
    status: outcome.status === 'completed' ? null : outcome.status,
    problem: body ?? null,
  });
  const presented = presentMessage(message);
  const end: TurnEvent =
    body === undefined
      ? { type: 'message.completed', message: presented }
      : { type: 'error', problem: body, message: presented };
  const told = turn.after(0);
  const last = [...(await untoldChanges(trx, turn, told)), end];
  await storeAllEvents(trx, { turnId, events: [...told, ...numbered(last, turn.lastSeq)] });
  await tell(trx, { sessionId, sender });
  return last;
}

/** @returns What `storeEnd` has stored before; nothing where another process ended the turn otherwise. */
async function readEnd(
  db: Kysely<Tables>,
  { turnId, lastSeq }: Turn,
  { outcome }: Ending,
): Promise<TurnEvent[]> {
  const row = await findTurn(db, turnId);
  return row?.status === outcome.status ? readEvents(db, { turnId, after: lastSeq }) : [];
}

/**
 * Cuts off a turn whose process has gone: what was streamed and stored of its answer stays, and says so.
 * @param options.onlyStale As of `endTurn`.
 * @returns What is to be told, its end last; nothing where it was left, or did not run any more.
 */
export async function cutTurn(
  trx: Transaction<Tables>,
  { turnId, sessionId }: Omit<TurnKey, 'position'>,
  { sender, onlyStale }: { sender: string; onlyStale: boolean },
): Promise<NumberedEvent[]> {
  const ended = await endTurn(trx, { turnId, sessionId, status: 'cut', onlyStale });
  if (ended === undefined) return [];
  // Nothing more is stored of it from now on.
  const told = await readEvents(trx, { turnId, after: 0 });
  const content = told.map((event) => (event.type === 'message.delta' ? event.text : '')).join('');
  const answer = { sessionId, turnId, content, status: 'cut' as const };
  const message = await storeAnswer(trx, ended.question_id, answer);
  const end = { type: 'message.completed' as const, message: presentMessage(message) };
  const changes = await untoldChanges(trx, { turnId, sessionId }, told);
  const last = numbered([...changes, end], told.at(-1)?.seq ?? 0);
  await insertEvents(trx, { turnId, events: last });
  await tell(trx, { sessionId, sender });
  return last;
}

/**
 * Stores an answer in the place of an earlier one to the same question. One that says something does not go for one
 * that was ended before its first word.
 * @returns The answer that there is now.
 */
async function storeAnswer(
  trx: Transaction<Tables>,
  questionId: string,
  answer: Omit<NewMessage, 'role'>,
): Promise<Message> {
  const question = { sessionId: answer.sessionId, questionId };
  const isWhole = (answer.status ?? null) === null;
  if (!isWhole && answer.content === '') {
    const earlier = await findAnswer(trx, question);
    if (earlier !== undefined && earlier.content !== '') return earlier;
  }
  await deleteAnswer(trx, question);
  return insertMessage(trx, { ...answer, role: 'assistant' });
}

/** Events with their numbers, after those that there are. */
function numbered(events: readonly TurnEvent[], lastSeq: number): NumberedEvent[] {
  return events.map((event, index) => ({ ...event, seq: lastSeq + 1 + index }));
}
