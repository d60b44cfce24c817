import assert from 'node:assert/strict';
import { until } from '@oselya/testing';
import { sql, type Kysely } from 'kysely';
import type { Tables } from '../../src/tables.ts';
import { type LoadResult, uploadsOf } from './load.ts';

/** Stored state of one source, or of all sources. */
export type RawCounts = {
  stored: number;
  /** Payloads with a requested id. */
  known: number;
  unfinished: number;
  /** Payloads in each valid state with its fields. */
  completed: number;
  invalid: number;
  failed: number;
  /** Payloads with an open claim. */
  held: number;
  /** Listings, and listings that match their newest completed payload. */
  listings: number;
  current: number;
  /** Expected listings. */
  named: number;
};

/** Counts the ended payloads and matching listings in one query. */
export async function countRaws(
  db: Kysely<Tables>,
  { source, ids }: { source?: string; ids: Iterable<number> },
): Promise<RawCounts> {
  const own = source === undefined ? sql`true` : sql`source_slug = ${source}`;
  const { rows } = await sql<RawCounts>`
    with raw as materialized (select * from raw_data where ${own}),
    newest as (
      select source_slug, external_id, max(id) as raw_id from raw
      where status = 'completed' group by 1, 2)
    select count(*) as stored,
      count(*) filter (where id = any(${[...ids]}::bigint[])) as known,
      count(*) filter (where status in ('pending', 'processing')) as unfinished,
      count(*) filter (where status = 'completed' and error is null and listing_id is not null) as completed,
      count(*) filter (where status = 'invalid' and error ->> 'code' = 'not_a_listing') as invalid,
      count(*) filter (where status = 'failed' and error is not null) as failed,
      count(*) filter (where claimed_by is not null or lease_expires_at is not null) as held,
      (select count(*) from property_listings where ${own}) as listings,
      (select count(*) from listing_payloads join newest using (source_slug, external_id, raw_id))
        as current,
      (select count(*) from newest) as named
    from raw`.execute(db);
  const [counts] = rows;
  assert.ok(counts !== undefined);
  return counts;
}

/** Waits until every payload has ended in any status. */
export async function untilEnded(db: Kysely<Tables>, patienceMs: number): Promise<void> {
  const left = db
    .selectFrom('raw_data')
    .select('id')
    .where('status', 'in', ['pending', 'processing'])
    .limit(1);
  await until(
    'all payloads to end',
    async () => (await left.executeTakeFirst()) === undefined,
    patienceMs,
  );
}

/** Errors of a payload with images after which its record stays failed. */
const CUT_SHORT = new Set(['interrupted', 'lease_lost']);

/**
 * Checks the stored state after a load: each accepted payload is stored once under its returned id and
 * completed without a retry. The listings match the newest
 * payloads and have all their images.
 * @param mostAttempts The maximum number of attempts of a job.
 * @returns The highest number of attempts of one job.
 */
export async function judgeIngest(
  db: Kysely<Tables>,
  { source, result, mostAttempts }: { source: string; result: LoadResult; mostAttempts: number },
): Promise<number> {
  assert.deepEqual(result.wrong, []);
  const { accepted } = result;
  const stored = await rawsOf(db, source);
  assert.equal(stored.length, accepted.size, 'one record for each key');
  assert.deepEqual(new Map(stored.map(({ idempotency_key: key, id }) => [key, id])), accepted);
  const counts = await countRaws(db, { source, ids: accepted.values() });
  assert.deepEqual(counts, {
    stored: accepted.size,
    known: accepted.size,
    unfinished: 0,
    completed: accepted.size,
    invalid: 0,
    failed: 0,
    held: 0,
    listings: counts.named,
    current: counts.named,
    named: counts.named,
  });
  const most = Math.max(...stored.map(({ attempts }) => attempts));
  assert.ok(most <= mostAttempts, `an outage cost a job attempts: it had ${most}`);
  // A constant image, and an image of the newest payload.
  assert.deepEqual(await countImages(db, source), { listings: counts.named, images: 2 });
  await judgeUploads(db, uploadsOf(source), result.uploaded);
  return most;
}

/** Checks that each processed payload is stored once under its returned id. */
async function judgeUploads(
  db: Kysely<Tables>,
  source: string,
  uploaded: ReadonlyMap<string, number>,
): Promise<void> {
  assert.ok(uploaded.size > 0, 'payloads came with their images');
  const raws = await rawsOf(db, source);
  const completed = raws.filter(({ status }) => status === 'completed');
  assert.deepEqual(
    completed.map(({ id }) => id),
    [...uploaded.values()].toSorted((one, other) => one - other),
  );
  const others = raws.filter(({ status }) => status !== 'completed');
  const wrong = others.filter(
    ({ status, error }) => status !== 'failed' || !CUT_SHORT.has(error?.code ?? ''),
  );
  assert.deepEqual(wrong, []);
  assert.deepEqual(await countImages(db, source), { listings: uploaded.size, images: 1 });
}

function rawsOf(db: Kysely<Tables>, source: string) {
  return db
    .selectFrom('raw_data')
    .select(['idempotency_key', 'id', 'attempts', 'status', 'error'])
    .where('source_slug', '=', source)
    .orderBy('id')
    .execute();
}

/** Counts the listings with images of a source and the images of each; none may be missing. */
async function countImages(db: Kysely<Tables>, source: string) {
  const rows = await db
    .selectFrom('listing_images')
    .innerJoin('property_listings', 'property_listings.id', 'listing_images.listing_id')
    .innerJoin('images', 'images.sha256', 'listing_images.sha256')
    .select(['listing_id', (eb) => eb.fn.countAll<number>().as('images')])
    .where('source_slug', '=', source)
    .where('described_by', 'is not', null)
    .where('error', 'is', null)
    .groupBy('listing_id')
    .execute();
  const [images, ...others] = new Set(rows.map((row) => row.images));
  assert.deepEqual(others, [], 'all listings have equally many images');
  return { listings: rows.length, images };
}

/** Reads the listings of a source without ids and times. */
export async function storedListings(db: Kysely<Tables>, source: string) {
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
