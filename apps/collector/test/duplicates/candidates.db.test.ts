import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type RawBuilder, sql } from 'kysely';
import {
  buildSimilarFactsQueries,
  findCandidates,
  loadComparedListings,
  buildNearestQuery,
  buildSameImagesQuery,
  buildSimilarImagesQuery,
} from '../../src/duplicates/candidates.ts';
import { openDatabase } from '../support/pipeline.ts';
import { addListing, FLAT } from './harness.ts';

const { db } = await openDatabase();

const LISTINGS = 3000;

// Ten cities in which every listing has one shape, one floor, about one area and one common image.
const own = await addListing(db);
await sql`
  insert into property_listings (source_slug, external_id, description, search_text, phones,
    deal_type, city_key, rooms, area_total, floor, price, currency)
  select 'doshka', 'many-' || n, '', '', '{}', 'sale', case n % 10 when 0 then 'львів' else 'місто ' || n % 10 end, 2, 54.3 + (n % 100) / 100.0,
    case when n % 7 > 0 then 3 end,
    87000 + n % 50, 'USD'
  from generate_series(1, ${LISTINGS}) as n`.execute(db);
await sql`
  insert into images (sha256, media_type, width, height, bytes, fingerprint)
  select lpad(to_hex(n), 64, '0'), 'image/jpeg', 1, 1, 1, hashint8extended(n, 0)
  from generate_series(1, ${LISTINGS + 2}) as n`.execute(db);
await sql`
  insert into listing_images (listing_id, position, sha256)
  select id, 0, lpad(to_hex(1), 64, '0') from property_listings
  union all
  select id, 1, lpad(to_hex(1 + row_number() over (order by id)), 64, '0')
  from property_listings`.execute(db);
await sql`analyze`.execute(db);

type Plan = { 'Node Type': string; 'Index Name'?: string; Plans?: Plan[] };

/** Returns the indexes that a query's plan reads, and "Seq Scan" where it reads a whole table. */
async function indexesOf(query: RawBuilder<unknown>, on: typeof db = db): Promise<string[]> {
  const { rows } = await sql<{ 'QUERY PLAN': [{ Plan: Plan }] }>`
    explain (format json) ${query}`.execute(on);
  const walk = (plan: Plan): string[] => [
    ...(plan['Node Type'] === 'Seq Scan' ? ['Seq Scan'] : []),
    ...(plan['Index Name'] === undefined ? [] : [plan['Index Name']]),
    ...(plan.Plans ?? []).flatMap(walk),
  ];
  return rows.flatMap((row) => row['QUERY PLAN'].flatMap(({ Plan: plan }) => walk(plan)));
}

const loadOwn = async () => {
  const listing = (await loadComparedListings(db, [own])).get(own);
  assert.ok(listing);
  return listing;
};

test('Each query for candidates uses an index', async () => {
  const listing = await loadOwn();
  const shapes = [listing, { ...listing, floor: null }, { ...listing, rooms: null }];
  for (const query of shapes.flatMap(buildSimilarFactsQueries)) {
    assert.deepEqual(await indexesOf(query), ['property_listings_alike']);
  }
  for (const query of buildSimilarFactsQueries({ ...listing, price: null })) {
    // Few listings have no price, so the planner may choose the index of cities.
    assert.match(String(await indexesOf(query)), /^property_listings_(alike|city)$/);
  }
  const same = await indexesOf(buildSameImagesQuery(own));
  assert.ok(same.includes('listing_images_sha256') && !same.includes('Seq Scan'), String(same));
  const similar = await indexesOf(buildSimilarImagesQuery(own));
  assert.ok(
    similar.includes('images_fingerprint') && !similar.includes('Seq Scan'),
    String(similar),
  );
  // No listing has a vector here, so the planner would read the table.
  await db.transaction().execute(async (trx) => {
    await sql`set local enable_seqscan = off`.execute(trx);
    const vector = `[${Array.from({ length: 16 }, () => 1).join(',')}]`;
    assert.deepEqual(await indexesOf(buildNearestQuery(vector), trx), [
      'property_listings_nearest',
    ]);
  });
});

test('The nearest areas are compared when all listings are alike', async () => {
  const listing = await loadOwn();
  const candidates = await db.transaction().execute((trx) => findCandidates(trx, listing));
  const found = [...(await loadComparedListings(db, candidates)).values()];
  const areas = found.filter(({ floor }) => floor === 3).map((one) => one.area_total);
  const count = (area: number) => areas.filter((one) => one === area).length;
  // There are 26 of the same area and as many of the next.
  assert.deepEqual([areas.length, count(54.3), count(54.4), count(54.5)], [60, 26, 26, 8]);
  // Fewer than the bound have an unknown floor.
  assert.equal(found.length - areas.length, 42);
});

test('A listing without place, size and images has no candidates', async () => {
  for (const unknown of [
    { city: null, city_key: null },
    { area_total: null },
    { deal_type: null },
  ]) {
    const id = await addListing(db, { ...FLAT, ...unknown });
    const listing = (await loadComparedListings(db, [id])).get(id);
    assert.ok(listing);
    assert.deepEqual(await db.transaction().execute((trx) => findCandidates(trx, listing)), []);
  }
});
