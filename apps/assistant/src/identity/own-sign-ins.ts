import type { Logger } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import { recordAudit } from '../audit/record.ts';
import type { Tables } from '../tables.ts';
import { alive, endedColumns } from './auth-sessions.ts';
import { tellUserChanged } from './invalidation.ts';
import type { IdentityMetrics } from './metrics.ts';
import type { Revocation } from './token-revocation.ts';

/** A sign-in as its owner sees it. */
export type OwnSignIn = {
  /** Names the sign-in and opens nothing: the start of a digest of the cookie's value. */
  id: string;
  createdAt: Date;
  lastUsedAt: Date;
  isCurrent: boolean;
  userAgent: string | null;
  address: string | null;
  /** `createdAt` to the microsecond, which a Date would cut off: for the cursor of a page. */
  createdAtMicros: number;
};

/** Where a page of sign-ins ends. */
export type SignInPosition = Pick<OwnSignIn, 'createdAtMicros' | 'id'>;

/** 16 hexadecimal digits of the SHA-256 of a session's id, made where the id stays: in the database. */
const publicId = sql<string>`left(encode(sha256(convert_to(s.id, 'UTF8')), 'hex'), 16)`;

const createdAtMicros = sql<number>`(extract(epoch from s.created_at) * 1000000)::bigint`;

/** What users do with their own sign-ins. Contract 3, Further endpoints. */
export type OwnSignIns = ReturnType<typeof createOwnSignIns>;

/** Lists and ends the sign-ins of a user. */
export function createOwnSignIns({
  db,
  log,
  revoke,
  metrics,
  lifetimeDays,
}: {
  db: Kysely<Tables>;
  log: Logger;
  revoke: Revocation;
  metrics: Pick<IdentityMetrics, 'countEnded'>;
  lifetimeDays: number;
}) {
  return {
    /** The living sign-ins of a user, newest first, and one more than `limit` where there are more. */
    async list(
      userId: string,
      page: { currentId: string | null; limit: number; after: SignInPosition | undefined },
    ): Promise<OwnSignIn[]> {
      let query = db
        .selectFrom('user_auth_sessions as s')
        .where('s.user_id', '=', userId)
        .where(alive(lifetimeDays))
        .select([
          publicId.as('id'),
          's.created_at as createdAt',
          's.last_used_at as lastUsedAt',
          sql<boolean>`coalesce(s.id = ${page.currentId}, false)`.as('isCurrent'),
          's.user_agent as userAgent',
          's.address',
          createdAtMicros.as('createdAtMicros'),
        ])
        .orderBy(createdAtMicros, 'desc')
        .orderBy(publicId, 'desc')
        .limit(page.limit + 1);
      if (page.after !== undefined) {
        const { after } = page;
        query = query.where(
          sql<boolean>`(${createdAtMicros}, ${publicId}) < (${after.createdAtMicros}, ${after.id})`,
        );
      }
      return query.execute();
    },

    /**
     * Ends a sign-in of a user, and revokes its tokens at the provider as signing out does.
     * @returns Whether it was the current one; nothing where there is no such sign-in of this user.
     */
    async end(
      userId: string,
      { id, currentId }: { id: string; currentId: string | null },
    ): Promise<'current' | 'another' | undefined> {
      const ended = await db.transaction().execute(async (trx) => {
        const row = await trx
          .deleteFrom('user_auth_sessions as s')
          .where('s.user_id', '=', userId)
          .where(alive(lifetimeDays))
          .where(publicId, '=', id)
          .returning(endedColumns)
          .executeTakeFirst();
        if (row === undefined) return undefined;
        const details = { sign_in: id };
        await recordAudit(trx, { action: 'sign_in_ended', actorId: userId, userId, details });
        await tellUserChanged(trx, userId);
        return row;
      });
      if (ended === undefined) return undefined;
      metrics.countEnded('ended');
      log.info({ user_id: userId }, 'ended a sign-in');
      await revoke(ended);
      return ended.id === currentId ? 'current' : 'another';
    },
  };
}
