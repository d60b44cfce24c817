import { type Kysely, sql } from 'kysely';
import type { Tables } from '../database.ts';

/** A listing to be looked at, and the marks that say so. */
export type Marked = { listingId: number; marks: number[] };

/**
 * Claims listings that changed, the last ones first: they are what people look for, and whoever comes late
 * comes all the same, such as all that were there before there were marks. What is not looked at within
 * the time, for whatever reason, can be claimed again.
 * @param options.settledMs How long ago they changed at least: a payload changes its listing several times
 *   on its way, and one look is enough.
 */
export async function claimMarks(
  db: Kysely<Tables>,
  { limit, settledMs, leaseMs }: { limit: number; settledMs: number; leaseMs: number },
): Promise<Marked[]> {
  const { rows } = await sql<Marked>`
    with claimed as (
      update duplicate_marks set claimed_until = now() + ${leaseMs} * interval '1 millisecond'
      where id in (
        select id from duplicate_marks
        where marked_at <= now() - ${settledMs} * interval '1 millisecond'
          and (claimed_until is null or claimed_until <= now())
        order by id desc limit ${limit} for update skip locked)
      returning id, listing_id)
    select listing_id as "listingId", jsonb_agg(id) as marks
    from claimed group by listing_id order by max(id) desc`.execute(db);
  return rows;
}

/** Removes the marks that a look has done justice to. */
export async function removeMarks(db: Kysely<Tables>, marks: readonly number[]): Promise<void> {
  await db.deleteFrom('duplicate_marks').where('id', 'in', marks).execute();
}

/** Has the listings that one is paired with be looked at. */
export async function markPartners(db: Kysely<Tables>, listingId: number): Promise<void> {
  await sql`
    insert into duplicate_marks (listing_id)
    select high_id from duplicate_pairs where low_id = ${listingId}
    union all
    select low_id from duplicate_pairs where high_id = ${listingId}`.execute(db);
}
