import { isFinalEvent, type Message } from '@oselya/protocol';
import { ChatError } from './errors.ts';
import {
  type StreamedAnswer,
  type SequencedEvent,
  parseProblem,
  type AnswerEvent,
} from './frames.ts';

/** Origin of an answer: a new message, a retry, or a turn that is already running. */
export type AnswerOrigin =
  | { type: 'send'; text: string; clientMessageId: string }
  | { type: 'retry' }
  | { type: 'follow'; turnId: string };

/** Stream of an answer's events: in order, each exactly once, even across reconnects. docs/protocol.md, Answers. */
export class AnswerStream implements AsyncIterable<AnswerEvent> {
  readonly sessionId: string;
  readonly origin: AnswerOrigin;
  turnId: string | undefined;
  /** Whether the retry was sent. It is sent again only if the session shows that the server did not handle it. */
  wasRetrySent = false;
  #isReplaying = false;
  #hasGap = false;
  #seq = 0;
  #questionId: string | undefined;
  #hasEnded = false;
  #failure: ChatError | undefined;
  readonly #unreadEvents: AnswerEvent[] = [];
  #wakeDeferred = Promise.withResolvers<void>();

  constructor(sessionId: string, origin: AnswerOrigin) {
    this.sessionId = sessionId;
    this.origin = origin;
    if (origin.type === 'follow') this.turnId = origin.turnId;
  }

  /** Sequence number of the last event. */
  get seq(): number {
    return this.#seq;
  }

  /** Whether the answer has or may have a turn. If so, the client must open its session. */
  get canHaveTurn(): boolean {
    return this.turnId !== undefined || this.wasRetrySent;
  }

  get isOver(): boolean {
    return this.#hasEnded || this.#failure !== undefined;
  }

  /**
   * Adds the next event of the turn. Ignores an event that it already has, or that follows a gap, except the last one.
   * @returns Whether earlier events are missing. A gap is reported once until the next replay.
   */
  addEvent(event: SequencedEvent): { isGap: boolean } {
    const isLast = event.type !== 'other' && isFinalEvent(event);
    // If the server process died, the last event may reuse an earlier sequence number.
    if (this.isOver || (!isLast && event.seq <= this.#seq)) return { isGap: false };
    if (!isLast && event.seq > this.#seq + 1 && !this.#isReplaying) {
      const isGap = !this.#hasGap;
      this.#hasGap = true;
      return { isGap };
    }
    if (event.type === 'message.started') this.#questionId = event.message.id;
    this.#seq = Math.max(this.#seq, event.seq);
    this.#hasEnded = isLast;
    if (event.type !== 'other' && event.type !== 'message.arrived') this.#unreadEvents.push(event);
    this.#wakeDeferred.resolve();
    return { isGap: false };
  }

  /** Sets whether the server is replaying events. Replayed text events are merged, so sequence numbers can skip. */
  set isReplaying(isReplaying: boolean) {
    this.#isReplaying = isReplaying;
    this.#hasGap = false;
  }

  /** Returns whether a new turn may belong to this answer. */
  canBegin(turnId: string, question: Message): boolean {
    if (this.turnId !== undefined) return this.turnId === turnId;
    return this.origin.type === 'retry' || this.#isQuestion(question);
  }

  /** Returns whether a running turn belongs to this answer. Without a known turn, any turn belongs to a retry. */
  hasTurn(turnId: string, messages: readonly Message[]): boolean {
    if (this.turnId !== undefined) return this.turnId === turnId;
    if (this.origin.type !== 'send') return true;
    const lastQuestion = messages.findLast(({ role }) => role === 'user');
    return lastQuestion !== undefined && this.#isQuestion(lastQuestion);
  }

  /** Ends the stream with the stored answer of a turn that no longer runs, or with `answer_lost` if there is none. */
  endWithStoredAnswer(messages: readonly Message[]): void {
    const questionIndex =
      this.#questionId === undefined && this.origin.type !== 'send'
        ? messages.findLastIndex(({ role }) => role === 'user')
        : messages.findIndex((message) => this.#isQuestion(message));
    const message = questionIndex === -1 ? undefined : messages[questionIndex + 1];
    if (message === undefined || message.role === 'user') {
      return this.fail(new ChatError('answer_lost', 'the answer was lost: retry it'));
    }
    const problem = parseProblem(message);
    const turn_id = this.turnId ?? '';
    const event = { session_id: this.sessionId, turn_id, seq: this.#seq + 1, message };
    this.addEvent(
      problem === undefined
        ? { type: 'message.completed', ...event }
        : { type: 'error', ...event, problem },
    );
  }

  /** Ends the stream with an error after the received events. */
  fail(error: ChatError): void {
    this.#failure ??= error;
    this.#wakeDeferred.resolve();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<AnswerEvent> {
    for (;;) {
      const event = this.#unreadEvents.shift();
      if (event !== undefined) yield event;
      else if (this.#hasEnded) return;
      else if (this.#failure !== undefined) throw this.#failure;
      else {
        await this.#wakeDeferred.promise;
        this.#wakeDeferred = Promise.withResolvers();
      }
    }
  }

  #isQuestion({ id, client_message_id }: Message): boolean {
    if (this.#questionId !== undefined) return id === this.#questionId;
    return this.origin.type === 'send' && client_message_id === this.origin.clientMessageId;
  }
}

/** Maximum number of tracked sessions. The least recently used session is evicted. */
const MAX_SESSIONS = 20;

/** Maximum number of known message IDs per session: as many as the messages in `session.opened`. */
const MAX_KNOWN_MESSAGES = 100;

/**
 * A digest, a question from another client of the user, or its stored answer. `answer` is set for a question whose
 * answer begins now.
 */
export type ReceivedMessage = { sessionId: string; message: Message; answer?: StreamedAnswer };

/** Detects messages that this client did not request, each exactly once across reconnects. */
export class ReceivedMessageTracker {
  onArrived: ((received: ReceivedMessage) => void) | undefined;
  /** Known message IDs by session, least recently used first. */
  readonly #knownMessageIds = new Map<string, Set<string>>();

  /** IDs of the sessions to reopen after a reconnect. The server only sends events of open sessions. */
  get sessionIds(): string[] {
    return [...this.#knownMessageIds.keys()];
  }

  forgetSession(sessionId: string): void {
    this.#knownMessageIds.delete(sessionId);
  }

  addKnownMessages(sessionId: string, messages: readonly Message[]): void {
    const knownIds = this.#knownMessageIds.get(sessionId) ?? new Set();
    this.#knownMessageIds.delete(sessionId);
    this.#knownMessageIds.set(sessionId, knownIds);
    for (const { id } of messages) knownIds.add(id);
    evictOldest(knownIds, MAX_KNOWN_MESSAGES);
    evictOldest(this.#knownMessageIds, MAX_SESSIONS);
  }

  /** Handles an event that may contain a message. */
  onEvent(event: SequencedEvent): void {
    const { session_id: sessionId } = event;
    if (event.type === 'message.arrived') this.#publish(sessionId, [event.message]);
    else if (event.type !== 'other' && 'message' in event && event.message !== undefined) {
      this.addKnownMessages(sessionId, [event.message]);
    }
  }

  /**
   * Handles the messages of a reopened session and publishes the new ones.
   * @param isAwaiting Whether the client awaits an answer in the session; if so, only `unasked` messages are published.
   */
  onReopen(sessionId: string, messages: readonly Message[], isAwaiting: boolean): void {
    const knownIds = this.#knownMessageIds.get(sessionId);
    if (knownIds !== undefined) {
      const newMessages = messages.slice(messages.findLastIndex(({ id }) => knownIds.has(id)) + 1);
      const isPublished = ({ unasked }: Message) => unasked === true || !isAwaiting;
      this.#publish(sessionId, newMessages.filter(isPublished));
    }
    this.addKnownMessages(sessionId, messages);
  }

  #publish(sessionId: string, messages: readonly Message[]): void {
    const knownIds = this.#knownMessageIds.get(sessionId);
    const newMessages = messages.filter(({ id }) => knownIds?.has(id) !== true);
    this.addKnownMessages(sessionId, messages);
    for (const message of newMessages) this.onArrived?.({ sessionId, message });
  }
}

function evictOldest(collection: Set<string> | Map<string, unknown>, maxSize: number): void {
  for (const oldest of collection.keys()) {
    if (collection.size <= maxSize) return;
    collection.delete(oldest);
  }
}
