import pg from 'pg';
import type { Engine } from './database.ts';
import { createListener } from './listener.ts';
import { types } from './types.ts';

/** Which server, and how it is used. */
export type PostgresOptions = {
  url: string;
  /** Of the pool; the connection for notifications is one more. */
  maxConnections: number;
  /** Told of connections that broke while nobody was using them. */
  onError: (error: Error) => void;
  /** How long a query may take; 30 s unless told. */
  queryTimeoutMs?: number | undefined;
};

/**
 * A server that vanishes without a reset (a NAT that forgets, a host that is gone) never answers, and
 * whoever asked would wait for ever. No query of the platform takes longer than seconds, except
 * migrations, which set a limit of their own.
 */
const QUERY_TIMEOUT_MS = 30_000;

/** So much later the server ends a statement that nobody waits for any more. */
const GIVE_UP_MS = 1000;

/** Opens a pool of connections to a PostgreSQL server, and one more for notifications when asked. */
export function openPostgres(options: PostgresOptions): Engine {
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
  // A server that hangs up on a new connection may say so before whoever asked for it listens, and an
  // event `error` that nobody hears ends the process. The next query on that connection fails anyway.
  pool.on('connect', (client) => client.on('error', () => undefined));
  const listener = createListener({
    createClient: () => new pg.Client({ ...connection, query_timeout: queryTimeoutMs }),
    onError,
  });
  return {
    pool,
    listen: (channel, notify) => listener.listen(channel, notify),
    async close() {
      await listener.close();
      await pool.end();
    },
  };
}
