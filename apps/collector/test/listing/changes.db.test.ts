import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { createApiKeys } from '../../src/access/api-keys.ts';
import { settleChanges } from '../../src/listing/changes.ts';
import { betterModel, openReprocess, readAll, readings } from '../reprocess/harness.ts';
import { startCollector } from '../support/collector.ts';
import { openDatabase, createHarness, listingOf, payloadOf } from '../support/pipeline.ts';

type Feed = {
  items: {
    listing_id: number;
    source_slug: string;
    kind: string;
    price_from: number | null;
    price_to: number | null;
    currency_from: string | null;
    currency_to: string | null;
    changed_at: string;
  }[];
  cursor: string;
  has_more: boolean;
};

const database = await openDatabase();
const { db, engine } = database;
const collector = await startCollector(database, {
  COLLECTOR_FULLTEXT_PER_MINUTE: '100000',
  COLLECTOR_AUTH: 'required',
  COLLECTOR_WORKER: 'false',
});
const keys = createApiKeys({ db });
const keyOf = async (sources?: string[]) => {
  const scopes = ['search' as const];
  const { key } = await keys.create({ name: 'follows', scopes, ...(sources && { sources }) });
  return { authorization: `Bearer ${key}` };
};
const anySource = await keyOf();

async function ask(after?: string, limit = 100, headers = anySource): Promise<Feed> {
  const query = new URLSearchParams({
    limit: String(limit),
    ...(after !== undefined && { after }),
  });
  const answer = await collector.get(`/api/v1/listings/changes?${query.toString()}`, headers);
  assert.equal(answer.status, 200, answer.text);
  return answer.json<Feed>();
}

let count = 0;
const INSERT = `insert into property_listings (source_slug, external_id, description, search_text)
  values ($1, $2, '', '') returning id`;

/** The values of a listing of its own, for `INSERT`. */
function valuesOf(source = 'doshka'): string[] {
  count += 1;
  return [source, `change-${count}`];
}

async function addListing(source = 'doshka'): Promise<number> {
  await sql`insert into sources (slug) values (${source}) on conflict do nothing`.execute(db);
  const { rows } = await database.pool.query<{ id: number }>(INSERT, valuesOf(source));
  return rows[0]?.id ?? 0;
}

test('what is new, has another price, or is back is told once, in its order', async () => {
  const { process } = createHarness(db);
  const { items, cursor, has_more } = await ask();
  assert.deepEqual([items, has_more], [[], false]);

  const payload = payloadOf({ price: 62_000, currency: 'USD' });
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

  const feed = await ask(cursor);
  const told = feed.items.map(({ changed_at, listing_id: id, source_slug, ...change }) => {
    assert.equal(new Date(changed_at).toISOString(), changed_at);
    assert.deepEqual([id, source_slug], [listing_id, payload.source_slug]);
    return change;
  });
  const none = { price_from: null, price_to: null, currency_from: null, currency_to: null };
  assert.deepEqual(told, [
    { kind: 'new', ...none },
    {
      kind: 'price_changed',
      price_from: 62_000,
      price_to: 59_500,
      currency_from: 'USD',
      currency_to: 'USD',
    },
    { kind: 'returned', ...none },
    { kind: 'returned', ...none },
    {
      kind: 'price_changed',
      price_from: 59_500,
      price_to: 2_400_000,
      currency_from: 'USD',
      currency_to: 'UAH',
    },
  ]);
  assert.deepEqual((await ask(feed.cursor)).items, []);
});

test('pages of any size give each change once', async () => {
  const start = (await ask()).cursor;
  const added: number[] = [];
  for (let nth = 0; nth < 7; nth += 1) added.push(await addListing());
  for (const limit of [1, 3, 7, 100]) {
    const seen: number[] = [];
    for (let [cursor, hasMore] = [start, true]; hasMore;) {
      const page = await ask(cursor, limit);
      assert.ok(page.items.length <= limit);
      seen.push(...page.items.map(({ listing_id }) => listing_id));
      ({ cursor, has_more: hasMore } = page);
    }
    assert.deepEqual(seen, added, `pages of ${limit}`);
  }
});

test('what one transaction writes together is told by pages, too', async () => {
  const { cursor } = await ask();
  await database.pool.query(
    `insert into property_listings (source_slug, external_id, description, search_text)
     select 'doshka', 'together-' || nth, '', '' from generate_series(1, 5) as nth`,
  );
  const first = await ask(cursor, 3);
  const second = await ask(first.cursor, 3);
  assert.deepEqual([first.has_more, second.has_more], [true, false]);
  const ids = [...first.items, ...second.items].map(({ listing_id }) => listing_id);
  assert.equal(new Set(ids).size, 5);
});

// PGlite has one transaction at a time.
if (engine === 'postgres') {
  test('what is committed late is told, though what began after it was told before', async () => {
    const { cursor } = await ask();
    const slow = await database.pool.connect();
    try {
      await slow.query('begin');
      const { rows } = await slow.query<{ id: number }>(INSERT, valuesOf());
      const later = await addListing();
      const meanwhile = await ask(cursor);
      await slow.query('commit');
      const { items } = await ask(meanwhile.cursor);
      assert.deepEqual(
        [...meanwhile.items, ...items].map(({ listing_id }) => listing_id),
        [later, rows[0]?.id],
      );
    } finally {
      slow.release();
    }
  });
}

test('of many who write and read at once each reader is told everything once', async () => {
  const readers = Array.from({ length: 3 }, () => ({ seen: [] as number[], cursor: '' }));
  for (const reader of readers) reader.cursor = (await ask()).cursor;
  const added: number[] = [];
  let writing = true;
  const writers = Array.from({ length: 4 }, async () => {
    for (let nth = 0; nth < 10; nth += 1) added.push(await addListing());
  });
  const reading = readers.map(async (reader) => {
    for (let isLast = false; !isLast;) {
      isLast = !writing;
      const { items, cursor, has_more } = await ask(reader.cursor, 5);
      reader.seen.push(...items.map(({ listing_id }) => listing_id));
      reader.cursor = cursor;
      isLast &&= !has_more;
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

test('a key with a list of sources follows these alone, and gets on past the others', async () => {
  const headers = await keyOf(['theirs']);
  const { cursor } = await ask();
  await addListing();
  const theirs = await addListing('theirs');
  await addListing();
  const first = await ask(cursor, 1, headers);
  assert.deepEqual(
    first.items.map(({ listing_id }) => listing_id),
    [theirs],
  );
  assert.equal(first.has_more, false);
  assert.deepEqual((await ask(first.cursor, 1, headers)).items, []);
});

/** A model that reads this price in dollars, whatever it is shown. */
const reads = (price: number) => betterModel(() => ({ price, currency: 'USD' }));

test('a price that is read differently out of the same payload is no change of it', async () => {
  const payload = payloadOf();
  const { cursor } = await ask();
  const { listing_id: listingId } = await createHarness(db, { model: reads(50_000) }).process(
    payload,
  );
  assert.ok(listingId);
  const work = openReprocess(db, reads(60_000));
  const [reading] = readings(await readAll(work, { listingId }));
  assert.ok(reading);
  assert.deepEqual(await work.write(reading), { outcome: 'written' });
  assert.equal((await listingOf(db, payload))?.price, 60_000);
  // Another payload may change it, whatever was said of the one before.
  await createHarness(db).process({ ...payload, price: 70_000, currency: 'USD' });
  const { items } = await ask(cursor);
  assert.deepEqual(
    items.map(({ kind, price_from, price_to }) => [kind, price_from, price_to]),
    [
      ['new', null, null],
      ['price_changed', 60_000, 70_000],
    ],
  );
});

/** Adds so many changes at once, of listings that nobody needs. */
async function addChanges(changes: number, source = 'doshka'): Promise<void> {
  await sql`insert into listing_changes (listing_id, source_slug, kind)
    select nth, ${source}, 'new' from generate_series(1, ${changes}::int) as nth`.execute(db);
}

/** How many changes have no place in the feed yet. */
async function countWaiting(): Promise<number> {
  const { n } = await db
    .selectFrom('listing_changes')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('position', 'is', null)
    .executeTakeFirstOrThrow();
  return n;
}

test('a request gives places to a thousand changes, the first one too, and says that there are more', async () => {
  const start = (await ask()).cursor;
  await addChanges(2005);
  const first = await ask();
  assert.deepEqual([first.items, first.has_more, await countWaiting()], [[], true, 1005]);
  const page = await ask(start, 1);
  assert.deepEqual([page.items.length, page.has_more, await countWaiting()], [1, true, 5]);
  let told = 0;
  for (let [cursor, hasMore] = [first.cursor, true]; hasMore;) {
    const next = await ask(cursor);
    told += next.items.length;
    ({ cursor, has_more: hasMore } = next);
  }
  assert.equal(told, 1005, 'what had no place then comes as a change');
});

test('the upkeep gives places to all of them', async () => {
  const { cursor } = await ask();
  await addChanges(1500);
  await settleChanges(db, new AbortController().signal);
  assert.equal(await countWaiting(), 0);
  const { has_more: hasMore, ...first } = await ask();
  assert.deepEqual([first.items, hasMore], [[], false]);
  assert.equal((await ask(cursor)).items.length, 100);
});

// PGlite has one session.
if (engine === 'postgres') {
  test('nobody waits for whoever gives places: what has none yet comes with the next answer', async () => {
    const { cursor } = await ask();
    const giver = await database.pool.connect();
    try {
      await giver.query('begin');
      // "feed", as in the repository.
      await giver.query('select pg_advisory_xact_lock($1)', [0x66_65_65_64]);
      const added = await addListing();
      const meanwhile = await ask(cursor);
      assert.deepEqual([meanwhile.items, meanwhile.has_more], [[], true]);
      assert.equal((await ask()).has_more, true);
      await settleChanges(db, new AbortController().signal);
      assert.equal(await countWaiting(), 1, 'it is left to whoever has begun');
      await giver.query('commit');
      const { items, has_more: hasMore } = await ask(meanwhile.cursor);
      assert.deepEqual([items.map(({ listing_id: id }) => id), hasMore], [[added], false]);
    } finally {
      giver.release();
    }
  });
}

test('a page looks through so many positions for its sources, and gets on where it finds none', async () => {
  const headers = await keyOf(['rare']);
  const { cursor } = await ask(undefined, 1, headers);
  await addListing();
  await ask();
  // As many as other sources have in days.
  await sql`select setval('listing_changes_positions',
    (select last_value from listing_changes_positions) + 60000)`.execute(db);
  const rare = await addListing('rare');
  const first = await ask(cursor, 10, headers);
  assert.deepEqual([first.items, first.has_more], [[], true]);
  const second = await ask(first.cursor, 10, headers);
  assert.deepEqual(
    [second.items.map(({ listing_id: id }) => id), second.has_more],
    [[rare], false],
  );
});

test('a cursor of what the restore of an older copy has lost is refused, though as many changes came since', async () => {
  const copied = (await ask()).cursor;
  await addListing();
  const lost = (await ask(copied)).cursor;
  // The copy does not have it, and goes on by itself.
  await sql`with gone as (
      delete from listing_changes
      where position = (select max(position) from listing_changes) returning position)
    select setval('listing_changes_positions', position, false) from gone`.execute(db);
  const refused = async () => {
    const answer = await collector.get(`/api/v1/listings/changes?after=${lost}`, anySource);
    assert.equal(answer.status, 422, answer.text);
  };
  await refused();
  const added = [await addListing(), await addListing()];
  const { items, cursor } = await ask(copied);
  assert.deepEqual(
    items.map(({ listing_id: id }) => id),
    added,
  );
  await refused();
  assert.deepEqual((await ask(cursor)).items, []);
});

test('a cursor that stands at a change which is not kept any more goes on', async () => {
  await addListing();
  const { cursor } = await ask();
  await sql`delete from listing_changes`.execute(db);
  assert.deepEqual((await ask(cursor)).items, []);
  const added = await addListing();
  assert.deepEqual(
    (await ask(cursor)).items.map(({ listing_id: id }) => id),
    [added],
  );
});

const cursorOf = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

test('what is no cursor of this database is refused', async () => {
  const wrong = [
    'after=nonsense',
    'after=',
    `after=${cursorOf(1)}`,
    `after=${cursorOf([1])}`,
    `after=${cursorOf([-1, null])}`,
    `after=${cursorOf([1.5, null])}`,
    `after=${cursorOf(['1', null])}`,
    `after=${cursorOf([1, 'now'])}`,
    `after=${cursorOf({ id: 1 })}`,
    `after=${cursorOf([2 ** 60, null])}`,
    // As of a database that has seen more changes than this one.
    `after=${cursorOf([1_000_000, null])}`,
    'limit=0',
    'limit=101',
    'cursor=abc',
  ];
  for (const query of wrong) {
    const answer = await collector.get(`/api/v1/listings/changes?${query}`, anySource);
    assert.equal(answer.status, 422, `${query}: ${answer.text}`);
  }
});

test('it needs the scope of searches, and is limited as they are', async () => {
  const { key } = await keys.create({ name: 'sends', scopes: ['ingest'] });
  const address = '/api/v1/listings/changes';
  assert.equal((await collector.get(address)).status, 401);
  const refused = await collector.get(address, { authorization: `Bearer ${key}` });
  assert.equal(refused.status, 403);
  const answer = await collector.get(address, anySource);
  assert.equal(answer.headers.get('ratelimit-limit'), '100000');
});
