import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { recordAudit } from '../admin/audit.ts';
import type { Tables } from '../tables.ts';
import { type AuthSession, deleteRefused } from './auth-sessions.sql.ts';
import { tellUserChanged } from './invalidation.sql.ts';
import type { IdentityMetrics } from './metrics.ts';

/**
 * Ends a session whose tokens the provider refuses, unless it has other tokens by now.
 * @returns Whether it was ended by this call.
 */
export type EndRefused = (
  session: Pick<AuthSession, 'id' | 'userId' | 'tokenVersion'>,
) => Promise<boolean>;

/** Makes the function; what it ends is in the audit trail, and its live sockets hear of it. */
export function createEndRefused({
  db,
  log,
  metrics,
}: {
  db: Kysely<Tables>;
  log: Logger;
  metrics: IdentityMetrics;
}): EndRefused {
  return async (session) => {
    const { userId } = session;
    const isEnded = await db.transaction().execute(async (trx) => {
      if (!(await deleteRefused(trx, session))) return false;
      await recordAudit(trx, { action: 'session_rejected', actorId: null, userId });
      await tellUserChanged(trx, userId);
      return true;
    });
    if (isEnded) {
      metrics.countEnded('refused');
      log.info({ user_id: userId }, 'signed out: the provider refuses the tokens');
    }
    return isEnded;
  };
}
