import { setTimeout as sleep } from 'node:timers/promises';
import { getClientNetwork, type Logger, type ProblemError } from '@oselya/kit';
import { type CloseStatus, closeStatuses, socketLimits as protocolLimits } from '@oselya/protocol';
import type { Registry } from 'prom-client';
import type { RawData, WebSocket } from 'ws';
import type { User } from '../access/permissions.ts';
import { createTally, createMinuteBudget } from '../limits.ts';
import { problem } from '../errors.ts';
import { createDispatcher, type ReplyFrame, type MessageType, type Peer } from './dispatch.ts';
import {
  type AuthSessionProvider,
  createLiveUsers,
  type LiveUser,
  liveUserLimits,
} from './live-users.ts';
import { createSocketMetrics } from './metrics.ts';

/** Value of `Retry-After` if an IP address has too many sockets: the minimum delay after 4429 in docs/protocol.md. */
const RETRY_AFTER_SECONDS = '60';

/** Socket limits. Contract 3, WebSocket. */
export const socketLimits = {
  ...protocolLimits,
  ...liveUserLimits,
  /** Maximum time that a peer has to confirm a close. */
  closeTimeoutMs: 5_000,
  /** Maximum time that a shutdown waits for closing sockets and for messages in progress. */
  shutdownMs: 2_000,
};
export type SocketLimits = typeof socketLimits;

/** Handles a message and returns the HTTP status of its error, if any. */
type OnMessage = (data: RawData, isBinary: boolean) => Promise<number | undefined>;

/** A socket that enforces its limits and handles messages one at a time. */
class Connection {
  readonly #socket: WebSocket;
  readonly #limits: SocketLimits;
  readonly #onMessage: OnMessage;
  readonly #trySpendMessage: () => boolean;
  readonly #trySpendError: () => boolean;
  #queuedMessages = 0;
  #pendingWork = Promise.resolve();
  #unansweredPings = 0;
  /** Frame above the buffer limit that has not been completely written yet. */
  #largeFrame: { bytes: number; written: Promise<void> } | undefined;

  constructor(socket: WebSocket, limits: SocketLimits, onMessage: OnMessage) {
    this.#socket = socket;
    this.#limits = limits;
    this.#onMessage = onMessage;
    this.#trySpendMessage = createMinuteBudget(limits.messagesPerMinute);
    this.#trySpendError = createMinuteBudget(limits.errorsPerMinute);
    socket.on('pong', () => {
      this.#unansweredPings = 0;
    });
    socket.on('message', (data: RawData, isBinary: boolean) => {
      if (!this.isOpen) return;
      if (!this.#trySpendMessage() || this.#queuedMessages === limits.maxQueuedMessages) {
        return this.close(closeStatuses.tooManyMessages);
      }
      this.#queuedMessages += 1;
      this.#pendingWork = this.#pendingWork.then(() => this.#handle(data, isBinary));
    });
  }

  get isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN;
  }

  close({ code, reason }: CloseStatus): void {
    if (this.isOpen) this.#socket.close(code, reason);
  }

  terminate(): void {
    this.#socket.terminate();
  }

  /** Sends a ping, or terminates the socket if the last two pings were not answered. */
  ping(): void {
    if (this.#unansweredPings === 2) return this.terminate();
    this.#unansweredPings += 1;
    if (this.isOpen) this.#socket.ping();
  }

  /** Sends a message unless the socket is closing. Closes the socket if the peer reads too slowly. */
  send(frame: ReplyFrame): void {
    if (!this.isOpen) return;
    const { maxBufferedBytes } = this.#limits;
    if (this.#socket.bufferedAmount > maxBufferedBytes + (this.#largeFrame?.bytes ?? 0)) {
      return this.close(closeStatuses.tooSlow);
    }
    const text = JSON.stringify(frame);
    // A UTF-16 code unit takes at most three bytes in UTF-8.
    const bytes = 3 * text.length > maxBufferedBytes ? Buffer.byteLength(text) : 0;
    if (bytes <= maxBufferedBytes) return this.#socket.send(text);
    if (this.#largeFrame !== undefined) return this.close(closeStatuses.tooSlow);
    // The peer needs time to read a large frame, so the buffer limit grows by the size of the frame.
    const { promise: written, resolve } = Promise.withResolvers<void>();
    this.#largeFrame = { bytes, written };
    this.#socket.send(text, () => {
      this.#largeFrame = undefined;
      resolve();
    });
  }

  /** Resolves when the open socket is closed and no message is in progress. */
  async waitForEnd(): Promise<void> {
    await new Promise((resolve) => this.#socket.once('close', resolve));
    await this.#pendingWork;
  }

  async #handle(data: RawData, isBinary: boolean): Promise<void> {
    this.#queuedMessages -= 1;
    // Wait, because the reply to this message may be just as large. Closing the socket also resolves the promise.
    if (this.#largeFrame !== undefined) await this.#largeFrame.written;
    if (!this.isOpen) return;
    const status = await this.#onMessage(data, isBinary);
    if (status === undefined || status >= 500 || this.#trySpendError()) return;
    if (status === 401) this.close(closeStatuses.signedOut);
    else if (status === 403) this.close(closeStatuses.forbidden);
    else this.close(closeStatuses.tooManyErrors);
  }
}

type Handshake = {
  address: string;
  /** Auth session ID from the cookie. Undefined without a cookie, null if its value is malformed. */
  sessionId: string | null | undefined;
  requestId: string;
  log: Pick<Logger, 'error' | 'info' | 'debug'>;
};

/** The registry of open sockets. See {@link createSocketRegistry}. */
export type SocketRegistry = ReturnType<typeof createSocketRegistry>;

/** Creates the registry of open sockets, which authenticates users and enforces limits. Contract 3, WebSocket. */
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
  const addressTally = createTally();
  const userTally = createTally();
  const metrics = createSocketMetrics(registry);
  const dispatch = createDispatcher(types, metrics);
  const liveUsers = createLiveUsers({ ...identity, limits, log });
  const heartbeat = setInterval(() => {
    for (const connection of connections) connection.ping();
  }, limits.pingIntervalMs).unref();

  /**
   * Accepts a socket. The user is resolved after the socket has opened, because browsers show close codes to pages,
   * but not the response to a failed handshake.
   */
  function accept(
    socket: WebSocket,
    { address, sessionId, requestId, log: peerLog }: Handshake,
  ): void {
    const network = getClientNetwork(address);
    const state = sessionId === undefined ? 'anonymous' : 'signed_in';
    const openedAt = performance.now();
    let userId: string | undefined;
    const connection = new Connection(socket, limits, (data, isBinary) =>
      dispatch(peer, data, isBinary),
    );
    const send = (frame: ReplyFrame) => connection.send(frame);
    const peer: Peer = { resolveUser, socket: undefined, requestId, log: peerLog, send };
    let liveUser: LiveUser | undefined;
    if (typeof sessionId === 'string') {
      peer.socket = {
        requestId,
        log: peerLog,
        send,
        watchUser: (onSignedOut) =>
          liveUsers.watchUser(sessionId, { onResolved: () => undefined, onSignedOut }),
        isOpen: () => connection.isOpen,
        addCloseListener: (onClose) => void socket.once('close', onClose),
      };
      liveUser = liveUsers.watchUser(sessionId, {
        onResolved: countUser,
        onSignedOut: () => connection.close(closeStatuses.signedOut),
      });
    }
    connections.add(connection);
    addressTally.add(network);
    metrics.countOpened(state);
    peerLog.info({ state }, 'socket opened');

    socket.on('close', (code) => {
      connections.delete(connection);
      addressTally.remove(network);
      if (userId !== undefined) userTally.remove(userId);
      liveUser?.release();
      metrics.countClosed(state, code);
      const duration_ms = Math.round(performance.now() - openedAt);
      peerLog.info({ code, user_id: userId, duration_ms }, 'socket closed');
    });

    /** Counts the socket for its user at the first resolution. */
    function countUser({ id }: User): void {
      if (userId !== undefined) return;
      userId = id;
      if (userTally.add(userId) > caps.perUser) connection.close(closeStatuses.tooManySockets);
    }

    async function resolveUser(): Promise<User | undefined> {
      const currentUser = await liveUser?.current();
      // A closing socket has no user.
      return connection.isOpen ? currentUser : undefined;
    }

    if (sessionId === null) return connection.close(closeStatuses.signedOut);
    resolveUser().catch((error: unknown) => {
      peerLog.debug({ err: error }, 'the user of a new socket is not known yet');
    });
  }

  /** Closes all sockets with the code for a restart. Users are resolved until `stop` is called. */
  async function close(): Promise<void> {
    clearInterval(heartbeat);
    const connectionEnds = [...connections].map((connection) => connection.waitForEnd());
    for (const connection of connections) connection.close(closeStatuses.restarting);
    await Promise.race([
      Promise.all(connectionEnds),
      sleep(limits.shutdownMs, undefined, { ref: false }),
    ]);
    for (const connection of connections) connection.terminate();
  }

  return {
    accept,
    close,
    onNotify: liveUsers.onNotify,
    stop: liveUsers.stop,
    /** Returns a problem if an IP address has too many sockets. IPv6 addresses of one network are counted together. */
    checkAddress: (address: string): ProblemError | undefined =>
      addressTally.getCount(getClientNetwork(address)) < caps.perAddress
        ? undefined
        : problem('too_many_connections', {
            headers: {
              'ratelimit-limit': String(caps.perAddress),
              'ratelimit-remaining': '0',
              'ratelimit-reset': RETRY_AFTER_SECONDS,
              'retry-after': RETRY_AFTER_SECONDS,
            },
          }),
    /** Sizes of the internal collections. All are 0 when no sockets are open and no turns are running. */
    get size() {
      return {
        connections: connections.size,
        addresses: addressTally.size,
        users: userTally.size,
        sessions: liveUsers.size,
      };
    },
  };
}
