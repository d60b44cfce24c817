import { clientMessages, type ClientType, type Problem, type ServerFrame } from '@oselya/protocol';
import { ChatError, closed, type Closing, isNoAssistant, malformed, refused } from './errors.ts';
import { type Frame, isEvent, type NumberedEvent, readFrame } from './frames.ts';

/** Maximum duration of a handshake. */
const HANDSHAKE_MS = 15_000;

/** An idle connection is checked after so long, and dropped after the second. */
const IDLE_MS = 30_000;
const SILENCE_MS = 75_000;

/** The client cannot continue with a frame. RFC 6455 §7.4.1; a browser may only close with codes of its own. */
const UNREADABLE = 4002;

/** An event of a WebSocket, of any of the types. */
type SocketEvent = {
  type: string;
  data?: unknown;
  code?: number;
  reason?: string;
  message?: string;
  error?: unknown;
};

/** A WebSocket of a browser, of Node, or of the package `ws`. */
export type Socket = {
  readonly readyState: number;
  send(text: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(
    type: 'open' | 'message' | 'error' | 'close',
    listener: (event: SocketEvent) => void,
  ): void;
};

/** The state of the connection. */
export type Status =
  | { type: 'connected' }
  /** The server is waited for, and has been silent for so long; it may still answer. */
  | { type: 'quiet'; quietMs: number }
  /** The server was silent, and answers again. */
  | { type: 'heard' }
  | { type: 'waiting'; code: number; reason: string; delayMs: number }
  /** The assistant is unavailable; the message is sent again after the delay. */
  | { type: 'refused'; problem: Problem; delayMs: number }
  /** The client will not connect again. */
  | { type: 'ended'; error: ChatError };

export type LinkOptions = {
  /** Of the assistant, by http or https. */
  url: string;
  /** Opens a WebSocket. A browser sends the session cookie by itself; elsewhere this adds it. */
  openSocket: (url: string) => Socket;
  onStatus: (status: Status) => void;
  /** How long the client tries to reconnect, since the server last sent something. */
  patienceMs: number;
  /** How long a server that is waited for may be silent before the status says so. */
  quietMs: number;
  /** Returns the delay after a close; null if the client does not connect again. */
  delayOf: (code: number, attempt: number) => number | null;
};

/** The user of a link. */
type LinkUser = {
  /** Whether events are expected, beside answers to messages. */
  isAwaiting: () => boolean;
  onOpen: () => void;
  onEvent: (event: NumberedEvent) => void;
  /** Called when a connection closes; another one may follow. */
  onLost: (closing: Closing) => void;
  /** Called when no other connection will follow. */
  onEnd: (error: ChatError) => void;
};

/** The connection was lost before the answer: the message may or may not have been handled. */
export class LostError extends Error {
  override readonly name = 'LostError';
}

type Request<Name extends ClientType> = { type: Name } & Record<string, unknown>;
/** The first answer to a message. */
type Reply<Name extends ClientType> = ServerFrame<(typeof clientMessages)[Name]['answers'][number]>;
/** Called with an answer before the next frame is read. */
type OnReply<Name extends ClientType> = (frame: Reply<Name>) => void;

type Waiter = {
  request: ClientType;
  resolve: (frame: Frame) => void;
  reject: (error: Error) => void;
};

/** Waits, unless the signal is aborted. */
export function delay(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => clearTimeout(timer));
  });
}

/** Sends messages and receives answers over a connection that is made again when it is lost. docs/protocol.md. */
export class Link {
  /** Why no connection will follow. */
  end: ChatError | undefined;
  /** Number of connections so far. */
  connections = 0;
  readonly #options: LinkOptions;
  readonly #user: LinkUser;
  readonly #waiting = new Map<string, Waiter>();
  readonly #stopping = new AbortController();
  #socket: Socket | undefined;
  #opened = pending();
  #isOpen = false;
  #isQuiet = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #asked = 0;
  /** Attempts since a connection was last open. */
  #attempt = 0;
  /** When the connection was lost, since the server last sent something. */
  #lostAt: number | undefined;

  constructor(options: LinkOptions, user: LinkUser) {
    this.#options = options;
    this.#user = user;
    this.#connect();
  }

  /** Resolves when there is a connection. */
  get opened(): Promise<void> {
    return this.#opened.promise;
  }

  /** Sends a message on the present connection, and returns the first frame that answers it. */
  ask<Name extends ClientType>(
    request: Request<Name>,
    onReply?: OnReply<Name>,
  ): Promise<Reply<Name>> {
    const { promise, resolve, reject } = Promise.withResolvers<Reply<Name>>();
    if (!this.#isOpen) {
      reject(new LostError('There is no connection'));
      return promise;
    }
    this.#asked += 1;
    const id = String(this.#asked);
    this.#waiting.set(id, {
      request: request.type,
      resolve: (frame) => {
        // `#answer` has checked its type.
        const reply = frame as Reply<Name>;
        onReply?.(reply);
        resolve(reply);
      },
      reject,
    });
    this.#socket?.send(JSON.stringify({ ...request, id }));
    if (this.#timer === undefined || this.#waiting.size === 1) this.#watch();
    return promise;
  }

  /** Sends a message that may be sent twice, over as many connections as it takes. */
  async insist<Name extends ClientType>(
    request: Request<Name>,
    onReply?: OnReply<Name>,
  ): Promise<Reply<Name>> {
    for (;;) {
      if (this.end !== undefined) throw this.end;
      await this.opened;
      try {
        return await this.ask(request, onReply);
      } catch (error) {
        if (!(error instanceof LostError)) throw error;
      }
    }
  }

  close(): void {
    this.#stopping.abort();
    clearTimeout(this.#timer);
    this.#socket?.close(1000);
    this.#finish(new ChatError('closed', 'the client was closed'));
  }

  #connect(): void {
    const { url, openSocket } = this.#options;
    const socket = openSocket(`${url.replace(/^http/, 'ws')}/ws`);
    this.#socket = socket;
    let failure: Partial<Closing> = {};
    const isCurrent = () => this.#socket === socket;
    socket.addEventListener('open', () => {
      if (isCurrent()) this.#onOpen();
    });
    socket.addEventListener('message', ({ data }) => {
      if (!isCurrent()) return;
      this.#onHeard();
      try {
        const frame = readFrame(String(data));
        if (frame !== undefined) this.#onFrame(frame);
      } catch (error) {
        if (!(error instanceof ChatError)) throw error;
        failure = { code: 1002, reason: error.message };
        socket.close(UNREADABLE);
      }
      this.#watch();
    });
    socket.addEventListener('error', ({ message = '', error }) => {
      const status = Number(/^Unexpected server response: (\d+)$/.exec(message)?.[1]);
      const code: unknown = Reflect.get(Object(error), 'code');
      failure =
        status > 0
          ? { status, reason: `HTTP ${status}`, ...(status === 429 && { code: 4429 }) }
          : { reason: typeof code === 'string' ? code : message, ...failure };
    });
    socket.addEventListener('close', ({ code = 1006, reason = '' }) => {
      if (isCurrent()) this.#onClose({ code, reason, ...failure });
    });
    this.#timer = setTimeout(() => {
      this.#onQuiet();
      this.#timer = setTimeout(() => this.#drop(), HANDSHAKE_MS - this.#options.quietMs);
    }, this.#options.quietMs);
  }

  /** Checks a silent server with a ping, reports the silence, and at last drops the connection. */
  #watch(): void {
    clearTimeout(this.#timer);
    if (!this.#isOpen) return;
    const { quietMs } = this.#options;
    const isAwaited = this.#waiting.size > 0 || this.#user.isAwaiting();
    const pingMs = isAwaited ? quietMs / 3 : IDLE_MS;
    this.#timer = setTimeout(() => {
      this.#socket?.send('{"type":"ping"}');
      const leftMs = isAwaited ? quietMs - pingMs : SILENCE_MS - pingMs;
      this.#timer = setTimeout(() => {
        if (!isAwaited) return this.#drop();
        this.#onQuiet();
        this.#timer = setTimeout(() => this.#drop(), SILENCE_MS - quietMs);
      }, leftMs);
    }, pingMs);
  }

  /** Gives a connection up whose server is silent: closing it may take long. */
  #drop(): void {
    const socket = this.#socket;
    this.#onClose({ code: 1006, reason: '' });
    socket?.close();
  }

  #onQuiet(): void {
    const { quietMs, onStatus } = this.#options;
    this.#isQuiet = true;
    onStatus({ type: 'quiet', quietMs });
  }

  #onHeard(): void {
    this.#lostAt = undefined;
    if (this.#isQuiet) this.#options.onStatus({ type: 'heard' });
    this.#isQuiet = false;
  }

  #onOpen(): void {
    this.#attempt = 0;
    this.#isOpen = true;
    this.#isQuiet = false;
    this.connections += 1;
    this.#watch();
    this.#options.onStatus({ type: 'connected' });
    this.#opened.resolve();
    this.#user.onOpen();
  }

  #onFrame(frame: Frame): void {
    if (frame.type !== 'other') this.#answer(frame);
    if (isEvent(frame)) this.#user.onEvent(frame);
  }

  /** Throws ChatError `no_assistant` for an answer that the protocol does not have. */
  #answer(frame: ServerFrame): void {
    const id = 'id' in frame && typeof frame.id === 'string' ? frame.id : '';
    const waiter = this.#waiting.get(id);
    if (waiter === undefined) return;
    const isRefusal = frame.type === 'error' && !('seq' in frame);
    const answers: readonly string[] = clientMessages[waiter.request].answers;
    if (!isRefusal && !answers.includes(frame.type)) {
      throw malformed(`a ${frame.type} in answer to ${waiter.request}`);
    }
    this.#waiting.delete(id);
    if (isRefusal) waiter.reject(refused(frame.problem));
    else waiter.resolve(frame);
  }

  #onClose(closing: Closing): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#socket = undefined;
    this.#isQuiet = false;
    if (this.#isOpen) this.#opened = pending();
    this.#isOpen = false;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of waiting) reject(new LostError('The connection was lost'));
    this.#user.onLost(closing);
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
    void delay(delayMs, this.#stopping.signal).then(() => this.#connect());
  }

  /** Returns null if another connection is of no use, or there was none for too long. */
  #delayAfter(closing: Closing): number | null {
    if (this.connections === 0 || isNoAssistant(closing)) return null;
    const { delayOf, patienceMs } = this.#options;
    const delayMs = delayOf(closing.code, this.#attempt);
    if (delayMs === null) return null;
    this.#lostAt ??= performance.now();
    const lostMs = performance.now() - this.#lostAt;
    return lostMs + delayMs < patienceMs ? delayMs : null;
  }

  #finish(error: ChatError): void {
    if (this.end !== undefined) return;
    this.end = error;
    this.#opened.reject(error);
    this.#user.onEnd(error);
  }
}

/** Returns a promise of a connection, whose rejection need not be handled. */
function pending(): PromiseWithResolvers<void> {
  const result = Promise.withResolvers<void>();
  result.promise.catch(() => undefined);
  return result;
}
