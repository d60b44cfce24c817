import type { PostgresPool, PostgresPoolClient } from 'kysely';
import type pg from 'pg';
import { toOutageError, createUnreachableError, isDatabaseOutage } from './errors.ts';
import { getPreparedName } from './statements.ts';

/** Pool that records the time of the last response on each connection. */
type Connections = {
  acquire(): Promise<pg.PoolClient>;
  /** Acquires a connection that was opened or had a response since a point in time. Discards older connections. */
  acquireAnsweredSince(moment: number): Promise<pg.PoolClient>;
  noteAnswer(client: pg.PoolClient): void;
};

/**
 * Adapts a pool to Kysely. A connection is discarded after any error that is not an ordinary error of the server. After
 * a query timeout, node-postgres would reuse the connection, and each further query would wait. If the server is
 * unreachable, queries throw DatabaseError DATABASE_UNREACHABLE.
 *
 * A restart of the server closes all idle connections, so the first query on each fails. The query is repeated once on
 * another connection if that is safe: the start of a transaction, or a query that succeeds in a read-only transaction.
 * Writes are never repeated, because they may have been committed.
 */
export function createKyselyPool(pool: pg.Pool): PostgresPool {
  const answeredAt = new WeakMap<pg.PoolClient, number>();
  pool.on('connect', (client) => connections.noteAnswer(client));
  const connections: Connections = {
    async acquire() {
      try {
        return await pool.connect();
      } catch (error) {
        throw createUnreachableError(error);
      }
    },
    async acquireAnsweredSince(moment) {
      for (;;) {
        const client = await connections.acquire();
        if ((answeredAt.get(client) ?? 0) >= moment) return client;
        client.release(true);
      }
    },
    noteAnswer: (client) => void answeredAt.set(client, performance.now()),
  };
  return {
    options: pool.options,
    connect: async () => createGuardedClient(await connections.acquire(), connections),
    end: () => pool.end(),
  };
}

function createGuardedClient(
  acquired: pg.PoolClient,
  connections: Connections,
): PostgresPoolClient {
  let client: pg.PoolClient | undefined;
  let failure: Error | undefined;
  let isFirst = true;
  const fail = (error: Error): void => {
    failure ??= error;
  };
  use(acquired);

  function use(other: pg.PoolClient): void {
    client = other;
    failure = undefined;
    // The pool handles 'error' events of idle connections only, and an unhandled one crashes the process.
    client.on('error', fail);
  }

  function release(destroy?: boolean): void {
    client?.removeListener('error', fail);
    client?.release(failure ?? destroy);
    client = undefined;
  }

  async function query(text: string, parameters: readonly unknown[]): Promise<pg.QueryResult> {
    const name = getPreparedName(text);
    const values = [...parameters];
    const config = name === undefined ? { text, values } : { name, text, values };
    const canRepeat = isFirst;
    isFirst = false;
    const askedAt = performance.now();
    try {
      return await ask(config);
    } catch (error) {
      if (!canRepeat || !isConnectionLost(error)) throw toOutageError(error);
      // A repeated write fails because the transaction is read-only. The first error is more useful.
      return await repeat(config, askedAt).catch(() => {
        throw toOutageError(error);
      });
    }
  }

  async function ask(config: pg.QueryConfig): Promise<pg.QueryResult> {
    if (failure !== undefined || client === undefined) throw failure ?? new Error('No connection');
    try {
      const result = await client.query(config);
      connections.noteAnswer(client);
      return result;
    } catch (error) {
      if (error instanceof Error && endsConnection(error)) fail(error);
      throw error;
    }
  }

  async function repeat(config: pg.QueryConfig, moment: number): Promise<pg.QueryResult> {
    release();
    use(await connections.acquireAnsweredSince(moment));
    if (BEGINS_TRANSACTION.test(config.text)) return ask(config);
    try {
      await ask({ text: 'begin read only' });
      const result = await ask(config);
      await ask({ text: 'commit' });
      return result;
    } catch (error) {
      // Closing the connection ends the transaction.
      fail(new Error('A query was not repeated', { cause: error }));
      throw error;
    }
  }

  return {
    // Kysely also declares an overload for cursors, but calls it only if a cursor class is configured.
    query: query as unknown as PostgresPoolClient['query'],
    release,
  };
}

const BEGINS_TRANSACTION = /^(begin|start transaction)\b/;

/** Message of node-postgres for a query timeout. A repetition would probably time out too. */
const QUERY_TIMEOUT = 'Query read timeout';

/** Returns whether the connection was closed before the response to a query. */
function isConnectionLost(error: unknown): boolean {
  return (
    error instanceof Error &&
    endsConnection(error) &&
    error.message !== QUERY_TIMEOUT &&
    isDatabaseOutage(toOutageError(error))
  );
}

/**
 * Returns whether an error makes its connection unusable. Only errors of the server have a severity, and after a fatal
 * error the server closes the connection.
 */
function endsConnection(error: Error): boolean {
  return !('severity' in error) || error.severity === 'FATAL';
}
