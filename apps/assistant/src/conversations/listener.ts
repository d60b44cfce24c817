import { isDatabaseOutage, tail } from '@oselya/db';
import { type Logger, problemBody } from '@oselya/kit';
import { isEnd, type ServerFrame, type TurnFrame } from '@oselya/protocol';
import { problem } from '../errors.ts';
import { type EventLog, type NumberedEvent, readSession } from './event-log.ts';
import { presentSession } from './schemas.ts';
import { findSession } from './session-rows.ts';
import type { TurnKey } from './turns.ts';

/** How often a listener reads without a notification, which can be lost. */
const POLL_MS = 60_000;

/** An event of a session, for its listeners. */
export type SessionFrame = TurnFrame | ServerFrame<'session.updated'>;

/** The last event that a listener has. The position of the turn is 0 before the first. */
export type Cursor = {
  turnId: string;
  position: number;
  seq: number;
  hasEnded: boolean;
};

/** An event, and the cursor after it. */
export type LogRow = { position: Cursor; frame: SessionFrame };

type ListenerOptions = {
  events: EventLog;
  sessionId: string;
  send: (frame: SessionFrame) => void;
  requestId: string;
  log: Pick<Logger, 'info' | 'error'>;
};

/**
 * Follows the log of a session from a cursor on, and sends each event once and in order, whichever process runs the
 * turns. Events of a turn of this process come from memory, all others from the database.
 */
export class Listener {
  /** Name and pin of the session, as the client knows them. */
  known: { name: string; pinned: boolean } | undefined;
  readonly #options: ListenerOptions;
  #cursor: Cursor | undefined;
  #following: AbortController | undefined;
  #isClosed = false;
  /** Whether the database may have events of other processes, or a change of the session. */
  #isBehind = true;
  #hasChanged = true;
  #readAt = 0;

  constructor(options: ListenerOptions) {
    this.#options = options;
  }

  /** Stops sending; `resume` continues without a gap. */
  pause(): void {
    this.#following?.abort();
    this.#following = undefined;
  }

  close(): void {
    this.#isClosed = true;
    this.pause();
  }

  /** Continues where the listener paused, or from another cursor on. */
  resume(cursor = this.#cursor): void {
    this.pause();
    if (this.#isClosed || cursor === undefined) return;
    this.#following = new AbortController();
    void this.#follow(cursor, this.#following.signal);
  }

  async #follow(after: Cursor, signal: AbortSignal): Promise<void> {
    const { events, sessionId, send } = this.#options;
    this.#cursor = after;
    this.#isBehind = true;
    const channel = {
      subscribe: (key: string, wake: () => void) =>
        events.subscribe(key, (source) => {
          this.#isBehind ||= source !== 'memory';
          this.#hasChanged ||= source === 'session';
          wake();
        }),
      close: () => Promise.resolve(),
    };
    const read = (cursor: Cursor) => this.#readNew(cursor);
    const batches = tail({ channel, key: sessionId, after, read, pollMs: POLL_MS, signal });
    for await (const rows of batches) {
      for (const { position, frame } of rows) {
        if (signal.aborted) return;
        this.#cursor = position;
        send(frame);
      }
    }
  }

  /** Reads from memory while a turn of this process is the one of the cursor, and from the database if it is behind. */
  async #readNew(cursor: Cursor): Promise<LogRow[]> {
    const turn = this.#options.events.turnOf(this.#options.sessionId);
    if (turn?.turnId === cursor.turnId) {
      const rows = rowsOf(turn, turn.events.slice(cursor.seq), cursor);
      if (rows.length > 0 || !this.#hasChanged) return rows;
    }
    const now = performance.now();
    if (!this.#isBehind && now < this.#readAt + POLL_MS / 2) return [];
    this.#isBehind = false;
    this.#hasChanged = false;
    this.#readAt = now;
    try {
      return await this.read(cursor);
    } catch (error) {
      this.#isBehind = true;
      if (isDatabaseOutage(error)) throw error;
      this.#options.log.error({ err: error }, 'the events of a session could not be read');
      return [];
    }
  }

  /** Returns the events after a cursor, those of other processes as far as they are stored. */
  async read(cursor: Cursor): Promise<LogRow[]> {
    const { events, sessionId, requestId, log } = this.#options;
    const state = await readSession(events.db, sessionId, cursor);
    if (state === undefined) {
      if (cursor.hasEnded) return [];
      log.info({ request_id: requestId, session_id: sessionId }, 'an open session was deleted');
      const gone = problemBody(problem('session_not_found'), requestId);
      const end = { type: 'error' as const, problem: gone, seq: cursor.seq + 1 };
      return rowsOf({ ...cursor, sessionId }, [end], cursor);
    }
    const rows: LogRow[] = [];
    let last = cursor;
    for (const { key, status, events: stored } of state.turns) {
      const own = events.turnOf(sessionId);
      const isOwn = own?.turnId === key.turnId;
      const seq = key.turnId === last.turnId ? last.seq : 0;
      // An aborted turn ends with a number that its listeners may have seen.
      const isNew = (event: NumberedEvent) => event.seq > seq || (status === 'cut' && isEnd(event));
      rows.push(...rowsOf(key, (isOwn ? own.events : stored).filter(isNew), last));
      last = rows.at(-1)?.position ?? last;
      if (status === 'running' || isOwn) break;
    }
    const { known } = this;
    this.known = { name: state.name, pinned: state.pinned };
    const isSame = known?.name === state.name && known.pinned === state.pinned;
    if (known === undefined || isSame) return rows;
    const session = await findSession(events.db, { sessionId, scope: 'everything' });
    if (session === undefined) return rows;
    const frame = { type: 'session.updated', session_id: sessionId } as const;
    return [...rows, { position: last, frame: { ...frame, session: presentSession(session) } }];
  }
}

/** Adds the place to new events of a turn: of the turn of the cursor, unless that has ended, or of a later one. */
function rowsOf(
  { turnId, sessionId, position }: TurnKey,
  events: readonly NumberedEvent[],
  cursor: Cursor,
): LogRow[] {
  if (cursor.turnId === turnId && cursor.hasEnded) return [];
  return events.map((event) => ({
    position: {
      turnId,
      position,
      seq: Math.max(event.seq, cursor.turnId === turnId ? cursor.seq : 0),
      hasEnded: isEnd(event) || event.type === 'message.arrived',
    },
    frame: { ...event, session_id: sessionId, turn_id: turnId },
  }));
}

/** Joins texts that follow one another; the result has the number of the last. */
export function joinTexts(rows: readonly LogRow[]): LogRow[] {
  const result: LogRow[] = [];
  for (const row of rows) {
    const last = result.at(-1)?.frame;
    if (row.frame.type === 'message.delta' && last?.type === 'message.delta') {
      const frame = { ...row.frame, text: last.text + row.frame.text };
      result[result.length - 1] = { ...row, frame };
    } else {
      result.push(row);
    }
  }
  return result;
}
