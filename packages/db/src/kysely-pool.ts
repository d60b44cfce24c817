import type { PostgresPool, PostgresPoolClient } from 'kysely';
import type pg from 'pg';
import { asOutage, databaseUnreachable, isDatabaseOutage } from './errors.ts';
import { preparedName } from './statements.ts';

/** Acquires connections, and records when the server last answered on each. */
type Connections = {
  acquire(): Promise<pg.PoolClient>;
  /** Acquires a connection on which the server has answered, or which was opened, since a moment; discards others. */
  acquireAnsweredSince(moment: number): Promise<pg.PoolClient>;
  noteAnswer(client: pg.PoolClient): void;
};

/**
 * Adapts a pool to Kysely. A connection that failed otherwise than by the server's judgment of a query is discarded:
 * node-postgres gives up a query after its limit, but not the connection, which would then delay each next query. An
 * unreachable server is a DatabaseError DATABASE_UNREACHABLE.
 *
 * A restart of the server cuts all idle connections, and the first query on each fails. It is repeated once on another
 * connection where that is safe: the start of a transaction, or a query that the server accepts as a read. A write may
 * have been committed, and is never repeated.
 */
export function kyselyPool(pool: pg.Pool): PostgresPool {
  const answeredAt = new WeakMap<pg.PoolClient, number>();
  pool.on('connect', (client) => connections.noteAnswer(client));
  const connections: Connections = {
    async acquire() {
      try {
        return await pool.connect();
      } catch (error) {
        throw databaseUnreachable(error);
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
    connect: async () => guarded(await connections.acquire(), connections),
    end: () => pool.end(),
  };
}

function guarded(acquired: pg.PoolClient, connections: Connections): PostgresPoolClient {
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
    // While a connection is in use the pool does not listen, and an unhandled event `error` ends the process.
    client.on('error', fail);
  }

  function release(destroy?: boolean): void {
    client?.removeListener('error', fail);
    client?.release(failure ?? destroy);
    client = undefined;
  }

  async function query(text: string, parameters: readonly unknown[]): Promise<pg.QueryResult> {
    const name = preparedName(text);
    const values = [...parameters];
    const config = name === undefined ? { text, values } : { name, text, values };
    const canRepeat = isFirst;
    isFirst = false;
    const askedAt = performance.now();
    try {
      return await ask(config);
    } catch (error) {
      if (!canRepeat || !isCut(error)) throw asOutage(error);
      // The repetition of a write fails as one, which says less than the first error.
      return await repeat(config, askedAt).catch(() => {
        throw asOutage(error);
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
      // The transaction ends with its connection.
      fail(new Error('A query was not repeated', { cause: error }));
      throw error;
    }
  }

  return {
    // Kysely's other form of it takes cursors, which it uses only where it is given their class.
    query: query as unknown as PostgresPoolClient['query'],
    release,
  };
}

const BEGINS_TRANSACTION = /^(begin|start transaction)\b/;

/** Message of node-postgres for a query that took too long, and would again. */
const QUERY_TIMEOUT = 'Query read timeout';

/** Returns whether the connection of a query ended before its answer. */
function isCut(error: unknown): boolean {
  return (
    error instanceof Error &&
    endsConnection(error) &&
    error.message !== QUERY_TIMEOUT &&
    isDatabaseOutage(asOutage(error))
  );
}

/**
 * Only a server's error has a severity; PGlite has its own class for it. After a fatal error the server closes the
 * connection.
 */
function endsConnection(error: Error): boolean {
  return !('severity' in error) || error.severity === 'FATAL';
}
