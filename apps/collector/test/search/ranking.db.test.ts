import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc from 'fast-check';
import { sql } from 'kysely';
import { matchesFilters } from '../../src/search/filters.ts';
import { rankMatches } from '../../src/search/ranking.ts';
import type { SearchFilters } from '../../src/search/schemas.ts';
import { watchedDatabase } from '@oselya/testing/database';
import { type ListingSeed, openSearch } from './harness.ts';

const { add, db } = await openSearch();
const CITIES = ['Київ', 'Львів', 'Івано-Франківськ'];

/** The first id of the newest listings. */
const NEWEST = 50_000_000_000;

/** Listings in bands of ids that are far apart, as where many were deleted or updates have used ids up. */
before(async () => {
  for (const from of [1, 1020, 40_000, 3_000_000, NEWEST]) {
    await sql`select setval(pg_get_serial_sequence('property_listings', 'id'), ${from})`.execute(
      db,
    );
    await add(
      ...Array.from({ length: 40 }, (_, index): ListingSeed => {
        const [nth, rare] = [from + index, index % 13 === 0 ? ' рідкісне' : ''];
        return {
          description: `${'слово '.repeat(1 + (nth % 3))}${nth % 2 === 0 ? 'друге' : ''}${rare}`,
          source_slug: nth % 4 === 0 ? 'one' : 'two',
          archived: nth % 7 === 0,
          ...(nth % 5 === 0
            ? {}
            : { price: (nth % 9) * 111.5, area_total: 20.25 * (1 + (nth % 6)) }),
          ...(nth % 6 === 0 ? {} : { rooms: nth % 13, city: CITIES[nth % 3] ?? '' }),
        };
      }),
    );
  }
});

/** The right answer: every listing is looked at. */
async function rankAll(text: string, filters: SearchFilters, bound: number, newestId: number) {
  const query = sql`plainto_tsquery('simple', ${text})`;
  const { rows } = await sql<{ id: number; rank: number }>`
    with newest as materialized (
      select id, search_vector from property_listings
      where to_tsvector('simple', search_text) @@ ${query} and ${matchesFilters(filters)}
        and id <= ${newestId} order by id desc limit ${bound})
    select id, ts_rank_cd(search_vector, ${query}) as rank from newest
    order by rank desc, id desc`.execute(db);
  return rows;
}

const optional = <Value>(value: fc.Arbitrary<Value>) =>
  fc.option(value, { nil: undefined, freq: 1 });
const between = (values: fc.Arbitrary<number>) =>
  fc
    .tuple(optional(values), optional(values))
    .map(([a, b]) => (a !== undefined && b !== undefined && a > b ? [b, a] : [a, b]));

/** Filters, each of which is there or not; the values lie on and beside those of listings. */
const anyFilters: fc.Arbitrary<SearchFilters> = fc
  .record({
    source_slug: optional(fc.constantFrom('one', 'two', 'three')),
    city: optional(fc.constantFrom(...CITIES, 'київ', 'Одеса', '—')),
    include_archived: optional(fc.boolean()),
    price: between(fc.constantFrom(0, 111.49, 111.5, 223, 500, 892, 1e14)),
    area: between(fc.constantFrom(0, 20.25, 20.26, 40.5, 121.5, 1e10)),
    rooms: between(fc.constantFrom(0, 1, 5, 9, 10, 11, 12, 10_000)),
  })
  .map(({ price, area, rooms, ...others }) => {
    const all = {
      ...others,
      price_min: price[0],
      price_max: price[1],
      area_min: area[0],
      area_max: area[1],
      rooms_min: rooms[0],
      rooms_max: rooms[1],
    };
    return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
  });

const anyQuestion = fc.tuple(
  fc.constantFrom('слово', 'слово друге', 'рідкісне', 'друге рідкісне', 'ніде'),
  anyFilters,
  fc.constantFrom(1, 7, 30, 1000),
  fc.constantFrom(0, 50, 1030, 40_010, 3_000_020, 2 ** 31, NEWEST + 20, Number.MAX_SAFE_INTEGER),
);

test('the matches are those of looking at every listing, below the bound and at it', async () => {
  await fc.assert(
    fc.asyncProperty(anyQuestion, async ([text, filters, bound, newestId]) => {
      const { ranked } = await rankMatches(db, { text, filters, bound, newestId });
      assert.deepEqual(
        ranked.map(({ id, rank }) => ({ id, rank })),
        await rankAll(text, filters, bound, newestId),
      );
    }),
    { numRuns: 150 },
  );
});

test('without a newest id it is that of all listings', async () => {
  const { ranked, newestId } = await rankMatches(db, { text: 'слово', filters: {}, bound: 1000 });
  assert.ok(newestId >= NEWEST + 40);
  assert.deepEqual(
    ranked.map(({ id }) => id),
    (await rankAll('слово', {}, 1000, newestId)).map(({ id }) => id),
  );
});

test('a newest id that nobody has yet is that of the last listing', async () => {
  const last = (await rankMatches(db, { text: 'слово', filters: {}, bound: 1 })).newestId;
  for (const newestId of [last + 1, 4e12, Number.MAX_SAFE_INTEGER]) {
    const matches = await rankMatches(db, { text: 'слово', filters: {}, bound: 1000, newestId });
    assert.equal(matches.newestId, last);
  }
});

/** What a search asks the database for: the statements, each as a text with its values. */
async function statementsOf(query: { text: string; bound: number; newestId?: number }) {
  const statements: string[] = [];
  const watched = watchedDatabase(db, { before: (text) => void statements.push(text) });
  await rankMatches(watched, { ...query, filters: {} });
  return statements;
}

test('however large ids are, few looks are made, and each names few bands', async () => {
  // Some are found at once, and those before them are far away.
  for (const text of ['слово', 'рідкісне', 'ніде']) {
    for (const bound of [1, 4, 33, 34, 35, 36, 1000]) {
      const statements = await statementsOf({ text, bound });
      assert.ok(statements.length <= 30, `${text}, ${bound}: ${statements.length} looks`);
      for (const statement of statements) {
        const names = statement.match(/"(band|block):/g)?.length ?? 0;
        assert.ok(names < 400, `${text}, ${bound}: ${names} names`);
      }
    }
  }
});

test('matches that are all new, and one too few, are not looked for band by band', async () => {
  const { ranked } = await rankMatches(db, {
    text: 'слово',
    filters: {},
    bound: 1000,
    newestId: 3_000_020,
  });
  const newest = ranked.filter(({ id }) => id >= 3_000_000).length;
  const statements = await statementsOf({ text: 'слово', bound: newest + 1, newestId: 3_000_020 });
  assert.ok(
    newest > 5 && statements.length <= 30,
    `${statements.length} looks for one of ${newest}`,
  );
});
