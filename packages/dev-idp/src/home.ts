import type { FastifyInstance } from 'fastify';
import type { Accounts } from './accounts.ts';
import { homePage, sendToFastify } from './pages.ts';

/** Serves the front page: whoever opens the provider's address learns what it is and who it knows. */
export async function homeRoutes(
  app: FastifyInstance,
  { accounts, redirectUris }: { accounts: Accounts; redirectUris: readonly string[] },
): Promise<void> {
  app.get('/', (_request, reply) =>
    sendToFastify(reply, 200, homePage(accounts.list(), redirectUris)),
  );
}
