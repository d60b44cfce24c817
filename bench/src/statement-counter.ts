import { createServer, connect, type Socket } from 'node:net';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

/** Database proxy that counts statements. */
export type StatementCounter = AsyncDisposable & {
  /** Database URL through the proxy. */
  url: string;
  /** Statements that were sent so far, on all connections together. */
  count(): number;
};

/**
 * Counts the statements that a server sends to a database, where they cannot be missed: on the wire, by
 * a proxy between both. It knows nothing of libraries, so it counts the same for all. It costs time,
 * so nothing is timed through it.
 * @param databaseUrl An address without TLS.
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
      // A broken socket closes the other one; the measured server handles the error.
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

/** Message types of a client: a simple query, and the execution of one that was parsed before. */
const STATEMENTS = new Set(['Q', 'E'].map((letter) => letter.charCodeAt(0)));

const LENGTH_BYTES = 4;

/**
 * Reads what a client of PostgreSQL sends, in pieces of any size, and tells of each statement.
 * "PostgreSQL documentation, Frontend/Backend Protocol, Message Formats": the first message is a length
 * and its contents, all others have a type byte before. The length counts itself.
 */
export function createFrontendReader(onStatement: () => void): (bytes: Buffer) => void {
  // The type byte and the length of the next message, as far as they have come.
  let head: number[] = [];
  let hasType = false;
  let contentBytes = 0;
  return (bytes) => {
    for (let at = 0; at < bytes.length;) {
      if (contentBytes > 0) {
        const step = Math.min(contentBytes, bytes.length - at);
        contentBytes -= step;
        at += step;
        continue;
      }
      head.push(bytes.readUInt8(at));
      at += 1;
      if (head.length < (hasType ? 1 : 0) + LENGTH_BYTES) continue;
      if (hasType && STATEMENTS.has(head[0] ?? 0)) onStatement();
      contentBytes = Buffer.from(head.slice(-LENGTH_BYTES)).readUInt32BE() - LENGTH_BYTES;
      head = [];
      hasType = true;
    }
  };
}
