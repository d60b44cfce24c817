import { setTimeout as sleep } from 'node:timers/promises';
import { getClientNetwork, type Logger, type ProblemError } from '@oselya/kit';
import { type Closing, closings, socketLimits as protocolLimits } from '@oselya/protocol';
import type { Registry } from 'prom-client';
import type { RawData, WebSocket } from 'ws';
import type { User } from '../access/permissions.ts';
import { createTally, createMinuteBudget } from '../limits.ts';
import { problem } from '../errors.ts';
import {
  createDispatch,
  type ReplyFrame,
  type MessageType,
  type Peer,
  type UserSocket,
} from './dispatch.ts';
import { type AuthSessionProvider, createLiveUsers, liveUserLimits } from './live-users.ts';
import { createSocketMetrics } from './metrics.ts';

/** `Retry-After` in seconds for too many sockets of one IP address. docs/protocol.md has the same for 4429. */
const ROOM_RETRY_SECONDS = '60';

/** Limits of sockets. Contract 3, WebSocket. */
export const socketLimits = {
  ...protocolLimits,
  ...liveUserLimits,
  /** Time that a peer has to confirm a close. */
  closeTimeoutMs: 5_000,
  /** Time that a shutdown waits for closes and for messages in progress. */
  shutdownMs: 2_000,
};
export type SocketLimits = typeof socketLimits;

/** An open socket that enforces its limits. */
class Connection {
  readonly #socket: WebSocket;
  readonly #limits: SocketLimits;
  readonly #receive: (data: RawData, isBinary: boolean) => Promise<number | undefined>;
  readonly #hasMessageLeft: () => boolean;
  readonly #hasErrorLeft: () => boolean;
  readonly #closed = Promise.withResolvers<void>();
  #waiting = 0;
  #work = Promise.resolve();
  #unanswered = 0;
  /** A frame that exceeds the buffer limit and is still being written. */
  #large: { bytes: number; written: Promise<void> } | undefined;

  /**
   * Handles messages one at a time.
   * @param receive Handles a message and returns the HTTP status of its error, if any.
   */
  constructor(
    socket: WebSocket,
    limits: SocketLimits,
    receive: (data: RawData, isBinary: boolean) => Promise<number | undefined>,
  ) {
    this.#socket = socket;
    this.#limits = limits;
    this.#receive = receive;
    this.#hasMessageLeft = createMinuteBudget(limits.messagesPerMinute);
    this.#hasErrorLeft = createMinuteBudget(limits.errorsPerMinute);
    socket.once('close', () => this.#closed.resolve());
    socket.on('pong', () => {
      this.#unanswered = 0;
    });
    socket.on('message', (data: RawData, isBinary: boolean) => {
      if (!this.isOpen) return;
      if (!this.#hasMessageLeft() || this.#waiting === limits.waitingMessages) {
        return this.close(closings.tooManyMessages);
      }
      this.#waiting += 1;
      this.#work = this.#work.then(() => this.#take(data, isBinary));
    });
  }

  get isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN;
  }

  close({ code, reason }: Closing): void {
    if (this.isOpen) this.#socket.close(code, reason);
  }

  terminate(): void {
    this.#socket.terminate();
  }

  /** Sends a ping, or terminates the socket if the last two pings were not answered. */
  heartbeat(): void {
    if (this.#unanswered === 2) return this.terminate();
    this.#unanswered += 1;
    if (this.isOpen) this.#socket.ping();
  }

  /** Sends a message unless the socket is closing. Closes the socket if the peer reads too slowly. */
  send(frame: ReplyFrame): void {
    if (!this.isOpen) return;
    const { maxBufferedBytes } = this.#limits;
    if (this.#socket.bufferedAmount > maxBufferedBytes + (this.#large?.bytes ?? 0)) {
      return this.close(closings.tooSlow);
    }
    const text = JSON.stringify(frame);
    // A UTF-16 code unit takes at most three bytes in UTF-8.
    const bytes = 3 * text.length > maxBufferedBytes ? Buffer.byteLength(text) : 0;
    if (bytes <= maxBufferedBytes) return this.#socket.send(text);
    if (this.#large !== undefined) return this.close(closings.tooSlow);
    // Later events are sent before the peer can have read a large frame, so it gets a larger limit.
    const { promise: written, resolve } = Promise.withResolvers<void>();
    this.#large = { bytes, written };
    this.#socket.send(text, () => {
      this.#large = undefined;
      resolve();
    });
  }

  /** Resolves when the socket is closed and no message is in progress. */
  async ended(): Promise<void> {
    await this.#closed.promise;
    await this.#work;
  }

  async #take(data: RawData, isBinary: boolean): Promise<void> {
    this.#waiting -= 1;
    // The next reply may be equally large. Closing the socket also resolves this promise.
    if (this.#large !== undefined) await this.#large.written;
    if (!this.isOpen) return;
    const status = await this.#receive(data, isBinary);
    if (status === undefined || status >= 500 || this.#hasErrorLeft()) return;
    if (status === 401) this.close(closings.signedOut);
    else if (status === 403) this.close(closings.forbidden);
    else this.close(closings.tooManyErrors);
  }
}

/** The parts of a handshake that a socket needs. */
export type Handshake = {
  address: string;
  /** Auth session id from the cookie. Undefined without a cookie, null if its value is malformed. */
  sessionId: string | null | undefined;
  requestId: string;
  log: Pick<Logger, 'error' | 'info' | 'debug'>;
};

/** The open sockets of this process. */
export type SocketRegistry = ReturnType<typeof createSocketRegistry>;

/**
 * Creates the registry of open sockets, which authenticates users and enforces limits. Contract 3, WebSocket;
 * docs/protocol.md.
 */
export function createSocketRegistry({
  identity,
  types,
  caps,
  limits,
  registry,
  log,
}: {
  identity: AuthSessionProvider;
  types: Readonly<Record<string, MessageType>>;
  caps: { perUser: number; perAddress: number };
  limits: SocketLimits;
  registry: Registry;
  log: Logger;
}) {
  const connections = new Set<Connection>();
  const addresses = createTally();
  const users = createTally();
  const metrics = createSocketMetrics(registry);
  const dispatch = createDispatch(types, metrics);
  const liveUsers = createLiveUsers({ ...identity, limits, log });
  const heartbeat = setInterval(() => {
    for (const connection of connections) connection.heartbeat();
  }, limits.pingIntervalMs);
  heartbeat.unref();

  /**
   * Accepts a socket. The user is resolved after the socket has opened, because browsers hide the response to a failed
   * handshake from pages but expose close codes.
   */
  function accept(socket: WebSocket, handshake: Handshake): void {
    const { address, sessionId, requestId, log: peerLog } = handshake;
    const network = getClientNetwork(address);
    const state = sessionId === undefined ? 'anonymous' : 'signed_in';
    const openedAt = performance.now();
    let userId: string | undefined;
    let isClosed = false;
    const onClose: (() => void)[] = [];
    const connection = new Connection(socket, limits, (data, isBinary) =>
      dispatch(peer, data, isBinary),
    );
    const send = (frame: ReplyFrame) => connection.send(frame);
    const userSocket = (id: string): UserSocket => ({
      requestId,
      log: peerLog,
      send,
      hold: (onSignedOut) => liveUsers.hold(id, { onKnown: () => undefined, onSignedOut }),
      isOpen: () => !isClosed,
      onClose: (work) => void onClose.push(work),
    });
    const hasId = typeof sessionId === 'string';
    const peer: Peer = {
      user,
      socket: hasId ? userSocket(sessionId) : undefined,
      requestId,
      log: peerLog,
      send,
    };
    const live = hasId
      ? liveUsers.hold(sessionId, {
          onKnown: countUser,
          onSignedOut: () => connection.close(closings.signedOut),
        })
      : undefined;
    connections.add(connection);
    addresses.add(network);
    metrics.countOpened(state);
    peerLog.info({ state }, 'socket opened');

    socket.on('close', (code) => {
      isClosed = true;
      connections.delete(connection);
      addresses.remove(network);
      if (userId !== undefined) users.remove(userId);
      live?.release();
      for (const work of onClose) work();
      metrics.countClosed(state, code);
      const duration_ms = Math.round(performance.now() - openedAt);
      peerLog.info({ code, user_id: userId, duration_ms }, 'socket closed');
    });

    /** Counts the socket for its user after the first resolution. */
    function countUser({ id }: User): void {
      if (userId !== undefined || isClosed) return;
      userId = id;
      if (users.add(userId) > caps.perUser) connection.close(closings.tooManySockets);
    }

    async function user(): Promise<User | undefined> {
      const current = await live?.current();
      // A closing socket has no user.
      return connection.isOpen ? current : undefined;
    }

    if (sessionId === null) return connection.close(closings.signedOut);
    user().catch((error: unknown) => {
      peerLog.debug({ err: error }, 'the user of a new socket is not known yet');
    });
  }

  /** Closes all sockets so that clients reconnect to another process. Users are resolved until `stop`. */
  async function close(): Promise<void> {
    clearInterval(heartbeat);
    const ended = [...connections].map((connection) => connection.ended());
    for (const connection of connections) connection.close(closings.restarting);
    await Promise.race([Promise.all(ended), sleep(limits.shutdownMs, undefined, { ref: false })]);
    for (const connection of connections) connection.terminate();
  }

  return {
    accept,
    close,
    onNotify: liveUsers.onNotify,
    stop: liveUsers.stop,
    /** Returns the problem if an IP address has too many sockets. An IPv6 address counts as its network. */
    refusalOf: (address: string): ProblemError | undefined =>
      addresses.of(getClientNetwork(address)) < caps.perAddress
        ? undefined
        : problem('too_many_connections', {
            headers: {
              'ratelimit-limit': String(caps.perAddress),
              'ratelimit-remaining': '0',
              'ratelimit-reset': ROOM_RETRY_SECONDS,
              'retry-after': ROOM_RETRY_SECONDS,
            },
          }),
    /** Returns the sizes of all collections. They are 0 without open sockets. */
    get size() {
      return {
        connections: connections.size,
        addresses: addresses.size,
        users: users.size,
        sessions: liveUsers.size,
      };
    },
  };
}
