import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { recordAudit } from '../admin/audit.ts';
import type { Tables } from '../tables.ts';
import type { Lifetime } from './auth-sessions.sql.ts';
import { tellUserChanged } from './invalidation.sql.ts';
import type { IdentityMetrics } from './metrics.ts';
import {
  deleteOwnSignIn,
  listOwnSignIns,
  type OwnSignIn,
  type SignInPosition,
} from './own-sign-ins-repository.ts';
import type { RevocationQueue } from './revocation-queue.ts';

/** What users do with their own sign-ins. Contract 3, Further endpoints. */
export type OwnSignIns = ReturnType<typeof createOwnSignIns>;

/** Lists and ends the sign-ins of a user. */
export function createOwnSignIns({
  db,
  log,
  revocations,
  metrics,
  lifetime,
}: {
  db: Kysely<Tables>;
  log: Logger;
  revocations: Pick<RevocationQueue, 'add' | 'wake'>;
  metrics: Pick<IdentityMetrics, 'countEnded'>;
  lifetime: Lifetime;
}) {
  return {
    /** The living sign-ins of a user, newest first, and one more than `limit` where there are more. */
    list: (
      userId: string,
      page: { currentId: string | null; limit: number; after: SignInPosition | undefined },
    ): Promise<OwnSignIn[]> => listOwnSignIns(db, { userId, lifetime, ...page }),

    /**
     * Ends a sign-in of a user, and revokes its tokens at the provider as signing out does.
     * @returns Whether it was the current one; nothing where there is no such sign-in of this user.
     */
    async end(
      userId: string,
      { id, currentId }: { id: string; currentId: string | null },
    ): Promise<'current' | 'another' | undefined> {
      const ended = await db.transaction().execute(async (trx) => {
        const row = await deleteOwnSignIn(trx, { userId, id, lifetime });
        if (row === undefined) return undefined;
        const details = { sign_in: id };
        await recordAudit(trx, { action: 'sign_in_ended', actorId: userId, userId, details });
        await tellUserChanged(trx, userId);
        await revocations.add(trx, [row]);
        return row;
      });
      if (ended === undefined) return undefined;
      metrics.countEnded('ended');
      log.info({ user_id: userId }, 'ended a sign-in');
      revocations.wake();
      return ended.id === currentId ? 'current' : 'another';
    },
  };
}
