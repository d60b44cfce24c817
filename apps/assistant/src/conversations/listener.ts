import { setTimeout as sleep } from 'node:timers/promises';
import { isDatabaseOutage } from '@oselya/db';
import { type Logger, createProblemBody } from '@oselya/kit';
import { isFinalEvent, type ServerFrame, type TurnFrame } from '@oselya/protocol';
import { problem } from '../errors.ts';
import {
  type EventLog,
  type NumberedEvent,
  readSession,
  type RunningTurn,
  type Subscriber,
} from './event-log.ts';
import { presentSession } from './schemas.ts';
import { findSession } from './session-rows.ts';
import type { TurnKey } from './turns.ts';

/** Delay before the next read after a database outage. */
const RETRY_MS = 1000;

/** An event that a session sends to its listeners. */
export type SessionFrame = TurnFrame | ServerFrame<'session.updated'>;

/** The last event that a listener has received. `position` is 0 before the first turn. */
export type EventCursor = { turnId: string; position: number; seq: number; hasEnded: boolean };

/** An event with the cursor that follows it. */
type LogRow = { cursor: EventCursor; frame: SessionFrame };

type ListenerOptions = {
  events: EventLog;
  sessionId: string;
  send: (frame: SessionFrame) => void;
  requestId: string;
  log: Pick<Logger, 'info' | 'error'>;
};

/**
 * Sends the events of a session that follow a cursor, exactly once and in order. Events of turns in this process are
 * sent when they are appended. Events of other processes are read from the database.
 */
export class Listener implements Subscriber {
  /** Name and pin of the session in the client's last frame with a session. */
  known: { name: string; pinned: boolean } | undefined;
  readonly #options: ListenerOptions;
  #cursor: EventCursor | undefined;
  #isFollowing = false;
  #isClosed = false;
  /** Whether the database may have events after the cursor. */
  #isBehind = false;
  #isReading = false;

  constructor(options: ListenerOptions) {
    this.#options = options;
  }

  /** Stops sending until `resume`, which continues without a gap. */
  pause(): void {
    this.#isFollowing = false;
    this.#options.events.unsubscribe(this.#options.sessionId, this);
  }

  close(): void {
    this.#isClosed = true;
    this.pause();
  }

  /** Continues after the last sent event, or after another cursor. */
  resume(cursor = this.#cursor): void {
    this.pause();
    if (this.#isClosed || cursor === undefined) return;
    this.#cursor = { ...cursor };
    this.#isFollowing = true;
    this.#options.events.subscribe(this.#options.sessionId, this);
    // Events or changes since the last read have sent their notification before this subscription.
    this.onNotify(true);
  }

  onNotify(hasChanged: boolean): void {
    const turn = this.#options.events.turnOf(this.#options.sessionId);
    const isInMemory = turn?.turnId === this.#cursor?.turnId && this.#cursor?.hasEnded === false;
    if (isInMemory && !hasChanged) return;
    this.#isBehind = true;
    if (!this.#isReading) void this.#catchUp();
  }

  /** Sends the new events of a turn of this process, unless earlier events are still being read. */
  onAppend(turn: RunningTurn): void {
    const cursor = this.#cursor;
    if (this.#isReading || cursor?.turnId !== turn.turnId) return;
    const { send, sessionId: session_id } = this.#options;
    for (const event of turn.events.slice(cursor.seq)) {
      if (!this.#isFollowing || cursor.hasEnded) return;
      cursor.seq = event.seq;
      cursor.hasEnded = isFinalEvent(event);
      send({ ...event, session_id, turn_id: turn.turnId });
    }
  }

  async #catchUp(): Promise<void> {
    const { events, sessionId, send, log } = this.#options;
    this.#isReading = true;
    while (this.#isBehind && this.#isFollowing && this.#cursor !== undefined) {
      this.#isBehind = false;
      let last = this.#cursor;
      try {
        for (const { cursor, frame } of await this.read(last)) {
          // The listener was paused, or resumed from another cursor.
          if (!this.#isFollowing || this.#cursor !== last) break;
          this.#cursor = last = cursor;
          send(frame);
        }
      } catch (error) {
        if (isDatabaseOutage(error)) {
          this.#isBehind = true;
          await sleep(RETRY_MS, undefined, { ref: false });
        } else {
          log.error({ err: error }, 'the events of a session could not be read');
        }
      }
    }
    this.#isReading = false;
    const turn = events.turnOf(sessionId);
    if (turn !== undefined) this.onAppend(turn);
  }

  /** Returns the events after a cursor. Events of other processes are included once they are stored. */
  async read(cursor: EventCursor): Promise<LogRow[]> {
    const { events, sessionId, requestId, log } = this.#options;
    const state = await readSession(events.db, sessionId, cursor);
    if (state === undefined) {
      if (cursor.hasEnded) return [];
      log.info({ request_id: requestId, session_id: sessionId }, 'an open session was deleted');
      const body = createProblemBody(problem('session_not_found'), requestId);
      const end = { type: 'error' as const, problem: body, seq: cursor.seq + 1 };
      return toRows({ ...cursor, sessionId }, [end], cursor);
    }
    const rows: LogRow[] = [];
    let last = cursor;
    const running = events.turnOf(sessionId);
    for (const { key, status, events: stored } of state.turns) {
      const isRunningHere = running?.turnId === key.turnId;
      const seq = key.turnId === last.turnId ? last.seq : 0;
      // The last event of an aborted turn may reuse a sequence number that was already sent.
      const isNew = (event: NumberedEvent) =>
        event.seq > seq || (status === 'cut' && isFinalEvent(event));
      rows.push(...toRows(key, (isRunningHere ? running.events : stored).filter(isNew), last));
      last = rows.at(-1)?.cursor ?? last;
      if (status === 'running' || isRunningHere) break;
    }
    const { name, pinned } = (this.known ??= state);
    if (name === state.name && pinned === state.pinned) return rows;
    const session = await findSession(events.db, { sessionId, scope: 'everything' });
    if (session === undefined) return rows;
    const frame = { type: 'session.updated', session_id: sessionId } as const;
    return [...rows, { cursor: last, frame: { ...frame, session: presentSession(session) } }];
  }
}

/** Converts new events of a turn. Returns none if the cursor is at the end of that turn. */
function toRows(
  { turnId, sessionId, position }: TurnKey,
  events: readonly NumberedEvent[],
  last: EventCursor,
): LogRow[] {
  if (last.turnId === turnId && last.hasEnded) return [];
  return events.map((event) => ({
    cursor: {
      turnId,
      position,
      seq: Math.max(event.seq, last.turnId === turnId ? last.seq : 0),
      hasEnded: isFinalEvent(event) || event.type === 'message.arrived',
    },
    frame: { ...event, session_id: sessionId, turn_id: turnId },
  }));
}

/** Merges consecutive text events into one with the sequence number of the last. */
export function mergeTextEvents(rows: readonly LogRow[]): LogRow[] {
  const result: LogRow[] = [];
  for (const row of rows) {
    const last = result.at(-1)?.frame;
    if (row.frame.type === 'message.delta' && last?.type === 'message.delta') {
      result[result.length - 1] = {
        ...row,
        frame: { ...row.frame, text: last.text + row.frame.text },
      };
    } else result.push(row);
  }
  return result;
}
