import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd } from './flow.ts';
import { listen } from './network.ts';

type Connection = { near: Socket; far: Socket; isSilent: boolean };

/** A way to a server that a test can break. */
export type Proxy = {
  /** The server's URL by this way. */
  url: string;
  /** Delay of everything that passes. */
  way: { delayMs: number };
  connections: () => number;
  /** Breaks the open connections, for both sides to see; later ones work. */
  cut: () => void;
  /** Lets the open connections die without a word, as a NAT does that forgets them; later ones work. */
  silence: () => void;
  /** Tells the server that the clients of silent connections are gone, as its keep-alive does at last. */
  forget: () => void;
  /** Lets nothing pass, as a server that is stopped, or lets it pass again; connections are accepted meanwhile. */
  freeze: (isFrozen: boolean) => void;
  close: () => Promise<void>;
};

/**
 * Starts a proxy to a TCP server; it ends with the file's tests.
 * @param target With a port, unless it is PostgreSQL's.
 */
export async function startProxy(target: string | URL): Promise<Proxy> {
  const url = new URL(target);
  const { hostname, port } = url;
  const connections = new Set<Connection>();
  const way = { delayMs: 0 };
  let isFrozen = false;

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
    from.on('close', () => {
      if (connection.isSilent && from === connection.near) return;
      connections.delete(connection);
      void before.then(() => to.destroySoon());
    });
  }

  function end(chosen: Iterable<Connection>): void {
    for (const { near, far } of chosen) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
  }

  const server = createServer((near) => {
    const far = connect(Number(port || 5432), hostname);
    const connection: Connection = { near, far, isSilent: false };
    connections.add(connection);
    for (const socket of [near, far]) socket.setNoDelay(true).on('error', () => undefined);
    pass(connection, near, far);
    pass(connection, far, near);
    if (isFrozen) near.pause();
  });
  url.port = String(await listen(server));
  url.hostname = '127.0.0.1';

  const proxy: Proxy = {
    url: url.href.replace(/\/$/, ''),
    way,
    connections: () => connections.size,
    cut: () => end(connections),
    silence() {
      for (const connection of connections) connection.isSilent = true;
    },
    forget: () => end([...connections].filter(({ isSilent }) => isSilent)),
    freeze(isFreezing) {
      isFrozen = isFreezing;
      for (const socket of [...connections].flatMap(({ near, far }) => [near, far])) {
        if (isFreezing) socket.pause();
        else socket.resume();
      }
    },
    async close() {
      if (!server.listening) return;
      end(connections);
      server.close();
      await once(server, 'close');
    },
  };
  atEnd(proxy.close);
  return proxy;
}
