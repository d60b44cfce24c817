import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import fc from 'fast-check';
import { sql } from 'kysely';
import { openDatabase } from '../support/pipeline.ts';
import {
  addListing,
  assertConsistent,
  change,
  FLAT,
  groupsOf,
  pairsOf,
  settle,
} from './harness.ts';

const { db } = await openDatabase();

beforeEach(async () => {
  await sql`truncate property_listings, images, duplicate_marks cascade`.execute(db);
});

const OTHER = { ...FLAT, area_total: 71.5, floor: 4, address: 'вул. Зелена, 5' };

test('two listings of one flat are a pair and a group; a third that is another is not', async () => {
  const one = await addListing(db);
  const other = await addListing(db, { ...FLAT, price: 91_000 });
  const third = await addListing(db, OTHER);
  await settle(db);
  assert.deepEqual(await pairsOf(db), [[one, other]]);
  assert.deepEqual(
    [...(await groupsOf(db))],
    [
      [one, one],
      [other, one],
      [third, null],
    ],
  );
});

test('a listing that becomes another leaves its group, and one that becomes the same joins', async () => {
  const ids = [await addListing(db), await addListing(db), await addListing(db)];
  await settle(db);
  const [one, two, three] = ids as [number, number, number];
  await change(db, one, { floor: 9 });
  await settle(db);
  assert.deepEqual([...(await groupsOf(db)).values()], [null, two, two]);
  await change(db, one, { floor: 3 });
  await change(db, three, { deal_type: 'rent' });
  await settle(db);
  assert.deepEqual([...(await groupsOf(db)).values()], [one, one, null]);
});

test('an archived listing is nobody\u2019s duplicate until it comes back', async () => {
  const one = await addListing(db);
  const two = await addListing(db);
  const three = await addListing(db);
  await settle(db);
  await change(db, one, { archived_at: new Date() });
  await settle(db);
  assert.deepEqual([...(await groupsOf(db)).values()], [null, two, two]);
  assert.deepEqual(await pairsOf(db), [[two, three]]);
  await change(db, one, { archived_at: null });
  await settle(db);
  assert.deepEqual([...(await groupsOf(db)).values()], [one, one, one]);
});

/** A row of flats, each like its neighbours in area, and too far from those behind them. */
const chain = async () => {
  const ids: number[] = [];
  for (const area_total of [54.3, 54.5, 54.7]) {
    ids.push(await addListing(db, { ...FLAT, area_total }));
  }
  return ids as [number, number, number];
};

test('what holds a group together takes it apart when it goes, however it goes', async () => {
  for (const go of ['archived', 'changed', 'deleted'] as const) {
    const [left, middle, right] = await chain();
    await db.updateTable('property_listings').set({ floors_total: 5 }).execute();
    await settle(db);
    assert.deepEqual(
      await pairsOf(db),
      [
        [left, middle],
        [middle, right],
      ],
      'the outer ones are no pair',
    );
    assert.deepEqual([...(await groupsOf(db)).values()], [left, left, left]);
    if (go === 'archived') await change(db, middle, { archived_at: new Date() });
    if (go === 'changed') await change(db, middle, { rooms: 5 });
    if (go === 'deleted') {
      await db.deleteFrom('property_listings').where('id', '=', middle).execute();
    }
    await settle(db);
    assert.ok(
      [...(await groupsOf(db)).values()].every((group) => group === null),
      go,
    );
    await db.deleteFrom('property_listings').execute();
  }
});

test('a group that loses its first listing for good goes by the next', async () => {
  const [one, two] = [await addListing(db), await addListing(db), await addListing(db)];
  await settle(db);
  await db.deleteFrom('property_listings').where('id', '=', one).execute();
  await settle(db);
  assert.deepEqual([...(await groupsOf(db)).values()], [two, two]);
});

/** Gives a listing one picture more. */
async function addPicture(listingId: number, sha256: string, fingerprint: string | null = null) {
  await sql`insert into images (sha256, media_type, width, height, bytes, fingerprint)
    values (${sha256}, 'image/jpeg', 8, 8, 1, ${fingerprint}) on conflict do nothing`.execute(db);
  await sql`insert into listing_images (listing_id, position, sha256)
    select ${listingId}::bigint, count(*), ${sha256} from listing_images
    where listing_id = ${listingId}`.execute(db);
}

const sha = (digit: number) => digit.toString(16).padStart(64, '0');

test('equal and similar pictures lead from one to the other, also where the city is not known', async () => {
  const facts = { deal_type: 'sale', rooms: 3, price: 100, currency: 'USD', floor: 2 };
  const one = await addListing(db, facts);
  const equal = await addListing(db, facts);
  const similar = await addListing(db, { ...facts, price: 109 });
  const none = await addListing(db, facts);
  const fingerprints = ['-6148914691236517206', '3689348814741910323', '1085102592571150095'];
  for (const [nth, print] of fingerprints.entries()) {
    await addPicture(one, sha(nth), print);
    await addPicture(equal, sha(nth), print);
    const near = BigInt.asIntN(64, BigInt(print) ^ 1n).toString();
    await addPicture(similar, sha(nth + 100), near);
  }
  await addPicture(none, sha(200), '81985529216486895');
  await settle(db);
  assert.deepEqual(await pairsOf(db), [
    [one, equal],
    [one, similar],
    [equal, similar],
  ]);
  assert.equal((await groupsOf(db)).get(none), null);
});

test('a fingerprint that is worked out later is looked at then', async () => {
  const facts = { deal_type: 'sale', rooms: 3, price: 100, currency: 'USD', floor: 2 };
  const [one, other] = [await addListing(db, facts), await addListing(db, facts)];
  for (const nth of [0, 1]) {
    await addPicture(one, sha(nth), `${nth + 5}000000000001`);
    await addPicture(other, sha(nth + 100));
  }
  await settle(db);
  assert.deepEqual(await pairsOf(db), []);
  for (const nth of [0, 1]) {
    await db
      .updateTable('images')
      .set({ fingerprint: `${nth + 5}000000000001` })
      .where('sha256', '=', sha(nth + 100))
      .execute();
  }
  await settle(db);
  assert.deepEqual(await pairsOf(db), [[one, other]]);
});

test('a text that was copied is found by its meaning, without a fact that agrees', async () => {
  const words =
    'продається затишна квартира поруч з парком високі стелі дубовий паркет тиха вулиця';
  const facts = { deal_type: 'sale', price: 50_000, currency: 'USD', rooms: 1, description: words };
  const vector = `[${Array.from({ length: 16 }, (_, nth) => nth + 1).join(',')}]`;
  const embedded = { ...facts, embedding: vector, embedding_model: 'mock' };
  const [one, other] = [await addListing(db, embedded), await addListing(db, embedded)];
  await settle(db);
  assert.deepEqual(await pairsOf(db), [[one, other]]);
  // Another model's vectors say nothing, and a vector alone is no reason.
  await addListing(db, { ...embedded, embedding_model: 'other' });
  await addListing(db, { ...embedded, description: 'зовсім інші слова про зовсім іншу квартиру' });
  await settle(db);
  assert.deepEqual(await pairsOf(db), [[one, other]]);
});

test('a listing that changes nothing of what is compared is not looked at', async () => {
  const id = await addListing(db);
  await settle(db);
  await change(db, id, { updated_at: new Date(), title: 'Another title' });
  const marks = await db.selectFrom('duplicate_marks').selectAll().execute();
  assert.deepEqual(marks, []);
});

test('the trigger of changed listings is asked for what it compares, and for nothing else', async () => {
  const { rows } = await sql<{ definition: string }>`
    select pg_get_triggerdef(oid) as definition from pg_trigger
    where tgname = 'duplicates_of_changed'`.execute(db);
  const [, named = '', compared = ''] =
    /UPDATE OF (.+?) ON .+? WHEN (.+)$/s.exec(rows[0]?.definition ?? '') ?? [];
  const columns = [...compared.matchAll(/old\.(\w+)/g)].map(([, column = '']) => column);
  assert.ok(columns.length > 10);
  assert.deepEqual(named.split(', ').toSorted(), [...new Set(columns)].toSorted());
});

type Step = { who: number; what: 'floor' | 'deal' | 'area' | 'archive' | 'delete' | 'look' };

const steps = fc.array(
  fc.record({
    who: fc.nat({ max: 5 }),
    what: fc.constantFrom<Step['what']>('floor', 'deal', 'area', 'archive', 'delete', 'look'),
  }),
  { minLength: 1, maxLength: 14 },
);

/** What a step makes of a value; twice it is as it was. */
const TOGGLES = {
  floor: sql`update property_listings set floor = case floor when 3 then 4 else 3 end`,
  deal: sql`update property_listings
    set deal_type = case deal_type when 'sale' then 'rent' else 'sale' end`,
  area: sql`update property_listings
    set area_total = case area_total when 54.3 then 54.5 when 54.5 then 54.7 else 54.3 end`,
  archive: sql`update property_listings
    set archived_at = case when archived_at is null then now() end`,
  delete: sql`delete from property_listings`,
};

test('any order of changes and looks ends in the groups that a look at everything makes', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      await sql`truncate property_listings, duplicate_marks cascade`.execute(db);
      const ids: number[] = [];
      for (const area_total of [54.3, 54.5, 54.7, 54.3, 54.5, 54.7]) {
        ids.push(await addListing(db, { ...FLAT, area_total }));
      }
      for (const { who, what } of all) {
        if (what === 'look') {
          await settle(db);
          await assertConsistent(db);
        } else {
          await sql`${TOGGLES[what]} where id = ${ids[who] ?? 0}`.execute(db);
        }
      }
      await settle(db);
      await assertConsistent(db);
      const [pairs, groups] = [await pairsOf(db), await groupsOf(db)];
      await sql`truncate duplicate_pairs`.execute(db);
      await sql`update property_listings set duplicate_group = null`.execute(db);
      await sql`insert into duplicate_marks (listing_id) select id from property_listings`.execute(
        db,
      );
      await settle(db);
      assert.deepEqual([await pairsOf(db), await groupsOf(db)], [pairs, groups]);
    }),
    { numRuns: 8 },
  );
});
