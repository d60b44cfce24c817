import pg from 'pg';
import { createListener } from './listener.ts';

const { INT8, NUMERIC } = pg.types.builtins;

/**
 * Parses a PostgreSQL number.
 * @throws RangeError for an integer that JavaScript cannot hold exactly.
 */
function toNumber(text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && !Number.isSafeInteger(number)) {
    throw new RangeError(`The database returned ${text}, which JavaScript cannot hold exactly`);
  }
  return number;
}

/** The type parsers of both engines. node-postgres returns `bigint` and `numeric` as text; here they are numbers. */
export const types: pg.CustomTypesConfig = {
  getTypeParser(oid, format) {
    if (format !== 'binary' && (oid === INT8 || oid === NUMERIC)) return toNumber;
    return pg.types.getTypeParser(oid, format);
  },
};

/** Options of a connection to a server. */
export type PostgresOptions = {
  url: string;
  /** Of the pool; the connection for notifications is one more. */
  maxConnections: number;
  /** Called for idle connections that broke. */
  onError: (error: Error) => void;
  /** Limit of a query; 30 s by default. */
  queryTimeoutMs?: number | undefined;
};

/** A server that vanishes without a reset never answers. No query takes longer than seconds, except migrations. */
const QUERY_TIMEOUT_MS = 30_000;

/** The server ends a statement this much later than its client gives it up. */
const GIVE_UP_MS = 1000;

/** Opens a pool of connections to a PostgreSQL server, and one more for notifications when needed. */
export function openPostgres(options: PostgresOptions) {
  const { url, maxConnections, onError, queryTimeoutMs = QUERY_TIMEOUT_MS } = options;
  const connection = {
    connectionString: url,
    application_name: 'oselya',
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  };
  const pool = new pg.Pool({
    ...connection,
    max: maxConnections,
    idle_in_transaction_session_timeout: 60_000,
    query_timeout: queryTimeoutMs,
    statement_timeout: queryTimeoutMs + GIVE_UP_MS,
    types,
  });
  pool.on('error', onError);
  // A new connection may break before it has a listener, and an unhandled 'error' event would crash the process.
  pool.on('connect', (client) => client.on('error', () => undefined));
  const listener = createListener({
    createClient: () => new pg.Client({ ...connection, query_timeout: queryTimeoutMs }),
    onError,
  });
  return {
    pool,
    listen: listener.listen,
    close: async () => {
      await listener.close();
      await pool.end();
    },
  };
}
