import { ChatError } from './errors.ts';
import { isEnd, type Message, type NumberedEvent, problemOf, type TurnEvent } from './frames.ts';

/** How an answer is asked for: by a message, by a retry, or not at all where a turn is running already. */
export type Ask =
  | { type: 'send'; text: string; clientMessageId: string }
  | { type: 'retry' }
  | { type: 'follow'; turnId: string };

/** What became of an event: it was passed on, is of no use, or shows that some before it are missing. */
type Taken = 'passed' | 'known' | 'gap';

/**
 * An answer as it comes: events in their order and once, over however many connections. docs/protocol.md,
 * Answers, as they are written.
 */
export class AnswerStream implements AsyncIterable<TurnEvent> {
  readonly sessionId: string;
  readonly ask: Ask;
  turnId: string | undefined;
  /** Whether it was asked for, by what must not be asked twice. */
  wasAsked = false;
  #isReplaying = false;
  #isMissingSome = false;
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

  /** The number of the last event that came. */
  get seq(): number {
    return this.#seq;
  }

  /** Whether the next step is to open its session: it has a turn, or may have one. */
  get isOpenedNext(): boolean {
    return this.turnId !== undefined || (this.ask.type === 'retry' && this.wasAsked);
  }

  /** Whether there is nothing more to come. */
  get isOver(): boolean {
    return this.#hasEnded || this.#failure !== undefined;
  }

  /** Passes an event on, once and in its place. */
  take(event: NumberedEvent): Taken {
    if (this.isOver) return 'known';
    // The end of an answer whose process has gone may have a number that came before.
    if (!isEnd(event)) {
      if (event.seq <= this.#seq) return 'known';
      if (event.seq > this.#seq + 1 && !this.#isReplaying) return this.#miss();
    }
    if (event.type === 'message.started') this.#question = event.message.id;
    this.#seq = Math.max(this.#seq, event.seq);
    this.#hasEnded = isEnd(event);
    if (event.type !== 'other' && event.type !== 'message.arrived') this.#waiting.push(event);
    this.#wake.resolve();
    return 'passed';
  }

  /**
   * What came earlier is sent again from here on, or has been: texts among it are joined, and have the number
   * of the last.
   */
  set isReplaying(isReplaying: boolean) {
    this.#isReplaying = isReplaying;
    this.#isMissingSome = false;
  }

  /** Whether a turn that begins is the one of this answer, or may turn out to be. */
  mayBegin(turnId: string, question: Message): boolean {
    if (this.turnId !== undefined) return this.turnId === turnId;
    return this.ask.type === 'retry' || this.#isQuestion(question);
  }

  /** Whether a turn that is running is the one of this answer. */
  isTurn(turnId: string, messages: readonly Message[]): boolean {
    if (this.turnId !== undefined) return this.turnId === turnId;
    if (this.ask.type !== 'send') return true;
    const last = messages.findLast(({ role }) => role === 'user');
    return last !== undefined && this.#isQuestion(last);
  }

  /** Ends with what is stored, for an answer whose events cannot be had any more. */
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
    const place = {
      session_id: this.sessionId,
      turn_id: this.turnId ?? '',
      seq: this.#seq + 1,
      message: stored,
    };
    this.take(
      problem !== undefined
        ? { type: 'error', ...place, problem }
        : { type: 'message.completed', ...place },
    );
  }

  /** Ends with an error, after what has come. */
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

  /** Told once: until it is made up for, what follows is too early. */
  #miss(): Taken {
    if (this.#isMissingSome) return 'known';
    this.#isMissingSome = true;
    return 'gap';
  }

  #isQuestion({ id, client_message_id: name }: Message): boolean {
    if (this.#question !== undefined) return id === this.#question;
    return this.ask.type === 'send' && name === this.ask.clientMessageId;
  }
}
