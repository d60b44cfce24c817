import { prepared } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
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
  // The first waiting payload of each, unless an unfinished one is before it. `id + 0` is what the index is
  // made of.
  const { numAffectedRows = 0n } = await sql`${prepared}
    update raw_data set waits = false
    where id in (
      select id from raw_data
      where status = 'pending' and waits and id = any (array(
        select first.id
        from unnest(${sources}::text[], ${ids}::text[]) as listing (source_slug, external_id)
        cross join lateral (
          select id, waits from raw_data
          where source_slug = listing.source_slug and external_id = listing.external_id
            and status = 'pending'
          order by id + 0 limit 1) as first
        where first.waits and not ${isProcessed(sql`listing`)}))
      order by id for update)`.execute(db);
  return Number(numAffectedRows);
}

/** How many listings one look for missed releases goes over: some 30 ms. */
const MISSED_AT_ONCE = 5000;

/**
 * Lets payloads go that wait for nothing any more, of the listings after one; of so many at most, since in a
 * backlog there may be any number that something waits of.
 * @param limit How many listings.
 * @returns How many were let go, and where to go on; undefined where all have been looked at.
 */
export async function releaseMissed(
  db: Kysely<Tables>,
  after: ListingKey = { sourceSlug: '', externalId: '' },
  limit = MISSED_AT_ONCE,
): Promise<{ released: number; next: ListingKey | undefined }> {
  const { rows } = await sql<ListingKey>`
    select distinct source_slug as "sourceSlug", external_id as "externalId" from raw_data
    where status = 'pending' and waits
      and (source_slug, external_id) > (${after.sourceSlug}, ${after.externalId})
    order by source_slug, external_id limit ${limit}`.execute(db);
  const released = await release(db, rows);
  return { released, next: rows.length < limit ? undefined : rows.at(-1) };
}
