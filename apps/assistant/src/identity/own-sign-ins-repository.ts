import { type Kysely, sql, type Transaction } from 'kysely';
import type { Tables } from '../tables.ts';
import { alive, type EndedSession, endedColumns, type Lifetime } from './auth-sessions.sql.ts';

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

/** The living sign-ins of a user, newest first, and one more than `limit` where there are more. */
export function listOwnSignIns(
  db: Kysely<Tables>,
  {
    userId,
    currentId,
    lifetime,
    limit,
    after,
  }: {
    userId: string;
    currentId: string | null;
    lifetime: Lifetime;
    limit: number;
    after: SignInPosition | undefined;
  },
): Promise<OwnSignIn[]> {
  let query = db
    .selectFrom('user_auth_sessions as s')
    .where('s.user_id', '=', userId)
    .where(alive(lifetime))
    .select([
      publicId.as('id'),
      's.created_at as createdAt',
      // Rows that an older system inserts may lack it.
      sql<Date>`coalesce(s.last_used_at, s.created_at)`.as('lastUsedAt'),
      sql<boolean>`coalesce(s.id = ${currentId}, false)`.as('isCurrent'),
      's.user_agent as userAgent',
      's.address',
      createdAtMicros.as('createdAtMicros'),
    ])
    .orderBy(createdAtMicros, 'desc')
    .orderBy(publicId, 'desc')
    .limit(limit + 1);
  if (after !== undefined) {
    query = query.where(
      sql<boolean>`(${createdAtMicros}, ${publicId}) < (${after.createdAtMicros}, ${after.id})`,
    );
  }
  return query.execute();
}

/** Deletes a living sign-in of a user by its public id, and gives what it held; nothing where there is none. */
export function deleteOwnSignIn(
  trx: Transaction<Tables>,
  { userId, id, lifetime }: { userId: string; id: string; lifetime: Lifetime },
): Promise<EndedSession | undefined> {
  return trx
    .deleteFrom('user_auth_sessions as s')
    .where('s.user_id', '=', userId)
    .where(alive(lifetime))
    .where(publicId, '=', id)
    .returning(endedColumns)
    .executeTakeFirst();
}
