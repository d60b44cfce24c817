import type { PostgresPool, PostgresPoolClient } from 'kysely';
import type pg from 'pg';
import { toOutageError, createUnreachableError, isDatabaseOutage } from './errors.ts';
import { getPreparedName } from './statements.ts';

/**
 * Adapts a pool to Kysely. Discards a connection after any error except an ordinary server error. Otherwise
 * node-postgres would reuse it after a query timeout, and each further query would wait. Queries throw DatabaseError
 * DATABASE_UNREACHABLE if the server is unreachable.
 *
 * A restart of the server closes all idle connections, so the first query on each fails. The pool repeats the query
 * once on another connection if that is safe: the start of a transaction, or a query that succeeds in a read-only
 * transaction. Writes are never repeated, because they may have been committed.
 */
export function createKyselyPool(pool: pg.Pool): PostgresPool {
  const lastResponseAt = new WeakMap<pg.PoolClient, number>();
  const onResponse = (client: pg.PoolClient) => void lastResponseAt.set(client, performance.now());
  pool.on('connect', onResponse);

  /** Acquires a connection that was opened or last responded after `since`. Discards older connections. */
  async function acquire(since = -Infinity): Promise<pg.PoolClient> {
    try {
      for (;;) {
        const client = await pool.connect();
        if ((lastResponseAt.get(client) ?? 0) >= since) return client;
        client.release(true);
      }
    } catch (error) {
      throw createUnreachableError(error);
    }
  }

  return {
    options: pool.options,
    connect: async () => createGuardedClient(await acquire(), { acquire, onResponse }),
    end: () => pool.end(),
  };
}

function createGuardedClient(
  firstClient: pg.PoolClient,
  pool: {
    acquire: (since: number) => Promise<pg.PoolClient>;
    onResponse: (client: pg.PoolClient) => void;
  },
): PostgresPoolClient {
  let client: pg.PoolClient | undefined;
  let failure: Error | undefined;
  let isFirst = true;
  const recordFailure = (error: Error): void => {
    failure ??= error;
  };
  useClient(firstClient);

  function useClient(nextClient: pg.PoolClient): void {
    client = nextClient;
    failure = undefined;
    // The pool handles 'error' events of idle connections only. A connection that breaks in use must be discarded.
    client.on('error', recordFailure);
  }

  function release(destroy?: boolean): void {
    client?.removeListener('error', recordFailure);
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
      // A retried write fails because the transaction is read-only. The first error is more useful.
      return await repeat(config, startedAt).catch(() => {
        throw toOutageError(error);
      });
    }
  }

  async function execute(config: pg.QueryConfig): Promise<pg.QueryResult> {
    if (failure !== undefined || client === undefined) throw failure ?? new Error('No connection');
    try {
      const result = await client.query(config);
      pool.onResponse(client);
      return result;
    } catch (error) {
      if (error instanceof Error && isFatalError(error)) recordFailure(error);
      throw error;
    }
  }

  async function repeat(config: pg.QueryConfig, since: number): Promise<pg.QueryResult> {
    release();
    useClient(await pool.acquire(since));
    if (TRANSACTION_START_PATTERN.test(config.text)) return execute(config);
    try {
      await execute({ text: 'begin read only' });
      const result = await execute(config);
      await execute({ text: 'commit' });
      return result;
    } catch (error) {
      // Closing the connection ends the transaction.
      recordFailure(new Error('A query was not repeated', { cause: error }));
      throw error;
    }
  }

  return {
    // Kysely also declares an overload for cursors, but calls it only if a cursor class is configured.
    query: query as unknown as PostgresPoolClient['query'],
    release,
  };
}

const TRANSACTION_START_PATTERN = /^(begin|start transaction)\b/;

/** Message of node-postgres for a query timeout. A retry would probably time out too. */
const QUERY_TIMEOUT_MESSAGE = 'Query read timeout';

/** Returns whether an error means that the connection was closed before the response to a query. */
function isConnectionLost(error: unknown): boolean {
  return (
    error instanceof Error &&
    isFatalError(error) &&
    error.message !== QUERY_TIMEOUT_MESSAGE &&
    isDatabaseOutage(toOutageError(error))
  );
}

/** Returns whether an error makes its connection unusable. Only errors of the server have a severity. */
function isFatalError(error: Error): boolean {
  return !('severity' in error) || error.severity === 'FATAL';
}
