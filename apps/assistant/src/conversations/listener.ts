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

/** Delay between reads during a database outage. */
const RETRY_DELAY_MS = 1000;

export type SessionFrame = TurnFrame | ServerFrame<'session.updated'>;

/** Position in the events of a session: the last event that was read. `position` is 0 before the first turn. */
export type EventCursor = { turnId: string; position: number; seq: number; hasEnded: boolean };

/** Frame for the client, with the cursor after it. */
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
  /** Name and pin state that were last sent to the client, or first read. */
  lastSentSession: { name: string; pinned: boolean } | undefined;
  readonly #options: ListenerOptions;
  #cursor: EventCursor | undefined;
  #isFollowing = false;
  #isClosed = false;
  /** Whether the database may have events after the cursor, or a changed session. */
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

  /** Continues after the last sent event, or after the given cursor. */
  resume(cursor = this.#cursor): void {
    this.pause();
    if (this.#isClosed || cursor === undefined) return;
    this.#cursor = { ...cursor };
    this.#isFollowing = true;
    this.#options.events.subscribe(this.#options.sessionId, this);
    // Read now, because notifications between the last read and this subscription were missed.
    this.onNotify(true);
  }

  onNotify(hasChanged: boolean): void {
    const turn = this.#options.events.getRunningTurn(this.#options.sessionId);
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
      let lastCursor = this.#cursor;
      try {
        for (const { cursor, frame } of await this.read(lastCursor)) {
          // The listener was paused or resumed during the read, so the rows may not follow its cursor.
          if (!this.#isFollowing || this.#cursor !== lastCursor) break;
          this.#cursor = lastCursor = cursor;
          send(frame);
        }
      } catch (error) {
        if (isDatabaseOutage(error)) {
          this.#isBehind = true;
          await sleep(RETRY_DELAY_MS, undefined, { ref: false });
        } else {
          log.error({ err: error }, 'the events of a session could not be read');
        }
      }
    }
    this.#isReading = false;
    const turn = events.getRunningTurn(sessionId);
    if (turn !== undefined) this.onAppend(turn);
  }

  /**
   * Returns the events after a cursor, and then `session.updated` if the client's version of the session is outdated.
   * Events of other processes are included once they are stored.
   */
  async read(cursor: EventCursor): Promise<LogRow[]> {
    const { events, sessionId, requestId, log } = this.#options;
    const storedSession = await readSession(events.db, sessionId, cursor);
    if (storedSession === undefined) {
      if (cursor.hasEnded) return [];
      log.info({ request_id: requestId, session_id: sessionId }, 'an open session was deleted');
      const body = createProblemBody(problem('session_not_found'), requestId);
      const endEvent = { type: 'error' as const, problem: body, seq: cursor.seq + 1 };
      return toLogRows({ ...cursor, sessionId }, [endEvent], cursor);
    }
    const rows: LogRow[] = [];
    let lastCursor = cursor;
    const runningTurn = events.getRunningTurn(sessionId);
    for (const { key, status, events: storedEvents } of storedSession.turns) {
      const isRunningHere = runningTurn?.turnId === key.turnId;
      const seq = key.turnId === lastCursor.turnId ? lastCursor.seq : 0;
      // The last event of an aborted turn may reuse a sequence number that was already sent.
      const isNewEvent = (event: NumberedEvent) =>
        event.seq > seq || (status === 'cut' && isFinalEvent(event));
      const turnEvents = isRunningHere ? runningTurn.events : storedEvents;
      rows.push(...toLogRows(key, turnEvents.filter(isNewEvent), lastCursor));
      lastCursor = rows.at(-1)?.cursor ?? lastCursor;
      if (status === 'running' || isRunningHere) break;
    }
    const { name, pinned } = (this.lastSentSession ??= storedSession);
    if (name === storedSession.name && pinned === storedSession.pinned) return rows;
    const session = await findSession(events.db, { sessionId, scope: 'everything' });
    if (session === undefined) return rows;
    const frame = { type: 'session.updated', session_id: sessionId } as const;
    return [...rows, { cursor: lastCursor, frame: { ...frame, session: presentSession(session) } }];
  }
}

/** Converts a turn's new events to rows with cursors. Returns no rows if the last cursor is at the end of the turn. */
function toLogRows(
  { turnId, sessionId, position }: TurnKey,
  events: readonly NumberedEvent[],
  lastCursor: EventCursor,
): LogRow[] {
  if (lastCursor.turnId === turnId && lastCursor.hasEnded) return [];
  return events.map((event) => ({
    cursor: {
      turnId,
      position,
      seq: Math.max(event.seq, lastCursor.turnId === turnId ? lastCursor.seq : 0),
      hasEnded: isFinalEvent(event) || event.type === 'message.arrived',
    },
    frame: { ...event, session_id: sessionId, turn_id: turnId },
  }));
}

/** Merges consecutive text events into one with the sequence number of the last. */
export function mergeTextEvents(rows: readonly LogRow[]): LogRow[] {
  const mergedRows: LogRow[] = [];
  for (const row of rows) {
    const lastFrame = mergedRows.at(-1)?.frame;
    if (row.frame.type === 'message.delta' && lastFrame?.type === 'message.delta') {
      mergedRows[mergedRows.length - 1] = {
        ...row,
        frame: { ...row.frame, text: lastFrame.text + row.frame.text },
      };
    } else mergedRows.push(row);
  }
  return mergedRows;
}
