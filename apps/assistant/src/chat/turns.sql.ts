import { type Kysely, sql, type Transaction } from 'kysely';
import { storableJson } from '../storable-json.ts';
import type { Sweep } from '../maintenance/sweep.ts';
import type { Tables, TurnStatus, Unfinished } from '../tables.ts';
import { lockSession } from '../sessions/ownership.ts';
import type { NumberedEvent } from './events.ts';
import type { TurnKey } from './turn.ts';

/** Processes hear of what happened in sessions here; `tell` makes the payload. */
export const TURN_CHANNEL = 'assistant_turns';

/**
 * How long a process that does not say that it runs a turn is believed to: longer than a connection that has
 * died without a word is waited for, and another one after it.
 */
export const LEASE_SECONDS = 90;

const lease = sql<Date>`now() + ${LEASE_SECONDS}::integer * interval '1 second'`;

/** A turn as it is stored. */
export type TurnRow = {
  id: string;
  session_id: string;
  user_id: string;
  question_id: string;
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

/** What of a turn is to be stored. */
export type EventBatch = { turnId: string; sessionId: string; events: readonly NumberedEvent[] };

/**
 * Stores what happened in turns, renews their leases and tells the other processes, by one statement. What is
 * stored twice, as the answer to the first time was lost, does no harm: events have their numbers.
 * @param sender Of this process, which need not hear of its own.
 * @returns Of the turns those that still run, and whether their cancellation was asked for elsewhere.
 */
export async function storeEvents(
  db: Kysely<Tables>,
  batches: readonly EventBatch[],
  sender: string,
): Promise<{ id: string; cancel_requested: boolean }[]> {
  const rows = batches.map(({ turnId, sessionId, events }) => ({
    turn_id: turnId,
    session_id: sessionId,
    last_seq: events.at(-1)?.seq ?? 0,
    events,
  }));
  const { rows: running } = await sql<{ id: string; cancel_requested: boolean }>`
    with batch as (
      select * from jsonb_to_recordset(${storableJson(rows)}::jsonb)
        as batch (turn_id text, session_id text, last_seq integer, events jsonb)
    ), running as (
      update chat_turns set lease_until = ${lease}
      where id in (select turn_id from batch) and status = 'running'
      returning id, cancel_requested
    ), stored as (
      insert into chat_turn_events (turn_id, last_seq, events)
      select turn_id, last_seq, events from batch
      where last_seq > 0 and turn_id in (select id from running)
      on conflict (turn_id, last_seq) do nothing
    ), told as (
      select pg_notify(${TURN_CHANNEL}, ${sender} || ' ' || session_id)
      from batch where last_seq > 0 and turn_id in (select id from running)
    )
    select id, cancel_requested, (select count(*) from told) as told from running`.execute(db);
  return running.map(({ id, cancel_requested }) => ({ id, cancel_requested }));
}

/** Stores what happened in a turn that ends, all of it, in the place of what was stored a little at a time. */
export async function storeAllEvents(
  trx: Transaction<Tables>,
  { turnId, events }: Omit<EventBatch, 'sessionId'>,
): Promise<void> {
  await trx.deleteFrom('chat_turn_events').where('turn_id', '=', turnId).execute();
  await insertEvents(trx, { turnId, events });
}

/** Stores what happened in a turn, in a transaction with what it belongs to. */
export async function insertEvents(
  trx: Transaction<Tables>,
  { turnId, events }: Omit<EventBatch, 'sessionId'>,
): Promise<void> {
  await trx
    .insertInto('chat_turn_events')
    .values({
      turn_id: turnId,
      last_seq: events.at(-1)?.seq ?? 0,
      events: storableJson(events),
    })
    .onConflict((conflict) => conflict.columns(['turn_id', 'last_seq']).doNothing())
    .execute();
}

/**
 * What happened in a turn and is stored, after an event.
 * @returns In their order; an event that was stored twice comes twice.
 */
export async function readEvents(
  db: Kysely<Tables>,
  { turnId, after }: { turnId: string; after: number },
): Promise<NumberedEvent[]> {
  const rows = await db
    .selectFrom('chat_turn_events')
    .select('events')
    .where('turn_id', '=', turnId)
    .where('last_seq', '>', after)
    .orderBy('last_seq')
    .execute();
  return (rows as { events: NumberedEvent[] }[]).flatMap(({ events }) =>
    events.filter(({ seq }) => seq > after),
  );
}

/** The number of the last event of a turn that is stored; 0 where none is. */
export async function lastStored(db: Kysely<Tables>, turnId: string): Promise<number> {
  const { seq } = await db
    .selectFrom('chat_turn_events')
    .select(({ fn }) => fn.coalesce(fn.max('last_seq'), sql<number>`0`).as('seq'))
    .where('turn_id', '=', turnId)
    .executeTakeFirstOrThrow();
  return seq;
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
 * Ends a turn that runs, and the steps that it had not finished; whoever does it first says how. The session is
 * locked first, as by everybody else.
 * @returns Whether it ran, and what it answers.
 */
export async function endTurn(
  trx: Transaction<Tables>,
  { turnId, sessionId, status }: Omit<TurnKey, 'position'> & { status: 'completed' | Unfinished },
): Promise<{ question_id: string } | undefined> {
  await lockSession(trx, { sessionId, reach: 'everything' });
  const ended = await trx
    .updateTable('chat_turns')
    .set({ status, finished_at: sql<Date>`now()` })
    .where('id', '=', turnId)
    .where('status', '=', 'running')
    .returning('question_id')
    .executeTakeFirst();
  if (ended === undefined) return undefined;
  await trx
    .updateTable('agent_steps')
    .set({ status: 'failed', finished_at: sql<Date>`clock_timestamp()` })
    .where('turn_id', '=', turnId)
    .where('status', '=', 'running')
    .execute();
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

/** Deletes what was streamed of turns that ended a while ago: who connects now reads the messages. */
export const sweepEvents: Sweep = (limit) => sql`
  delete from chat_turn_events where ctid in (
    select chat_turn_events.ctid from chat_turn_events
    join chat_turns on chat_turns.id = chat_turn_events.turn_id
    where chat_turns.finished_at < now() - interval '10 minutes'
    limit ${limit} for update of chat_turn_events skip locked
  )`;
