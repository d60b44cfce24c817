import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { deferCleanup } from './flow.ts';
import { listen } from './network.ts';

type Connection = { clientSocket: Socket; serverSocket: Socket; isSilent: boolean };

/** TCP proxy that can simulate network failures. */
export type Proxy = {
  url: string;
  /** Resets the open connections on both sides. Later connections work. */
  cut: () => void;
  /** Silently drops all data of the open connections, like a NAT after a timeout. Later connections work. */
  silence: () => void;
  /** Pauses or resumes all data, like a stopped server process. Connections are still accepted. */
  freeze: (isFrozen: boolean) => void;
  /** Closes the open connections and rejects new ones, like a server that restarts. */
  interrupt: () => Promise<void>;
  /** Accepts connections again. */
  restore: () => Promise<void>;
  /** Sets the target of later connections. */
  setTarget: (target: string) => void;
};

/**
 * Starts a proxy to a TCP server. It is closed after the tests of the file.
 * @param target Server URL. Its port defaults to that of PostgreSQL, 5432.
 */
export async function startProxy(target: string | URL): Promise<Proxy> {
  const url = new URL(target);
  let { hostname, port } = url;
  const connections = new Set<Connection>();
  let isFrozen = false;

  function forwardData(connection: Connection, from: Socket, to: Socket): void {
    from.on('data', (chunk: Buffer) => {
      if (!connection.isSilent && to.writable) to.write(chunk);
    });
    from.on('close', () => {
      if (connection.isSilent && from === connection.clientSocket) return;
      connections.delete(connection);
      to.destroySoon();
    });
  }

  function cut(): void {
    for (const { clientSocket, serverSocket } of connections) {
      clientSocket.resetAndDestroy();
      serverSocket.resetAndDestroy();
    }
  }

  const server = createServer((clientSocket) => {
    const serverSocket = connect(Number(port || 5432), hostname);
    const connection: Connection = { clientSocket, serverSocket, isSilent: false };
    connections.add(connection);
    for (const socket of [clientSocket, serverSocket])
      socket.setNoDelay(true).on('error', () => undefined);
    forwardData(connection, clientSocket, serverSocket);
    forwardData(connection, serverSocket, clientSocket);
    if (isFrozen) clientSocket.pause();
  });
  const proxyPort = await listen(server);
  url.port = String(proxyPort);
  url.hostname = '127.0.0.1';
  deferCleanup(() => interrupt());

  async function interrupt(): Promise<void> {
    if (!server.listening) return;
    const closeEvent = once(server, 'close');
    server.close();
    // Uses `destroy`, because Node sometimes does not exit after `resetAndDestroy`.
    for (const { clientSocket, serverSocket } of connections) {
      clientSocket.destroy();
      serverSocket.destroy();
    }
    await closeEvent;
  }

  return {
    url: url.href.replace(/\/$/, ''),
    cut,
    interrupt,
    async restore() {
      if (server.listening) return;
      server.listen(proxyPort, '127.0.0.1');
      await once(server, 'listening');
    },
    setTarget: (nextTarget) => void ({ hostname, port } = new URL(nextTarget)),
    silence() {
      for (const connection of connections) connection.isSilent = true;
    },
    freeze(isFreezing) {
      isFrozen = isFreezing;
      for (const { clientSocket, serverSocket } of connections) {
        for (const socket of [clientSocket, serverSocket]) {
          if (isFreezing) socket.pause();
          else socket.resume();
        }
      }
    },
  };
}
