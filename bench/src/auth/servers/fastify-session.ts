import cookie from '@fastify/cookie';
import session from '@fastify/session';
import connectPgSimple from 'connect-pg-simple';
import fastify from 'fastify';
import pg from 'pg';
import { createUser } from '../users.ts';
import { serve } from '../../process/server.ts';
import { POOL_SIZE } from './settings.ts';

// oxlint-disable typescript/consistent-type-definitions -- Fastify's declarations can only be merged with interfaces
declare module 'fastify' {
  interface Session {
    user?: ReturnType<typeof createUser>;
  }
}

export type FastifySessionSettings = { databaseUrl: string };

const WEEK_MS = 7 * 24 * 60 * 60 * 1000;

serve(async ({ databaseUrl }: FastifySessionSettings) => {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: POOL_SIZE });
  // The store extends the class `Store` that it finds on what it is given; both modules have one.
  const Store = connectPgSimple(session as unknown as Parameters<typeof connectPgSimple>[0]);
  const store = new Store({ pool, createTableIfMissing: true });
  // Behind a proxy that ends TLS, as in production, so that secure cookies are sent.
  const app = fastify({ logger: false, trustProxy: true });
  await app.register(cookie);
  await app.register(session, {
    secret: 'a secret of the benchmark, which keeps nothing secret',
    store: store as unknown as NonNullable<Parameters<typeof session>[1]>['store'],
    saveUninitialized: false,
    // By default each request would write its session to move the expiry on.
    rolling: false,
    cookie: { secure: true, httpOnly: true, sameSite: 'lax', maxAge: WEEK_MS },
  });
  app.post<{ Params: { index: string } }>('/sign-in/:index', async (request) => {
    request.session.user = createUser(Number(request.params.index));
    return {};
  });
  app.get('/me', async ({ session: { user } }, reply) => user ?? reply.status(401).send({}));
  return app.listen({ host: '127.0.0.1', port: 0 });
});
