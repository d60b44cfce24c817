import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Tables } from '../database/tables.ts';
import type { ListingKey } from './job.ts';
import { isProcessed } from './processed.sql.ts';

/**
 * Lets payloads go that waited for an earlier one of their listing. Whoever ends jobs calls it, and so
 * does whoever stored a payload that waits, each after it has committed: the later of the two sees the
 * other's work, so nothing stays waiting. For one that was killed in between there is
 * {@link releaseMissed}.
 * @returns How many can be claimed now and could not before.
 */
export async function release(
  db: Kysely<Tables>,
  listings: readonly ListingKey[],
): Promise<number> {
  if (listings.length === 0) return 0;
  const sources = listings.map(({ sourceSlug }) => sourceSlug);
  const ids = listings.map(({ externalId }) => externalId);
  return releaseFirst(db, sql`select * from unnest(${sources}::text[], ${ids}::text[])`);
}

/** Lets every payload go that waits for nothing any more. Gives how many there were. */
export function releaseMissed(db: Kysely<Tables>): Promise<number> {
  return releaseFirst(
    db,
    sql`select distinct source_slug, external_id from raw_data where status = 'pending' and waits`,
  );
}

/**
 * Releases the first waiting payload of each listing, unless an unfinished one is before it. `id + 0` is
 * what the index is made of.
 */
async function releaseFirst(db: Kysely<Tables>, listings: RawBuilder<unknown>): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    update raw_data set waits = false
    where id in (
      select id from raw_data
      where status = 'pending' and waits and id = any (array(
        select first.id from (${listings}) as listing (source_slug, external_id)
        cross join lateral (
          select id, waits from raw_data
          where source_slug = listing.source_slug and external_id = listing.external_id
            and status = 'pending'
          order by id + 0 limit 1) as first
        where first.waits and not ${isProcessed(sql`listing`)}))
      order by id for update)`.execute(db);
  return Number(numAffectedRows);
}
