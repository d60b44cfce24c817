import { isEnd, type Message } from '@oselya/protocol';
import { ChatError } from './errors.ts';
import { type Answer, type NumberedEvent, problemOf, type TurnEvent } from './frames.ts';

/** How an answer begins: with a message, with a retry, or as a turn that is running already. */
export type Ask =
  | { type: 'send'; text: string; clientMessageId: string }
  | { type: 'retry' }
  | { type: 'follow'; turnId: string };

/** An answer as a stream of events, in order and once, over any number of connections. docs/protocol.md, Answers. */
export class AnswerStream implements AsyncIterable<TurnEvent> {
  readonly sessionId: string;
  readonly ask: Ask;
  turnId: string | undefined;
  /** Whether a retry was sent, which must not be sent twice. */
  wasAsked = false;
  #isReplaying = false;
  #hasGap = false;
  #seq = 0;
  #question: string | undefined;
  #hasEnded = false;
  #failure: ChatError | undefined;
  readonly #waiting: TurnEvent[] = [];
  #wake = Promise.withResolvers<void>();

  constructor(sessionId: string, ask: Ask) {
    this.sessionId = sessionId;
    this.ask = ask;
    if (ask.type === 'follow') this.turnId = ask.turnId;
  }

  /** The number of the last event. */
  get seq(): number {
    return this.#seq;
  }

  /** Whether the session has to be opened next: the answer has a turn, or may have one. */
  get isOpenedNext(): boolean {
    return this.turnId !== undefined || (this.ask.type === 'retry' && this.wasAsked);
  }

  get isOver(): boolean {
    return this.#hasEnded || this.#failure !== undefined;
  }

  /**
   * Takes an event of the turn.
   * @returns `gap` once when events before it are missing.
   */
  take(event: NumberedEvent): 'passed' | 'known' | 'gap' {
    if (this.isOver) return 'known';
    const isLast = event.type !== 'other' && isEnd(event);
    // After a process has died, the number of the end may be one that came before.
    if (!isLast) {
      if (event.seq <= this.#seq) return 'known';
      if (event.seq > this.#seq + 1 && !this.#isReplaying) return this.#findGap();
    }
    if (event.type === 'message.started') this.#question = event.message.id;
    this.#seq = Math.max(this.#seq, event.seq);
    this.#hasEnded = isLast;
    if (event.type !== 'other' && event.type !== 'message.arrived') this.#waiting.push(event);
    this.#wake.resolve();
    return 'passed';
  }

  /** Whether earlier events are being sent again: texts among them are joined, and have the number of the last. */
  set isReplaying(isReplaying: boolean) {
    this.#isReplaying = isReplaying;
    this.#hasGap = false;
  }

  /** Returns whether a turn that begins is the one of this answer, or may be. */
  mayBegin(turnId: string, question: Message): boolean {
    if (this.turnId !== undefined) return this.turnId === turnId;
    return this.ask.type === 'retry' || this.#isQuestion(question);
  }

  /** Returns whether a running turn is the one of this answer. */
  isTurn(turnId: string, messages: readonly Message[]): boolean {
    if (this.turnId !== undefined) return this.turnId === turnId;
    if (this.ask.type !== 'send') return true;
    const last = messages.findLast(({ role }) => role === 'user');
    return last !== undefined && this.#isQuestion(last);
  }

  /** Ends with the stored answer, if its events are no longer kept. */
  endWith(messages: readonly Message[]): void {
    const asked =
      this.#question === undefined && this.ask.type !== 'send'
        ? messages.findLastIndex(({ role }) => role === 'user')
        : messages.findIndex((message) => this.#isQuestion(message));
    const stored = asked === -1 ? undefined : messages[asked + 1];
    if (stored === undefined || stored.role === 'user') {
      this.fail(new ChatError('answer_lost', 'the answer was lost: retry it'));
      return;
    }
    const problem = problemOf(stored);
    const turn_id = this.turnId ?? '';
    const place = { session_id: this.sessionId, turn_id, seq: this.#seq + 1, message: stored };
    this.take(
      problem !== undefined
        ? { type: 'error', ...place, problem }
        : { type: 'message.completed', ...place },
    );
  }

  /** Ends with an error after the events that came. */
  fail(error: ChatError): void {
    this.#failure ??= error;
    this.#wake.resolve();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TurnEvent> {
    for (;;) {
      const event = this.#waiting.shift();
      if (event !== undefined) yield event;
      else if (this.#hasEnded) return;
      else if (this.#failure !== undefined) throw this.#failure;
      else {
        await this.#wake.promise;
        this.#wake = Promise.withResolvers();
      }
    }
  }

  #findGap(): 'known' | 'gap' {
    if (this.#hasGap) return 'known';
    this.#hasGap = true;
    return 'gap';
  }

  #isQuestion({ id, client_message_id: name }: Message): boolean {
    if (this.#question !== undefined) return id === this.#question;
    return this.ask.type === 'send' && name === this.ask.clientMessageId;
  }
}

/** Maximum number of sessions that are opened again on a new connection: the most recently active. */
const MAX_SESSIONS = 20;

/** Maximum number of known messages of a session: as many as come with an opened one. */
const MAX_KNOWN = 100;

/**
 * A message that this client did not ask for: a digest, or a message of another client of the user; `answer` follows
 * a question that was just sent there.
 */
export type Arrived = { sessionId: string; message: Message; answer?: Answer };

/** Finds messages that this client did not ask for in its sessions, each once over any number of connections. */
export class Arrivals {
  onArrived: ((arrived: Arrived) => void) | undefined;
  /** Ids of known messages by session, the latest last. */
  readonly #known = new Map<string, Set<string>>();

  /** The sessions to open again: the server sends no events of others. */
  get sessions(): string[] {
    return [...this.#known.keys()];
  }

  forget(sessionId: string): void {
    this.#known.delete(sessionId);
  }

  /** Marks messages of a session as known. */
  note(sessionId: string, messages: readonly Message[]): void {
    const known = this.#known.get(sessionId) ?? new Set();
    this.#known.delete(sessionId);
    this.#known.set(sessionId, known);
    for (const { id } of messages) known.add(id);
    evictOldest(known, MAX_KNOWN);
    evictOldest(this.#known, MAX_SESSIONS);
  }

  /** Takes an event with its message. */
  take(event: NumberedEvent): void {
    const { session_id: sessionId } = event;
    if (event.type === 'message.arrived') this.#publish(sessionId, [event.message]);
    else if (event.type !== 'other' && 'message' in event && event.message !== undefined) {
      this.note(sessionId, [event.message]);
    }
  }

  /**
   * Takes the messages of a session that was opened again, and publishes those that came since.
   * @param hasAsked Whether this client has asked something in it: its question and answer may be among them.
   */
  catchUp(sessionId: string, messages: readonly Message[], hasAsked: boolean): void {
    const known = this.#known.get(sessionId);
    if (known !== undefined) {
      const last = messages.findLastIndex(({ id }) => known.has(id));
      const fresh = messages.slice(last + 1);
      this.#publish(
        sessionId,
        fresh.filter(({ unasked }) => unasked === true || !hasAsked),
      );
    }
    this.note(sessionId, messages);
  }

  #publish(sessionId: string, messages: readonly Message[]): void {
    const known = this.#known.get(sessionId);
    const fresh = messages.filter(({ id }) => known?.has(id) !== true);
    this.note(sessionId, messages);
    for (const message of fresh) this.onArrived?.({ sessionId, message });
  }
}

function evictOldest(latestLast: Set<string> | Map<string, unknown>, maxSize: number): void {
  for (const oldest of latestLast.keys()) {
    if (latestLast.size <= maxSize) return;
    latestLast.delete(oldest);
  }
}
