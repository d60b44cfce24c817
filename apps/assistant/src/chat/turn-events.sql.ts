import { type Kysely, sql, type Transaction } from 'kysely';
import type { Sweep } from '../upkeep.ts';
import { storableJson } from '../text.ts';
import type { Tables } from '../tables.ts';
import type { NumberedEvent } from './events.ts';
import { lease, TURN_CHANNEL } from './turns.sql.ts';

/** What of a turn is to be stored. */
export type EventBatch = { turnId: string; sessionId: string; events: readonly NumberedEvent[] };

/**
 * Stores what happened in turns, renews their leases and tells the other processes, by one statement. What is
 * stored twice, as the answer to the first time was lost, does no harm: `readEvents` gives it once.
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
 * @returns In their order, each once: rows overlap where events were stored again.
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
  const read: NumberedEvent[] = [];
  for (const event of (rows as { events: NumberedEvent[] }[]).flatMap(({ events }) => events)) {
    if (event.seq > (read.at(-1)?.seq ?? after)) read.push(event);
  }
  return read;
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

/** Deletes what was streamed of turns that ended a while ago: who connects now reads the messages. */
export const sweepEvents: Sweep = (limit) => sql`
  delete from chat_turn_events where ctid in (
    select chat_turn_events.ctid from chat_turn_events
    join chat_turns on chat_turns.id = chat_turn_events.turn_id
    where chat_turns.finished_at < now() - interval '10 minutes'
    limit ${limit} for update of chat_turn_events skip locked
  )`;
