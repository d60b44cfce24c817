import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { createApiKeyStore } from '../../src/access/api-keys.ts';
import { assignChangePositions } from '../../src/listing/changes.ts';
import {
  createBetterModel,
  openReprocess,
  readAll,
  filterExtracted,
} from '../reprocess/harness.ts';
import { startCollector } from '../support/collector.ts';
import { openDatabase, createHarness, findListing, createPayload } from '../support/pipeline.ts';

type Change = {
  listing_id: number;
  source_slug: string;
  kind: string;
  price_from: number | null;
  price_to: number | null;
  currency_from: string | null;
  currency_to: string | null;
  changed_at: string;
};

type Feed = { items: Change[]; cursor: string; has_more: boolean };

const database = await openDatabase();
const { db, engine } = database;
const collector = await startCollector(database, {
  COLLECTOR_FULLTEXT_PER_MINUTE: '100000',
  COLLECTOR_AUTH: 'required',
  COLLECTOR_WORKER: 'false',
});
const apiKeyStore = createApiKeyStore({ db });
const createAuthHeaders = async (sources?: string[]) => {
  const scopes = ['search' as const];
  const { key } = await apiKeyStore.create({ name: 'reader', scopes, ...(sources && { sources }) });
  return { authorization: `Bearer ${key}` };
};
const headersForAllSources = await createAuthHeaders();

async function poll(after?: string, limit = 100, headers = headersForAllSources): Promise<Feed> {
  const query = new URLSearchParams({
    limit: String(limit),
    ...(after !== undefined && { after }),
  });
  const response = await collector.get(`/api/v1/listings/changes?${query.toString()}`, headers);
  assert.equal(response.status, 200, response.text);
  return response.json<Feed>();
}

const getListingIds = ({ items }: Feed) => items.map(({ listing_id }) => listing_id);

let addedCount = 0;

async function addListing(source = 'doshka', connection: typeof db = db): Promise<number> {
  addedCount += 1;
  const externalId = `change-${addedCount}`;
  await sql`insert into sources (slug) values (${source}) on conflict do nothing`.execute(db);
  const { rows } = await sql<{ id: number }>`
    insert into property_listings (source_slug, external_id, description, search_text)
    values (${source}, ${externalId}, '', '') returning id`.execute(connection);
  return rows[0]?.id ?? 0;
}

test('A new listing, another price and a return are one change each, in order', async () => {
  const { process } = createHarness(db);
  const { items, cursor, has_more } = await poll();
  assert.deepEqual([items, has_more], [[], false]);

  const payload = createPayload({ price: 62_000, currency: 'USD' });
  const { listing_id } = await process(payload);
  await process(payload);
  await process({ ...payload, price: 59_500 });
  await process({ ...payload, price: 59_500, contact_name: 'Олена' });
  const archive = () =>
    db
      .updateTable('property_listings')
      .set({ archived_at: sql<Date>`now()` })
      .where('id', '=', listing_id)
      .execute();
  await archive();
  await process({ ...payload, price: 59_500, contact_name: 'Ольга' });
  await archive();
  await process({ ...payload, price: 2_400_000, currency: 'UAH' });

  const feed = await poll(cursor);
  const changes = feed.items.map(({ changed_at, listing_id: id, source_slug, kind, ...prices }) => {
    assert.equal(new Date(changed_at).toISOString(), changed_at);
    assert.deepEqual([id, source_slug], [listing_id, payload.source_slug]);
    const { price_from, price_to, currency_from, currency_to } = prices;
    return [kind, price_from, currency_from, price_to, currency_to];
  });
  assert.deepEqual(changes, [
    ['new', null, null, null, null],
    ['price_changed', 62_000, 'USD', 59_500, 'USD'],
    ['returned', null, null, null, null],
    ['returned', null, null, null, null],
    ['price_changed', 59_500, 'USD', 2_400_000, 'UAH'],
  ]);
  assert.deepEqual((await poll(feed.cursor)).items, []);
});

test('Pages of any size have each change once', async () => {
  const startCursor = (await poll()).cursor;
  const addedIds: number[] = [];
  for (let index = 0; index < 7; index += 1) addedIds.push(await addListing());
  for (const limit of [1, 3, 7, 100]) {
    const receivedIds: number[] = [];
    for (let [cursor, hasMore] = [startCursor, true]; hasMore;) {
      const page = await poll(cursor, limit);
      assert.ok(page.items.length <= limit);
      receivedIds.push(...getListingIds(page));
      ({ cursor, has_more: hasMore } = page);
    }
    assert.deepEqual(receivedIds, addedIds, `pages of ${limit}`);
  }
});

// These tests need concurrent sessions, and PGlite has only one.
if (engine === 'postgres') {
  test('A change that commits late comes after changes that committed earlier', async () => {
    const { cursor } = await poll();
    const { firstPage, ...expected } = await db.transaction().execute(async (trx) => {
      const lateId = await addListing('doshka', trx);
      return { earlyId: await addListing(), lateId, firstPage: await poll(cursor) };
    });
    const secondPage = await poll(firstPage.cursor);
    assert.deepEqual(getListingIds(firstPage), [expected.earlyId]);
    assert.deepEqual(getListingIds(secondPage), [expected.lateId]);
  });

  test('A request does not wait for another one that assigns positions', async () => {
    const { cursor } = await poll();
    const { addedId, firstPage } = await db.transaction().execute(async (trx) => {
      // A request that assigns positions holds this advisory lock of the log.
      await sql`select pg_advisory_xact_lock(${0x66_65_65_64})`.execute(trx);
      const id = await addListing();
      const page = await poll(cursor);
      assert.deepEqual([page.items, page.has_more], [[], true]);
      assert.equal((await poll()).has_more, true);
      await assignChangePositions(db, new AbortController().signal);
      assert.equal(await countPending(), 1);
      return { addedId: id, firstPage: page };
    });
    const secondPage = await poll(firstPage.cursor);
    assert.deepEqual([getListingIds(secondPage), secondPage.has_more], [[addedId], false]);
  });
}

test('Concurrent readers get each change of concurrent writers once, in the same order', async () => {
  const readers = Array.from({ length: 3 }, () => ({ receivedIds: [] as number[], cursor: '' }));
  for (const reader of readers) reader.cursor = (await poll()).cursor;
  const addedIds: number[] = [];
  let isWriting = true;
  const writes = Array.from({ length: 4 }, async () => {
    for (let index = 0; index < 10; index += 1) addedIds.push(await addListing());
  });
  const reads = readers.map(async (reader) => {
    for (let isLast = false; !isLast;) {
      isLast = !isWriting;
      const page = await poll(reader.cursor, 5);
      reader.receivedIds.push(...getListingIds(page));
      reader.cursor = page.cursor;
      isLast &&= !page.has_more;
    }
  });
  await Promise.all(writes);
  isWriting = false;
  await Promise.all(reads);
  for (const { receivedIds } of readers) {
    assert.deepEqual(new Set(receivedIds), new Set(addedIds));
    assert.equal(receivedIds.length, addedIds.length);
    assert.deepEqual(receivedIds, readers[0]?.receivedIds, 'in one order for all');
  }
});

test('A key with a list of sources gets the changes of only these sources', async () => {
  const headers = await createAuthHeaders(['theirs']);
  const { cursor } = await poll();
  await addListing();
  const foreignId = await addListing('theirs');
  await addListing();
  const firstPage = await poll(cursor, 1, headers);
  assert.deepEqual([getListingIds(firstPage), firstPage.has_more], [[foreignId], false]);
  assert.deepEqual((await poll(firstPage.cursor, 1, headers)).items, []);
});

/** Creates a model that extracts the same price from every text. */
const createPriceModel = (price: number) => createBetterModel(() => ({ price, currency: 'USD' }));

test('A price that is read differently from the same payload is not a change', async () => {
  const payload = createPayload();
  const { cursor } = await poll();
  const harness = createHarness(db, { model: createPriceModel(50_000) });
  const { listing_id: listingId } = await harness.process(payload);
  assert.ok(listingId);
  const reprocess = openReprocess(db, createPriceModel(60_000));
  const [reading] = filterExtracted(await readAll(reprocess, { listingId }));
  assert.ok(reading);
  assert.deepEqual(await reprocess.write(reading), { outcome: 'written' });
  assert.equal((await findListing(db, payload))?.price, 60_000);
  await createHarness(db).process({ ...payload, price: 70_000, currency: 'USD' });
  const { items } = await poll(cursor);
  assert.deepEqual(
    items.map(({ kind, price_from, price_to }) => [kind, price_from, price_to]),
    [
      ['new', null, null],
      ['price_changed', 60_000, 70_000],
    ],
  );
});

async function addChanges(count: number, source = 'doshka'): Promise<void> {
  await sql`insert into listing_changes (listing_id, source_slug, kind)
    select number, ${source}, 'new' from generate_series(1, ${count}::int) as number`.execute(db);
}

/** Returns the number of changes without a position in the log. */
async function countPending(): Promise<number> {
  const { rows } = await sql`select from listing_changes where position is null`.execute(db);
  return rows.length;
}

test('A request assigns a thousand positions and reports that there are more', async () => {
  const startCursor = (await poll()).cursor;
  await addChanges(2005);
  const firstPage = await poll();
  assert.deepEqual([firstPage.items, firstPage.has_more, await countPending()], [[], true, 1005]);
  const page = await poll(startCursor, 1);
  assert.deepEqual([page.items.length, page.has_more, await countPending()], [1, true, 5]);
  let receivedCount = 0;
  for (let [cursor, hasMore] = [firstPage.cursor, true]; hasMore;) {
    const next = await poll(cursor);
    receivedCount += next.items.length;
    ({ cursor, has_more: hasMore } = next);
  }
  assert.equal(receivedCount, 1005);
});

test('A page advances past many changes of other sources', async () => {
  const headers = await createAuthHeaders(['rare']);
  const { cursor } = await poll(undefined, 1, headers);
  await addListing();
  await poll();
  await sql`select setval('listing_changes_positions',
    (select last_value from listing_changes_positions) + 60000)`.execute(db);
  const rareId = await addListing('rare');
  const firstPage = await poll(cursor, 10, headers);
  assert.deepEqual([firstPage.items, firstPage.has_more], [[], true]);
  const secondPage = await poll(firstPage.cursor, 10, headers);
  assert.deepEqual([getListingIds(secondPage), secondPage.has_more], [[rareId], false]);
});

test('A cursor that is newer than a restored backup is rejected', async () => {
  const backupCursor = (await poll()).cursor;
  await addListing();
  const lostCursor = (await poll(backupCursor)).cursor;
  await sql`with deleted as (
      delete from listing_changes
      where position = (select max(position) from listing_changes) returning position)
    select setval('listing_changes_positions', position, false) from deleted`.execute(db);
  const assertRejected = async () => {
    const response = await collector.get(
      `/api/v1/listings/changes?after=${lostCursor}`,
      headersForAllSources,
    );
    assert.equal(response.status, 422, response.text);
  };
  await assertRejected();
  const addedIds = [await addListing(), await addListing()];
  const restoredPage = await poll(backupCursor);
  assert.deepEqual(getListingIds(restoredPage), addedIds);
  await assertRejected();
  assert.deepEqual((await poll(restoredPage.cursor)).items, []);
  // A removed change cannot be checked, so a cursor at its position stays valid.
  await sql`delete from listing_changes`.execute(db);
  const laterId = await addListing();
  assert.deepEqual(getListingIds(await poll(restoredPage.cursor)), [laterId]);
});

const encodeCursor = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

test('An invalid cursor or limit is rejected', async () => {
  const invalidQueries = [
    'after=nonsense',
    'after=',
    `after=${encodeCursor([1])}`,
    `after=${encodeCursor([-1, null])}`,
    `after=${encodeCursor([1, 'now'])}`,
    `after=${encodeCursor([2 ** 60, null])}`,
    // A position beyond the last change.
    `after=${encodeCursor([1_000_000, null])}`,
    'limit=0',
    'limit=101',
    'cursor=abc',
  ];
  for (const query of invalidQueries) {
    const response = await collector.get(`/api/v1/listings/changes?${query}`, headersForAllSources);
    assert.equal(response.status, 422, `${query}: ${response.text}`);
  }
});

test('The changes need the scope "search" and count against its limit', async () => {
  const { key } = await apiKeyStore.create({ name: 'sender', scopes: ['ingest'] });
  const path = '/api/v1/listings/changes';
  assert.equal((await collector.get(path)).status, 401);
  const deniedResponse = await collector.get(path, { authorization: `Bearer ${key}` });
  assert.equal(deniedResponse.status, 403);
  const response = await collector.get(path, headersForAllSources);
  assert.equal(response.headers.get('ratelimit-limit'), '100000');
});
