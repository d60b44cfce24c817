import { retryConflicts } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import { pause } from '../async/wait.ts';
import { FIELD_NAMES } from '../listing/fields.ts';
import { buildSearchText } from '../pipeline/listing-state.ts';
import type { Tables } from '../tables.ts';
import { getPlaceKeys, resolveListingPlace } from './listing-place.ts';

/** Number of listings per transaction, which locks them. */
const BATCH_SIZE = 100;

/**
 * Resolves the places of listings from before migration 0028 in batches until the signal aborts. Workers may be active,
 * and a later run resumes an interrupted one. A listing has neither a snapshot nor a change of this, because its source
 * sent nothing new.
 * @returns The number of listings.
 */
export async function resolveStoredPlaces(
  db: Kysely<Tables>,
  signal: AbortSignal,
): Promise<number> {
  let listingCount = 0;
  while (!signal.aborted) {
    const startedAt = performance.now();
    const batchSize = await retryConflicts(() => db.transaction().execute(resolveBatch));
    if (batchSize === 0) break;
    listingCount += batchSize;
    // Leave half of the time to searches and workers.
    await pause(performance.now() - startedAt, signal);
  }
  return listingCount;
}

/** Resolves the places of the first listings without a place status, except those that a worker has locked. */
async function resolveBatch(trx: Kysely<Tables>): Promise<number> {
  const listings = await trx
    .selectFrom('property_listings')
    .select(['id', ...FIELD_NAMES])
    .where('place_status', 'is', null)
    .orderBy('id')
    .limit(BATCH_SIZE)
    .forNoKeyUpdate()
    .skipLocked()
    .execute();
  if (listings.length === 0) return 0;
  const rows = listings.map(({ published_at: _time, ...listing }) => {
    const { columns, city, district } = resolveListingPlace(listing);
    return {
      id: listing.id,
      city,
      district,
      ...columns,
      ...getPlaceKeys({ city, district }),
      search_text: buildSearchText({ ...listing, city, district }, columns.place_text),
    };
  });
  await sql`
    update property_listings set
      city = resolved.city, city_key = resolved.city_key,
      district = resolved.district, district_key = resolved.district_key,
      place_id = resolved.place_id, place_path = resolved.place_path,
      place_text = resolved.place_text, place_status = resolved.place_status,
      search_text = resolved.search_text
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as resolved (
      id bigint, city text, city_key text, district text, district_key text, place_id integer,
      place_path integer[], place_text text, place_status text, search_text text)
    where property_listings.id = resolved.id`.execute(trx);
  return listings.length;
}
