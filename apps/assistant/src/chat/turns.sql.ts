import { type Kysely, type NotNull, sql, type Transaction } from 'kysely';
import type { Tables, TurnStatus, Unfinished } from '../tables.ts';
import { endSteps } from '../planning/index.ts';
import { lockSession } from '../sessions/index.ts';
import type { TurnKey } from './turn.ts';

/** Processes hear of what happened in sessions here; `tell` makes the payload. */
export const TURN_CHANNEL = 'assistant_turns';

/** What waits until no answer is written in a session hears of the end of each here; the payload is the session's id. */
export const TURN_END_CHANNEL = 'assistant_turn_ends';

/**
 * How long a process that does not say that it runs a turn is believed to. Its session takes no message for so long
 * after a kill.
 */
export const LEASE_SECONDS = 20;

/** Until when a process that says now that it runs a turn is believed to. */
export const lease = sql<Date>`now() + ${LEASE_SECONDS}::integer * interval '1 second'`;

/** A turn as it is stored. */
export type TurnRow = {
  id: string;
  session_id: string;
  user_id: string;
  /** Null for a message that came by itself. */
  question_id: string | null;
  status: TurnStatus;
  position: number;
  /** Whether the process that ran it has not said so for as long as it is believed. */
  is_stale: boolean;
};

const turnColumns = [
  'id',
  'session_id',
  'user_id',
  'question_id',
  'status',
  'position',
  sql<boolean>`status = 'running' and lease_until < now()`.as('is_stale'),
] as const;

/** The newest turn of a session; nothing where there was none. */
export function latestTurn(db: Kysely<Tables>, sessionId: string): Promise<TurnRow | undefined> {
  return db
    .selectFrom('chat_turns')
    .select(turnColumns)
    .where('session_id', '=', sessionId)
    .orderBy('position', 'desc')
    .limit(1)
    .executeTakeFirst();
}

/** The newest turn of a session in which something was asked. */
export function latestAsked(
  db: Kysely<Tables>,
  sessionId: string,
): Promise<(TurnRow & { question_id: string }) | undefined> {
  return db
    .selectFrom('chat_turns')
    .select(turnColumns)
    .where('session_id', '=', sessionId)
    .where('question_id', 'is not', null)
    .orderBy('position', 'desc')
    .limit(1)
    .$narrowType<{ question_id: NotNull }>()
    .executeTakeFirst();
}

/** The newest turn that answers a message, of which each that has a name has one. */
export async function latestTurnOf(
  db: Kysely<Tables>,
  { sessionId, questionId }: { sessionId: string; questionId: string },
): Promise<string> {
  const { id } = await db
    .selectFrom('chat_turns')
    .select('id')
    .where('session_id', '=', sessionId)
    .where('question_id', '=', questionId)
    .orderBy('position', 'desc')
    .limit(1)
    .executeTakeFirstOrThrow();
  return id;
}

/** A turn; nothing where its session was deleted. */
export function findTurn(db: Kysely<Tables>, turnId: string): Promise<TurnRow | undefined> {
  return db
    .selectFrom('chat_turns')
    .select(turnColumns)
    .where('id', '=', turnId)
    .executeTakeFirst();
}

/** How many turns of a user run, over all sessions and processes. */
export async function countRunning(trx: Transaction<Tables>, userId: string): Promise<number> {
  const { count } = await trx
    .selectFrom('chat_turns')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('user_id', '=', userId)
    .where('status', '=', 'running')
    .where('lease_until', '>', sql<Date>`now()`)
    .executeTakeFirstOrThrow();
  return count;
}

/** Begins a turn. A unique index lets each session have one that runs. */
export async function insertTurn(
  trx: Transaction<Tables>,
  turn: { session_id: string; user_id: string; question_id: string },
): Promise<{ id: string; position: number }> {
  return trx
    .insertInto('chat_turns')
    .values({ ...turn, lease_until: lease, finished_at: null })
    .returning(['id', 'position'])
    .executeTakeFirstOrThrow();
}

/** Stores a turn that has ended already, in which nothing was asked: a message comes by itself. */
export async function insertEnded(
  trx: Transaction<Tables>,
  turn: { session_id: string; user_id: string },
): Promise<{ id: string; position: number }> {
  const now = sql<Date>`now()`;
  return trx
    .insertInto('chat_turns')
    .values({
      ...turn,
      question_id: null,
      status: 'completed',
      lease_until: now,
      finished_at: now,
    })
    .returning(['id', 'position'])
    .executeTakeFirstOrThrow();
}

/** The turns of a session from one on, the oldest first. */
export function turnsFrom(
  db: Kysely<Tables>,
  { sessionId, position }: { sessionId: string; position: number },
): Promise<TurnRow[]> {
  return db
    .selectFrom('chat_turns')
    .select(turnColumns)
    .where('session_id', '=', sessionId)
    .where('position', '>=', position)
    .orderBy('position')
    .execute();
}

/**
 * Ends a turn that runs, and the steps that it had not finished; whoever does it first says how, and tells of it on
 * {@link TURN_END_CHANNEL}. The session is locked first, as by everybody else.
 * @param turn.onlyStale Leaves it where its process is believed to run it: it may have said so again since it was
 *   looked at, also while this waited for the session.
 * @returns Whether it was ended, and what it answers.
 */
export async function endTurn(
  trx: Transaction<Tables>,
  {
    turnId,
    sessionId,
    status,
    onlyStale = false,
  }: Omit<TurnKey, 'position'> & { status: 'completed' | Unfinished; onlyStale?: boolean },
): Promise<{ question_id: string } | undefined> {
  await lockSession(trx, { sessionId, reach: 'everything' });
  let update = trx
    .updateTable('chat_turns')
    .set({ status, finished_at: sql<Date>`now()` })
    .where('id', '=', turnId)
    .where('status', '=', 'running');
  if (onlyStale) update = update.where('lease_until', '<', sql<Date>`now()`);
  const ended = await update
    .returning('question_id')
    .$narrowType<{ question_id: NotNull }>()
    .executeTakeFirst();
  if (ended === undefined) return undefined;
  await endSteps(trx, { turnId, sessionId });
  await sql`select pg_notify(${TURN_END_CHANNEL}, ${sessionId})`.execute(trx);
  return ended;
}

/** Asks the process that runs a turn to end it. */
export async function requestCancel(
  db: Kysely<Tables>,
  { turnId, sessionId, sender }: { turnId: string; sessionId: string; sender: string },
): Promise<void> {
  await sql`
    with asked as (
      update chat_turns set cancel_requested = true where id = ${turnId} and status = 'running'
      returning session_id
    )
    select pg_notify(${TURN_CHANNEL}, ${sender} || ' ' || ${sessionId}) from asked`.execute(db);
}

/** Tells the other processes, as soon as the transaction is over, that something happened in a session. */
export async function tell(
  trx: Kysely<Tables>,
  { sessionId, sender }: { sessionId: string; sender: string },
): Promise<void> {
  await sql`select pg_notify(${TURN_CHANNEL}, ${sender} || ' ' || ${sessionId})`.execute(trx);
}

/**
 * Turns whose process has gone, so that their answers are cut off.
 * @param options.all Those that run by the database, however long they may.
 */
export function staleTurns(
  db: Kysely<Tables>,
  { limit, all }: { limit: number; all: boolean },
): Promise<TurnRow[]> {
  let query = db
    .selectFrom('chat_turns')
    .select(turnColumns)
    .where('status', '=', 'running')
    .orderBy('lease_until')
    .limit(limit);
  if (!all) query = query.where('lease_until', '<', sql<Date>`now()`);
  return query.execute();
}
