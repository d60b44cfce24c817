import type { Server } from '@oselya/kit';
import { problemAnswers } from '../errors.ts';
import { type Identity, pageAnswer } from '../identity/index.ts';
import { homePage } from './page.ts';

/** `/`, for people. */
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
          ...problemAnswers('provider_unavailable', 'user_without_email'),
        },
      },
    },
    async (request, reply) => {
      const known = await identity.currentUser(request, reply);
      return (
        reply
          .header('cache-control', 'no-store')
          // Without a referrer browsers send `Origin: null` with a form, which is no origin of ours.
          .header('referrer-policy', 'same-origin')
          .type('text/html; charset=utf-8')
          .send(homePage(known?.user, baseUrl))
      );
    },
  );
}
