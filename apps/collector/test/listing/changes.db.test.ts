import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { createApiKeyStore } from '../../src/access/api-keys.ts';
import { settleChanges } from '../../src/listing/changes.ts';
import { createBetterModel, openReprocess, readAll, filterReadings } from '../reprocess/harness.ts';
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
const keys = createApiKeyStore({ db });
const createKey = async (sources?: string[]) => {
  const scopes = ['search' as const];
  const { key } = await keys.create({ name: 'reader', scopes, ...(sources && { sources }) });
  return { authorization: `Bearer ${key}` };
};
const headersForAllSources = await createKey();

async function poll(after?: string, limit = 100, headers = headersForAllSources): Promise<Feed> {
  const query = new URLSearchParams({
    limit: String(limit),
    ...(after !== undefined && { after }),
  });
  const answer = await collector.get(`/api/v1/listings/changes?${query.toString()}`, headers);
  assert.equal(answer.status, 200, answer.text);
  return answer.json<Feed>();
}

const getListingIds = ({ items }: Feed) => items.map(({ listing_id }) => listing_id);

let count = 0;
const INSERT = `insert into property_listings (source_slug, external_id, description, search_text)
  values ($1, $2, '', '') returning id`;

/** Returns the values of a new listing for `INSERT`. */
function createValues(source = 'doshka'): string[] {
  count += 1;
  return [source, `change-${count}`];
}

async function addListing(source = 'doshka'): Promise<number> {
  await sql`insert into sources (slug) values (${source}) on conflict do nothing`.execute(db);
  const { rows } = await database.pool.query<{ id: number }>(INSERT, createValues(source));
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
  const changes = feed.items.map(({ changed_at, listing_id: id, source_slug, ...change }) => {
    assert.equal(new Date(changed_at).toISOString(), changed_at);
    assert.deepEqual([id, source_slug], [listing_id, payload.source_slug]);
    return change;
  });
  const createPriceChange = (
    kind: string,
    from: [number, string] | [],
    to: [number, string] | [],
  ) => ({
    kind,
    price_from: from[0] ?? null,
    price_to: to[0] ?? null,
    currency_from: from[1] ?? null,
    currency_to: to[1] ?? null,
  });
  assert.deepEqual(changes, [
    createPriceChange('new', [], []),
    createPriceChange('price_changed', [62_000, 'USD'], [59_500, 'USD']),
    createPriceChange('returned', [], []),
    createPriceChange('returned', [], []),
    createPriceChange('price_changed', [59_500, 'USD'], [2_400_000, 'UAH']),
  ]);
  assert.deepEqual((await poll(feed.cursor)).items, []);
});

test('Pages of any size have each change once', async () => {
  const start = (await poll()).cursor;
  const added: number[] = [];
  for (let index = 0; index < 7; index += 1) added.push(await addListing());
  for (const limit of [1, 3, 7, 100]) {
    const seen: number[] = [];
    for (let [cursor, hasMore] = [start, true]; hasMore;) {
      const page = await poll(cursor, limit);
      assert.ok(page.items.length <= limit);
      seen.push(...getListingIds(page));
      ({ cursor, has_more: hasMore } = page);
    }
    assert.deepEqual(seen, added, `pages of ${limit}`);
  }
});

// PGlite has one session.
if (engine === 'postgres') {
  test('A change that commits late comes after changes that committed earlier', async () => {
    const { cursor } = await poll();
    const slow = await database.pool.connect();
    try {
      await slow.query('begin');
      const { rows } = await slow.query<{ id: number }>(INSERT, createValues());
      const later = await addListing();
      const meanwhile = await poll(cursor);
      await slow.query('commit');
      const rest = await poll(meanwhile.cursor);
      assert.deepEqual([...getListingIds(meanwhile), ...getListingIds(rest)], [later, rows[0]?.id]);
    } finally {
      slow.release();
    }
  });

  test('A request does not wait for another one that settles changes', async () => {
    const { cursor } = await poll();
    const settling = await database.pool.connect();
    try {
      await settling.query('begin');
      // The advisory lock of the log.
      await settling.query('select pg_advisory_xact_lock($1)', [0x66_65_65_64]);
      const added = await addListing();
      const meanwhile = await poll(cursor);
      assert.deepEqual([meanwhile.items, meanwhile.has_more], [[], true]);
      assert.equal((await poll()).has_more, true);
      await settleChanges(db, new AbortController().signal);
      assert.equal(await countUnsettled(), 1);
      await settling.query('commit');
      const rest = await poll(meanwhile.cursor);
      assert.deepEqual([getListingIds(rest), rest.has_more], [[added], false]);
    } finally {
      settling.release();
    }
  });
}

test('Concurrent readers get each change of concurrent writers once, in the same order', async () => {
  const readers = Array.from({ length: 3 }, () => ({ seen: [] as number[], cursor: '' }));
  for (const reader of readers) reader.cursor = (await poll()).cursor;
  const added: number[] = [];
  let writing = true;
  const writers = Array.from({ length: 4 }, async () => {
    for (let index = 0; index < 10; index += 1) added.push(await addListing());
  });
  const reading = readers.map(async (reader) => {
    for (let isLast = false; !isLast;) {
      isLast = !writing;
      const page = await poll(reader.cursor, 5);
      reader.seen.push(...getListingIds(page));
      reader.cursor = page.cursor;
      isLast &&= !page.has_more;
    }
  });
  await Promise.all(writers);
  writing = false;
  await Promise.all(reading);
  for (const { seen } of readers) {
    assert.deepEqual(
      seen.toSorted((a, b) => a - b),
      added.toSorted((a, b) => a - b),
    );
    assert.deepEqual(seen, readers[0]?.seen, 'in one order for all');
  }
});

test('A key with a list of sources gets the changes of only these sources', async () => {
  const headers = await createKey(['theirs']);
  const { cursor } = await poll();
  await addListing();
  const theirs = await addListing('theirs');
  await addListing();
  const first = await poll(cursor, 1, headers);
  assert.deepEqual([getListingIds(first), first.has_more], [[theirs], false]);
  assert.deepEqual((await poll(first.cursor, 1, headers)).items, []);
});

/** Creates a model that extracts the same price from every text. */
const createPriceModel = (price: number) => createBetterModel(() => ({ price, currency: 'USD' }));

test('A price that is read differently from the same payload is no change', async () => {
  const payload = createPayload();
  const { cursor } = await poll();
  const { listing_id: listingId } = await createHarness(db, {
    model: createPriceModel(50_000),
  }).process(payload);
  assert.ok(listingId);
  const work = openReprocess(db, createPriceModel(60_000));
  const [reading] = filterReadings(await readAll(work, { listingId }));
  assert.ok(reading);
  assert.deepEqual(await work.write(reading), { outcome: 'written' });
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

async function addChanges(changes: number, source = 'doshka'): Promise<void> {
  await sql`insert into listing_changes (listing_id, source_slug, kind)
    select nth, ${source}, 'new' from generate_series(1, ${changes}::int) as nth`.execute(db);
}

/** Returns the number of changes without a position in the log. */
async function countUnsettled(): Promise<number> {
  const { n } = await db
    .selectFrom('listing_changes')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('position', 'is', null)
    .executeTakeFirstOrThrow();
  return n;
}

test('A request settles a thousand changes and reports that there are more', async () => {
  const start = (await poll()).cursor;
  await addChanges(2005);
  const first = await poll();
  assert.deepEqual([first.items, first.has_more, await countUnsettled()], [[], true, 1005]);
  const page = await poll(start, 1);
  assert.deepEqual([page.items.length, page.has_more, await countUnsettled()], [1, true, 5]);
  let received = 0;
  for (let [cursor, hasMore] = [first.cursor, true]; hasMore;) {
    const next = await poll(cursor);
    received += next.items.length;
    ({ cursor, has_more: hasMore } = next);
  }
  assert.equal(received, 1005);
});

test('A page advances past many changes of other sources', async () => {
  const headers = await createKey(['rare']);
  const { cursor } = await poll(undefined, 1, headers);
  await addListing();
  await poll();
  await sql`select setval('listing_changes_positions',
    (select last_value from listing_changes_positions) + 60000)`.execute(db);
  const rare = await addListing('rare');
  const first = await poll(cursor, 10, headers);
  assert.deepEqual([first.items, first.has_more], [[], true]);
  const second = await poll(first.cursor, 10, headers);
  assert.deepEqual([getListingIds(second), second.has_more], [[rare], false]);
});

test('A cursor that is newer than a restored backup is rejected', async () => {
  const copied = (await poll()).cursor;
  await addListing();
  const lost = (await poll(copied)).cursor;
  await sql`with gone as (
      delete from listing_changes
      where position = (select max(position) from listing_changes) returning position)
    select setval('listing_changes_positions', position, false) from gone`.execute(db);
  const assertRejected = async () => {
    const answer = await collector.get(
      `/api/v1/listings/changes?after=${lost}`,
      headersForAllSources,
    );
    assert.equal(answer.status, 422, answer.text);
  };
  await assertRejected();
  const added = [await addListing(), await addListing()];
  const restored = await poll(copied);
  assert.deepEqual(getListingIds(restored), added);
  await assertRejected();
  assert.deepEqual((await poll(restored.cursor)).items, []);
  // A removed change cannot be checked, so a cursor at its position stays valid.
  await sql`delete from listing_changes`.execute(db);
  const later = await addListing();
  assert.deepEqual(getListingIds(await poll(restored.cursor)), [later]);
});

const encodeCursor = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

test('An invalid cursor or limit is rejected', async () => {
  const wrong = [
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
  for (const query of wrong) {
    const answer = await collector.get(`/api/v1/listings/changes?${query}`, headersForAllSources);
    assert.equal(answer.status, 422, `${query}: ${answer.text}`);
  }
});

test('The changes need the scope "search" and count against its limit', async () => {
  const { key } = await keys.create({ name: 'sender', scopes: ['ingest'] });
  const address = '/api/v1/listings/changes';
  assert.equal((await collector.get(address)).status, 401);
  const denied = await collector.get(address, { authorization: `Bearer ${key}` });
  assert.equal(denied.status, 403);
  const answer = await collector.get(address, headersForAllSources);
  assert.equal(answer.headers.get('ratelimit-limit'), '100000');
});
