import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { createApiKeys } from '../../src/access/api-keys.ts';
import { startCollector } from '../support/collector.ts';
import { openDatabase } from '../support/database.ts';
import { createHarness } from '../support/pipeline.ts';
import { payloadOf } from '../support/payload.ts';

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

const cursorOf = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

test('what is no cursor of this database is refused', async () => {
  const wrong = [
    'after=nonsense',
    'after=',
    `after=${cursorOf(-1)}`,
    `after=${cursorOf(1.5)}`,
    `after=${cursorOf('1')}`,
    `after=${cursorOf({ id: 1 })}`,
    `after=${cursorOf(2 ** 60)}`,
    // As of a database that has seen more changes than this one.
    `after=${cursorOf(1_000_000)}`,
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
