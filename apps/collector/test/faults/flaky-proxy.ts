import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

type Connection = { near: Socket; far: Socket; isSilent: boolean };

/** A proxy for PostgreSQL with faults that tests control. */
export async function startFlakyProxy(target: URL) {
  const connections = new Set<Connection>();
  const way = { delayMs: 0 };

  /** Forwards data in order. */
  function pass(connection: Connection, from: Socket, to: Socket): void {
    let before = Promise.resolve();
    const passOn = async (earlier: Promise<void>, chunk: Buffer, delayMs: number) => {
      await earlier;
      if (delayMs > 0) await sleep(delayMs);
      if (!connection.isSilent && to.writable) to.write(chunk);
    };
    from.on('data', (chunk: Buffer) => {
      before = passOn(before, chunk, way.delayMs);
    });
  }

  const proxy = createServer((near) => {
    const far = connect(Number(target.port || 5432), target.hostname);
    const connection: Connection = { near, far, isSilent: false };
    connections.add(connection);
    for (const socket of [near, far]) socket.setNoDelay(true).on('error', () => undefined);
    pass(connection, near, far);
    pass(connection, far, near);
    near.on('close', () => {
      if (connection.isSilent) return;
      connections.delete(connection);
      far.destroy();
    });
    far.on('close', () => {
      connections.delete(connection);
      near.destroy();
    });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const { port } = proxy.address() as AddressInfo;
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String(port);

  function end(chosen: Iterable<Connection>): void {
    for (const { near, far } of chosen) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
  }

  return {
    /** The address of the database through the proxy. */
    url: url.href,
    way,
    /** The number of connections, with two sockets each. */
    connections: () => connections.size,
    /** Resets open connections on both sides. */
    cut: () => end(connections),
    /**
     * Silences the open connections in both directions without closing them:
     * the server sees no end either. Later connections work.
     */
    silence() {
      for (const connection of connections) connection.isSilent = true;
    },
    /** Closes silent connections at the server, as its keep-alive does eventually. */
    forget: () => end([...connections].filter(({ isSilent }) => isSilent)),
    async close() {
      end(connections);
      proxy.close();
      await once(proxy, 'close');
    },
  };
}
