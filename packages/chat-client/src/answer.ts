import { isFinalEvent, type Message } from '@oselya/protocol';
import { ChatError } from './errors.ts';
import {
  type StreamedAnswer,
  type SequencedEvent,
  parseProblem,
  type AnswerEvent,
} from './frames.ts';

/** The start of an answer: a new message, a retry, or a turn that already runs. */
export type AnswerStart =
  | { type: 'send'; text: string; clientMessageId: string }
  | { type: 'retry' }
  | { type: 'follow'; turnId: string };

/** The events of an answer, in order and exactly once, across reconnects. docs/protocol.md, Answers. */
export class AnswerStream implements AsyncIterable<AnswerEvent> {
  readonly sessionId: string;
  readonly ask: AnswerStart;
  turnId: string | undefined;
  /** Whether a retry was sent. It must not be sent twice. */
  wasAsked = false;
  #isReplaying = false;
  #hasGap = false;
  #seq = 0;
  #question: string | undefined;
  #hasEnded = false;
  #failure: ChatError | undefined;
  readonly #waiting: AnswerEvent[] = [];
  #wake = Promise.withResolvers<void>();

  constructor(sessionId: string, ask: AnswerStart) {
    this.sessionId = sessionId;
    this.ask = ask;
    if (ask.type === 'follow') this.turnId = ask.turnId;
  }

  /** Sequence number of the last event. */
  get seq(): number {
    return this.#seq;
  }

  /** Whether the next step is to open the session, because the answer has a turn or may have one. */
  get isOpenedNext(): boolean {
    return this.turnId !== undefined || (this.ask.type === 'retry' && this.wasAsked);
  }

  get isOver(): boolean {
    return this.#hasEnded || this.#failure !== undefined;
  }

  /**
   * Adds an event of the turn.
   * @returns `gap` if earlier events are missing. A gap is returned once.
   */
  take(event: SequencedEvent): 'passed' | 'known' | 'gap' {
    if (this.isOver) return 'known';
    const isLast = event.type !== 'other' && isFinalEvent(event);
    // If the process died, the last event may reuse an earlier sequence number.
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

  /** Sets whether the server replays events. Replayed texts are merged, so sequence numbers may skip. */
  set isReplaying(isReplaying: boolean) {
    this.#isReplaying = isReplaying;
    this.#hasGap = false;
  }

  /** Returns whether a new turn may belong to this answer. */
  mayBegin(turnId: string, question: Message): boolean {
    if (this.turnId !== undefined) return this.turnId === turnId;
    return this.ask.type === 'retry' || this.#isQuestion(question);
  }

  /** Returns whether a running turn belongs to this answer. */
  isTurn(turnId: string, messages: readonly Message[]): boolean {
    if (this.turnId !== undefined) return this.turnId === turnId;
    if (this.ask.type !== 'send') return true;
    const last = messages.findLast(({ role }) => role === 'user');
    return last !== undefined && this.#isQuestion(last);
  }

  /** Ends the stream with the stored answer, after its events were deleted. */
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
    const problem = parseProblem(stored);
    const turn_id = this.turnId ?? '';
    const place = { session_id: this.sessionId, turn_id, seq: this.#seq + 1, message: stored };
    this.take(
      problem !== undefined
        ? { type: 'error', ...place, problem }
        : { type: 'message.completed', ...place },
    );
  }

  /** Ends the stream with an error after the received events. */
  fail(error: ChatError): void {
    this.#failure ??= error;
    this.#wake.resolve();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<AnswerEvent> {
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

/** Maximum number of sessions that are reopened after a reconnect, the most recently used. */
const MAX_SESSIONS = 20;

/** Maximum number of known messages per session. It equals the messages in `session.opened`. */
const MAX_KNOWN = 100;

/**
 * A message that this client did not request: a digest, or a message of the user's other client. For a new question of
 * the other client, `answer` has the events of its answer.
 */
export type ReceivedMessage = { sessionId: string; message: Message; answer?: StreamedAnswer };

/** Detects messages that this client did not request, each exactly once across reconnects. */
export class ReceivedMessageTracker {
  onArrived: ((arrived: ReceivedMessage) => void) | undefined;
  /** Ids of known messages by session, in order of use. */
  readonly #known = new Map<string, Set<string>>();

  /** Ids of the sessions to reopen after a reconnect. The server only sends events of open sessions. */
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

  /** Handles an event that may contain a message. */
  take(event: SequencedEvent): void {
    const { session_id: sessionId } = event;
    if (event.type === 'message.arrived') this.#publish(sessionId, [event.message]);
    else if (event.type !== 'other' && 'message' in event && event.message !== undefined) {
      this.note(sessionId, [event.message]);
    }
  }

  /**
   * Handles the messages of a reopened session and publishes the new ones.
   * @param hasAsked Whether this client waits for an answer in the session. Then only unasked messages are published.
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
