import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type RawBuilder, sql } from 'kysely';
import {
  alike,
  findCandidates,
  loadCompared,
  MAX_CANDIDATES,
  nearest,
  sameImages,
  similarImages,
} from '../../src/duplicates/candidates.ts';
import { openDatabase } from '../support/pipeline.ts';
import { addListing, FLAT } from './harness.ts';

const { db } = await openDatabase();

const LISTINGS = 3000;

/** Ten cities in which every listing is of one shape, floor and about one area, and shows one picture. */
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

/** What the query's plan reads: the indexes, and "Seq Scan" where it reads a whole table. */
async function reads(query: RawBuilder<unknown>, on: typeof db = db): Promise<string[]> {
  const { rows } = await sql<{ 'QUERY PLAN': [{ Plan: Plan }] }>`
    explain (format json) ${query}`.execute(on);
  const walk = (plan: Plan): string[] => [
    ...(plan['Node Type'] === 'Seq Scan' ? ['Seq Scan'] : []),
    ...(plan['Index Name'] === undefined ? [] : [plan['Index Name']]),
    ...(plan.Plans ?? []).flatMap(walk),
  ];
  return rows.flatMap((row) => row['QUERY PLAN'].flatMap(({ Plan: plan }) => walk(plan)));
}

const compared = async () => {
  const listing = (await loadCompared(db, [own])).get(own);
  assert.ok(listing);
  return listing;
};

test('each look for candidates goes by an index', async () => {
  const listing = await compared();
  const shapes = [listing, { ...listing, floor: null }, { ...listing, rooms: null }];
  for (const look of shapes.flatMap(alike)) {
    assert.deepEqual(await reads(look), ['property_listings_alike']);
  }
  for (const look of alike({ ...listing, price: null })) {
    // Few have no price, so the index of cities leads to them as well.
    assert.match(String(await reads(look)), /^property_listings_(alike|city)$/);
  }
  const same = await reads(sameImages(own));
  assert.ok(same.includes('listing_images_sha256') && !same.includes('Seq Scan'), String(same));
  const similar = await reads(similarImages(own));
  assert.ok(
    similar.includes('images_fingerprint') && !similar.includes('Seq Scan'),
    String(similar),
  );
  // None of these has a vector, and a table without any is as well read as a whole.
  await db.transaction().execute(async (trx) => {
    await sql`set local enable_seqscan = off`.execute(trx);
    const vector = `[${Array.from({ length: 16 }, () => 1).join(',')}]`;
    assert.deepEqual(await reads(nearest(vector), trx), ['property_listings_nearest']);
  });
});

test('where everything is alike only so much is compared, the nearest areas first', async () => {
  const listing = await compared();
  const candidates = await db.transaction().execute((trx) => findCandidates(trx, listing));
  const found = [...(await loadCompared(db, candidates)).values()];
  const areas = found.filter(({ floor }) => floor === 3).map((one) => one.area_total);
  const count = (area: number) => areas.filter((one) => one === area).length;
  // Of the same area there are 26, and as many of the next.
  assert.deepEqual([areas.length, count(54.3), count(54.4), count(54.5)], [60, 26, 26, 8]);
  // Those of which the floor is not known are fewer than the bound.
  assert.equal(found.length - areas.length, 42);
});

test('what has no place, no size and no pictures is compared with nobody', async () => {
  for (const unknown of [
    { city: null, city_key: null },
    { area_total: null },
    { deal_type: null },
  ]) {
    const id = await addListing(db, { ...FLAT, ...unknown });
    const listing = (await loadCompared(db, [id])).get(id);
    assert.ok(listing);
    assert.deepEqual(await db.transaction().execute((trx) => findCandidates(trx, listing)), []);
  }
});

test('of very many candidates those are compared that several looks have found', async () => {
  // Each of the listing's other pictures is shown by others, and one by an old listing that is alike too.
  const { id: twin } = await db
    .selectFrom('property_listings')
    .select('id')
    .where('city_key', '=', 'львів')
    .where('floor', '=', 3)
    .where('area_total', '=', 54.3)
    .where('id', '<>', own)
    .orderBy('id')
    .executeTakeFirstOrThrow();
  await sql`insert into images (sha256, media_type, width, height, bytes)
    select lpad(to_hex(100000 + n), 64, '0'), 'image/jpeg', 1, 1, 1 from generate_series(2, 19) as n`.execute(
    db,
  );
  await sql`insert into listing_images (listing_id, position, sha256)
    select ${own}::bigint, n, lpad(to_hex(100000 + n), 64, '0') from generate_series(2, 19) as n
    union all
    select id, 2, lpad(to_hex(100000 + 2 + nth % 18), 64, '0')
    from (select id, row_number() over (order by id desc)::integer as nth from property_listings
      where id not in (${own}, ${twin}) and city_key <> 'львів' limit 18 * 19) as other
    union all
    select ${twin}::bigint, 2, lpad(to_hex(100002), 64, '0')`.execute(db);
  const candidates = await findCandidates(db, await compared());
  assert.equal(candidates.length, MAX_CANDIDATES);
  assert.equal(new Set(candidates).size, candidates.length);
  assert.ok(candidates.includes(twin));
});
