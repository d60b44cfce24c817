import { retryConflicts } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import { pause } from '../async/wait.ts';
import { FIELD_NAMES } from '../listing/fields.ts';
import type { Tables } from '../tables.ts';
import { createStems, STEMS_VERSION } from './listing-stems.ts';

/** Number of listings per transaction, which locks them. */
const BATCH_SIZE = 100;

/**
 * Computes the stems of listings that have none or those of another version, in batches until the signal aborts. Workers
 * may be active, and a later run resumes an interrupted one.
 * @returns The number of listings.
 */
export async function computeStoredStems(db: Kysely<Tables>, signal: AbortSignal): Promise<number> {
  let listingCount = 0;
  while (!signal.aborted) {
    const startedAt = performance.now();
    const batchSize = await retryConflicts(() => db.transaction().execute(computeBatch));
    if (batchSize === 0) break;
    listingCount += batchSize;
    // Leave half of the time to searches and workers.
    await pause(performance.now() - startedAt, signal);
  }
  return listingCount;
}

/** Computes the stems of the first outdated listings, except those that a worker has locked. */
async function computeBatch(trx: Kysely<Tables>): Promise<number> {
  const listings = await trx
    .selectFrom('property_listings')
    .select(['id', ...FIELD_NAMES, 'place_path', 'place_text'])
    .where('id', 'in', (eb) =>
      eb
        .selectFrom('listing_index')
        .select('id')
        .where('stems_version', '<', STEMS_VERSION)
        .limit(BATCH_SIZE),
    )
    .forNoKeyUpdate()
    .skipLocked()
    .execute();
  if (listings.length === 0) return 0;
  const rows = listings.map(({ published_at: _time, ...listing }) => ({
    id: listing.id,
    stems: createStems(listing),
  }));
  await sql`
    update listing_index set stems = computed.stems::tsvector, stems_version = ${STEMS_VERSION}
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as computed (id bigint, stems text)
    where listing_index.id = computed.id`.execute(trx);
  return listings.length;
}
