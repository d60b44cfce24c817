import type { NumberedEvent, TurnFrame } from './events.ts';
import { Turn, type TurnKey } from './turn.ts';

/** Sends what happens in a session to whoever listens. */
export type Send = (frame: TurnFrame) => void;

/** What happened in the newest turn of a session before somebody listened. */
export type Earlier = {
  key: TurnKey;
  /** The last event that the listener knows of; 0 for none. */
  after: number;
  /** Those after it, as far as they are known. */
  events: readonly NumberedEvent[];
};

/** Somebody who listens to a session. */
export type Listener = {
  /** Sends what happened earlier, and from then on what happens. Until it is called all is kept back. */
  begin(earlier?: Earlier): void;
  end(): void;
};

/**
 * Who listens to which session in this process, and the turns that it runs. Events reach listeners in their
 * order and once, wherever they come from: from a turn of this process as they happen, or from the database,
 * where some may have been seen before.
 */
export type Hub = ReturnType<typeof createHub>;

export function createHub() {
  const channels = new Map<string, Channel>();
  const turns = new Map<string, Turn>();

  function deliver(key: TurnKey, events: readonly NumberedEvent[]): void {
    for (const inbox of channels.get(key.sessionId)?.inboxes ?? []) inbox.take(key, events);
  }

  return {
    /** Begins a turn that this process runs. */
    start(key: TurnKey): Turn {
      const turn = new Turn(key, (started, event) => deliver(started, [event]));
      turns.set(key.sessionId, turn);
      return turn;
    },

    /** Forgets a turn that has ended. */
    finish(turn: Turn): void {
      if (turns.get(turn.sessionId) === turn) turns.delete(turn.sessionId);
    },

    /** The turn of a session that this process runs. */
    turnOf: (sessionId: string): Turn | undefined => turns.get(sessionId),

    /** All turns that this process runs. */
    running: (): Turn[] => [...turns.values()],

    listen(sessionId: string, send: Send): Listener {
      const inbox = new Inbox(sessionId, send);
      const channel = channels.get(sessionId) ?? { inboxes: new Set(), place: undefined };
      channels.set(sessionId, channel);
      channel.inboxes.add(inbox);
      return {
        begin: (earlier) => inbox.begin(earlier),
        end() {
          channel.inboxes.delete(inbox);
          if (channel.inboxes.size === 0 && channels.get(sessionId) === channel) {
            channels.delete(sessionId);
          }
        },
      };
    },

    /** What is known here of a session that somebody listens to; nothing where nobody does. */
    channelOf: (sessionId: string): Pick<Channel, 'place'> | undefined => channels.get(sessionId),

    /** The sessions that somebody listens to. */
    heardSessions: (): string[] => [...channels.keys()],

    deliver,
  };
}

/** A place in a session: a turn, and an event in it. */
export type Place = { position: number; seq: number };

type Channel = {
  readonly inboxes: Set<Inbox>;
  /** How far the turns of other processes have been read. */
  place: Place | undefined;
};

/** What one listener has been told, so that it is told everything once. */
class Inbox {
  readonly #sessionId: string;
  readonly #send: Send;
  /** Null once it has begun. */
  #waiting: { key: TurnKey; events: readonly NumberedEvent[] }[] | null = [];
  /** The turn, by its place in the session, and the event in it that it was told last. */
  #position = 0;
  #seq = 0;

  constructor(sessionId: string, send: Send) {
    this.#sessionId = sessionId;
    this.#send = send;
  }

  begin(earlier?: Earlier): void {
    const waiting = this.#waiting ?? [];
    this.#waiting = null;
    if (earlier !== undefined) {
      this.#position = earlier.key.position;
      this.#seq = earlier.after;
      this.#pass(earlier.key, earlier.events);
    }
    for (const { key, events } of waiting) this.#pass(key, events);
  }

  take(key: TurnKey, events: readonly NumberedEvent[]): void {
    if (this.#waiting === null) this.#pass(key, events);
    else this.#waiting.push({ key, events });
  }

  #pass({ turnId, position }: TurnKey, events: readonly NumberedEvent[]): void {
    if (position < this.#position) return;
    if (position > this.#position) {
      this.#position = position;
      this.#seq = 0;
    }
    for (const event of events) {
      if (event.seq <= this.#seq) continue;
      this.#seq = event.seq;
      this.#send({ ...event, session_id: this.#sessionId, turn_id: turnId });
    }
  }
}
