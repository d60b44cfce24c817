import { retryConflicts } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import type { Kysely, Transaction } from 'kysely';
import type { Role } from '../access/permissions.ts';
import { recordAudit } from './audit.ts';
import { problem } from '../errors.ts';
import {
  endSessions,
  type IdentityMetrics,
  type RevocationQueue,
  setCachedRole,
} from '../identity/index.ts';
import type { Tables } from '../tables.ts';
import { listUsers, userExists, type UserQuery } from './users-repository.ts';

/** What admins do with users. Specification 000, Admin endpoints; Contract 3, Further endpoints. */
export type UserAdmin = ReturnType<typeof createUserAdmin>;

/** Lists users, changes their cached roles and signs them out; all of it is in the audit trail. */
export function createUserAdmin({
  db,
  log,
  metrics,
  revocations,
}: {
  db: Kysely<Tables>;
  log: Logger;
  metrics: Pick<IdentityMetrics, 'countEnded'>;
  revocations: Pick<RevocationQueue, 'add' | 'wake'>;
}) {
  return {
    /** Users by id, and one more than `limit` where there are more. */
    async list(actorId: string, query: UserQuery, limit: number) {
      await recordAudit(db, {
        action: 'others_data_read',
        actorId,
        userId: null,
        details: { data: 'users' },
      });
      return listUsers(db, query, limit);
    },

    /**
     * Changes the cached role of a user, until the next fetch from the provider.
     * @throws ProblemError `user_not_found`.
     */
    async setRole(actorId: string, { userId, role }: { userId: string; role: Role }) {
      await db.transaction().execute(async (trx) => {
        const before = await setCachedRole(trx, userId, role);
        if (before === undefined) throw problem('user_not_found');
        const details = { from: before, to: role };
        await recordAudit(trx, { action: 'role_changed', actorId, userId, details });
      });
    },

    /**
     * Ends all sign-ins of a user, those in flight included. Their tokens are revoked at the provider
     * later: they are many, and open nothing here any more.
     * @returns How many sign-ins ended.
     * @throws ProblemError `user_not_found`.
     */
    async signOut(actorId: string, userId: string): Promise<number> {
      const end = async (trx: Transaction<Tables>) => {
        if (!(await userExists(trx, userId))) throw problem('user_not_found');
        const sessions = await endSessions(trx, { userId });
        await revocations.add(trx, sessions);
        const details = { sessions: sessions.length };
        await recordAudit(trx, { action: 'sign_ins_ended', actorId, userId, details });
        return sessions;
      };
      // They are locked in no order that all others keep to.
      const ended = await retryConflicts(() => db.transaction().execute(end));
      metrics.countEnded('admin', ended.length);
      log.info(
        { user_id: userId, sessions: ended.length },
        'an admin ended all sign-ins of a user',
      );
      revocations.wake();
      return ended.length;
    },
  };
}
