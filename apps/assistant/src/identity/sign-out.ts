import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { recordAudit } from '../audit/index.ts';
import { deleteSession } from './auth-sessions.sql.ts';
import { tellUserChanged } from './invalidation.sql.ts';
import type { IdentityMetrics } from './metrics.ts';
import type { Revocation } from './token-revocation.ts';

/**
 * Signs out: the session goes first, then the provider is told. One that does not answer delays the
 * answer for a while, and keeps nobody signed in.
 */
export function createSignOut({
  db,
  log,
  revoke,
  metrics,
}: {
  db: Kysely<Tables>;
  log: Logger;
  revoke: Revocation;
  metrics: Pick<IdentityMetrics, 'countEnded'>;
}) {
  return async (sessionId: string): Promise<void> => {
    const session = await db.transaction().execute(async (trx) => {
      const ended = await deleteSession(trx, sessionId);
      if (ended === undefined) return undefined;
      const { userId } = ended;
      await recordAudit(trx, { action: 'signed_out', actorId: userId, userId });
      await tellUserChanged(trx, userId);
      return ended;
    });
    if (session === undefined) return;
    metrics.countEnded('signed_out');
    log.info({ user_id: session.userId }, 'signed out');
    await revoke(session);
  };
}
