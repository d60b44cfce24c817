import pg from 'pg';
import { createListener } from './listener.ts';

const { INT8, NUMERIC } = pg.types.builtins;

function parseNumber(text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && !Number.isSafeInteger(number)) {
    throw new RangeError(`The database returned ${text}, which JavaScript cannot hold exactly`);
  }
  return number;
}

/** Type parsers of both engines. They parse `bigint` and `numeric`, which node-postgres returns as text, as numbers. */
export const typeParsers: pg.CustomTypesConfig = {
  getTypeParser(oid, format) {
    if (format !== 'binary' && (oid === INT8 || oid === NUMERIC)) return parseNumber;
    return pg.types.getTypeParser(oid, format);
  },
};

/** Default time limit for a query. Without it, a query to an unreachable server would wait forever. */
const QUERY_TIMEOUT_MS = 30_000;

/** Additional time until the server cancels a statement. The client gives up first. */
const SERVER_TIMEOUT_MARGIN_MS = 1000;

/** Opens a connection pool for a PostgreSQL server, with a separate connection for notifications. */
export function openPostgres(options: {
  url: string;
  maxConnections: number;
  onError: (error: Error) => void;
  queryTimeoutMs?: number | undefined;
}) {
  const { url, maxConnections, onError, queryTimeoutMs = QUERY_TIMEOUT_MS } = options;
  const connectionOptions = {
    connectionString: url,
    application_name: 'oselya',
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  };
  const pool = new pg.Pool({
    ...connectionOptions,
    max: maxConnections,
    idle_in_transaction_session_timeout: 60_000,
    query_timeout: queryTimeoutMs,
    statement_timeout: queryTimeoutMs + SERVER_TIMEOUT_MARGIN_MS,
    types: typeParsers,
  });
  pool.on('error', onError);
  // A new connection may break before it has an error listener, and an unhandled 'error' event crashes the process.
  pool.on('connect', (client) => client.on('error', () => undefined));
  const listener = createListener({
    createClient: () => new pg.Client({ ...connectionOptions, query_timeout: queryTimeoutMs }),
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
