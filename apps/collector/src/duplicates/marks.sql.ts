import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';

/** A listing to be looked at, and the marks that say so. */
export type Marked = { listingId: number; marks: number[] };

/** A mark whose looks fail is looked at once an hour in the end: a bug must not cost more than that. */
const LONGEST_PAUSE_MS = 3_600_000;

/**
 * Claims listings that changed, the last ones first: they are what people look for, and whoever comes late
 * comes all the same, such as all that were there before there were marks. What is not looked at within
 * the lease, for whatever reason, can be claimed again; each time the lease is twice as long.
 * @param options.settledMs How long ago they changed at least: a payload changes its listing several times
 *   on its way, and one look is enough.
 * @param options.leaseMs The first lease.
 */
export async function claimMarks(
  db: Kysely<Tables>,
  { limit, settledMs, leaseMs }: { limit: number; settledMs: number; leaseMs: number },
): Promise<Marked[]> {
  const { rows } = await sql<Marked>`
    with claimed as (
      update duplicate_marks set attempts = attempts + 1,
        claimed_until = now() + interval '1 millisecond'
          * least(${leaseMs} * 2 ^ least(attempts, 30), ${LONGEST_PAUSE_MS})
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

/**
 * Gives back marks that nobody has looked at since they were claimed: they can be claimed at once, and the
 * claim does not count. Only within the first lease, past which others may have claimed them. Those that are
 * back already stay as they are, so it may be done again.
 */
export async function returnMarks(db: Kysely<Tables>, marks: readonly number[]): Promise<void> {
  await sql`
    update duplicate_marks set attempts = attempts - 1, claimed_until = null
    where id = any(${[...marks]}::bigint[]) and claimed_until is not null`.execute(db);
}

/** Beyond so many they are not counted. */
const MOST_COUNTED = 100_000;

/** How many marks there are, and how many of them were looked at in vain; 100,000 are counted at most. */
export async function countMarks(
  db: Kysely<Tables>,
): Promise<{ waiting: number; retried: number }> {
  const { rows } = await sql<{ waiting: number; retried: number }>`
    select count(*) filter (where attempts <= 1) as waiting,
      count(*) filter (where attempts > 1) as retried
    from (select attempts from duplicate_marks limit ${MOST_COUNTED}) as mark`.execute(db);
  const { waiting = 0, retried = 0 } = rows[0] ?? {};
  return { waiting, retried };
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
