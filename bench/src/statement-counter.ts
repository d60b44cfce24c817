import { createServer, connect, type Socket } from 'node:net';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

/** Database proxy that counts statements. */
export type StatementCounter = AsyncDisposable & {
  /** Database URL through the proxy. */
  url: string;
  /** Returns the number of statements sent so far, over all connections. */
  count(): number;
};

/**
 * Starts a proxy that counts the statements that a server sends to its database, whichever library it uses.
 * The proxy adds latency, so times are not measured through it.
 * @param databaseUrl URL without TLS.
 */
export async function startStatementCounter(databaseUrl: string): Promise<StatementCounter> {
  const target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  let statements = 0;
  const server = createServer((client) => {
    const database = connect({ host: target.hostname, port: Number(target.port || 5432) });
    const read = createFrontendReader(() => (statements += 1));
    client.on('data', read);
    client.pipe(database).pipe(client);
    for (const socket of [client, database]) {
      sockets.add(socket.setNoDelay(true));
      // An error on one socket closes both; the measured server handles the error.
      socket.on('error', () => undefined);
      socket.on('close', () => {
        client.destroy();
        database.destroy();
        sockets.delete(socket);
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    count: () => statements,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Message types of a simple query and of the execution of a prepared statement. */
const STATEMENT_TYPES = new Set(['Q', 'E'].map((type) => type.charCodeAt(0)));

const LENGTH_BYTES = 4;

/**
 * Returns a reader of a PostgreSQL client's bytes, in chunks of any size, that reports each statement.
 * The first message has no type byte; the length of a message includes its own four bytes.
 * @see "PostgreSQL documentation, Frontend/Backend Protocol, Message Formats"
 */
export function createFrontendReader(onStatement: () => void): (bytes: Buffer) => void {
  // Received bytes of the next message's type and length.
  let head: number[] = [];
  let hasType = false;
  let contentBytes = 0;
  return (bytes) => {
    for (let offset = 0; offset < bytes.length;) {
      if (contentBytes > 0) {
        const step = Math.min(contentBytes, bytes.length - offset);
        contentBytes -= step;
        offset += step;
        continue;
      }
      head.push(bytes.readUInt8(offset));
      offset += 1;
      if (head.length < (hasType ? 1 : 0) + LENGTH_BYTES) continue;
      if (hasType && STATEMENT_TYPES.has(head[0] ?? 0)) onStatement();
      contentBytes = Buffer.from(head.slice(-LENGTH_BYTES)).readUInt32BE() - LENGTH_BYTES;
      head = [];
      hasType = true;
    }
  };
}
