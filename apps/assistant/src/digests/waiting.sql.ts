import { type Kysely, sql } from 'kysely';
import { storableJson } from '../text.ts';
import type { Search } from '../saved-searches/index.ts';
import type { Tables } from '../tables.ts';
import type { Hit, ListingFacts } from './changes.ts';

/** For how long a find is taken to be as it was found. */
const RECENT_SECONDS = 60;

/** A find that has not been told, with the version of its row. */
export type WaitingFind = { hit: Hit; version: string };

/**
 * What a search found some time ago, or before it was changed, and has not told: the latter and the newest first. The
 * search is read with that, since it may be another one than a moment ago: whoever changes it from then on changes the
 * versions of its finds in the same transaction.
 * @returns Nothing where nothing waits.
 */
export async function listWaiting(
  db: Kysely<Tables>,
  { searchId, limit }: { searchId: string; limit: number },
): Promise<{ search: Search; finds: WaitingFind[] } | undefined> {
  const rows = await db
    .selectFrom('saved_search_hits')
    .innerJoin('saved_searches', 'saved_searches.id', 'saved_search_hits.search_id')
    .select(['listing_id', 'kind', 'old_price', sql<ListingFacts>`listing`.as('listing')])
    .select(sql<Search>`saved_searches.search`.as('search'))
    // Changes with whatever changes the row.
    .select(sql<string>`saved_search_hits.xmin::text`.as('version'))
    .where('search_id', '=', searchId)
    .where('saved_search_hits.told_at', 'is', null)
    .where(
      sql<boolean>`(search_changed or found_at < now() - make_interval(secs => ${RECENT_SECONDS}))`,
    )
    .orderBy('search_changed', 'desc')
    .orderBy('found_at', 'desc')
    .orderBy('listing_id', 'desc')
    .limit(limit)
    .execute();
  const finds = rows.map(
    ({ listing_id: listingId, kind, old_price: oldPrice, listing, version }) => ({
      hit: { listingId, kind, oldPrice, listing },
      version,
    }),
  );
  const [first] = rows;
  return first && { search: first.search, finds };
}

/**
 * Stores what finds are by now, and deletes those that are none any more. One that was told, or found anew, since it
 * was listed stays as it is.
 */
export function renewWaiting(
  db: Kysely<Tables>,
  {
    searchId,
    looked,
  }: {
    searchId: string;
    looked: readonly { listingId: number; version: string; now: Hit | undefined }[];
  },
): Promise<void> {
  const rows = looked.map(({ listingId, version, now }) => ({
    listing_id: listingId,
    version,
    old_price: now?.oldPrice ?? null,
    listing: now?.listing ?? null,
  }));
  return db.transaction().execute(async (trx) => {
    // Before what it has found, as whoever changes, tells or deletes it, or reads the feed, locks it.
    await sql`select from saved_searches where id = ${searchId} for no key update`.execute(trx);
    await sql`
    with looked as (
      select hits.listing_id, seen.old_price, seen.listing
      from jsonb_to_recordset(${storableJson(rows)}::jsonb) as seen
        (listing_id bigint, version text, old_price double precision, listing jsonb)
      join saved_search_hits as hits on hits.listing_id = seen.listing_id
        and hits.xmin::text = seen.version
      where hits.search_id = ${searchId} and hits.told_at is null
      for update of hits
    ), gone as (
      delete from saved_search_hits as hits using looked
      where hits.search_id = ${searchId} and hits.listing_id = looked.listing_id
        and looked.listing is null
    )
    update saved_search_hits as hits set listing = looked.listing, old_price = looked.old_price,
      search_changed = false
    from looked
    where hits.search_id = ${searchId} and hits.listing_id = looked.listing_id
      and looked.listing is not null`.execute(trx);
  });
}
