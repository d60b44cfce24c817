import { type Database, isDatabaseOutage, notify, prepared } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import type { TurnFrame } from '@oselya/protocol';
import { type Kysely, sql } from 'kysely';
import type { Sweep } from '../upkeep.ts';
import { toStorableJson } from '../text.ts';
import type { Tables, TurnStatus } from '../tables.ts';
import { SESSION_CHANNEL } from './session-rows.ts';
import { renewTurn, TURN_CHANNEL, type TurnKey } from './turns.ts';

/*
 * While a turn runs, only its process appends events. Listeners of the same process get the events immediately:
 *
 *   turn ──append──▶ memory ──wake──▶ listeners of this process
 *                      └─ every 200 ms ─▶ chat_turn_events ──notify──▶ listeners of other processes
 *
 * docs/adr/0021-change-feed.md explains why there are two paths.
 */

const STORE_INTERVAL_MS = 200;

const MAX_TURNS_PER_STATEMENT = 200;

/** Applies `Omit` to each member of a union. */
type OmitFromEach<Union, Key extends string> = Union extends unknown ? Omit<Union, Key> : never;

/** Turn event without its sequence number and without the IDs of its session, turn and client message. */
export type TurnEvent = OmitFromEach<TurnFrame, 'session_id' | 'turn_id' | 'seq' | 'id'>;

export type NumberedEvent = TurnEvent & { seq: number };

type StopReason = 'cancelled' | 'signed-out' | 'lost' | 'closing';

/** A turn that runs in this process, with all its events in order. */
export class RunningTurn implements TurnKey {
  readonly turnId: string;
  readonly sessionId: string;
  readonly position: number;
  readonly events: NumberedEvent[] = [];
  storedEventCount = 0;
  /** Whether the process is shutting down, even if the turn was stopped earlier for a different reason. */
  isClosing = false;
  readonly #onAppend: () => void;
  readonly #stopController = new AbortController();

  constructor({ turnId, sessionId, position }: TurnKey, onAppend: () => void) {
    this.turnId = turnId;
    this.sessionId = sessionId;
    this.position = position;
    this.#onAppend = onAppend;
  }

  /** Appends an event with the next sequence number, and wakes the listeners of this process. */
  append(event: TurnEvent): void {
    this.events.push({ ...event, seq: this.events.length + 1 });
    this.#onAppend();
  }

  get unstoredEvents(): readonly NumberedEvent[] {
    return this.events.slice(this.storedEventCount);
  }

  stop(reason: StopReason): void {
    this.isClosing ||= reason === 'closing';
    this.#stopController.abort(reason);
  }

  get signal(): AbortSignal {
    return this.#stopController.signal;
  }
}

export type Subscriber = {
  /** Called when a turn of this process has a new event. */
  onAppend(turn: RunningTurn): void;
  /** Called when the database may have new events. With `hasChanged`, the session may have been changed or deleted. */
  onNotify(hasChanged: boolean): void;
};

/** The event log of all sessions. See {@link openEventLog}. */
export type EventLog = Awaited<ReturnType<typeof openEventLog>>;

/**
 * Opens the event log of this process.
 * @throws DatabaseError DATABASE_UNREACHABLE.
 */
export async function openEventLog({
  db,
  listen,
  log,
}: Pick<Database<Tables>, 'db' | 'listen'> & { log: Pick<Logger, 'warn'> }) {
  const runningTurns = new Map<string, RunningTurn>();
  const subscribers = new Map<string, Set<Subscriber>>();
  const unlistenCallbacks = await Promise.all([
    listen(TURN_CHANNEL, (sessionId) => notifyAll(sessionId, false)),
    listen(SESSION_CHANNEL, (sessionId) => {
      notifyAll(sessionId, true);
      // The turn may have been cancelled, or deleted with its session.
      for (const turn of listMatching(runningTurns, sessionId)) void checkTurn(turn);
    }),
  ]);
  let pendingStore = Promise.resolve();
  const storeTimer = setInterval(() => {
    pendingStore = pendingStore.then(storeAll);
  }, STORE_INTERVAL_MS).unref();

  /**
   * Notifies the subscribers of a session; of all sessions if the ID is empty, which means that notifications may have
   * been lost.
   */
  function notifyAll(sessionId: string, hasChanged: boolean): void {
    for (const sessionSubscribers of listMatching(subscribers, sessionId)) {
      for (const subscriber of sessionSubscribers) subscriber.onNotify(hasChanged);
    }
  }

  /** Renews the lease of a turn, and returns whether it still runs. Stops it if it was cancelled or has ended. */
  async function renew(turn: RunningTurn): Promise<boolean> {
    const renewal = await renewTurn(db, turn.turnId);
    if (renewal === undefined) turn.stop('lost');
    else if (renewal.isCancelled) turn.stop('cancelled');
    return renewal !== undefined;
  }

  async function checkTurn(turn: RunningTurn): Promise<void> {
    try {
      await renew(turn);
    } catch (error) {
      // The next periodic renewal of the lease checks the turn again.
      log.warn({ err: error, turn_id: turn.turnId }, 'a turn could not be renewed');
    }
  }

  async function storeAll(): Promise<void> {
    const dueTurns = [...runningTurns.values()].filter(
      (turn) => turn.storedEventCount < turn.events.length,
    );
    try {
      for (let offset = 0; offset < dueTurns.length; offset += MAX_TURNS_PER_STATEMENT) {
        const batch = dueTurns.slice(offset, offset + MAX_TURNS_PER_STATEMENT);
        const eventCounts = batch.map((turn) => turn.events.length);
        const storedTurns = await storeEvents(db, batch);
        for (const [index, turn] of batch.entries()) {
          if (storedTurns.has(turn.turnId)) turn.storedEventCount = eventCounts[index] ?? 0;
          else turn.stop('lost');
        }
      }
    } catch (error) {
      // The next run stores the events, unless the lease of the turn expires first.
      if (!isDatabaseOutage(error)) log.warn({ err: error }, 'events of turns could not be stored');
    }
  }

  return {
    db,

    /** Registers a turn of this process. */
    start(key: TurnKey): RunningTurn {
      // An earlier turn that is still registered was ended by another process.
      runningTurns.get(key.sessionId)?.stop('lost');
      const turn = new RunningTurn(key, () => {
        for (const subscriber of subscribers.get(key.sessionId) ?? []) subscriber.onAppend(turn);
      });
      runningTurns.set(key.sessionId, turn);
      notifyAll(key.sessionId, false);
      return turn;
    },

    /** Unregisters a turn. Its events are then read from the database. */
    finish(turn: RunningTurn): void {
      if (runningTurns.get(turn.sessionId) === turn) runningTurns.delete(turn.sessionId);
      notifyAll(turn.sessionId, false);
    },

    /** Returns the turn of a session that is running in this process, if any. */
    getRunningTurn: (sessionId: string): RunningTurn | undefined => runningTurns.get(sessionId),

    listRunningTurns: (): RunningTurn[] => [...runningTurns.values()],

    renew,

    subscribe(sessionId: string, subscriber: Subscriber): void {
      const sessionSubscribers = subscribers.get(sessionId) ?? new Set();
      subscribers.set(sessionId, sessionSubscribers.add(subscriber));
    },

    unsubscribe(sessionId: string, subscriber: Subscriber): void {
      const sessionSubscribers = subscribers.get(sessionId);
      sessionSubscribers?.delete(subscriber);
      if (sessionSubscribers?.size === 0) subscribers.delete(sessionId);
    },

    async close(): Promise<void> {
      clearInterval(storeTimer);
      await pendingStore;
      await Promise.all(unlistenCallbacks.map((unlisten) => unlisten()));
    },
  };
}

function listMatching<Value>(map: ReadonlyMap<string, Value>, key: string): Value[] {
  if (key === '') return [...map.values()];
  const value = map.get(key);
  return value === undefined ? [] : [value];
}

/**
 * Stores the new events of running turns, and notifies {@link TURN_CHANNEL}. Readers ignore duplicate events.
 * @returns The IDs of the turns that are still running.
 */
export async function storeEvents(
  db: Kysely<Tables>,
  turns: readonly RunningTurn[],
): Promise<ReadonlySet<string>> {
  const batch = turns.map(({ turnId, unstoredEvents }) => toEventRow(turnId, unstoredEvents));
  // The row lock prevents a turn from ending before its events are committed.
  const { rows } = await sql<{ id: string }>`
    with batch as (
      select * from jsonb_to_recordset(${toStorableJson(batch)}::jsonb)
        as batch (turn_id text, last_seq integer, events jsonb)
    ), running as (
      select id, session_id from chat_turns
      where id in (select turn_id from batch) and status = 'running'
      for no key update
    ), stored as (
      insert into chat_turn_events (turn_id, last_seq, events)
      select turn_id, last_seq, events from batch join running on running.id = batch.turn_id
      where last_seq > 0
      on conflict (turn_id, last_seq) do nothing
      returning turn_id
    ), notified as (
      select pg_notify(${TURN_CHANNEL}, session_id) from running
      where id in (select turn_id from stored)
    )
    select id, (select count(*) from notified) from running`.execute(db);
  return new Set(rows.map(({ id }) => id));
}

const toEventRow = (turnId: string, events: readonly NumberedEvent[]) => ({
  turn_id: turnId,
  last_seq: events.at(-1)?.seq ?? 0,
  events,
});

/** Stores the last events of a turn in the transaction that ends it, and notifies {@link TURN_CHANNEL}. */
export async function insertEvents(
  trx: Kysely<Tables>,
  { turnId, sessionId }: Pick<TurnKey, 'turnId' | 'sessionId'>,
  events: readonly NumberedEvent[],
): Promise<void> {
  await trx
    .insertInto('chat_turn_events')
    .values({ ...toEventRow(turnId, events), events: toStorableJson(events) })
    .onConflict((conflict) => conflict.columns(['turn_id', 'last_seq']).doNothing())
    .execute();
  await notify<Tables>(trx, TURN_CHANNEL, sessionId);
}

/** Returns the stored events of a turn in order, without duplicates. */
export async function readEvents(db: Kysely<Tables>, turnId: string): Promise<NumberedEvent[]> {
  const rows = await db
    .selectFrom('chat_turn_events')
    .select('events')
    .where('turn_id', '=', turnId)
    .orderBy('last_seq')
    .execute();
  return removeDuplicates(rows.flatMap(({ events }) => events as NumberedEvent[]));
}

function removeDuplicates(events: readonly NumberedEvent[]): NumberedEvent[] {
  let lastSeq = 0;
  return events.filter(({ seq }) => {
    const isNewEvent = seq > lastSeq;
    if (isNewEvent) lastSeq = seq;
    return isNewEvent;
  });
}

/** A session with some of its turns and their stored events. */
type StoredSession = {
  name: string;
  pinned: boolean;
  turns: { key: TurnKey; status: TurnStatus; events: NumberedEvent[] }[];
};

/**
 * Returns a session with the cursor's turn and all later turns, oldest first; undefined if the session was deleted.
 * An aborted turn includes all its events, because its last event may have a smaller number than the cursor.
 */
export async function readSession(
  db: Kysely<Tables>,
  sessionId: string,
  { position, seq }: { position: number; seq: number },
): Promise<StoredSession | undefined> {
  type SessionTurnRow = Pick<StoredSession, 'name' | 'pinned'> & {
    id: string | null;
    position: number;
    status: TurnStatus;
    events: NumberedEvent[][];
  };
  const { rows } = await sql<SessionTurnRow>`${prepared}
    select coalesce(name, '') as name, coalesce(pinned, false) as pinned, turns.id, turns.position,
      turns.status, (
        select coalesce(jsonb_agg(events order by last_seq), '[]') from chat_turn_events
        where turn_id = turns.id
          and (turns.position > ${position} or last_seq > ${seq} or turns.status = 'cut')
      ) as events
    from conversation_sessions as sessions
    left join chat_turns as turns on turns.session_id = sessions.id and turns.position >= ${position}
    where sessions.id = ${sessionId}
    order by turns.position`.execute(db);
  const [firstRow] = rows;
  if (firstRow === undefined) return undefined;
  const turns = rows.flatMap((row) => {
    if (row.id === null) return [];
    const key = { turnId: row.id, sessionId, position: row.position };
    return { key, status: row.status, events: removeDuplicates(row.events.flat()) };
  });
  return { name: firstRow.name, pinned: firstRow.pinned, turns };
}

/** Deletes the events of turns that ended over ten minutes ago. Their answers are stored as messages. */
export const sweepEvents: Sweep = (limit) => sql`
  delete from chat_turn_events where ctid in (
    select chat_turn_events.ctid from chat_turn_events
    join chat_turns on chat_turns.id = chat_turn_events.turn_id
    where chat_turns.finished_at < now() - interval '10 minutes'
    limit ${limit} for update of chat_turn_events skip locked
  )`;
