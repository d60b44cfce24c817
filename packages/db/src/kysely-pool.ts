import type { PostgresPool, PostgresPoolClient } from 'kysely';
import type pg from 'pg';
import { preparedName } from './prepared.ts';
import { databaseUnreachable } from './errors.ts';

/**
 * The pool as Kysely gets it: a connection of which something else failed than what the server says of
 * a query is thrown away, not handed to the next one. After its time limit node-postgres gives up a
 * query but not the connection, which would then make everyone who gets it wait for the limit again.
 * Where the server was not reached or hung up, the error is a DatabaseError DATABASE_UNREACHABLE.
 */
export function kyselyPool(pool: pg.Pool): PostgresPool {
  return {
    options: pool.options,
    async connect() {
      try {
        return guarded(await pool.connect());
      } catch (error) {
        throw databaseUnreachable(error);
      }
    },
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
    if (failure !== undefined) throw asOutage(failure);
    try {
      const name = preparedName(text);
      const values = [...parameters];
      return await client.query(name === undefined ? { text, values } : { name, text, values });
    } catch (error) {
      if (error instanceof Error && endsConnection(error)) fail(error);
      throw asOutage(error);
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

/** PostgreSQL's classes of errors about itself rather than the query: Appendix A, Error Codes. */
const SERVER_IN_TROUBLE = /^(08|53|57P)/;

/**
 * Names what it is when the server was out of reach, hung up, or has no room for anybody; other errors
 * stay what they are. node-postgres says the first two with plain errors; what is wrong with a value on
 * its way in or out is of another class.
 */
export function asOutage(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const code = 'code' in error ? String(error.code) : '';
  const isOutage =
    'severity' in error
      ? error.severity === 'FATAL' || SERVER_IN_TROUBLE.test(code)
      : error.name === 'Error';
  return isOutage ? databaseUnreachable(error) : error;
}
