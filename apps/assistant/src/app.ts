import cookie from '@fastify/cookie';
import {
  createServer,
  healthRoutes,
  type Logger,
  registerHttpMetrics,
  type Server,
} from '@oselya/kit';
import type { Database } from '@oselya/db';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { guardRoutes } from './access/guards.ts';
import { refuseCrossSite } from './access/same-origin.ts';
import type { Config } from './config.ts';
import { homeRoutes } from './home/routes.ts';
import { createIdentity } from './identity/identity.ts';
import { identityRoutes } from './identity/routes.ts';
import type { Tables } from './tables.ts';

/** For everything but files, whose routes say otherwise. */
const BODY_LIMIT_BYTES = 64 * 1024;

/** The assistant's database, as far as it is used. */
export type AssistantDatabase = Pick<Database<Tables>, 'db' | 'pool' | 'listen'>;

type AppOptions = { config: Config; database: AssistantDatabase; log: Logger };

/** Puts the assistant together: a server that is ready to listen or to be asked by `inject`. */
export async function createApp({ config, database, log }: AppOptions): Promise<Server> {
  const { db } = database;
  const app = await createServer({
    log,
    bodyLimit: BODY_LIMIT_BYTES,
    trustedProxies: config.TRUSTED_PROXIES,
    openapi: {
      title: 'Oselya assistant',
      description:
        'Sign-in through an identity provider, roles and permissions, conversations and memory.',
      version: '0.1.0',
      tags: [
        { name: 'sign-in', description: 'In, out, and who is signed in.' },
        { name: 'sessions', description: 'Conversations, with their messages and files.' },
        { name: 'memory', description: 'What the assistant knows of a user.' },
        { name: 'profiles', description: 'The agents that a conversation can be held with.' },
        { name: 'admin', description: 'For administrators.' },
        { name: 'webhooks', description: 'What the identity provider tells.' },
        { name: 'operations', description: 'For those who run it.' },
      ],
      securitySchemes: {
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: config.SVC_AUTH_COOKIE_NAME,
          description: 'The session cookie, which a browser gets by signing in at `/auth/login`.',
        },
      },
    },
  });
  const identity = createIdentity({ config, db, log });
  await app.register(cookie);
  refuseCrossSite(app, { baseUrl: config.BASE_URL, hasSession: identity.cookies.hasSession });
  guardRoutes(app, identity.currentUser);

  identityRoutes(app, { config, identity });
  homeRoutes(app, { identity, baseUrl: config.BASE_URL });
  healthRoutes(app, {
    async database() {
      await sql`select 1`.execute(db);
      return { status: 'ok' };
    },
    // Without the provider nobody signs in, but the process can still answer. One that hangs until
    // the signal ends the wait is not reachable either.
    async identity_provider(signal) {
      return { status: (await identity.provider.isReachable(signal)) ? 'ok' : 'degraded' };
    },
  });
  registerHttpMetrics(app, new Registry());
  await app.ready();
  return app;
}
