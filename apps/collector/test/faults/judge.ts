import assert from 'node:assert/strict';
import { until } from '@oselya/testing';
import { sql, type Kysely } from 'kysely';
import type { Tables } from '../../src/tables.ts';
import { type LoadResult, uploadsOf } from './load.ts';

/** What is stored of one source, or of all. */
export type RawCounts = {
  stored: number;
  /** Of those that were asked for by id. */
  known: number;
  unfinished: number;
  /** Those of each right state, with what belongs to it. */
  completed: number;
  invalid: number;
  failed: number;
  /** Those that somebody claims still to work on. */
  held: number;
  /** Listings, and those of them that were made from the newest completed payload of theirs. */
  listings: number;
  current: number;
  /** Listings that there should be. */
  named: number;
};

/** Counts in one look how payloads ended, and whether the listings are what they make. */
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

/** Waits until every payload has ended, however. */
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

/** What a payload with its picture may have met, whose record then stays as it ended. */
const CUT_SHORT = new Set(['interrupted', 'lease_lost']);

/**
 * Judges what is stored when all payloads of a load have ended: each that was accepted is there once, under
 * the id that was answered, and completed, without anybody's putting it back; the listings are what the newest
 * payloads make, with all their pictures.
 * @param mostAttempts How many attempts a job may have been counted.
 * @returns How many attempts were counted of one job, at most.
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
  // One that stays, and one of the newest payload.
  assert.deepEqual(await picturesOf(db, source), { listings: counts.named, pictures: 2 });
  await judgeUploads(db, uploadsOf(source), result.uploaded);
  return most;
}

/** Each that was answered as processed is, under the id that was answered, and none is there twice. */
async function judgeUploads(
  db: Kysely<Tables>,
  source: string,
  uploaded: ReadonlyMap<string, number>,
): Promise<void> {
  assert.ok(uploaded.size > 0, 'payloads came with their pictures');
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
  assert.deepEqual(await picturesOf(db, source), { listings: uploaded.size, pictures: 1 });
}

function rawsOf(db: Kysely<Tables>, source: string) {
  return db
    .selectFrom('raw_data')
    .select(['idempotency_key', 'id', 'attempts', 'status', 'error'])
    .where('source_slug', '=', source)
    .orderBy('id')
    .execute();
}

/** How many listings of a source have pictures, and how many each of them has; none may be missing. */
async function picturesOf(db: Kysely<Tables>, source: string) {
  const rows = await db
    .selectFrom('listing_images')
    .innerJoin('property_listings', 'property_listings.id', 'listing_images.listing_id')
    .innerJoin('images', 'images.sha256', 'listing_images.sha256')
    .select(['listing_id', (eb) => eb.fn.countAll<number>().as('pictures')])
    .where('source_slug', '=', source)
    .where('described_by', 'is not', null)
    .where('error', 'is', null)
    .groupBy('listing_id')
    .execute();
  const [pictures, ...others] = new Set(rows.map((row) => row.pictures));
  assert.deepEqual(others, [], 'all listings have as many pictures');
  return { listings: rows.length, pictures };
}

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
