import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { ofListing, listingColumns } from './listing.ts';
import type { Provenance } from './provenance.ts';

/** What the API shows of a listing's own row; undefined where there is none. */
export function findListing(db: Kysely<Tables>, listingId: number) {
  return db
    .selectFrom('property_listings')
    .select([...listingColumns, 'duplicate_group'])
    .where('id', '=', listingId)
    .executeTakeFirst();
}

/** Where a listing's facts come from; undefined where that was never recorded. */
export async function findProvenance(
  db: Kysely<Tables>,
  listingId: number,
): Promise<(Omit<Provenance, 'raw_id'> & { raw_id: number | null }) | undefined> {
  const row = await db
    .selectFrom('listing_enrichments')
    // Only the pipeline writes it.
    .select(sql<Provenance>`value`.as('provenance'))
    .where('listing_id', '=', listingId)
    .where('kind', '=', 'provenance')
    .executeTakeFirst();
  return row && { ...row.provenance, raw_id: await findKeptPayload(db, listingId) };
}

/** The last payload that said what a listing says; null once it was removed. */
async function findKeptPayload(db: Kysely<Tables>, listingId: number): Promise<number | null> {
  const row = await db
    .selectFrom('property_listings as listing')
    .innerJoin('listing_payloads as current', ofListing)
    .innerJoin('raw_data as raw', 'raw.id', 'current.raw_id')
    .select('raw.id')
    .where('listing.id', '=', listingId)
    .executeTakeFirst();
  return row?.id ?? null;
}

/** Whether there is a listing, archived or not. */
export async function listingExists(db: Kysely<Tables>, listingId: number): Promise<boolean> {
  const row = await db
    .selectFrom('property_listings')
    .select('id')
    .where('id', '=', listingId)
    .executeTakeFirst();
  return row !== undefined;
}

/** Which snapshot of a listing: by its payload, and at which attempt that was read again. */
export type SnapshotKey = { rawId: number; revision: number };

/** A listing's snapshots, the newest first, from before the one that is named. */
export function listSnapshots(
  db: Kysely<Tables>,
  listingId: number,
  { limit, before }: { limit: number; before: SnapshotKey | undefined },
) {
  return db
    .selectFrom('listing_snapshots')
    .select(['raw_id', 'revision', 'listing', 'changes', 'model', 'prompt_version', 'created_at'])
    .where('listing_id', '=', listingId)
    .$if(before !== undefined, (query) =>
      query.where((eb) =>
        eb(
          eb.refTuple('raw_id', 'revision'),
          '<',
          eb.tuple(before?.rawId ?? 0, before?.revision ?? 0),
        ),
      ),
    )
    .orderBy('raw_id', 'desc')
    .orderBy('revision', 'desc')
    .limit(limit)
    .execute();
}

/**
 * A listing's pictures in their order, after the position `after`; one that could not be used has an
 * error and no facts.
 */
export function listImages(
  db: Kysely<Tables>,
  listingId: number,
  { limit, after }: { limit: number; after: number | undefined },
) {
  return db
    .selectFrom('listing_images')
    .leftJoin('images', 'images.sha256', 'listing_images.sha256')
    .select([
      'listing_images.position',
      'listing_images.url',
      'listing_images.sha256',
      'listing_images.error',
      'images.media_type',
      'images.width',
      'images.height',
      'images.bytes',
      'images.description',
      'images.room_type',
      'images.quality',
      'images.described_by',
      'images.prompt_version',
      'images.describe_error',
    ])
    .where('listing_images.listing_id', '=', listingId)
    .$if(after !== undefined, (query) => query.where('listing_images.position', '>', after ?? 0))
    .orderBy('listing_images.position')
    .limit(limit)
    .execute();
}
