import { readFileSync } from 'node:fs';
import type { Server } from '@oselya/kit';
import { problemAnswers } from '../errors.ts';
import type { Identity } from '../identity/identity.ts';
import { pageAnswer } from '../identity/schemas.ts';
import { homePage } from './page.ts';

const SCRIPT = readFileSync(new URL('app.js', import.meta.url));

/** `/`, for people, and the script of its button. */
export function homeRoutes(
  app: Server,
  { identity, baseUrl }: { identity: Pick<Identity, 'currentUser'>; baseUrl: string },
): void {
  app.get(
    '/',
    {
      config: { access: 'public' },
      schema: {
        hide: true,
        response: {
          200: pageAnswer('Who is signed in.'),
          ...problemAnswers('provider_unavailable'),
        },
      },
    },
    async (request, reply) => {
      const user = await identity.currentUser(request, reply);
      const policy = String(reply.getHeader('content-security-policy'));
      return reply
        .header('content-security-policy', `${policy};script-src 'self';connect-src 'self'`)
        .header('cache-control', 'no-store')
        .type('text/html; charset=utf-8')
        .send(homePage(user, baseUrl));
    },
  );

  app.get('/app.js', { config: { access: 'public' }, schema: { hide: true } }, (_request, reply) =>
    reply.type('text/javascript; charset=utf-8').send(SCRIPT),
  );
}
