import type { PostgresPool, PostgresPoolClient } from 'kysely';
import type pg from 'pg';
import { toOutageError, createUnreachableError, isDatabaseOutage } from './errors.ts';
import { getPreparedName } from './statements.ts';

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
  const onAnswer = (client: pg.PoolClient) => void answeredAt.set(client, performance.now());
  pool.on('connect', onAnswer);

  /** Acquires a connection that was opened or had an answer since a time. Discards older connections. */
  async function acquire(since = -Infinity): Promise<pg.PoolClient> {
    try {
      for (;;) {
        const client = await pool.connect();
        if ((answeredAt.get(client) ?? 0) >= since) return client;
        client.release(true);
      }
    } catch (error) {
      throw createUnreachableError(error);
    }
  }

  return {
    options: pool.options,
    connect: async () => createGuardedClient(await acquire(), { acquire, onAnswer }),
    end: () => pool.end(),
  };
}

function createGuardedClient(
  acquired: pg.PoolClient,
  pool: {
    acquire: (since: number) => Promise<pg.PoolClient>;
    onAnswer: (client: pg.PoolClient) => void;
  },
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
    const config = { ...(name !== undefined && { name }), text, values: [...parameters] };
    const canRepeat = isFirst;
    isFirst = false;
    const startedAt = performance.now();
    try {
      return await execute(config);
    } catch (error) {
      if (!canRepeat || !isConnectionLost(error)) throw toOutageError(error);
      // A repeated write fails because the transaction is read-only. The first error is more useful.
      return await repeat(config, startedAt).catch(() => {
        throw toOutageError(error);
      });
    }
  }

  async function execute(config: pg.QueryConfig): Promise<pg.QueryResult> {
    if (failure !== undefined || client === undefined) throw failure ?? new Error('No connection');
    try {
      const result = await client.query(config);
      pool.onAnswer(client);
      return result;
    } catch (error) {
      if (error instanceof Error && isFatalError(error)) fail(error);
      throw error;
    }
  }

  async function repeat(config: pg.QueryConfig, since: number): Promise<pg.QueryResult> {
    release();
    use(await pool.acquire(since));
    if (BEGINS_TRANSACTION.test(config.text)) return execute(config);
    try {
      await execute({ text: 'begin read only' });
      const result = await execute(config);
      await execute({ text: 'commit' });
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
    isFatalError(error) &&
    error.message !== QUERY_TIMEOUT &&
    isDatabaseOutage(toOutageError(error))
  );
}

/** Returns whether an error makes its connection unusable. Only errors of the server have a severity. */
function isFatalError(error: Error): boolean {
  return !('severity' in error) || error.severity === 'FATAL';
}
