import { setTimeout as sleep } from 'node:timers/promises';
import { clientNetwork, type Logger, type ProblemError } from '@oselya/kit';
import type { Registry } from 'prom-client';
import type { WebSocket } from 'ws';
import type { User } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import { closings } from './closings.ts';
import { createConnection, type Connection } from './connection.ts';
import { createTally } from '../limits.ts';
import { createDispatch, type Sender } from './dispatch.ts';
import type { SocketLimits } from './limits.ts';
import { type AuthSessions, createLiveUsers } from './live-users.ts';
import type { MessageTypes } from './message-type.ts';
import { createSocketMetrics } from './metrics.ts';

/** When an address that has no room may look again; as after 4429, see docs/protocol.md. */
const ROOM_RETRY_SECONDS = '60';

/** Where a socket comes from. */
export type Peer = {
  address: string;
  /** Undefined without a cookie; null where the cookie's value has not the shape of an id. */
  sessionId: string | null | undefined;
  requestId: string;
  log: Pick<Logger, 'error' | 'info' | 'debug'>;
};

/** The open sockets of this process. */
export type Sockets = ReturnType<typeof createSockets>;

/**
 * Keeps the open sockets of this process: who they belong to, what they may use, and when they end.
 * Contract 3, WebSocket; docs/protocol.md.
 */
export function createSockets({
  identity,
  types,
  caps,
  limits,
  registry,
  log,
}: {
  identity: AuthSessions;
  types: MessageTypes;
  caps: { perUser: number; perAddress: number };
  limits: SocketLimits;
  registry: Registry;
  log: Logger;
}) {
  const connections = new Set<Connection>();
  const addresses = createTally();
  const users = createTally();
  const metrics = createSocketMetrics(registry);
  const dispatch = createDispatch({ types, metrics });
  const liveUsers = createLiveUsers({ ...identity, limits, log });
  const heartbeat = setInterval(() => {
    for (const connection of connections) connection.heartbeat();
  }, limits.pingIntervalMs);
  heartbeat.unref();

  /**
   * Takes a socket that has just opened. Its user is resolved while it is open: a client can be told by a
   * close code that it is signed out, and by `error` that the provider does not answer, where it could
   * not read the answer to a handshake that fails.
   */
  function accept(socket: WebSocket, { address, sessionId, requestId, log: peerLog }: Peer): void {
    const network = clientNetwork(address);
    const state = sessionId === undefined ? 'anonymous' : 'signed_in';
    const opened = performance.now();
    let userId: string | undefined;
    let isClosed = false;
    const onClose: (() => void)[] = [];
    const sender: Sender = {
      user,
      socket:
        typeof sessionId === 'string'
          ? {
              requestId,
              send: (frame) => connection.send(frame),
              hold: (onSignedOut) =>
                liveUsers.hold(sessionId, { onKnown: () => undefined, onSignedOut }),
              onClose: (work) => (isClosed ? work() : onClose.push(work)),
            }
          : undefined,
      requestId,
      log: peerLog,
      send: (frame) => connection.send(frame),
    };
    const connection = createConnection(socket, {
      limits,
      receive: (data, isBinary) => dispatch(sender, data, isBinary),
    });
    const live =
      typeof sessionId === 'string'
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
      const duration_ms = Math.round(performance.now() - opened);
      peerLog.info({ code, user_id: userId, duration_ms }, 'socket closed');
    });

    /** Counted as soon as the user is known, which may be long after the opening. */
    function countUser({ id }: User): void {
      if (userId !== undefined || isClosed) return;
      userId = id;
      if (users.add(userId) > caps.perUser) connection.close(closings.tooManySockets);
    }

    async function user(): Promise<User | undefined> {
      if (live === undefined) return undefined;
      const current = await live.current();
      // Nobody's message is acted on any more once the socket began to close.
      return connection.isOpen() ? current : undefined;
    }

    if (sessionId === null) return connection.close(closings.signedOut);
    user().catch((error: unknown) => {
      peerLog.debug({ err: error }, 'the user of a new socket is not known yet');
    });
  }

  /**
   * Closes all sockets, so that their clients connect to another process, and waits for that a while. Users are kept
   * current until `stop`, for the answers that are being written to them.
   */
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
    hear: liveUsers.hear,
    stop: liveUsers.stop,
    /**
     * Why an address may not open one more socket; undefined where it may. That of IPv6 counts as the
     * network that it is in.
     */
    refusalOf: (address: string): ProblemError | undefined =>
      addresses.of(clientNetwork(address)) < caps.perAddress
        ? undefined
        : problem('too_many_connections', {
            headers: {
              'ratelimit-limit': String(caps.perAddress),
              'ratelimit-remaining': '0',
              'ratelimit-reset': ROOM_RETRY_SECONDS,
              'retry-after': ROOM_RETRY_SECONDS,
            },
          }),
    /** How much is kept, which is nothing when no socket is open. */
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
