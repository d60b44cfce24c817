import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';

/** "feed": held by whoever gives positions, until these are committed. */
const POSITIONS_LOCK = 0x66_65_65_64;

/** What is left to be given a position: nothing, more, or what another process is giving one at this moment. */
type Left = 'nothing' | 'more' | 'busy';

/**
 * Gives positions to the first changes that are committed and have none, in the order of their ids. One process
 * at a time does, so positions are committed in their order: whoever has read one will see none before it later.
 * Nobody waits for that process.
 * @param limit How many are given at most.
 */
export async function givePositions(db: Kysely<Tables>, limit: number): Promise<Left> {
  if (!(await hasWaiting(db))) return 'nothing';
  return db.transaction().execute(async (trx) => {
    // Apart from the update: a statement sees what was committed when it began, not when it had the lock.
    const { rows } = await sql<{ held: boolean }>`
      select pg_try_advisory_xact_lock(${POSITIONS_LOCK}) as held`.execute(trx);
    if (rows[0]?.held !== true) return 'busy';
    const { numAffectedRows } = await sql`
      with waiting as materialized (
        select id from listing_changes where position is null order by id limit ${limit}),
      placed as materialized (
        select id, nextval('listing_changes_positions') as position from waiting)
      update listing_changes set position = placed.position
      from placed where listing_changes.id = placed.id`.execute(trx);
    return Number(numAffectedRows ?? 0n) < limit ? 'nothing' : 'more';
  });
}

async function hasWaiting(db: Kysely<Tables>): Promise<boolean> {
  const row = await db
    .selectFrom('listing_changes')
    .select('id')
    .where('position', 'is', null)
    .orderBy('id')
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/** How far the feed goes: to the last position that is to be seen, and to the last one that was given. */
export async function readEnd(db: Kysely<Tables>): Promise<{ seen: number; given: number }> {
  const { rows } = await sql<{ seen: number; given: number }>`
    select coalesce((select max(position) from listing_changes), 0) as seen,
      (select case when is_called then last_value else 0 end from listing_changes_positions) as given
  `.execute(db);
  return rows[0] ?? { seen: 0, given: 0 };
}

/** When the change at a position was written; undefined where none is kept, or none ever was, at it. */
export async function findTime(db: Kysely<Tables>, position: number): Promise<Date | undefined> {
  const row = await db
    .selectFrom('listing_changes')
    .select('created_at')
    .where('position', '=', position)
    .executeTakeFirst();
  return row?.created_at;
}

/**
 * The changes after one position, up to another, in their order.
 * @param sources Only changes of these; null is any.
 */
export function listChanges(
  db: Kysely<Tables>,
  options: { after: number; upTo: number; sources: readonly string[] | null; limit: number },
) {
  const { after, upTo, sources, limit } = options;
  return (
    db
      .selectFrom('listing_changes')
      .select(['listing_id', 'source_slug', 'kind', 'created_at'])
      .select(['price_from', 'price_to', 'currency_from', 'currency_to'])
      // Those without one are not between two.
      .select((eb) => eb.ref('position').$notNull().as('position'))
      .where('position', '>', after)
      .where('position', '<=', upTo)
      .$if(sources !== null, (query) =>
        query.where('source_slug', '=', sql<string>`any(${sources ?? []}::text[])`),
      )
      .orderBy('position')
      .limit(limit)
      .execute()
  );
}

/**
 * Removes those of the first changes that are older than so many days.
 * @returns How many; fewer than `limit` where no more are left.
 */
export async function removeChanges(
  db: Kysely<Tables>,
  { olderThanDays, limit }: { olderThanDays: number; limit: number },
): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from listing_changes
    where id in (select id from listing_changes order by id limit ${limit})
      and created_at < now() - ${olderThanDays} * interval '1 day'`.execute(db);
  return Number(numAffectedRows ?? 0n);
}
