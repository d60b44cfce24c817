import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { beforeEach, test } from 'node:test';
import { type Insertable, type RawBuilder, sql } from 'kysely';
import { Registry } from 'prom-client';
import {
  buildNearestQuery,
  buildSameImagesQuery,
  buildSimilarFactsQueries,
  buildSimilarImagesQuery,
  findCandidates,
  loadComparedListings,
  readComparedRates,
} from '../../src/duplicates/candidates.ts';
import {
  claimMarks,
  registerDuplicateMetrics,
  startDuplicateSearch,
  updatePairs,
} from '../../src/duplicates/duplicates.ts';
import { findComponents, type DuplicatePair, MAX_GROUP_SIZE } from '../../src/duplicates/groups.ts';
import { storeRates } from '../../src/money/rates.ts';
import type { Tables } from '../../src/tables.ts';
import { normalizeText } from '../../src/text.ts';
import { until } from '@oselya/testing';
import { explain, log, openDatabase } from '../support/pipeline.ts';

const { db, engine } = await openDatabase();
await db.insertInto('sources').values({ slug: 'doshka' }).execute();

type Facts = Partial<Insertable<Tables['property_listings']>>;

/** Facts of a flat. Two listings with these facts are duplicates. */
const FLAT_FACTS = {
  deal_type: 'sale',
  city: 'Львів',
  city_key: 'львів',
  rooms: 2,
  area_total: 54.3,
  floor: 3,
  floors_total: 5,
  price: 87_000,
  currency: 'USD',
  address: 'вул. Івана Франка, 61',
} satisfies Facts;

let listingCount = 0;

/** Stores a listing without the pipeline, and returns its ID. */
async function addListing(facts: Facts = FLAT_FACTS): Promise<number> {
  listingCount += 1;
  const text = facts.description ?? `flat ${listingCount}`;
  const { id } = await db
    .insertInto('property_listings')
    .values({
      source_slug: 'doshka',
      external_id: `listing-${listingCount}`,
      description: text,
      search_text: normalizeText(text),
      phones: [],
      features: [],
      attributes: '{}',
      ...facts,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

const loadListings = async (ids: readonly number[]) =>
  loadComparedListings(db, ids, await readComparedRates(db));
const loadListing = async (id: number) => (await loadListings([id])).get(id) ?? assert.fail();

const updateListing = (id: number, facts: Facts) =>
  db.updateTable('property_listings').set(facts).where('id', '=', id).execute();

/** Searches for duplicates until no listing is marked. */
async function searchAll(): Promise<void> {
  for (;;) {
    const claims = await claimMarks(db, { limit: 100, minAgeMs: 0, leaseMs: 60_000 });
    if (claims.length === 0) return;
    for (const claim of claims) await updatePairs(db, claim);
  }
}

/** Returns the groups of all listings by ID. */
async function readGroups(): Promise<Map<number, number | null>> {
  const query = db.selectFrom('property_listings').select(['id', 'duplicate_group']);
  const rows = await query.orderBy('id').execute();
  return new Map(rows.map((row) => [row.id, row.duplicate_group]));
}

async function readPairs(): Promise<DuplicatePair[]> {
  const query = db.selectFrom('duplicate_pairs').select(['low_id', 'high_id']);
  const rows = await query.orderBy('low_id').orderBy('high_id').execute();
  return rows.map((row) => [row.low_id, row.high_id]);
}

beforeEach(async () => {
  await sql`truncate property_listings, images, duplicate_marks cascade`.execute(db);
});

const listGroups = async () => [...(await readGroups()).values()];

test('A listing leaves its group when its facts change or it is archived, and joins it again', async () => {
  const [firstId, secondId, thirdId] = [await addListing(), await addListing(), await addListing()];
  await searchAll();
  for (const [leavingChange, rejoiningChange] of [
    [{ floor: 9 }, { floor: 3 }],
    [{ deal_type: 'rent' }, { deal_type: 'sale' }],
    [{ archived_at: new Date() }, { archived_at: null }],
  ] as const) {
    await updateListing(firstId, leavingChange);
    await searchAll();
    assert.deepEqual(await listGroups(), [null, secondId, secondId]);
    assert.deepEqual(await readPairs(), [[secondId, thirdId]]);
    await updateListing(firstId, rejoiningChange);
    await searchAll();
    assert.deepEqual(await listGroups(), [firstId, firstId, firstId]);
  }
  await db.deleteFrom('property_listings').where('id', '=', firstId).execute();
  await searchAll();
  assert.deepEqual(await listGroups(), [secondId, secondId]);
});

test('Prices in two currencies are converted, also to find candidates', async () => {
  await storeRates(db, [{ date: '2026-11-20', currency: 'USD', rate: 40 }]);
  const dollarId = await addListing();
  const hryvniaId = await addListing({ ...FLAT_FACTS, price: 3_510_000, currency: 'UAH' });
  await addListing({ ...FLAT_FACTS, price: 7_000_000, currency: 'UAH' });
  await searchAll();
  assert.deepEqual(await readPairs(), [[dollarId, hryvniaId]]);
  await db.deleteFrom('currency_rates').execute();
});

const judge = (lowId: number, highId: number, verdict: 'same' | 'different') =>
  db
    .insertInto('duplicate_verdicts')
    .values({ low_id: lowId, high_id: highId, verdict, decided_by: null })
    .execute();

test('Verdicts take precedence over scores, and separate listings never share a group', async () => {
  const [firstId, secondId, thirdId] = [await addListing(), await addListing(), await addListing()];
  const otherId = await addListing({ ...FLAT_FACTS, floor: 5, area_total: 70 });
  await judge(firstId, secondId, 'different');
  await judge(secondId, otherId, 'same');
  await searchAll();
  // The third listing is like both separate ones, and joins the first: its pairs have equal scores.
  const expectedPairs = [
    [firstId, thirdId],
    [secondId, thirdId],
    [secondId, otherId],
  ];
  assert.deepEqual(await readPairs(), expectedPairs);
  const expectedGroups = [firstId, secondId, firstId, secondId];
  assert.deepEqual(await listGroups(), expectedGroups);
  // Changes and searches keep the verdicts, also while a listing is archived.
  await updateListing(firstId, { price: 87_100 });
  await updateListing(secondId, { archived_at: new Date(), price: 80_000 });
  await searchAll();
  assert.deepEqual(await listGroups(), [firstId, null, firstId, null]);
  await updateListing(secondId, { archived_at: null });
  await searchAll();
  assert.deepEqual(await readPairs(), expectedPairs);
  assert.deepEqual(await listGroups(), expectedGroups);
  // The second group joins the first one as soon as they are not separate any more.
  await updateListing(firstId, { floor: 9 });
  await searchAll();
  assert.deepEqual(await listGroups(), [null, secondId, secondId, secondId]);
  await updateListing(firstId, { floor: 3 });
  await searchAll();
  assert.deepEqual(new Set(await listGroups()), new Set([firstId, secondId]));
  await db.deleteFrom('duplicate_verdicts').where('verdict', '=', 'different').execute();
  await sql`insert into duplicate_marks (listing_id) values (${firstId})`.execute(db);
  await searchAll();
  assert.deepEqual(new Set(await listGroups()), new Set([firstId]));
});

async function addImage(listingId: number, sha256: string, fingerprint: string | null = null) {
  await sql`insert into images (sha256, media_type, width, height, bytes, fingerprint)
    values (${sha256}, 'image/jpeg', 8, 8, 1, ${fingerprint}) on conflict do nothing`.execute(db);
  await sql`insert into listing_images (listing_id, position, sha256)
    select ${listingId}::bigint, count(*), ${sha256} from listing_images
    where listing_id = ${listingId}`.execute(db);
}

const createHash = (digit: number) => digit.toString(16).padStart(64, '0');

test('Equal and similar images lead to duplicates without a city, even if fingerprints come later', async () => {
  const facts = { deal_type: 'sale', rooms: 3, price: 100, currency: 'USD', floor: 2 };
  const firstId = await addListing(facts);
  const equalId = await addListing(facts);
  const similarId = await addListing({ ...facts, price: 109 });
  const unrelatedId = await addListing(facts);
  const fingerprints = ['-6148914691236517206', '3689348814741910323', '1085102592571150095'];
  for (const [index, fingerprint] of fingerprints.entries()) {
    await addImage(firstId, createHash(index), fingerprint);
    await addImage(equalId, createHash(index), fingerprint);
    await addImage(similarId, createHash(index + 100));
  }
  await addImage(unrelatedId, createHash(200), '81985529216486895');
  await searchAll();
  assert.deepEqual(await readPairs(), [[firstId, equalId]]);
  for (const [index, fingerprint] of fingerprints.entries()) {
    const nearFingerprint = String(BigInt.asIntN(64, BigInt(fingerprint) ^ 1n));
    await sql`update images set fingerprint = ${nearFingerprint}
      where sha256 = ${createHash(index + 100)}`.execute(db);
  }
  await searchAll();
  assert.deepEqual(await readPairs(), [
    [firstId, equalId],
    [firstId, similarId],
    [equalId, similarId],
  ]);
  assert.equal((await readGroups()).get(unrelatedId), null);
});

test('A copied text is found by its meaning without an equal fact', async () => {
  const description =
    'продається затишна квартира поруч з парком високі стелі дубовий паркет тиха вулиця';
  const facts = { deal_type: 'sale', price: 50_000, currency: 'USD', rooms: 1, description };
  const vector = `[${Array.from({ length: 16 }, (_, index) => index + 1).join(',')}]`;
  const embeddedFacts = { ...facts, embedding: vector, embedding_model: 'mock' };
  const [firstId, secondId] = [await addListing(embeddedFacts), await addListing(embeddedFacts)];
  await searchAll();
  assert.deepEqual(await readPairs(), [[firstId, secondId]]);
  // Vectors of another model are not compared, and a similar vector alone is not enough.
  await addListing({ ...embeddedFacts, embedding_model: 'other' });
  await addListing({ ...embeddedFacts, description: 'зовсім інші слова про зовсім іншу квартиру' });
  await searchAll();
  assert.deepEqual(await readPairs(), [[firstId, secondId]]);
});

test('Only changes of compared columns mark a listing', async () => {
  const id = await addListing();
  await searchAll();
  await updateListing(id, { updated_at: new Date(), title: 'Another title' });
  assert.deepEqual(await readMarks(), []);
  const { rows } = await sql<{ definition: string }>`
    select pg_get_triggerdef(oid) as definition from pg_trigger
    where tgname = 'duplicates_of_changed'`.execute(db);
  const [, listedColumns = '', comparedColumns = ''] =
    /UPDATE OF (.+?) ON .+? WHEN (.+)$/s.exec(rows[0]?.definition ?? '') ?? [];
  const columns = [...comparedColumns.matchAll(/old\.(\w+)/g)].map(([, column = '']) => column);
  assert.ok(columns.length > 10);
  assert.deepEqual(listedColumns.split(', ').toSorted(), [...new Set(columns)].toSorted());
});

const readMarks = () => db.selectFrom('duplicate_marks').selectAll().execute();
const countMarks = async () => (await readMarks()).length;

/** Starts a search that does not wait for changes to settle. */
function startSearch(warnings: object[] = []) {
  return startDuplicateSearch({
    db,
    metrics: { duplicateLooks: { inc: () => undefined } },
    log: Object.assign(Object.create(log), { warn: (fields: object) => warnings.push(fields) }),
    intervalMs: 5,
    minAgeMs: 0,
  });
}

test('A failed search is repeated and does not hold up others', async () => {
  await sql`create or replace function fail_once() returns trigger language plpgsql as $$
    begin raise exception 'no'; end $$`.execute(db);
  await sql`create trigger fails before insert on duplicate_pairs
    for each row execute function fail_once()`.execute(db);
  const [firstId, secondId] = [await addListing(), await addListing()];
  await addListing({ ...FLAT_FACTS, floor: 9 });
  const warnings: object[] = [];
  const search = startSearch(warnings);
  await until('two failed searches and a successful one', async () => {
    return warnings.length === 2 && (await countMarks()) === 2;
  });
  assert.deepEqual(await readPairs(), []);
  await sql`drop trigger fails on duplicate_pairs`.execute(db);
  await sql`update duplicate_marks set claimed_until = now()`.execute(db);
  await until('they are searched again', async () => (await countMarks()) === 0);
  await search.close();
  assert.deepEqual(await readPairs(), [[firstId, secondId]]);
});

test('A claim takes the latest settled changes, all of one listing together, until its lease ends', async () => {
  const [firstId, secondId, thirdId] = [await addListing(), await addListing(), await addListing()];
  await updateListing(thirdId, { floor: 4 });
  const claimMarkCounts = async (minAgeMs = 0) =>
    (await claimMarks(db, { limit: 3, minAgeMs, leaseMs: 60_000 })).map(({ listingId, marks }) => [
      listingId,
      marks.length,
    ]);
  assert.deepEqual(await claimMarkCounts(60_000), []);
  assert.deepEqual(await claimMarkCounts(), [
    [thirdId, 2],
    [secondId, 1],
  ]);
  assert.deepEqual([await claimMarkCounts(), await claimMarkCounts()], [[[firstId, 1]], []]);
});

test('Each failed search doubles the wait, up to an hour, and is counted', async () => {
  await addListing();
  const registry = new Registry();
  registerDuplicateMetrics(registry, { db, onError: assert.ifError });
  const readMetric = async () => {
    const metric = await registry.getSingleMetric('collector_duplicate_marks')?.get();
    return Object.fromEntries(
      metric?.values.map(({ labels, value }) => [labels['state'], value]) ?? [],
    );
  };
  assert.deepEqual(await readMetric(), { waiting: 1, retried: 0 });
  const pauseMinutes: number[] = [];
  for (let index = 0; index < 9; index += 1) {
    const [claim] = await claimMarks(db, { limit: 1, minAgeMs: 0, leaseMs: 60_000 });
    assert.ok(claim);
    const [mark] = await readMarks();
    const pauseMs = (mark?.claimed_until?.getTime() ?? 0) - Date.now();
    pauseMinutes.push(Math.round(pauseMs / 60_000));
    await sql`update duplicate_marks set claimed_until = now()`.execute(db);
  }
  assert.deepEqual(pauseMinutes, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
  assert.deepEqual(await readMetric(), { waiting: 0, retried: 1 });
});

test('A full group takes no more listings until one leaves', async () => {
  const firstId = await addListing();
  await sql`insert into property_listings
      (source_slug, external_id, description, search_text, deal_type, city_key, rooms, area_total, floor)
    select 'doshka', 'copy-' || n, '', '', 'sale', 'львів', 9, 100 + n / 1000.0, 1
    from generate_series(2, ${MAX_GROUP_SIZE}::integer) as n`.execute(db);
  await sql`update property_listings set duplicate_group = ${firstId}::bigint`.execute(db);
  await sql`insert into duplicate_pairs (low_id, high_id, score, reasons)
    select ${firstId}::bigint, id, 1, '[]' from property_listings where id <> ${firstId}`.execute(
    db,
  );
  await sql`truncate duplicate_marks`.execute(db);
  const lateId = await addListing();
  await searchAll();
  assert.deepEqual(
    (await readPairs()).filter((pair) => pair.includes(lateId)),
    [[firstId, lateId]],
  );
  const groupsById = await readGroups();
  assert.equal(groupsById.get(lateId), null);
  const memberIds = [...groupsById].filter(([, group]) => group === firstId).map(([id]) => id);
  assert.equal(memberIds.length, MAX_GROUP_SIZE);
  // The late listing joins the group after another listing has left.
  const leaverId = memberIds.find((id) => id !== firstId);
  await sql`delete from duplicate_pairs where high_id = ${leaverId}`.execute(db);
  await sql`update property_listings set duplicate_group = null where id = ${leaverId}`.execute(db);
  await sql`insert into duplicate_marks (listing_id) values (${lateId})`.execute(db);
  await searchAll();
  assert.equal((await readGroups()).get(lateId), firstId);
});

test('A listing with hundreds of pairs is compared again in parts', async () => {
  const id = await addListing();
  await sql`insert into property_listings
      (source_slug, external_id, description, search_text, deal_type)
    select 'doshka', 'many-' || n, '', '', 'sale' from generate_series(1, 230) as n`.execute(db);
  await sql`insert into duplicate_pairs (low_id, high_id, score, reasons)
    select ${id}::bigint, id, 1, '[]' from property_listings where id <> ${id}`.execute(db);
  await sql`update property_listings set duplicate_group = ${id}::bigint`.execute(db);
  await sql`truncate duplicate_marks`.execute(db);
  await sql`insert into duplicate_marks (listing_id) values (${id})`.execute(db);
  await searchAll();
  assert.deepEqual(await readPairs(), []);
  assert.deepEqual(new Set(await listGroups()), new Set([null]));
});

/** Areas of listings. Two listings are duplicates if their areas are equal or adjacent in this list. */
const AREAS = [54.3, 54.5, 54.7, 54.9];
const LISTING_COUNT = 6;
const SEARCH_COUNT = 4;
const EPISODE_COUNT = engine === 'pglite' ? 5 : 40;

/** Creates a random number generator with a seed. */
function createRandom(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return (state >> 8) % limit;
  };
}

/** Returns the pairs of live listings with equal or adjacent areas. */
async function computeExpectedPairs(): Promise<DuplicatePair[]> {
  const rows = await db
    .selectFrom('property_listings')
    .select(['id', 'area_total'])
    .where('archived_at', 'is', null)
    .orderBy('id')
    .execute();
  return rows.flatMap((listing, index) =>
    rows
      .slice(index + 1)
      .filter((other) => Math.abs((listing.area_total ?? 0) - (other.area_total ?? 0)) < 0.25)
      .map((other): DuplicatePair => [listing.id, other.id]),
  );
}

test('Pairs and groups are right after changes during concurrent searches', async () => {
  const ids: number[] = [];
  for (let index = 0; index < LISTING_COUNT; index += 1) ids.push(await addListing());
  const endController = new AbortController();

  async function runSearches(): Promise<void> {
    while (!endController.signal.aborted) {
      // The embedded database runs in this process and would starve other tasks.
      await setImmediate();
      // With a short lease, failed searches are retried soon and slow ones run twice.
      const claims = await claimMarks(db, { limit: 1, minAgeMs: 0, leaseMs: 50 });
      for (const claim of claims) await updatePairs(db, claim).catch(() => undefined);
    }
  }

  const searches = Array.from({ length: SEARCH_COUNT }, runSearches);
  try {
    const getRandom = createRandom(1);
    for (let episode = 0; episode < EPISODE_COUNT; episode += 1) {
      for (let changeCount = 1 + getRandom(4); changeCount > 0; changeCount -= 1) {
        // The collector batches concurrent writes, so one statement may change two listings, in any order.
        const changedIds = [ids[getRandom(LISTING_COUNT)] ?? 0, ids[getRandom(LISTING_COUNT)] ?? 0];
        await sql`
          update property_listings set area_total = ${AREAS[getRandom(AREAS.length)]},
            archived_at = case when ${getRandom(4) === 0} then now() end
          where id = any(${changedIds}::bigint[])`.execute(db);
      }
      await until('the search of all listings', async () => (await countMarks()) === 0);
      const pairs = await computeExpectedPairs();
      assert.deepEqual(await readPairs(), pairs, `episode ${episode}`);
      assert.deepEqual(await readGroups(), findComponents(ids, pairs), `episode ${episode}`);
    }
  } finally {
    endController.abort();
    await Promise.all(searches);
  }
});

test('A search fails on a listing that a job holds, and succeeds afterwards', async () => {
  const [firstId, secondId] = [await addListing(), await addListing()];
  const [claim] = await claimMarks(db, { limit: 1, minAgeMs: 0, leaseMs: 60_000 });
  assert.equal(claim?.listingId, secondId);
  if (engine === 'postgres') {
    await db.transaction().execute(async (trx) => {
      await sql`select from property_listings where id = ${firstId} for share`.execute(trx);
      await assert.rejects(updatePairs(db, claim), /lock timeout/);
    });
    assert.deepEqual(await readPairs(), []);
  }
  await updatePairs(db, claim);
  assert.deepEqual(await readPairs(), [[firstId, secondId]]);
});

/** Returns the indexes that a query's plan reads, and "Seq Scan" if it reads a whole table. */
async function listIndexes(query: RawBuilder<unknown>, connection = db): Promise<string[]> {
  const { indexes, kinds } = await explain(connection, (explained) => query.execute(explained));
  return kinds.has('Seq Scan') ? [...indexes, 'Seq Scan'] : indexes;
}

test('Each query for candidates uses an index, and the nearest areas come first', async () => {
  // Ten cities with similar listings: the same rooms, similar areas and one common image.
  const listingId = await addListing();
  await sql`
    insert into property_listings (source_slug, external_id, description, search_text, phones,
      deal_type, city_key, rooms, area_total, floor, price, currency)
    select 'doshka', 'many-' || n, '', '', '{}', 'sale',
      case n % 10 when 0 then 'львів' else 'місто ' || n % 10 end, 2, 54.3 + (n % 100) / 100.0,
      case when n % 7 > 0 then 3 end, 87000 + n % 50, 'USD'
    from generate_series(1, 3000) as n`.execute(db);
  await sql`
    insert into images (sha256, media_type, width, height, bytes, fingerprint)
    select lpad(to_hex(n), 64, '0'), 'image/jpeg', 1, 1, 1, hashint8extended(n, 0)
    from generate_series(1, 3002) as n`.execute(db);
  await sql`
    insert into listing_images (listing_id, position, sha256)
    select id, 0, lpad(to_hex(1), 64, '0') from property_listings
    union all
    select id, 1, lpad(to_hex(1 + row_number() over (order by id)), 64, '0')
    from property_listings`.execute(db);
  await sql`analyze`.execute(db);

  const listing = await loadListing(listingId);
  const variants = [listing, { ...listing, floor: null }, { ...listing, rooms: null }];
  for (const query of variants.flatMap(buildSimilarFactsQueries)) {
    assert.deepEqual(await listIndexes(query), ['property_listings_alike']);
  }
  for (const query of buildSimilarFactsQueries({ ...listing, prices: [] })) {
    // Few listings have no price, so the planner may choose the city index.
    assert.match(String(await listIndexes(query)), /^property_listings_(alike|city)$/);
  }
  for (const [query, index] of [
    [buildSameImagesQuery(listingId), 'listing_images_sha256'],
    [buildSimilarImagesQuery(listingId), 'images_fingerprint'],
  ] as const) {
    const indexes = await listIndexes(query);
    assert.ok(indexes.includes(index) && !indexes.includes('Seq Scan'), String(indexes));
  }
  // No listing has a vector here, so the planner would read the table.
  await db.transaction().execute(async (trx) => {
    await sql`set local enable_seqscan = off`.execute(trx);
    const nearest = buildNearestQuery(`[${Array(16).fill(1).join()}]`);
    assert.deepEqual(await listIndexes(nearest, trx), ['property_listings_nearest_halves']);
  });

  const candidates = await findCandidates(db, listing);
  const candidateListings = [...(await loadListings(candidates)).values()];
  const areas = candidateListings.filter(({ floor }) => floor === 3).map((row) => row.area_total);
  const areaCounts = [54.3, 54.4, 54.5].map((area) => areas.filter((a) => a === area).length);
  // Each area has 26 listings, and the query returns the 60 nearest ones.
  assert.deepEqual([areas.length, ...areaCounts], [60, 26, 26, 8]);
  // All listings with an unknown floor are found, because they are fewer than the bound.
  assert.equal(candidateListings.length - areas.length, 42);
});

test('A listing without city, area or deal type, and without images, has no candidates', async () => {
  const id = await addListing();
  const listing = await loadListing(id);
  await addListing();
  assert.equal((await findCandidates(db, listing)).length, 1);
  for (const missingFact of [{ city_key: null }, { area_total: null }, { deal_type: null }]) {
    assert.deepEqual(await findCandidates(db, { ...listing, ...missingFact }), []);
  }
});
