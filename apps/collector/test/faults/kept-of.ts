import type { Kysely } from 'kysely';
import type { Tables } from '../../src/tables.ts';

/** What is kept of a source's listings, without ids and times. */
export async function keptOf(db: Kysely<Tables>, source: string) {
  const raws = await db
    .selectFrom('raw_data')
    .select([
      'id',
      'external_id',
      'status',
      'error',
      'claimed_by',
      'lease_expires_at',
      'listing_id',
    ])
    .where('source_slug', '=', source)
    .orderBy('id')
    .execute();
  const order = new Map(raws.map(({ id }, index) => [id, index]));
  const listings = await db
    .selectFrom('property_listings')
    .innerJoin('listing_payloads as current', (on) =>
      on
        .onRef('current.source_slug', '=', 'property_listings.source_slug')
        .onRef('current.external_id', '=', 'property_listings.external_id'),
    )
    .selectAll('property_listings')
    .select(['raw_id', 'completed_hash'])
    .where('property_listings.source_slug', '=', source)
    .orderBy('property_listings.external_id')
    .execute();
  const snapshots = await db
    .selectFrom('listing_snapshots')
    .innerJoin('property_listings', 'property_listings.id', 'listing_snapshots.listing_id')
    .select([
      'external_id',
      'listing_snapshots.raw_id',
      'revision',
      'listing',
      'changes',
      'model',
      'prompt_version',
    ])
    .where('source_slug', '=', source)
    .orderBy('listing_snapshots.raw_id')
    .execute();
  const enrichments = await db
    .selectFrom('listing_enrichments')
    .innerJoin('property_listings', 'property_listings.id', 'listing_enrichments.listing_id')
    .select(['external_id', 'kind', 'value'])
    .where('source_slug', '=', source)
    .orderBy('external_id')
    .orderBy('kind')
    .execute();
  const images = await db
    .selectFrom('listing_images')
    .innerJoin('property_listings', 'property_listings.id', 'listing_images.listing_id')
    .select(['external_id', 'position', 'listing_images.url', 'sha256', 'error'])
    .where('source_slug', '=', source)
    .orderBy('external_id')
    .orderBy('position')
    .execute();
  const same = { id: 0, source_slug: '', created_at: null, updated_at: null, completed_hash: null };
  const kept = {
    raws: raws.map((raw) => ({ ...raw, id: 0, listing_id: raw.listing_id !== null })),
    listings: listings.map(({ raw_id, ...listing }) => ({
      ...listing,
      ...same,
      raw: order.get(raw_id),
      is_complete: listing.completed_hash !== null,
    })),
    snapshots: snapshots.map(({ raw_id, ...snapshot }) => ({
      ...snapshot,
      raw: order.get(raw_id),
    })),
    images,
    enrichments: enrichments.map(({ value, ...enrichment }) => ({
      ...enrichment,
      value: { ...value, raw_id: order.get(Number(value['raw_id'])) },
    })),
  };
  return JSON.parse(JSON.stringify(kept)) as typeof kept;
}
