import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import {
  startDuplicateSearch,
  claimMarks,
  registerDuplicateMetrics,
} from '../../src/duplicates/duplicates.ts';
import { MAX_GROUP } from '../../src/duplicates/groups.ts';
import { until } from '@oselya/testing';
import { openDatabase, log } from '../support/pipeline.ts';
import { addListing, FLAT, groupsOf, pairsOf, settle } from './harness.ts';

const { db } = await openDatabase();

beforeEach(async () => {
  await sql`truncate property_listings, images, duplicate_marks cascade`.execute(db);
});

const marksLeft = async () =>
  (await db.selectFrom('duplicate_marks').select('listing_id').execute()).length;

/** Starts to look, at what changed just now too. */
function startSearch(
  warnings: object[] = [],
  onLook: (labels: unknown) => void = () => undefined,
  through: typeof db = db,
) {
  return startDuplicateSearch({
    db: through,
    metrics: { duplicateLooks: { inc: onLook } },
    log: Object.assign(Object.create(log), { warn: (fields: object) => warnings.push(fields) }),
    intervalMs: 5,
    settledMs: 0,
  });
}

test('what was there before is caught up with, however many processes look', async () => {
  for (let nth = 0; nth < 70; nth += 1) await addListing(db, { ...FLAT, floor: nth % 35 });
  const searches = [startSearch(), startSearch()];
  await until('all are looked at', async () => (await marksLeft()) === 0);
  await Promise.all(searches.map(({ close }) => close()));
  assert.equal((await pairsOf(db)).length, 35);
  const groups = [...(await groupsOf(db)).values()];
  assert.equal(new Set(groups).size, 35);
  assert.ok(groups.every((group) => group !== null));
});

test('a look that fails is made again, and others go on meanwhile', async () => {
  await sql`create or replace function fail_once() returns trigger language plpgsql as $$
    begin raise exception 'no'; end $$`.execute(db);
  await sql`create trigger fails before insert on duplicate_pairs
    for each row execute function fail_once()`.execute(db);
  const [one, other] = [await addListing(db), await addListing(db)];
  await addListing(db, { ...FLAT, floor: 9 });
  const warnings: object[] = [];
  const search = startSearch(warnings);
  await until('both have failed, and the third was looked at', async () => {
    return warnings.length === 2 && (await marksLeft()) === 2;
  });
  assert.deepEqual(await pairsOf(db), []);
  await sql`drop trigger fails on duplicate_pairs`.execute(db);
  // Their minute has passed.
  await sql`update duplicate_marks set claimed_until = now()`.execute(db);
  await until('they are looked at again', async () => (await marksLeft()) === 0);
  await search.close();
  assert.deepEqual(await pairsOf(db), [[one, other]]);
});

test('the last change comes first, one that just happened is waited with, and a claim holds', async () => {
  const ids = [await addListing(db), await addListing(db), await addListing(db)];
  const claim = { limit: 2, settledMs: 0, leaseMs: 60_000 };
  assert.deepEqual(await claimMarks(db, { ...claim, settledMs: 60_000 }), []);
  const listings = async () => (await claimMarks(db, claim)).map(({ listingId }) => listingId);
  assert.deepEqual(await listings(), [ids[2], ids[1]]);
  assert.deepEqual(await listings(), [ids[0]]);
  assert.deepEqual(await listings(), []);
});

test('a look that fails again and again is made ever more rarely, and is counted', async () => {
  await addListing(db);
  const registry = new Registry();
  registerDuplicateMetrics(registry, { db, onError: assert.ifError });
  const counted = async (state: string) => {
    const metric = await registry.getSingleMetric('collector_duplicate_marks')?.get();
    return metric?.values.find(({ labels }) => labels['state'] === state)?.value;
  };
  assert.deepEqual([await counted('waiting'), await counted('retried')], [1, 0]);
  const pauses: number[] = [];
  for (let nth = 0; nth < 9; nth += 1) {
    const [claimed] = await claimMarks(db, { limit: 1, settledMs: 0, leaseMs: 60_000 });
    assert.ok(claimed);
    const { rows } = await sql<{ minutes: number }>`
      select round(extract(epoch from claimed_until - now()) / 60)::integer as minutes
      from duplicate_marks`.execute(db);
    pauses.push(rows[0]?.minutes ?? 0);
    await sql`update duplicate_marks set claimed_until = now()`.execute(db);
  }
  assert.deepEqual(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
  assert.deepEqual([await counted('waiting'), await counted('retried')], [0, 1]);
});

test('a group takes so many and no more, and whoever comes later stays by itself', async () => {
  const first = await addListing(db);
  await sql`insert into property_listings
      (source_slug, external_id, description, search_text, deal_type, city_key, rooms, area_total, floor)
    select 'doshka', 'copy-' || n, '', '', 'sale', 'львів', 9, 100 + n / 1000.0, 1
    from generate_series(2, ${MAX_GROUP}::integer) as n`.execute(db);
  await sql`update property_listings set duplicate_group = ${first}::bigint`.execute(db);
  await sql`insert into duplicate_pairs (low_id, high_id, score, reasons)
    select ${first}::bigint, id, 1, '[]' from property_listings where id <> ${first}`.execute(db);
  await sql`truncate duplicate_marks`.execute(db);
  const late = await addListing(db);
  await settle(db);
  assert.deepEqual(
    (await pairsOf(db)).filter((pair) => pair.includes(late)),
    [[first, late]],
  );
  const groups = await groupsOf(db);
  assert.equal(groups.get(late), null);
  assert.equal([...groups.values()].filter((group) => group === first).length, MAX_GROUP);
  // With one of them gone there is room, and a look at the late one takes it in.
  const leaver = [...groups.keys()].find((id) => id !== first && id !== late);
  await sql`delete from duplicate_pairs where high_id = ${leaver}`.execute(db);
  await sql`update property_listings set duplicate_group = null where id = ${leaver}`.execute(db);
  await sql`insert into duplicate_marks (listing_id) values (${late})`.execute(db);
  await settle(db);
  assert.equal((await groupsOf(db)).get(late), first);
});

test('changes of one listing are one look', async () => {
  const id = await addListing(db);
  await sql`update property_listings set floor = 4`.execute(db);
  const [claimed] = await claimMarks(db, { limit: 10, settledMs: 0, leaseMs: 0 });
  assert.equal(claimed?.listingId, id);
  assert.equal(claimed.marks.length, 2);
});

test('a listing with hundreds of pairs is looked at in parts, and all of them end right', async () => {
  const hub = await addListing(db);
  await sql`insert into property_listings
      (source_slug, external_id, description, search_text, deal_type)
    select 'doshka', 'many-' || n, '', '', 'sale' from generate_series(1, 230) as n`.execute(db);
  await sql`truncate duplicate_marks`.execute(db);
  await sql`insert into duplicate_pairs (low_id, high_id, score, reasons)
    select ${hub}::bigint, id, 1, '[]' from property_listings where id <> ${hub}`.execute(db);
  await sql`update property_listings set duplicate_group = ${hub}::bigint`.execute(db);
  await sql`insert into duplicate_marks (listing_id) values (${hub})`.execute(db);
  await settle(db);
  assert.deepEqual(await pairsOf(db), []);
  assert.deepEqual([...new Set((await groupsOf(db)).values())], [null]);
});
