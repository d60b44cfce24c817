import type { PostgresPool, PostgresPoolClient } from 'kysely';
import type pg from 'pg';

/**
 * The pool as Kysely gets it: a connection of which something else failed than what the server says of
 * a query is thrown away, not handed to the next one. After its time limit node-postgres gives up a
 * query but not the connection, which would then make everyone who gets it wait for the limit again.
 */
export function kyselyPool(pool: pg.Pool): PostgresPool {
  return {
    options: pool.options,
    connect: async () => guarded(await pool.connect()),
    end: () => pool.end(),
  };
}

function guarded(client: pg.PoolClient): PostgresPoolClient {
  let failure: Error | undefined;
  const fail = (error: Error): void => {
    failure ??= error;
  };
  // While a connection is in use the pool does not listen, and an event `error` that nobody hears
  // ends the process.
  client.on('error', fail);

  async function query(text: string, parameters: readonly unknown[]): Promise<pg.QueryResult> {
    if (failure !== undefined) throw failure;
    try {
      return await client.query(text, [...parameters]);
    } catch (error) {
      if (error instanceof Error && endsConnection(error)) fail(error);
      throw error;
    }
  }

  return {
    // Kysely's other form of it takes cursors, which it uses only where it is given their class.
    query: query as unknown as PostgresPoolClient['query'],
    release(destroy) {
      client.removeListener('error', fail);
      client.release(failure ?? destroy);
    },
  };
}

/**
 * Told by what only a server's word on a query has: PGlite brings a class of its own for it. A fatal
 * error is the last word of a server that closes the connection.
 */
function endsConnection(error: Error): boolean {
  return !('severity' in error) || error.severity === 'FATAL';
}
