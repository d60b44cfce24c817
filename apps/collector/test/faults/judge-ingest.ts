import assert from 'node:assert/strict';
import type { Kysely } from 'kysely';
import type { Tables } from '../../src/tables.ts';
import { countRaws } from './count-raws.ts';
import { type LoadResult, uploadsOf } from './ingest-load.ts';

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
