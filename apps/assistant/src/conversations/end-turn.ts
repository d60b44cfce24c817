import { isDatabaseOutage } from '@oselya/db';
import { type Logger, createProblemBody, type ProblemError } from '@oselya/kit';
import type { Kysely, Transaction } from 'kysely';
import type { StoredToolCall } from './agent/request.ts';
import { describeChange } from '../memory/facts.ts';
import type { Tables, IncompleteTurnStatus } from '../tables.ts';
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
import { findMemorySteps } from './steps.ts';
import { endTurn, findStaleTurns, findTurnStatus, type TurnKey, type TurnRow } from './turns.ts';

/** Maximum number of aborted turns per reaper run. */
const MAX_ABORTED_TURNS = 100;

export type TurnOutcome =
  | { status: 'completed' }
  | { status: Exclude<IncompleteTurnStatus, 'failed'> }
  | { status: 'failed'; problem: ProblemError };

/** An answer that may be incomplete: its text and tool calls. */
export type PartialAnswer = { content: string; toolCalls: readonly StoredToolCall[] };

/**
 * Stores the answer and the end of a turn in one transaction, then publishes the end. The call can be repeated if
 * the reply to the commit was lost.
 * @returns False if the turn has ended with another status, or its session was deleted.
 */
export async function finishTurn(
  db: Kysely<Tables>,
  turn: RunningTurn,
  turnEnd: { outcome: TurnOutcome; answer: PartialAnswer; requestId: string },
): Promise<boolean> {
  const { turnId, sessionId } = turn;
  const { outcome, answer, requestId } = turnEnd;
  const lastEvents = await db.transaction().execute(async (trx) => {
    const endedTurn = await endTurn(trx, { turnId, sessionId, status: outcome.status });
    if (endedTurn === undefined) return undefined;
    const problemBody =
      outcome.status === 'failed' ? createProblemBody(outcome.problem, requestId) : null;
    const storedMessage = await storeAnswer(trx, endedTurn.question_id, {
      sessionId,
      turnId,
      content: answer.content,
      ...(answer.toolCalls.length > 0 && { toolCalls: answer.toolCalls }),
      status: outcome.status === 'completed' ? null : outcome.status,
      problem: problemBody,
    });
    const message = presentMessage(storedMessage);
    const endEvent: TurnEvent =
      problemBody === null
        ? { type: 'message.completed', message }
        : { type: 'error', problem: problemBody, message };
    const finalEvents = [...(await findUnreportedChanges(trx, turn, turn.events)), endEvent];
    await insertEvents(trx, turn, [
      ...turn.unstoredEvents,
      ...numberEvents(finalEvents, turn.events.length),
    ]);
    return finalEvents;
  });
  if (lastEvents === undefined) return (await findTurnStatus(db, turnId)) === outcome.status;
  for (const event of lastEvents) turn.append(event);
  return true;
}

/**
 * Aborts a turn whose process has died. The answer keeps the stored text and gets the status `cut`.
 * @param isStaleOnly Whether to abort the turn only if its lease has expired.
 * @returns Whether the turn was aborted.
 */
async function abortTurn(
  trx: Transaction<Tables>,
  turn: Omit<TurnKey, 'position'>,
  isStaleOnly: boolean,
): Promise<boolean> {
  const endedTurn = await endTurn(trx, { ...turn, status: 'cut', isStaleOnly });
  if (endedTurn === undefined) return false;
  const events = await readEvents(trx, turn.turnId);
  const texts = events.map((event) => (event.type === 'message.delta' ? event.text : ''));
  const answer = { ...turn, content: texts.join(''), status: 'cut' as const };
  const message = await storeAnswer(trx, endedTurn.question_id, answer);
  const endEvent = { type: 'message.completed' as const, message: presentMessage(message) };
  const finalEvents = [...(await findUnreportedChanges(trx, turn, events)), endEvent];
  await insertEvents(trx, turn, numberEvents(finalEvents, events.at(-1)?.seq ?? 0));
  return true;
}

/** Creates the reaper, which aborts turns with an expired lease so that their sessions accept messages again. */
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
     * Aborts stale turns of one session, or of all sessions. Skips turns that this process still runs.
     * @param options.includesActive Whether to abort turns with a valid lease too. Only safe if no other process uses
     *   the database.
     */
    async abortStaleTurns({
      sessionId,
      includesActive = false,
    }: { sessionId?: string; includesActive?: boolean } = {}) {
      let count = 0;
      for (const turn of await findStaleTurns(db, {
        sessionId,
        limit: MAX_ABORTED_TURNS,
        includesActive,
      })) {
        const isRunningHere = events.getRunningTurn(turn.session_id)?.turnId === turn.id;
        if (!isRunningHere && (await tryAbortTurn(turn, !includesActive))) count += 1;
      }
      if (count > 0) log.info({ count }, 'turns of dead processes aborted');
    },
  };

  async function tryAbortTurn(turn: TurnRow, isStaleOnly: boolean): Promise<boolean> {
    const key = { turnId: turn.id, sessionId: turn.session_id };
    try {
      const wasAborted = await db.transaction().execute((trx) => abortTurn(trx, key, isStaleOnly));
      if (wasAborted) onAbort();
      return wasAborted;
    } catch (error) {
      if (isDatabaseOutage(error)) throw error;
      // The failure of one turn must not keep the other turns from being aborted.
      log.warn({ err: error, turn_id: turn.id }, 'a stale turn could not be aborted');
      return false;
    }
  }
}

/**
 * Stores an answer, which replaces an earlier answer to the question. An empty incomplete answer does not replace text.
 * @returns The stored answer, or the earlier answer if it was not replaced.
 */
async function storeAnswer(
  trx: Transaction<Tables>,
  questionId: string,
  answer: Omit<NewMessage, 'role'>,
): Promise<Message> {
  const question = { sessionId: answer.sessionId, questionId };
  const isComplete = (answer.status ?? null) === null;
  if (!isComplete && answer.content === '') {
    const earlierAnswer = await findAnswer(trx, question);
    if (earlierAnswer !== undefined && earlierAnswer.content !== '') return earlierAnswer;
  }
  await deleteAnswer(trx, question);
  return insertMessage(trx, { ...answer, role: 'assistant' });
}

/**
 * Returns `tool.finished` events for memory changes without such an event. The event is missing if the turn was
 * stopped, the process died or the database was unavailable right after the change.
 */
async function findUnreportedChanges(
  trx: Transaction<Tables>,
  turn: Omit<TurnKey, 'position'>,
  events: readonly TurnEvent[],
): Promise<TurnEvent[]> {
  // Each change is stored together with its tool.started event, so without such an event there is no change.
  if (!events.some(({ type }) => type === 'tool.started')) return [];
  const reportedStepIds = new Set(
    events.flatMap((event) => (event.type === 'tool.finished' ? event.tool.step_id : [])),
  );
  const steps = await findMemorySteps(trx, turn);
  return steps
    .filter(({ id }) => !reportedStepIds.has(id))
    .map(({ id, tool: name, title, changes }) => {
      const summary = changes.map(describeChange).join('; ');
      const tool = { step_id: id, name, title, status: 'done' as const, summary, changes };
      return { type: 'tool.finished', tool };
    });
}

function numberEvents(events: readonly TurnEvent[], lastSeq: number): NumberedEvent[] {
  return events.map((event, index) => ({ ...event, seq: lastSeq + 1 + index }));
}
