import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import fastify from 'fastify';
import pg from 'pg';
import { serve } from '../../process/server.ts';
import { createUser } from '../users.ts';
import { KEEP_ALIVE_MS, POOL_SIZE } from './settings.ts';

type BetterAuthSettings = {
  peer: 'betterAuth';
  /** Public URL. HTTPS makes cookies secure, as in production. */
  baseUrl: string;
  /** Whether to read the session and its user with one query instead of two. */
  hasJoins: boolean;
  /** Whether a signed cookie caches the session for five minutes. */
  hasCookieCache: boolean;
};
type ConstantSettings = { peer: 'constant'; users: number };

/** Settings of a peer's process, except the database URL. */
export type PeerSettings = BetterAuthSettings | ConstantSettings | { peer: 'fastifySession' };

// oxlint-disable typescript/consistent-type-definitions -- Fastify's declarations can only be merged with interfaces
declare module 'fastify' {
  interface Session {
    user?: ReturnType<typeof createUser>;
  }
}

const SECRET = 'a secret of the benchmark, which protects nothing';
const WEEK_MS = 7 * 24 * 60 * 60 * 1000;

serve((settings: PeerSettings & { databaseUrl: string }) => {
  const pool = new pg.Pool({ connectionString: settings.databaseUrl, max: POOL_SIZE });
  if (settings.peer === 'betterAuth') return startBetterAuth(pool, settings);
  return settings.peer === 'constant'
    ? startConstant(pool, settings.users)
    : startFastifySession(pool);
});

async function startBetterAuth(
  pool: pg.Pool,
  { baseUrl, hasJoins, hasCookieCache }: BetterAuthSettings,
): Promise<string> {
  // Dynamic imports keep the libraries of other peers from affecting the measurement of this process.
  const [{ betterAuth }, { getMigrations }, { toNodeHandler }] = await Promise.all([
    import('better-auth'),
    import('better-auth/db/migration'),
    import('better-auth/node'),
  ]);
  const options = {
    secret: SECRET,
    baseURL: baseUrl,
    database: pool,
    emailAndPassword: { enabled: true },
    session: { cookieCache: { enabled: hasCookieCache, maxAge: 5 * 60 } },
    advanced: { database: { joins: hasJoins } },
    // All requests come from one address, so the rate limit would reject most of them (100 in ten seconds are allowed).
    rateLimit: { enabled: false },
    telemetry: { enabled: false },
    logger: { disabled: true },
  };
  await (await getMigrations(options)).runMigrations();
  const handle = toNodeHandler(betterAuth(options));
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    void handle(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Starts a server that does the minimum for each request: one query by primary key. */
async function startConstant(pool: pg.Pool, users: number): Promise<string> {
  await pool.query('create table users (id text primary key)');
  for (let index = 0; index < users; index += 1) {
    await pool.query('insert into users (id) values ($1)', [createUser(index).id]);
  }
  const answer = { ...createUser(0), role: 'user', permissions: ['svc.sessions.read_own'] };
  const app = fastify({ logger: false });
  app.get<{ Params: { id: string } }>('/users/:id', async ({ params }) => {
    await pool.query('select id from users where id = $1', [params.id]);
    return answer;
  });
  return app.listen({ host: '127.0.0.1', port: 0 });
}

async function startFastifySession(pool: pg.Pool): Promise<string> {
  const [{ default: cookie }, { default: session }, { default: connectPgSimple }] =
    await Promise.all([
      import('@fastify/cookie'),
      import('@fastify/session'),
      import('connect-pg-simple'),
    ]);
  // connect-pg-simple needs only the `Store` class of its argument, which @fastify/session also exports.
  const Store = connectPgSimple(session as unknown as Parameters<typeof connectPgSimple>[0]);
  const store = new Store({ pool, createTableIfMissing: true });
  // Trusts the headers of a proxy that terminates TLS, so that secure cookies are sent.
  const app = fastify({ logger: false, trustProxy: true });
  await app.register(cookie);
  await app.register(session, {
    secret: SECRET,
    store: store as unknown as NonNullable<Parameters<typeof session>[1]>['store'],
    saveUninitialized: false,
    // By default, every request would write the session to the database to extend its expiry.
    rolling: false,
    cookie: { secure: true, httpOnly: true, sameSite: 'lax', maxAge: WEEK_MS },
  });
  app.post<{ Params: { index: string } }>('/sign-in/:index', async (request) => {
    request.session.user = createUser(Number(request.params.index));
    return {};
  });
  app.get('/me', async ({ session: { user } }, reply) => user ?? reply.status(401).send({}));
  return app.listen({ host: '127.0.0.1', port: 0 });
}
