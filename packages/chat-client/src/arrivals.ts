import type { Answer, Message, NumberedEvent } from './frames.ts';

/** How many sessions are opened again on a new connection: those that something happened in last. */
const MAX_SESSIONS = 20;

/** How many messages of each are known: as many as a session is opened with. */
const MAX_KNOWN = 100;

/**
 * A message that this client did not ask for: the digest of a saved search, or what was said at another client of the
 * user; with `answer` a question that was asked there now.
 */
export type Arrived = { sessionId: string; message: Message; answer?: Answer };

/**
 * What comes by itself in the sessions that were opened or spoken in: each once, on whichever connection. The server
 * tells nothing of a session that was not opened since it was connected to, so they are opened again.
 */
export class Arrivals {
  hear: ((arrived: Arrived) => void) | undefined;
  /** The ids of the messages that are known, by session; the latest last. */
  readonly #known = new Map<string, Set<string>>();

  /** The sessions to be opened again. */
  get sessions(): string[] {
    return [...this.#known.keys()];
  }

  /** Takes a session for one in which nothing more is to be heard. */
  forget(sessionId: string): void {
    this.#known.delete(sessionId);
  }

  /** Notes messages of a session that somebody was given. */
  note(sessionId: string, messages: readonly Message[]): void {
    const known = this.#known.get(sessionId) ?? new Set();
    this.#known.delete(sessionId);
    this.#known.set(sessionId, known);
    for (const { id } of messages) known.add(id);
    trim(known, MAX_KNOWN);
    trim(this.#known, MAX_SESSIONS);
  }

  /** Takes an event, with the message that is in it. */
  take(event: NumberedEvent): void {
    const { session_id: sessionId } = event;
    if (event.type === 'message.arrived') this.#tell(sessionId, [event.message]);
    else if (event.type !== 'other' && 'message' in event && event.message !== undefined) {
      this.note(sessionId, [event.message]);
    }
  }

  /**
   * Takes the messages of a session that was opened again, and tells those that have come since.
   * @param isSpokenIn Whether this client has asked something in it, whose question and answer may be among them:
   *   then what came by itself is told alone.
   */
  catchUp(sessionId: string, messages: readonly Message[], isSpokenIn: boolean): void {
    const known = this.#known.get(sessionId);
    if (known !== undefined) {
      const last = messages.findLastIndex(({ id }) => known.has(id));
      this.#tell(
        sessionId,
        messages.slice(last + 1).filter(({ unasked }) => unasked === true || !isSpokenIn),
      );
    }
    this.note(sessionId, messages);
  }

  #tell(sessionId: string, messages: readonly Message[]): void {
    const known = this.#known.get(sessionId);
    const fresh = messages.filter(({ id }) => known?.has(id) !== true);
    this.note(sessionId, messages);
    for (const message of fresh) this.hear?.({ sessionId, message });
  }
}

/** Leaves the latest. */
function trim(latestLast: Set<string> | Map<string, unknown>, most: number): void {
  for (const oldest of latestLast.keys()) {
    if (latestLast.size <= most) return;
    latestLast.delete(oldest);
  }
}
