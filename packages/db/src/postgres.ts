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

/**
 * Settings of each connection. Parallel workers of a query start slower than most searches take, and occupy the cores
 * of other searches. Searches of common words note 20,000 and more pages, for which 4 MB of memory are too small.
 */
const SESSION_SETTINGS = '-c max_parallel_workers_per_gather=0 -c work_mem=32MB';

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
    options: SESSION_SETTINGS,
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
