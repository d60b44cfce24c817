import type { ProblemBody } from '@oselya/kit';
import { isEnd, joined, type NumberedEvent, type SessionFrame, type TurnFrame } from './events.ts';
import { Turn, type TurnKey } from './turn.ts';

/** Sends what happens in a session to whoever listens. */
export type Send = (frame: TurnFrame | SessionFrame) => void;

/** What happened in the newest turn of a session before somebody listened. */
export type Earlier = {
  key: TurnKey;
  /** The last event that the listener knows of; 0 for none. */
  after: number;
  /** Whether they know how it ended. */
  knowsEnd: boolean;
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
      // One that another process has cut off, and this one not heard of yet.
      turns.get(key.sessionId)?.stop('lost');
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

    /**
     * The newest turn of a session that whoever listens has been told of, by its place: 0 before the first, the
     * earliest of several listeners', and nothing where none has begun.
     */
    toldPosition(sessionId: string): number | undefined {
      const inboxes = [...(channels.get(sessionId)?.inboxes ?? [])];
      const positions = inboxes.flatMap(({ position }) => position ?? []);
      return positions.length === 0 ? undefined : Math.min(...positions);
    },

    /** Whether whoever listens to a session has been told of a turn to its end, and so of those before it. */
    hasTold: ({ sessionId, position }: Omit<TurnKey, 'turnId'>): boolean =>
      [...(channels.get(sessionId)?.inboxes ?? [])].every((inbox) => inbox.hasTold(position)),

    /** How many sessions somebody listens to. */
    get size() {
      return channels.size;
    },

    /** The sessions that somebody listens to. */
    heardSessions: (): string[] => [...channels.keys()],

    deliver,

    /** Ends the answer that whoever listens to a session is being told, where it has not ended: it goes no further. */
    endAnswer(sessionId: string, problem: ProblemBody): void {
      for (const inbox of channels.get(sessionId)?.inboxes ?? []) inbox.endAnswer(problem);
    },

    /** Tells whoever listens to a session what became of it, beside its turns. */
    tell(frame: SessionFrame): void {
      for (const inbox of channels.get(frame.session_id)?.inboxes ?? []) inbox.tell(frame);
    },
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
  /** What is kept back until it begins; null once it has. */
  #waiting: (() => void)[] | null = [];
  /** The turn, the event in it that was told last, and whether it has ended. */
  #turn: TurnKey | undefined;
  #seq = 0;
  /** Before the first turn there is nothing to end. */
  #hasEnded = true;

  constructor(sessionId: string, send: Send) {
    this.#sessionId = sessionId;
    this.#send = send;
  }

  get #position(): number {
    return this.#turn?.position ?? 0;
  }

  /** Of the turn that was told last; nothing before it has begun. */
  get position(): number | undefined {
    return this.#waiting === null ? this.#position : undefined;
  }

  /** Whether a turn has been told to its end. Before it has begun it may be reading what was before that. */
  hasTold(position: number): boolean {
    if (this.#waiting !== null) return false;
    return this.#position > position || (this.#position === position && this.#hasEnded);
  }

  begin(earlier?: Earlier): void {
    const waiting = this.#waiting ?? [];
    this.#waiting = null;
    if (earlier !== undefined) {
      this.#turnTo(earlier.key);
      this.#seq = earlier.after;
      this.#hasEnded = earlier.knowsEnd;
      // All of them at once: texts are one.
      this.#pass(earlier.key, joined(earlier.events));
    }
    for (const pass of waiting) pass();
  }

  take(key: TurnKey, events: readonly NumberedEvent[]): void {
    this.#inTurn(() => this.#pass(key, events));
  }

  tell(frame: SessionFrame): void {
    this.#inTurn(() => this.#send(frame));
  }

  endAnswer(problem: ProblemBody): void {
    this.#inTurn(() => {
      if (this.#turn === undefined) return;
      this.#pass(this.#turn, [{ type: 'error', problem, seq: this.#seq + 1 }]);
    });
  }

  #inTurn(pass: () => void): void {
    if (this.#waiting === null) pass();
    else this.#waiting.push(pass);
  }

  #pass(key: TurnKey, events: readonly NumberedEvent[]): void {
    if (key.position > this.#position) this.#turnTo(key);
    if (key.position < this.#position) return;
    for (const event of events) {
      if (!this.#isNew(event)) continue;
      this.#send({ ...event, session_id: this.#sessionId, turn_id: key.turnId });
    }
  }

  #turnTo(key: TurnKey): void {
    this.#turn = key;
    this.#seq = 0;
    this.#hasEnded = false;
  }

  #isNew(event: NumberedEvent): boolean {
    // The end of an answer whose process has gone is numbered after what had been stored of it, which may be
    // less than was told. Nothing of the answer comes after its end.
    const isNew = !this.#hasEnded && (isEnd(event) || event.seq > this.#seq);
    this.#hasEnded ||= isEnd(event) || event.type === 'message.arrived';
    this.#seq = Math.max(this.#seq, event.seq);
    return isNew;
  }
}
