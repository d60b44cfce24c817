import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { betterAuth, type BetterAuthOptions } from 'better-auth';
import { getMigrations } from 'better-auth/db/migration';
import { toNodeHandler } from 'better-auth/node';
import pg from 'pg';
import { serve } from '../../process/server.ts';
import { KEEP_ALIVE_MS, POOL_SIZE } from './settings.ts';

export type BetterAuthSettings = {
  databaseUrl: string;
  /** The public address; it is https, so cookies are secure as in production. */
  baseUrl: string;
  /** Whether the session and its user come by one query instead of two. */
  joins: boolean;
  /** Whether a signed cookie holds the session for five minutes, so that nothing is asked. */
  cookieCache: boolean;
};

serve(async ({ databaseUrl, baseUrl, joins, cookieCache }: BetterAuthSettings) => {
  const options: BetterAuthOptions = {
    secret: 'a secret of the benchmark, which keeps nothing secret',
    baseURL: baseUrl,
    database: new pg.Pool({ connectionString: databaseUrl, max: POOL_SIZE }),
    emailAndPassword: { enabled: true },
    session: { cookieCache: { enabled: cookieCache, maxAge: 5 * 60 } },
    advanced: { database: { joins } },
    // All requests come from one address, which would be refused after the first hundred.
    rateLimit: { enabled: false },
    telemetry: { enabled: false },
    logger: { disabled: true },
  };
  await (await getMigrations(options)).runMigrations();
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    void handle(request, response);
  });
  const handle = toNodeHandler(betterAuth(options));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
