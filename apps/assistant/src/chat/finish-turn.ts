import { setTimeout as sleep } from 'node:timers/promises';
import { isDatabaseOutage } from '@oselya/db';
import { problemBody } from '@oselya/kit';
import type { Kysely, Transaction } from 'kysely';
import type { UsedTool } from '../agent/agent.ts';
import { presentMessage } from '../sessions/schemas.ts';
import type { Tables } from '../tables.ts';
import type { TurnEvent } from './events.ts';
import { insertMessage } from './messages.sql.ts';
import type { Outcome } from './outcome.ts';
import type { Turn, TurnKey } from './turn.ts';
import { endTurn, insertEvents, tell } from './turns.sql.ts';

/** How long the end of a turn waits for a database that does not answer. */
const PATIENCE_MS = 60_000;
const RETRY_MS = 1000;

/** An answer, as far as it came. */
export type Answer = { content: string; used: readonly UsedTool[] };

/**
 * Ends a turn: its answer, and that it has ended, are stored together, and only then it is told. While the
 * database does not answer this is tried again for a minute.
 * @returns Whether it was this turn's to end: another process may have taken it for dead.
 * @throws What the database throws otherwise, or at the end of that time.
 */
export async function finishTurn(
  db: Kysely<Tables>,
  turn: Turn,
  { outcome, answer, sender, requestId }: { outcome: Outcome; answer: Answer } & Told,
): Promise<boolean> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      const end = await db
        .transaction()
        .execute((trx) => storeEnd(trx, turn, { outcome, answer, sender, requestId }));
      if (end !== undefined) turn.add(end);
      return end !== undefined;
    } catch (error) {
      if (!isDatabaseOutage(error) || performance.now() >= deadline) throw error;
      await sleep(RETRY_MS);
    }
  }
}

/** Who tells of the end, and which request it goes back to. */
type Told = { sender: string; requestId: string };

async function storeEnd(
  trx: Transaction<Tables>,
  turn: Turn,
  { outcome, answer, sender, requestId }: { outcome: Outcome; answer: Answer } & Told,
): Promise<TurnEvent | undefined> {
  const { turnId, sessionId } = turn;
  if (!(await endTurn(trx, { turnId, status: outcome.status }))) return undefined;
  const body = outcome.status === 'failed' ? problemBody(outcome.problem, requestId) : undefined;
  const message = await insertMessage(trx, {
    sessionId,
    turnId,
    role: 'assistant',
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
  const events = [...turn.unstored, { ...end, seq: turn.lastSeq + 1 }];
  await insertEvents(trx, { turnId, events });
  await tell(trx, { sessionId, sender });
  return end;
}

/**
 * Cuts off a turn whose process has gone: what was streamed and stored of its answer stays, and says so.
 * @returns Whether it was still running.
 */
export async function cutTurn(
  trx: Transaction<Tables>,
  key: Omit<TurnKey, 'position'>,
  { content, seq, sender }: { content: string; seq: number; sender: string },
): Promise<boolean> {
  const { turnId, sessionId } = key;
  if (!(await endTurn(trx, { turnId, status: 'cut' }))) return false;
  const message = await insertMessage(trx, {
    sessionId,
    turnId,
    role: 'assistant',
    content,
    status: 'cut',
  });
  const end = { type: 'message.completed' as const, message: presentMessage(message), seq };
  await insertEvents(trx, { turnId, events: [end] });
  await tell(trx, { sessionId, sender });
  return true;
}
