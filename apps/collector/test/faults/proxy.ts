import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { deferCleanup } from '@oselya/testing';

type Connection = { downstream: Socket; upstream: Socket; isSilent: boolean };

/** Point at which a fault occurs: before or after an SQL statement. */
export type FaultPoint = {
  /** Substring that identifies the statement. */
  statement: string;
  /** `before`: before the server receives the statement. `after`: before the client receives the result. */
  when: 'before' | 'after';
};

/**
 * Starts a proxy for PostgreSQL that can cause faults.
 * @param faultPoint Point at which, when first reached, the proxy silences its connections and calls `onReached`.
 */
export async function startProxy(
  target: URL,
  faultPoint?: FaultPoint & { onReached: (proxy: { cut: () => void }) => void },
) {
  const connections = new Set<Connection>();
  const settings = { delayMs: 0 };
  let hasReachedPoint = faultPoint === undefined;

  function resetConnections(selectedConnections: Iterable<Connection>): void {
    for (const { downstream, upstream } of selectedConnections) {
      downstream.resetAndDestroy();
      upstream.resetAndDestroy();
    }
  }
  const silence = () => {
    for (const connection of connections) connection.isSilent = true;
  };
  const cut = () => resetConnections(connections);
  const onReached = () => {
    hasReachedPoint = true;
    silence();
    faultPoint?.onReached({ cut });
  };

  /** Forwards data in order, each chunk after the delay of `settings`. */
  function forward(connection: Connection, from: Socket, to: Socket): void {
    let lastWrite = Promise.resolve();
    const forwardChunk = async (earlier: Promise<void>, chunk: Buffer, delayMs: number) => {
      await earlier;
      if (delayMs > 0) await sleep(delayMs);
      if (!connection.isSilent && to.writable) to.write(chunk);
    };
    from.on('data', (chunk: Buffer) => {
      lastWrite = forwardChunk(lastWrite, chunk, settings.delayMs);
    });
  }

  const server = createServer((downstream) => {
    const upstream = connect(Number(target.port || 5432), target.hostname);
    const connection: Connection = { downstream, upstream, isSilent: false };
    connections.add(connection);
    for (const socket of [downstream, upstream])
      socket.setNoDelay(true).on('error', () => undefined);
    let isAwaited = false;
    downstream.on('data', (chunk: Buffer) => {
      if (hasReachedPoint || faultPoint === undefined || !chunk.includes(faultPoint.statement))
        return;
      if (faultPoint.when === 'before') onReached();
      else isAwaited = true;
    });
    upstream.on('data', () => {
      if (isAwaited && !hasReachedPoint) onReached();
    });
    forward(connection, downstream, upstream);
    forward(connection, upstream, downstream);
    downstream.on('close', () => {
      if (connection.isSilent && faultPoint === undefined) return;
      connections.delete(connection);
      upstream.destroy();
    });
    upstream.on('close', () => {
      connections.delete(connection);
      downstream.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  const close = async () => {
    // Node does not exit if a closing socket is reset, so destroy the sockets without a reset.
    for (const { downstream, upstream } of connections) {
      downstream.destroy();
      upstream.destroy();
    }
    if (!server.listening) return;
    server.close();
    await once(server, 'close');
  };
  deferCleanup(close);
  return {
    url: url.href,
    settings,
    /** Returns the number of connections, with two sockets each. */
    connections: () => connections.size,
    /** Resets open connections on both sides. */
    cut,
    /** Stops forwarding on open connections without closing either side. */
    silence,
    /** Resets silent connections, as the server's TCP keep-alive eventually does. */
    forget: () => resetConnections([...connections].filter(({ isSilent }) => isSilent)),
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Substrings that identify the statements of the stages and the queue. */
export const STATEMENTS = {
  claim: 'with recursive',
  load: 'as "completedHash"',
  upsert: 'insert into property_listings',
  'snapshot, reading': 'from listing_snapshots',
  'snapshot, writing': 'insert into listing_snapshots',
  'images, reading': 'from "listing_images" where "listing_id"',
  'images, writing': 'insert into listing_images',
  'images, describing': 'update images set description',
  'enrich, reading': 'from "listing_images" left join',
  'enrich, writing': "::bigint, 'images', ",
  'embed, writing': 'embedding_text_hash = $',
  finish: 'set completed_hash = ',
};
