import { isDatabaseOutage } from '@oselya/db';
import { type Logger, problemBody, type ProblemError } from '@oselya/kit';
import type { Kysely, Transaction } from 'kysely';
import type { UsedTool } from './agent/request.ts';
import { describeChange } from '../memory/facts.ts';
import type { Tables, Unfinished } from '../tables.ts';
import {
  type EventLog,
  insertEvents,
  type NumberedEvent,
  readEvents,
  type RunningTurn,
  type TurnEvent,
} from './event-log.ts';
import {
  deleteAnswer,
  findAnswer,
  insertMessage,
  type Message,
  type NewMessage,
} from './messages.ts';
import { presentMessage } from './schemas.ts';
import { changedSteps } from './steps.ts';
import { endTurn, staleTurns, type TurnKey, type TurnRow } from './turns.ts';

/** Maximum number of turns that the reaper ends at once. */
const BATCH = 100;

/** How a turn ended. */
export type Outcome =
  | { status: 'completed' }
  | { status: Exclude<Unfinished, 'failed'> }
  | { status: 'failed'; problem: ProblemError };

/** An answer, as far as it was written. */
export type Answer = { content: string; used: readonly UsedTool[] };

/**
 * Stores the answer and the end of a turn of this process in one transaction, then publishes the end.
 * @returns False where the turn has ended already: another process aborted it, or its session was deleted.
 */
export async function finishTurn(
  db: Kysely<Tables>,
  turn: RunningTurn,
  { outcome, answer, requestId }: { outcome: Outcome; answer: Answer; requestId: string },
): Promise<boolean> {
  const { turnId, sessionId } = turn;
  const ending = await db.transaction().execute(async (trx) => {
    const ended = await endTurn(trx, { turnId, sessionId, status: outcome.status });
    if (ended === undefined) return undefined;
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
    const last = [...(await unreportedChanges(trx, turn, turn.events)), end];
    await insertEvents(trx, turn, [...turn.unstored, ...numbered(last, turn.events.length)]);
    return last;
  });
  for (const event of ending ?? []) turn.append(event);
  return ending !== undefined;
}

/** Aborts a turn whose process has died: its stored text is kept, and the answer says that it was cut. */
async function abortTurn(
  trx: Transaction<Tables>,
  turn: Omit<TurnKey, 'position'>,
  onlyStale: boolean,
): Promise<boolean> {
  const ended = await endTurn(trx, { ...turn, status: 'cut', onlyStale });
  if (ended === undefined) return false;
  const stored = await readEvents(trx, turn.turnId);
  const content = stored
    .map((event) => (event.type === 'message.delta' ? event.text : ''))
    .join('');
  const answer = { ...turn, content, status: 'cut' as const };
  const message = await storeAnswer(trx, ended.question_id, answer);
  const end = { type: 'message.completed' as const, message: presentMessage(message) };
  const last = [...(await unreportedChanges(trx, turn, stored)), end];
  await insertEvents(trx, turn, numbered(last, stored.at(-1)?.seq ?? 0));
  return true;
}

/**
 * Creates the reaper of turns whose lease has expired, so that their sessions can continue.
 * @param onAbort Called for each.
 */
export function createTurnReaper({
  events,
  log,
  onAbort,
}: {
  events: EventLog;
  log: Pick<Logger, 'info' | 'warn'>;
  onAbort: () => void;
}) {
  const { db } = events;
  return {
    /**
     * Aborts the stale turns of a session, or of all sessions.
     * @param options.all Also those whose lease is held, for a database that no other process has open.
     */
    async abortStaleTurns({ sessionId, all = false }: { sessionId?: string; all?: boolean } = {}) {
      let count = 0;
      for (const turn of await staleTurns(db, { sessionId, limit: BATCH, all })) {
        const isOwn = events.turnOf(turn.session_id)?.turnId === turn.id;
        if (!isOwn && (await abort(turn, !all))) count += 1;
      }
      if (count > 0) log.info({ count }, 'turns of dead processes aborted');
    },
  };

  async function abort(turn: TurnRow, onlyStale: boolean): Promise<boolean> {
    const key = { turnId: turn.id, sessionId: turn.session_id };
    try {
      const isAborted = await db.transaction().execute((trx) => abortTurn(trx, key, onlyStale));
      if (isAborted) onAbort();
      return isAborted;
    } catch (error) {
      if (isDatabaseOutage(error)) throw error;
      // The other turns need not wait for it.
      log.warn({ err: error, turn_id: turn.id }, 'a stale turn could not be aborted');
      return false;
    }
  }
}

/**
 * Stores an answer in place of an earlier one to the same question. An incomplete one without any text does not replace
 * one with text.
 * @returns The answer that remains.
 */
async function storeAnswer(
  trx: Transaction<Tables>,
  questionId: string,
  answer: Omit<NewMessage, 'role'>,
): Promise<Message> {
  const question = { sessionId: answer.sessionId, questionId };
  const isComplete = (answer.status ?? null) === null;
  if (!isComplete && answer.content === '') {
    const earlier = await findAnswer(trx, question);
    if (earlier !== undefined && earlier.content !== '') return earlier;
  }
  await deleteAnswer(trx, question);
  return insertMessage(trx, { ...answer, role: 'assistant' });
}

/**
 * Returns `tool.finished` events for changes of the memory that were not reported: the process died after the change,
 * or the database was unavailable.
 */
async function unreportedChanges(
  trx: Transaction<Tables>,
  turn: Omit<TurnKey, 'position'>,
  events: readonly TurnEvent[],
): Promise<TurnEvent[]> {
  // `Plan.storeChange` stores the start of a tool with its change.
  if (!events.some(({ type }) => type === 'tool.started')) return [];
  const reported = new Set(
    events.flatMap((event) => (event.type === 'tool.finished' ? event.tool.step_id : [])),
  );
  const steps = await changedSteps(trx, turn);
  return steps
    .filter(({ id }) => !reported.has(id))
    .map(({ id, tool: name, title, changes }) => {
      const summary = changes.map(describeChange).join('; ');
      const tool = { step_id: id, name, title, status: 'done' as const, summary, changes };
      return { type: 'tool.finished', tool };
    });
}

function numbered(events: readonly TurnEvent[], lastSeq: number): NumberedEvent[] {
  return events.map((event, index) => ({ ...event, seq: lastSeq + 1 + index }));
}
