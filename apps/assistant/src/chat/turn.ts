import type { NumberedEvent, TurnEvent } from './events.ts';

/** Why a turn was ended before its answer was complete. */
export type StopReason = 'cancelled' | 'signed-out' | 'lost' | 'closing';

/** Which turn of which session, and its place among them: later ones have greater numbers. */
export type TurnKey = { turnId: string; sessionId: string; position: number };

/**
 * A turn that this process runs: what has happened in it, in its order. Whoever listens is told of each
 * event at once; they are stored a little later, several at a time.
 */
export class Turn implements TurnKey {
  readonly turnId: string;
  readonly sessionId: string;
  readonly position: number;
  readonly #events: NumberedEvent[] = [];
  readonly #stopping = new AbortController();
  readonly #tell: (turn: Turn, event: NumberedEvent) => void;
  #stored = 0;
  #isClosing = false;

  constructor(key: TurnKey, tell: (turn: Turn, event: NumberedEvent) => void) {
    this.turnId = key.turnId;
    this.sessionId = key.sessionId;
    this.position = key.position;
    this.#tell = tell;
  }

  /** Numbers an event, and tells whoever listens. */
  add(event: TurnEvent): NumberedEvent {
    const numbered = { ...event, seq: this.#events.length + 1 };
    this.#events.push(numbered);
    this.#tell(this, numbered);
    return numbered;
  }

  /** What has happened after an event, by its number. */
  after(seq: number): readonly NumberedEvent[] {
    return this.#events.slice(Math.max(0, seq));
  }

  /** What has not been stored yet. */
  get unstored(): readonly NumberedEvent[] {
    return this.after(this.#stored);
  }

  /** Notes that everything up to an event is stored. */
  noteStored(seq: number): void {
    this.#stored = Math.max(this.#stored, seq);
  }

  get lastSeq(): number {
    return this.#events.length;
  }

  /** Ends the work on it; the reason is the signal's, too, of several the first. */
  stop(reason: StopReason): void {
    this.#isClosing ||= reason === 'closing';
    this.#stopping.abort(reason);
  }

  /** Whether its process ends, whatever it was stopped for before. */
  get isClosing(): boolean {
    return this.#isClosing;
  }

  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  get stopReason(): StopReason | undefined {
    return this.signal.aborted ? this.signal.reason : undefined;
  }
}
