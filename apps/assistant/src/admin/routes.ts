import type { Logger, Server } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { IdentityMetrics } from '../identity/metrics.ts';
import type { Revocation } from '../identity/token-revocation.ts';
import type { Sessions } from '../sessions/service.ts';
import type { Tables } from '../tables.ts';
import { createRevocationQueue } from './revocation-queue.ts';
import { allSessionsRoutes } from './sessions-routes.ts';
import { createUserAdmin } from './users.ts';
import { userRoutes } from './users-routes.ts';

type AdminOptions = {
  db: Kysely<Tables>;
  log: Logger;
  metrics: IdentityMetrics;
  revoke: Revocation;
  sessions: Pick<Sessions, 'listSessions'>;
};

/**
 * `/admin/*`, as far as it is about users and their sessions. Specification 000, Admin endpoints;
 * Contract 3, Further endpoints.
 */
export function adminRoutes(app: Server, options: AdminOptions): void {
  const { db, log, metrics, revoke, sessions } = options;
  const revocations = createRevocationQueue({ revoke, log });
  app.addHook('onClose', () => revocations.close());
  allSessionsRoutes(app, sessions);
  userRoutes(app, createUserAdmin({ db, log, metrics, revocations }));
}
