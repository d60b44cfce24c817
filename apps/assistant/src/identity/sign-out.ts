import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { recordAudit } from '../audit/index.ts';
import { deleteSession } from './auth-sessions.sql.ts';
import { tellUserChanged } from './invalidation.sql.ts';
import type { IdentityMetrics } from './metrics.ts';
import type { RevocationQueue } from './revocation-queue.ts';

/** Signs out: the session ends at once, and its tokens are revoked at the provider after the answer. */
export function createSignOut({
  db,
  log,
  revocations,
  metrics,
}: {
  db: Kysely<Tables>;
  log: Logger;
  revocations: Pick<RevocationQueue, 'add' | 'wake'>;
  metrics: Pick<IdentityMetrics, 'countEnded'>;
}) {
  return async (sessionId: string): Promise<void> => {
    const session = await db.transaction().execute(async (trx) => {
      const ended = await deleteSession(trx, sessionId);
      if (ended === undefined) return undefined;
      const { userId } = ended;
      await recordAudit(trx, { action: 'signed_out', actorId: userId, userId });
      await tellUserChanged(trx, userId);
      await revocations.add(trx, [ended]);
      return ended;
    });
    if (session === undefined) return;
    metrics.countEnded('signed_out');
    log.info({ user_id: session.userId }, 'signed out');
    revocations.wake();
  };
}
