import type { Server } from '@oselya/kit';
import type { Sessions } from '../sessions/index.ts';
import { allSessionsRoutes } from './sessions-routes.ts';
import type { UserAdmin } from './users.ts';
import { userRoutes } from './users-routes.ts';

/**
 * `/admin/*`, as far as it is about users and their sessions. Specification 000, Admin endpoints;
 * Contract 3, Further endpoints.
 */
export function adminRoutes(
  app: Server,
  { users, sessions }: { users: UserAdmin; sessions: Pick<Sessions, 'listSessions'> },
): void {
  allSessionsRoutes(app, sessions);
  userRoutes(app, users);
}
