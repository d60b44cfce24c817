import {
  clientMessages,
  type ClientType,
  type Problem,
  type ServerFrame,
  type Session,
} from '@oselya/protocol';
import {
  ChatError,
  createCloseError,
  describeProblem,
  type ConnectionClose,
  isNoAssistant,
  createProtocolError,
} from './errors.ts';
import {
  type FrameCheck,
  type ReceivedFrame,
  isEvent,
  type SequencedEvent,
  parseServerFrame,
} from './frames.ts';

const HANDSHAKE_TIMEOUT_MS = 15_000;

/** Maximum server silence before a ping. */
const MAX_IDLE_MS = 30_000;
/** Maximum server silence before the client drops the connection. */
const MAX_SILENCE_MS = 75_000;

/** Close code for an invalid frame. Not 1002, because browsers only allow 1000 and the codes from 3000 to 4999. */
const INVALID_FRAME_CODE = 4002;

/** WebSocket event, with the members of all event types. */
type SocketEvent = {
  type: string;
  data?: unknown;
  code?: number;
  reason?: string;
  message?: string;
  error?: unknown;
};

/** WebSocket of a browser, of Node, or of the package `ws`. */
export type Socket = {
  readonly readyState: number;
  send(text: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(
    type: 'open' | 'message' | 'error' | 'close',
    listener: (event: SocketEvent) => void,
  ): void;
};

export type ConnectionStatus =
  | { type: 'connected' }
  /** The server has been silent for `quietMs` while a handshake, a reply or an answer is expected. */
  | { type: 'quiet'; quietMs: number }
  /** The server sends data again after a silence. */
  | { type: 'responsive' }
  /** The connection was lost, or a reconnect failed. The client reconnects after the delay. */
  | { type: 'waiting'; code: number; reason: string; delayMs: number }
  /** The assistant is unavailable. The client sends the message again after the delay. */
  | { type: 'unavailable'; problem: Problem; delayMs: number }
  /** The client does not reconnect. */
  | { type: 'ended'; error: ChatError };

export type ConnectionOptions = {
  /** Assistant URL, with http or https. */
  url: string;
  /** Opens a WebSocket. Outside browsers it must add the session cookie. */
  openSocket: (url: string) => Socket;
  /** Checks received frames. A page trusts its own server, and saves the size of the schemas. */
  checkFrame: FrameCheck;
  onStatus: (status: ConnectionStatus) => void;
  /** Time limit for reconnecting, from the first connection loss since the server last sent data. */
  reconnectTimeoutMs: number;
  /** Duration of server silence before the status `quiet` while a handshake, a reply or an answer is expected. */
  quietMs: number;
  /** Returns the delay before a reconnect, in milliseconds; null if the client must not reconnect. */
  getDelayMs: (code: number, attempt: number) => number | null;
};

type ConnectionHandlers = {
  /** Returns whether an answer is expected. The connection tracks pending replies itself. */
  isAwaiting: () => boolean;
  onOpen: () => void;
  onEvent: (event: SequencedEvent) => void;
  onSessionUpdated: (session: Session) => void;
  /** Called when a connection closes or cannot be opened. The client may reconnect. */
  onLost: (connectionClose: ConnectionClose) => void;
  /** Called when the client ends, because it does not reconnect or was closed. */
  onEnd: (error: ChatError) => void;
};

/**
 * Thrown if there is no connection, or if it is lost before the reply arrives. In the second case, the server may have
 * handled the message.
 */
export class ConnectionLostError extends Error {
  override readonly name = 'ConnectionLostError';
}

type Request<Name extends ClientType> = { type: Name } & Record<string, unknown>;
type Reply<Name extends ClientType> = ServerFrame<(typeof clientMessages)[Name]['answers'][number]>;
/** Called with a reply before the next frame is processed. */
type OnReply<Name extends ClientType> = (frame: Reply<Name>) => void;

type PendingRequest = {
  type: ClientType;
  resolve: (frame: ReceivedFrame) => void;
  reject: (error: Error) => void;
};

/** Connection that sends messages and receives replies, and reconnects after a loss. docs/protocol.md. */
export class ChatConnection {
  /** Error that ended the client; undefined while the client is connected or may reconnect. */
  endError: ChatError | undefined;
  connectionCount = 0;
  readonly #options: ConnectionOptions;
  readonly #handlers: ConnectionHandlers;
  readonly #pendingRequests = new Map<string, PendingRequest>();
  #socket: Socket | undefined;
  #openDeferred = createDeferred();
  #isOpen = false;
  #isQuiet = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #reconnectTimer: ReturnType<typeof setTimeout> | undefined;
  #requestCount = 0;
  /** Number of connection attempts since the last successful connection. */
  #attemptCount = 0;
  /** Time of the first connection loss since the server last sent data. */
  #lostAt: number | undefined;

  constructor(options: ConnectionOptions, handlers: ConnectionHandlers) {
    this.#options = options;
    this.#handlers = handlers;
    this.#connect();
  }

  get openPromise(): Promise<void> {
    return this.#openDeferred.promise;
  }

  /**
   * Sends a message on the current connection and resolves to the first reply.
   * @throws ConnectionLostError, or ChatError `rejected` with the problem that the server sent.
   */
  request<Name extends ClientType>(
    message: Request<Name>,
    onReply?: OnReply<Name>,
  ): Promise<Reply<Name>> {
    const { promise, resolve, reject } = Promise.withResolvers<Reply<Name>>();
    if (!this.#isOpen) {
      reject(new ConnectionLostError('There is no connection'));
      return promise;
    }
    this.#requestCount += 1;
    const id = String(this.#requestCount);
    this.#pendingRequests.set(id, {
      type: message.type,
      resolve: (frame) => {
        // `#settle` has checked the type.
        const reply = frame as Reply<Name>;
        onReply?.(reply);
        resolve(reply);
      },
      reject,
    });
    this.#socket?.send(JSON.stringify({ ...message, id }));
    if (this.#timer === undefined || this.#pendingRequests.size === 1) this.#watch();
    return promise;
  }

  /** Sends a message, and resends it on new connections until a reply arrives. The server may handle it repeatedly. */
  async requestRepeatedly<Name extends ClientType>(
    message: Request<Name>,
    onReply?: OnReply<Name>,
  ): Promise<Reply<Name>> {
    for (;;) {
      if (this.endError !== undefined) throw this.endError;
      await this.openPromise;
      try {
        return await this.request(message, onReply);
      } catch (error) {
        if (!(error instanceof ConnectionLostError)) throw error;
      }
    }
  }

  /** Ends the wait for the next attempt to reconnect, if there is one. */
  reconnectNow(): void {
    if (this.#reconnectTimer === undefined) return;
    clearTimeout(this.#reconnectTimer);
    this.#connect();
  }

  close(): void {
    clearTimeout(this.#reconnectTimer);
    clearTimeout(this.#timer);
    this.#socket?.close(1000);
    this.#finish(new ChatError('closed', 'the client was closed'));
  }

  #connect(): void {
    this.#reconnectTimer = undefined;
    const { url, openSocket } = this.#options;
    const socket = openSocket(`${url.replace(/^http/, 'ws')}/ws`);
    this.#socket = socket;
    let failure: Partial<ConnectionClose> = {};
    const isCurrent = () => this.#socket === socket;
    socket.addEventListener('open', () => {
      if (isCurrent()) this.#onOpen();
    });
    socket.addEventListener('message', ({ data }) => {
      if (!isCurrent()) return;
      this.#onData();
      try {
        const frame = parseServerFrame(String(data), this.#options.checkFrame);
        if (frame !== undefined) this.#onFrame(frame);
      } catch (error) {
        if (!(error instanceof ChatError)) throw error;
        failure = { code: 1002, reason: error.message };
        socket.close(INVALID_FRAME_CODE);
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
      this.#timer = setTimeout(() => this.#drop(), HANDSHAKE_TIMEOUT_MS - this.#options.quietMs);
    }, this.#options.quietMs);
  }

  /** Starts the timers that ping a silent server, report the silence, and then drop the connection. */
  #watch(): void {
    clearTimeout(this.#timer);
    if (!this.#isOpen) return;
    const { quietMs } = this.#options;
    const isAwaiting = this.#pendingRequests.size > 0 || this.#handlers.isAwaiting();
    const pingMs = isAwaiting ? quietMs / 3 : MAX_IDLE_MS;
    this.#timer = setTimeout(() => {
      this.#socket?.send('{"type":"ping"}');
      const remainingMs = (isAwaiting ? quietMs : MAX_SILENCE_MS) - pingMs;
      this.#timer = setTimeout(() => {
        if (!isAwaiting) return this.#drop();
        this.#onQuiet();
        this.#timer = setTimeout(() => this.#drop(), MAX_SILENCE_MS - quietMs);
      }, remainingMs);
    }, pingMs);
  }

  /** Drops the connection without waiting for the close handshake of a silent server. */
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

  #onData(): void {
    this.#lostAt = undefined;
    if (this.#isQuiet) this.#options.onStatus({ type: 'responsive' });
    this.#isQuiet = false;
  }

  #onOpen(): void {
    this.#attemptCount = 0;
    this.#isOpen = true;
    this.#isQuiet = false;
    this.connectionCount += 1;
    this.#watch();
    this.#options.onStatus({ type: 'connected' });
    this.#openDeferred.resolve();
    this.#handlers.onOpen();
  }

  #onFrame(frame: ReceivedFrame): void {
    if (frame.type !== 'other') this.#settle(frame);
    if (isEvent(frame)) this.#handlers.onEvent(frame);
    else if (frame.type === 'session.updated') this.#handlers.onSessionUpdated(frame.session);
  }

  /**
   * Settles the request that a frame answers.
   * @throws ChatError `no_assistant` for a reply of an unexpected type.
   */
  #settle(frame: ServerFrame): void {
    const id = 'id' in frame && typeof frame.id === 'string' ? frame.id : '';
    const request = this.#pendingRequests.get(id);
    if (request === undefined) return;
    const isRejection = frame.type === 'error' && !('seq' in frame);
    const answers: readonly string[] = clientMessages[request.type].answers;
    if (!isRejection && !answers.includes(frame.type)) {
      throw createProtocolError(`a ${frame.type} in answer to ${request.type}`);
    }
    this.#pendingRequests.delete(id);
    if (!isRejection) return request.resolve(frame);
    request.reject(new ChatError('rejected', describeProblem(frame.problem), frame.problem));
  }

  #onClose(connectionClose: ConnectionClose): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#socket = undefined;
    this.#isQuiet = false;
    if (this.#isOpen) this.#openDeferred = createDeferred();
    this.#isOpen = false;
    const requests = [...this.#pendingRequests.values()];
    this.#pendingRequests.clear();
    for (const { reject } of requests) reject(new ConnectionLostError('The connection was lost'));
    this.#handlers.onLost(connectionClose);
    if (this.endError !== undefined) return;
    const delayMs = this.#computeReconnectDelay(connectionClose);
    if (delayMs === null) {
      const error = createCloseError(connectionClose);
      this.#finish(error);
      this.#options.onStatus({ type: 'ended', error });
      return;
    }
    this.#attemptCount += 1;
    const { code, reason } = connectionClose;
    this.#options.onStatus({ type: 'waiting', code, reason, delayMs });
    this.#reconnectTimer = setTimeout(() => this.#connect(), delayMs);
  }

  /** Returns the delay before the next attempt; null if the client must give up. */
  #computeReconnectDelay(connectionClose: ConnectionClose): number | null {
    if (this.connectionCount === 0 || isNoAssistant(connectionClose)) return null;
    const { getDelayMs, reconnectTimeoutMs } = this.#options;
    const delayMs = getDelayMs(connectionClose.code, this.#attemptCount);
    if (delayMs === null) return null;
    this.#lostAt ??= performance.now();
    const lostMs = performance.now() - this.#lostAt;
    return lostMs + delayMs < reconnectTimeoutMs ? delayMs : null;
  }

  #finish(error: ChatError): void {
    if (this.endError !== undefined) return;
    this.endError = error;
    this.#openDeferred.reject(error);
    this.#handlers.onEnd(error);
  }
}

/** Creates a deferred promise whose rejection may stay unhandled. */
function createDeferred(): PromiseWithResolvers<void> {
  const deferred = Promise.withResolvers<void>();
  deferred.promise.catch(() => undefined);
  return deferred;
}
