import pg from 'pg';
import type { Engine } from './database.ts';
import { createListener } from './listener.ts';
import { types } from './types.ts';

export type PostgresOptions = {
  url: string;
  maxConnections: number;
  onError: (error: Error) => void;
};

/** Opens a pool of connections to a PostgreSQL server, and one more for notifications when asked. */
export function openPostgres({ url, maxConnections, onError }: PostgresOptions): Engine {
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
    types,
  });
  pool.on('error', onError);
  const listener = createListener({
    createClient: () => new pg.Client(connection),
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
