import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import {
  claimMarks,
  registerDuplicateMetrics,
  startDuplicateSearch,
  updatePairs,
} from '../../src/duplicates/duplicates.ts';
import { findComponents, type DuplicatePair, MAX_GROUP_SIZE } from '../../src/duplicates/groups.ts';
import { until } from '@oselya/testing';
import { addListing, change, FLAT, groupsOf, pairsOf, settle } from './harness.ts';
import { log, openDatabase } from '../support/pipeline.ts';

const { db, engine } = await openDatabase();

beforeEach(async () => {
  await sql`truncate property_listings, images, duplicate_marks cascade`.execute(db);
});

const groups = async () => [...(await groupsOf(db)).values()];

test('Two listings of one flat are a pair and a group, and another flat is not in it', async () => {
  const one = await addListing(db);
  const other = await addListing(db, { ...FLAT, price: 91_000 });
  await addListing(db, { ...FLAT, area_total: 71.5, floor: 4, address: 'вул. Зелена, 5' });
  await settle(db);
  assert.deepEqual(await pairsOf(db), [[one, other]]);
  assert.deepEqual(await groups(), [one, one, null]);
});

test('A listing leaves its group when its facts change or it is archived, and joins it again', async () => {
  const ids = [await addListing(db), await addListing(db), await addListing(db)];
  await settle(db);
  const [one = 0, two = 0, three = 0] = ids;
  for (const [leave, join] of [
    [{ floor: 9 }, { floor: 3 }],
    [{ deal_type: 'rent' }, { deal_type: 'sale' }],
    [{ archived_at: new Date() }, { archived_at: null }],
  ] as const) {
    await change(db, one, leave);
    await settle(db);
    assert.deepEqual(await groups(), [null, two, two]);
    assert.deepEqual(await pairsOf(db), [[two, three]]);
    await change(db, one, join);
    await settle(db);
    assert.deepEqual(await groups(), [one, one, one]);
  }
  await db.deleteFrom('property_listings').where('id', '=', one).execute();
  await settle(db);
  assert.deepEqual(await groups(), [two, two]);
});

test('A group splits when the listing between two others leaves', async () => {
  for (const leave of [{ archived_at: new Date() }, { rooms: 5 }, 'delete'] as const) {
    const ids: number[] = [];
    for (const area_total of [54.3, 54.5, 54.7]) {
      ids.push(await addListing(db, { ...FLAT, area_total }));
    }
    const [left = 0, middle = 0, right = 0] = ids;
    await settle(db);
    const pairs = [
      [left, middle],
      [middle, right],
    ];
    assert.deepEqual(await pairsOf(db), pairs, 'the outer ones are no pair');
    assert.deepEqual(await groups(), [left, left, left]);
    if (leave !== 'delete') await change(db, middle, leave);
    else await db.deleteFrom('property_listings').where('id', '=', middle).execute();
    await settle(db);
    assert.deepEqual(new Set(await groups()), new Set([null]));
    await db.deleteFrom('property_listings').execute();
  }
});

/** Adds an image to a listing. */
async function addImage(listingId: number, sha256: string, fingerprint: string | null = null) {
  await sql`insert into images (sha256, media_type, width, height, bytes, fingerprint)
    values (${sha256}, 'image/jpeg', 8, 8, 1, ${fingerprint}) on conflict do nothing`.execute(db);
  await sql`insert into listing_images (listing_id, position, sha256)
    select ${listingId}::bigint, count(*), ${sha256} from listing_images
    where listing_id = ${listingId}`.execute(db);
}

const sha = (digit: number) => digit.toString(16).padStart(64, '0');

test('Equal and similar images lead to duplicates without a known city, also when fingerprints come later', async () => {
  const facts = { deal_type: 'sale', rooms: 3, price: 100, currency: 'USD', floor: 2 };
  const one = await addListing(db, facts);
  const equal = await addListing(db, facts);
  const similar = await addListing(db, { ...facts, price: 109 });
  const none = await addListing(db, facts);
  const fingerprints = ['-6148914691236517206', '3689348814741910323', '1085102592571150095'];
  for (const [nth, print] of fingerprints.entries()) {
    await addImage(one, sha(nth), print);
    await addImage(equal, sha(nth), print);
    await addImage(similar, sha(nth + 100));
  }
  await addImage(none, sha(200), '81985529216486895');
  await settle(db);
  assert.deepEqual(await pairsOf(db), [[one, equal]]);
  for (const [nth, print] of fingerprints.entries()) {
    const near = BigInt.asIntN(64, BigInt(print) ^ 1n).toString();
    await sql`update images set fingerprint = ${near} where sha256 = ${sha(nth + 100)}`.execute(db);
  }
  await settle(db);
  assert.deepEqual(await pairsOf(db), [
    [one, equal],
    [one, similar],
    [equal, similar],
  ]);
  assert.equal((await groupsOf(db)).get(none), null);
});

test('A copied text is found by its meaning without an equal fact', async () => {
  const words =
    'продається затишна квартира поруч з парком високі стелі дубовий паркет тиха вулиця';
  const facts = { deal_type: 'sale', price: 50_000, currency: 'USD', rooms: 1, description: words };
  const vector = `[${Array.from({ length: 16 }, (_, nth) => nth + 1).join(',')}]`;
  const embedded = { ...facts, embedding: vector, embedding_model: 'mock' };
  const [one, other] = [await addListing(db, embedded), await addListing(db, embedded)];
  await settle(db);
  assert.deepEqual(await pairsOf(db), [[one, other]]);
  // Vectors of another model are not compared, and a vector alone is no reason.
  await addListing(db, { ...embedded, embedding_model: 'other' });
  await addListing(db, { ...embedded, description: 'зовсім інші слова про зовсім іншу квартиру' });
  await settle(db);
  assert.deepEqual(await pairsOf(db), [[one, other]]);
});

test('Only changes of compared columns mark a listing', async () => {
  const id = await addListing(db);
  await settle(db);
  await change(db, id, { updated_at: new Date(), title: 'Another title' });
  assert.deepEqual(await db.selectFrom('duplicate_marks').selectAll().execute(), []);
  const { rows } = await sql<{ definition: string }>`
    select pg_get_triggerdef(oid) as definition from pg_trigger
    where tgname = 'duplicates_of_changed'`.execute(db);
  const [, named = '', compared = ''] =
    /UPDATE OF (.+?) ON .+? WHEN (.+)$/s.exec(rows[0]?.definition ?? '') ?? [];
  const columns = [...compared.matchAll(/old\.(\w+)/g)].map(([, column = '']) => column);
  assert.ok(columns.length > 10);
  assert.deepEqual(named.split(', ').toSorted(), [...new Set(columns)].toSorted());
});

const marksLeft = async () =>
  (await db.selectFrom('duplicate_marks').select('listing_id').execute()).length;

/** Starts a search that does not wait for changes to settle. */
function startSearch(warnings: object[] = []) {
  return startDuplicateSearch({
    db,
    metrics: { duplicateLooks: { inc: () => undefined } },
    log: Object.assign(Object.create(log), { warn: (fields: object) => warnings.push(fields) }),
    intervalMs: 5,
    settledMs: 0,
  });
}

test('Several processes search the marked listings together', async () => {
  for (let nth = 0; nth < 70; nth += 1) await addListing(db, { ...FLAT, floor: nth % 35 });
  const searches = [startSearch(), startSearch()];
  await until('all are searched', async () => (await marksLeft()) === 0);
  await Promise.all(searches.map(({ close }) => close()));
  assert.equal((await pairsOf(db)).length, 35);
  const found = await groups();
  assert.equal(new Set(found).size, 35);
  assert.ok(found.every((group) => group !== null));
});

test('A failed search is repeated and does not hold up others', async () => {
  await sql`create or replace function fail_once() returns trigger language plpgsql as $$
    begin raise exception 'no'; end $$`.execute(db);
  await sql`create trigger fails before insert on duplicate_pairs
    for each row execute function fail_once()`.execute(db);
  const [one, other] = [await addListing(db), await addListing(db)];
  await addListing(db, { ...FLAT, floor: 9 });
  const warnings: object[] = [];
  const search = startSearch(warnings);
  await until('both have failed and the third was searched', async () => {
    return warnings.length === 2 && (await marksLeft()) === 2;
  });
  assert.deepEqual(await pairsOf(db), []);
  await sql`drop trigger fails on duplicate_pairs`.execute(db);
  // Ends their lease of a minute.
  await sql`update duplicate_marks set claimed_until = now()`.execute(db);
  await until('they are searched again', async () => (await marksLeft()) === 0);
  await search.close();
  assert.deepEqual(await pairsOf(db), [[one, other]]);
});

test('A claim takes the latest settled changes, all of one listing together, until its lease ends', async () => {
  const ids = [await addListing(db), await addListing(db), await addListing(db)];
  await change(db, ids[2] ?? 0, { floor: 4 });
  const claim = async (settledMs = 0) =>
    (await claimMarks(db, { limit: 3, settledMs, leaseMs: 60_000 })).map(({ listingId, marks }) => [
      listingId,
      marks.length,
    ]);
  assert.deepEqual(await claim(60_000), []);
  assert.deepEqual(await claim(), [
    [ids[2], 2],
    [ids[1], 1],
  ]);
  assert.deepEqual([await claim(), await claim()], [[[ids[0], 1]], []]);
});

test('Each failed search doubles the wait, up to an hour, and is counted', async () => {
  await addListing(db);
  const registry = new Registry();
  registerDuplicateMetrics(registry, { db, onError: assert.ifError });
  const counted = async () => {
    const metric = await registry.getSingleMetric('collector_duplicate_marks')?.get();
    return metric?.values.map(({ labels, value }) => [labels['state'], value]);
  };
  const counts = (waiting: number, retried: number) => [
    ['waiting', waiting],
    ['retried', retried],
  ];
  assert.deepEqual(await counted(), counts(1, 0));
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
  assert.deepEqual(await counted(), counts(0, 1));
});

test('A full group takes no more listings until one leaves', async () => {
  const first = await addListing(db);
  await sql`insert into property_listings
      (source_slug, external_id, description, search_text, deal_type, city_key, rooms, area_total, floor)
    select 'doshka', 'copy-' || n, '', '', 'sale', 'львів', 9, 100 + n / 1000.0, 1
    from generate_series(2, ${MAX_GROUP_SIZE}::integer) as n`.execute(db);
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
  const byId = await groupsOf(db);
  assert.equal(byId.get(late), null);
  assert.equal([...byId.values()].filter((group) => group === first).length, MAX_GROUP_SIZE);
  // A search of the late listing adds it once another has left.
  const leaver = [...byId.keys()].find((id) => id !== first && id !== late);
  await sql`delete from duplicate_pairs where high_id = ${leaver}`.execute(db);
  await sql`update property_listings set duplicate_group = null where id = ${leaver}`.execute(db);
  await sql`insert into duplicate_marks (listing_id) values (${late})`.execute(db);
  await settle(db);
  assert.equal((await groupsOf(db)).get(late), first);
});

/** Listings with neighbouring areas are one flat. */
const AREAS = [54.3, 54.5, 54.7, 54.9];
const LISTINGS = 6;
const SEARCHES = 4;
const EPISODES = engine === 'pglite' ? 5 : 40;

/** Creates a generator of the same numbers in each run. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return (state >> 8) % below;
  };
}

/** Returns the pairs that the present areas make. */
async function expectedPairs(): Promise<DuplicatePair[]> {
  const rows = await db
    .selectFrom('property_listings')
    .select(['id', 'area_total'])
    .where('archived_at', 'is', null)
    .orderBy('id')
    .execute();
  return rows.flatMap((one, nth) =>
    rows
      .slice(nth + 1)
      .filter((other) => Math.abs((one.area_total ?? 0) - (other.area_total ?? 0)) < 0.25)
      .map((other): DuplicatePair => [one.id, other.id]),
  );
}

test('Pairs and groups are right after changes during concurrent searches', async () => {
  const ids: number[] = [];
  for (let nth = 0; nth < LISTINGS; nth += 1) ids.push(await addListing(db));
  const ended = new AbortController();

  async function searchOn(): Promise<void> {
    while (!ended.signal.aborted) {
      // The embedded engine runs in this process, and would starve the other tasks.
      await setImmediate();
      // The short lease repeats failed searches soon, and doubles slow ones.
      const claimed = await claimMarks(db, { limit: 1, settledMs: 0, leaseMs: 50 });
      for (const marked of claimed) {
        await updatePairs(db, marked).catch(() => undefined);
      }
    }
  }

  const searches = Array.from({ length: SEARCHES }, searchOn);
  try {
    const next = numbers(1);
    for (let episode = 0; episode < EPISODES; episode += 1) {
      for (let changes = 1 + next(4); changes > 0; changes -= 1) {
        // Jobs that end together change two listings in one statement, in any order.
        const two = [ids[next(LISTINGS)] ?? 0, ids[next(LISTINGS)] ?? 0];
        await sql`
          update property_listings set area_total = ${AREAS[next(AREAS.length)]},
            archived_at = case when ${next(4) === 0} then now() end
          where id = any(${two}::bigint[])`.execute(db);
      }
      await until('all are searched', async () => {
        const left = await db.selectFrom('duplicate_marks').select('id').limit(1).execute();
        return left.length === 0;
      });
      const pairs = await expectedPairs();
      assert.deepEqual(await pairsOf(db), pairs, `episode ${episode}`);
      assert.deepEqual(await groupsOf(db), findComponents(ids, pairs), `episode ${episode}`);
    }
  } finally {
    ended.abort();
    await Promise.all(searches);
  }
});

test('A search fails on a listing that a job holds, and succeeds afterwards', async () => {
  const [one, other] = [await addListing(db), await addListing(db)];
  const [claimed] = await claimMarks(db, { limit: 1, settledMs: 0, leaseMs: 60_000 });
  assert.equal(claimed?.listingId, other);
  if (engine === 'postgres') {
    await db.transaction().execute(async (trx) => {
      await sql`select from property_listings where id = ${one} for share`.execute(trx);
      await assert.rejects(updatePairs(db, claimed), /lock timeout/);
    });
    assert.deepEqual(await pairsOf(db), []);
  }
  await updatePairs(db, claimed);
  assert.deepEqual(await pairsOf(db), [[one, other]]);
});
