import { type Kysely, sql, type Transaction } from 'kysely';
import { lockOwner } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';

/** Maximum number of marked listings per user. */
const MAX_MARKS = 20_000;

/** Steps of a user with a listing, from first interest to the end. */
export const MARK_STATUSES = [
  'interested',
  'contacted',
  'viewing',
  'viewed',
  'offered',
  'rejected',
  'unavailable',
] as const;

export type MarkStatus = (typeof MARK_STATUSES)[number];

/** Values that a user can set. `follow_up_on` is a day, such as 2026-03-09. */
export type MarkValues = {
  status: MarkStatus | null;
  rating: number | null;
  note: string | null;
  tags: string[];
  hidden: boolean;
  seen: boolean;
  follow_up_on: string | null;
};

export type Mark = MarkValues & { listing_id: number; created_at: Date; updated_at: Date };

const markColumns = [
  'listing_id',
  sql<MarkStatus | null>`status`.as('status'),
  'rating',
  'note',
  'tags',
  'hidden',
  'seen',
  // Drivers would convert a `date` to a time in the zone of the process.
  sql<string | null>`follow_up_on::text`.as('follow_up_on'),
  'created_at',
  'updated_at',
] as const;

type MarkKey = { userId: string; listingId: number };

/**
 * Changes the given values of a user's mark on a listing, and creates a missing mark.
 * @throws ProblemError `too_many_marks`
 */
export function putMark(
  db: Kysely<Tables>,
  { userId: user_id, listingId: listing_id }: MarkKey,
  values: Partial<MarkValues>,
): Promise<Mark> {
  return db.transaction().execute(async (trx) => {
    await lockOwner(trx, user_id);
    const changedMark = await trx
      .updateTable('listing_marks')
      .set({ ...values, updated_at: sql<Date>`now()` })
      .where('user_id', '=', user_id)
      .where('listing_id', '=', listing_id)
      .returning(markColumns)
      .executeTakeFirst();
    if (changedMark !== undefined) return changedMark;
    const { count } = await trx
      .selectFrom('listing_marks')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('user_id', '=', user_id)
      .executeTakeFirstOrThrow();
    if (count >= MAX_MARKS) throw problem('too_many_marks');
    return trx
      .insertInto('listing_marks')
      .values({ user_id, listing_id, ...values })
      .returning(markColumns)
      .executeTakeFirstOrThrow();
  });
}

/** Deletes a user's mark, and returns whether it existed. */
export async function deleteMark(
  db: Kysely<Tables>,
  { userId, listingId }: MarkKey,
): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('listing_marks')
    .where('user_id', '=', userId)
    .where('listing_id', '=', listingId)
    .executeTakeFirstOrThrow();
  return numDeletedRows > 0n;
}

/** Lists at most `limit` marks of a user below the listing ID `before`, by descending listing ID. */
export function listMarks(
  db: Kysely<Tables>,
  filter: {
    userId: string;
    listingIds?: readonly number[] | undefined;
    status?: MarkStatus | undefined;
    tag?: string | undefined;
    hidden?: boolean | undefined;
    followUpUntil?: string | undefined;
    before?: number | undefined;
    limit: number;
  },
): Promise<Mark[]> {
  const { userId, listingIds, status, tag, hidden, followUpUntil, before, limit } = filter;
  const conditions = [
    listingIds !== undefined && sql<boolean>`listing_id = any(${listingIds}::bigint[])`,
    status !== undefined && sql<boolean>`status = ${status}`,
    tag !== undefined && sql<boolean>`${tag} = any(tags)`,
    hidden !== undefined && sql<boolean>`hidden = ${hidden}`,
    followUpUntil !== undefined && sql<boolean>`follow_up_on <= ${followUpUntil}::date`,
    before !== undefined && sql<boolean>`listing_id < ${before}`,
  ].filter((condition) => condition !== false);
  return db
    .selectFrom('listing_marks')
    .select(markColumns)
    .where('user_id', '=', userId)
    .where((where) => where.and(conditions))
    .orderBy('listing_id', 'desc')
    .limit(limit)
    .execute();
}

/** Deletes all marks of a user, and returns their number. */
export async function deleteMarks(trx: Transaction<Tables>, userId: string): Promise<number> {
  const { numDeletedRows } = await trx
    .deleteFrom('listing_marks')
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow();
  return Number(numDeletedRows);
}
