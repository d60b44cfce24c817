import type { Target } from '../load/target.ts';
import type { Variant } from '../load/variant.ts';
import { Browser } from './browser.ts';
import { startPeer } from './peer.ts';
import type { FastifySessionSettings } from './servers/fastify-session.ts';
import { mapUsers, createUser } from './users.ts';

/** A route that answers with the user of a session of `@fastify/session`, kept in PostgreSQL. */
export const fastifySession: Variant = {
  name: '@fastify/session',
  start: ({ databaseUrl, users, signal }) =>
    startPeer(
      {
        file: 'fastify-session.ts',
        settings: { databaseUrl } satisfies FastifySessionSettings,
        signal,
      },
      async (url) => {
        const targets = await mapUsers(users, (index) => signIn(url, index));
        return () => Promise.resolve(targets);
      },
    ),
};

async function signIn(url: string, index: number): Promise<Target> {
  const browser = new Browser(url);
  // Set by a proxy that ends TLS: secure cookies need https.
  const headers = { 'x-forwarded-proto': 'https' };
  await browser.request(`/sign-in/${index}`, { method: 'POST', headers });
  return { path: '/me', headers: { cookie: browser.cookie }, expected: createUser(index).email };
}
