import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Connection } from './connection.ts';
import { ChatError, closed, type Closing, refused } from './errors.ts';
import { type Frame, type FrameOf, isEvent, malformed, type NumberedEvent } from './frames.ts';
import type { Problem } from './problem.ts';

/** What becomes of the connection, for whoever shows it. */
export type Status =
  | { type: 'connected' }
  /** Something is waited for, and the server has been silent for so long; it may still answer. */
  | { type: 'quiet'; quietMs: number }
  /** It was silent, and is no more. */
  | { type: 'heard' }
  | { type: 'waiting'; code: number; reason: string; delayMs: number }
  /** The assistant refused something for now, which is asked for again then. */
  | { type: 'refused'; problem: Problem; delayMs: number }
  /** There will be no other connection; whoever closes the client is not told. */
  | { type: 'ended'; error: ChatError };

export type LinkOptions = {
  /** Of the assistant, by http or https. */
  url: string;
  /** The auth session: docs/protocol.md, Connecting. */
  cookie: { name: string; value: string };
  onStatus: (status: Status) => void;
  /**
   * How long a connection that was lost is tried again. It begins anew when the server says something, be it
   * a ping: one that only opens connections, and drops them, is given up.
   */
  patienceMs: number;
  /** How long a server that is waited for may be silent before that is a status. */
  quietMs: number;
  /** How long to wait after a close; null where the client does not connect again. */
  delayOf: (code: number, attempt: number) => number | null;
};

/** Who uses a link. */
type Hearer = {
  /** Whether more is to come than answers to messages. */
  isAwaiting: () => boolean;
  onOpen: () => void;
  onEvent: (event: NumberedEvent) => void;
  /** A connection closed; another one may follow. */
  onLost: (closing: Closing) => void;
  /** There will be no other connection. */
  onEnd: (error: ChatError) => void;
};

/** The connection was lost before the answer came: it may or may not have been done. */
export class LostError extends Error {
  override readonly name = 'LostError';
}

/** The types of the frames that answer messages, by the type of the message. */
const ANSWERS = {
  ping: ['pong'],
  'session.create': ['session.created'],
  'session.open': ['session.opened'],
  'message.send': ['message.started', 'message.repeated'],
  'message.retry': ['message.started'],
  'message.cancel': ['message.cancelling'],
  'memory.undo': ['memory.undone'],
} as const satisfies Record<string, readonly Frame['type'][]>;

type Answers = {
  [Name in keyof typeof ANSWERS]: FrameOf<(typeof ANSWERS)[Name][number]>;
};

type Request<Name extends keyof Answers> = { type: Name } & Record<string, unknown>;

/** Is called with an answer before the next frame is looked at. */
type Heard<Name extends keyof Answers> = (frame: Answers[Name]) => void;

type Waiter = {
  request: keyof Answers;
  resolve: (frame: Frame) => void;
  reject: (error: Error) => void;
};

/**
 * Messages and their answers over a connection that is made again when it is lost, as docs/protocol.md asks
 * for each close code.
 */
export class Link {
  /** Why nothing more can be done. */
  end: ChatError | undefined;
  /** How many connections there have been. */
  connections = 0;
  readonly #options: LinkOptions;
  readonly #hearer: Hearer;
  readonly #waiting = new Map<string, Waiter>();
  readonly #stopping = new AbortController();
  #connection: Connection | undefined;
  #opened = opening();
  #isOpen = false;
  #isQuiet = false;
  #asked = 0;
  /** Since a connection was last open. */
  #attempt = 0;
  /** When a connection was first lost since something was heard. */
  #lostAt: number | undefined;

  constructor(options: LinkOptions, hearer: Hearer) {
    this.#options = options;
    this.#hearer = hearer;
    this.#begin();
  }

  /** Ends when there is a connection. */
  get opened(): Promise<void> {
    return this.#opened.promise;
  }

  /** Sends a message on the connection that there is, and gives the first frame that answers it. */
  ask<Name extends keyof Answers>(
    request: Request<Name>,
    heard?: Heard<Name>,
  ): Promise<Answers[Name]> {
    const { promise, resolve, reject } = Promise.withResolvers<Answers[Name]>();
    if (this.#connection === undefined || !this.#isOpen) {
      reject(new LostError('There is no connection'));
      return promise;
    }
    this.#asked += 1;
    const id = String(this.#asked);
    this.#waiting.set(id, {
      request: request.type,
      resolve: (frame) => {
        // It answers this message by its id, and is of a type that does.
        const answer = frame as Answers[Name];
        heard?.(answer);
        resolve(answer);
      },
      reject,
    });
    this.#connection.send({ ...request, id });
    return promise;
  }

  /** Asks what may be asked twice, over as many connections as it takes. */
  async insist<Name extends keyof Answers>(
    request: Request<Name>,
    heard?: Heard<Name>,
  ): Promise<Answers[Name]> {
    for (;;) {
      if (this.end !== undefined) throw this.end;
      await this.opened;
      try {
        return await this.ask(request, heard);
      } catch (error) {
        if (!(error instanceof LostError)) throw error;
      }
    }
  }

  close(): void {
    this.#stopping.abort();
    this.#connection?.close();
    this.#finish(new ChatError('closed', 'the client was closed'));
  }

  #begin(): void {
    const { url, cookie, quietMs, onStatus } = this.#options;
    this.#connection = connect({
      url,
      cookie,
      quietMs,
      isAwaited: () => this.#waiting.size > 0 || this.#hearer.isAwaiting(),
      onQuiet: () => {
        this.#isQuiet = true;
        onStatus({ type: 'quiet', quietMs });
      },
      onOpen: () => this.#open(),
      onHeard: () => {
        this.#lostAt = undefined;
        if (this.#isQuiet) onStatus({ type: 'heard' });
        this.#isQuiet = false;
      },
      onFrame: (frame) => this.#hear(frame),
      onClose: (closing) => this.#lose(closing),
    });
  }

  #open(): void {
    this.#attempt = 0;
    this.#isOpen = true;
    this.#isQuiet = false;
    this.connections += 1;
    this.#options.onStatus({ type: 'connected' });
    this.#opened.resolve();
    this.#hearer.onOpen();
  }

  #hear(frame: Frame): void {
    // What is not known here answers nothing.
    if (frame.type !== 'other') this.#answer(frame);
    if (isEvent(frame)) this.#hearer.onEvent(frame);
  }

  /** @throws ChatError `no_assistant` for an answer that the protocol does not have. */
  #answer(frame: Frame): void {
    const id = typeof frame.id === 'string' ? frame.id : '';
    const waiter = this.#waiting.get(id);
    if (waiter === undefined) return;
    const isRefusal = frame.type === 'error' && !isEvent(frame);
    if (!isRefusal && !isAnswer(frame, waiter.request)) {
      throw malformed(`a ${frame.type} in answer to ${waiter.request}`);
    }
    this.#waiting.delete(id);
    if (isRefusal) waiter.reject(refused(frame.problem));
    else waiter.resolve(frame);
  }

  #lose(closing: Closing): void {
    this.#connection = undefined;
    this.#isQuiet = false;
    if (this.#isOpen) this.#opened = opening();
    this.#isOpen = false;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of waiting) reject(new LostError('The connection was lost'));
    this.#hearer.onLost(closing);
    if (this.end !== undefined) return;
    const delayMs = this.#delayAfter(closing);
    if (delayMs === null) {
      const error = closed(closing);
      this.#finish(error);
      this.#options.onStatus({ type: 'ended', error });
      return;
    }
    this.#attempt += 1;
    const { code, reason } = closing;
    this.#options.onStatus({ type: 'waiting', code, reason, delayMs });
    const wait = sleep(delayMs, undefined, { signal: this.#stopping.signal });
    // It is stopped by closing the link, which tells everybody.
    wait.then(() => this.#begin()).catch(() => undefined);
  }

  /** Null where there is no use in another connection, or there was none for too long. */
  #delayAfter({ code, status }: Closing): number | null {
    const isNoAssistant = status !== undefined && status !== 429 && status < 500;
    if (this.connections === 0 || isNoAssistant) return null;
    const { delayOf, patienceMs } = this.#options;
    const delayMs = delayOf(code, this.#attempt);
    if (delayMs === null) return null;
    this.#lostAt ??= performance.now();
    const lostMs = performance.now() - this.#lostAt;
    return lostMs + delayMs < patienceMs ? delayMs : null;
  }

  #finish(error: ChatError): void {
    if (this.end !== undefined) return;
    this.end = error;
    this.#opened.reject(error);
    this.#hearer.onEnd(error);
  }
}

function isAnswer({ type }: Frame, request: keyof Answers): boolean {
  return (ANSWERS[request] as readonly Frame['type'][]).includes(type);
}

/** A connection that is to come; nobody may be waiting for it when it does not. */
function opening(): PromiseWithResolvers<void> {
  const result = Promise.withResolvers<void>();
  result.promise.catch(() => undefined);
  return result;
}
