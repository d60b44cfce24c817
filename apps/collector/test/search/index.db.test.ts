import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';
import { formatVector } from '@oselya/db';
import fc from 'fast-check';
import { sql } from 'kysely';
import { readConversion } from '../../src/money/conversion.ts';
import { type ResolvedFilters, whereFilters } from '../../src/search/filters.ts';
import { findNearest } from '../../src/search/nearest.ts';
import { rankMatches } from '../../src/search/ranking.ts';
import { normalizeText } from '../../src/text.ts';
import { watchDatabase } from '@oselya/testing/database';
import { explain } from '../support/pipeline.ts';
import { createPointAtAngle, type ListingSeed, openSearch } from './harness.ts';

const { add, db, pool, engine } = await openSearch();
const conversion = await readConversion(db, 'UAH', undefined);

/** Returns one of many vectors with different directions. */
const createScatteredVector = (index: number) => [
  Math.sin(index * 1.1),
  Math.cos(index * 2.3),
  Math.sin(index * 0.7 + 1),
];

test('The search with the index finds the order of all computed distances', async () => {
  const seeds = Array.from({ length: 400 }, (_, index) => ({
    source_slug: 'scattered',
    embedding: createScatteredVector(Math.floor(index / 2)),
    price: index,
  }));
  const ids = await add(...seeds);
  const query = [0.3, -0.5, 0.8];
  const expected = ids
    .map((id, index) => ({ id, distance: cosineDistance(query, seeds[index]?.embedding ?? []) }))
    .toSorted((a, b) =>
      Math.abs(a.distance - b.distance) > 1e-6 ? a.distance - b.distance : a.id - b.id,
    )
    .slice(0, 30)
    .map(({ id }) => id);
  const filters = { source_slug: 'scattered' };
  const target = { vector: formatVector(query), embeddingModel: null, filters, limit: 30 };
  for (const exactSearchThreshold of [0, 1000]) {
    const neighbours = await findNearest(db, { ...target, exactSearchThreshold });
    assert.deepEqual(
      neighbours.map(({ id }) => id),
      expected,
      `exact up to ${exactSearchThreshold}`,
    );
  }
});

function cosineDistance(a: readonly number[], b: readonly number[]): number {
  const dot = a.reduce((sum, element, index) => sum + element * (b[index] ?? 0), 0);
  return 1 - dot / (Math.hypot(...a) * Math.hypot(...b));
}

test('A selective filter finds all its listings even if the index stops early', async () => {
  const matchingIds = await add(
    ...Array.from({ length: 12 }, (_, index) => ({
      source_slug: 'rare',
      city: 'Рідкісне',
      embedding: createPointAtAngle(170 + index / 10),
    })),
  );
  // Hundreds of other listings are nearer, more than `ef_search`.
  await add(
    ...Array.from({ length: 600 }, (_, index) => ({
      source_slug: 'crowd',
      embedding: createPointAtAngle(index / 20),
    })),
  );
  const filters = { city: 'рідкісне' };
  const search = { vector: '[1,0,0]', embeddingModel: 'test-model', filters, limit: 10 };
  await db.connection().execute(async (connection) => {
    await sql`set hnsw.max_scan_tuples = 1; set enable_seqscan = off`.execute(connection);
    const { rows } = await connection.transaction().execute(async (trx) => {
      await sql`set local hnsw.ef_search = 100`.execute(trx);
      return sql`select id from property_listings where city_key = 'рідкісне'
        order by embedding <=> '[1,0,0]', id limit 10`.execute(trx);
    });
    assert.ok(rows.length < 10, `the index alone found ${rows.length}`);
    for (const exactSearchThreshold of [0, 11, 12]) {
      const ids = (await findNearest(connection, { ...search, exactSearchThreshold })).map(
        ({ id }) => id,
      );
      assert.deepEqual(ids, matchingIds.slice(0, 10), `exact up to ${exactSearchThreshold}`);
    }
    await sql`reset hnsw.max_scan_tuples; reset enable_seqscan`.execute(connection);
  });
});

test('Few distances are computed while most embeddings are of another model', async () => {
  // The index may not reach a distant cluster. Along one arc, it links each listing to the next.
  await sql`truncate property_listings cascade`.execute(db);
  const addArc = (
    source_slug: string,
    embedding_model: string,
    { count, start }: { count: number; start: number },
  ) =>
    add(
      ...Array.from({ length: count }, (_, index) => ({
        source_slug,
        embedding_model,
        embedding: createPointAtAngle(start + index * 0.075),
      })),
    );
  // This arc has six times as many listings as `ef_search`.
  await addArc('half-way', 'older-model', { count: 1200, start: 0 });
  const matchingIds = await addArc('half-way', 'test-model', { count: 12, start: 100 });
  await addArc('far', 'older-model', { count: 800, start: 120 });
  // The search estimates the number of matches from planner statistics.
  await sql`analyze property_listings`.execute(db);
  await db.connection().execute(async (connection) => {
    // Every plan without the index needs a sort.
    await sql`set hnsw.max_scan_tuples = 1; set enable_sort = off`.execute(connection);
    const statements: string[] = [];
    const watchedDb = watchDatabase(connection, { before: (text) => statements.push(text) });
    const findIds = async (embeddingModel: string, maxExactCandidates: number) => {
      const filters = { source_slug: 'half-way' };
      const search = { vector: '[1,0,0]', filters, limit: 10, exactSearchThreshold: 0 };
      const neighbours = await findNearest(watchedDb, {
        ...search,
        embeddingModel,
        maxExactCandidates,
      });
      return neighbours.map(({ id }) => id);
    };
    const partialIds = await findIds('test-model', 0);
    assert.ok(statements.every((text) => !text.includes('with candidates as materialized')));
    assert.ok(partialIds.every((id) => matchingIds.includes(id)));
    assert.deepEqual(await findIds('test-model', 100_000), matchingIds.slice(0, 10));
    assert.equal((await findIds('older-model', 0)).length, 10);
    await sql`reset hnsw.max_scan_tuples; reset enable_sort`.execute(connection);
  });
});

async function readScanSetting(): Promise<string> {
  const { rows } = await pool.query(`select current_setting('hnsw.iterative_scan', true) as scan`);
  return rows[0]?.scan || 'off';
}

test('The settings of a search do not outlive it', async () => {
  const query = { vector: '[1,0,0]', embeddingModel: null, filters: {}, limit: 5 };
  const searchCount = engine === 'pglite' ? 3 : 20;
  const scanSettings = await Promise.all(
    Array.from({ length: searchCount }, async () => {
      const settingBefore = await readScanSetting();
      assert.equal((await findNearest(db, { ...query, exactSearchThreshold: 0 })).length, 5);
      return [settingBefore, await readScanSetting()];
    }),
  );
  assert.deepEqual(new Set(scanSettings.flat()), new Set(['off']));
});

suite('Ranking', () => {
  const CITIES = ['Київ', 'Львів', 'Івано-Франківськ'];

  /** First ID of the newest listings. */
  const FIRST_NEWEST_ID = 50_000_000_000;

  /** Adds listings in distant ID bands, as after many deletions. */
  before(async () => {
    await db.deleteFrom('property_listings').execute();
    for (const from of [1, 1020, 40_000, 3_000_000, FIRST_NEWEST_ID]) {
      await sql`select setval(pg_get_serial_sequence('property_listings', 'id'), ${from})`.execute(
        db,
      );
      await add(
        ...Array.from({ length: 40 }, (_, index): ListingSeed => {
          const [number, rareWord] = [from + index, index % 13 === 0 ? ' рідкісне' : ''];
          return {
            description: `${'слово '.repeat(1 + (number % 3))}${number % 2 === 0 ? 'друге' : ''}${rareWord}`,
            source_slug: number % 4 === 0 ? 'one' : 'two',
            archived: number % 7 === 0,
            ...(number % 5 === 0
              ? {}
              : {
                  price: (number % 9) * 111.5,
                  currency: ['UAH', 'USD', 'XAU'][number % 3] ?? null,
                  area_total: 20.25 * (1 + (number % 6)),
                }),
            ...(number % 6 === 0 ? {} : { rooms: number % 13, city: CITIES[number % 3] ?? '' }),
          };
        }),
      );
    }
  });

  /** Returns the expected ranking, computed by reading every listing. */
  async function rankAll(
    text: string,
    filters: ResolvedFilters,
    maxMatches: number,
    newestId: number,
  ) {
    const query = sql`plainto_tsquery('simple', ${text})`;
    const { rows } = await sql<{ id: number; rank: number }>`
    with newest as materialized (
      select id, search_vector from property_listings
      where to_tsvector('simple', search_text) @@ ${query} and ${whereFilters(filters)}
        and id <= ${newestId} order by id desc limit ${maxMatches})
    select id, ts_rank_cd(search_vector, ${query}) as rank from newest
    order by rank desc, id desc`.execute(db);
    return rows;
  }

  const arbitraryOptional = <Value>(value: fc.Arbitrary<Value>) =>
    fc.option(value, { nil: undefined, freq: 1 });
  const arbitraryRange = (values: fc.Arbitrary<number>) =>
    fc
      .tuple(arbitraryOptional(values), arbitraryOptional(values))
      .map(([a, b]) => (a !== undefined && b !== undefined && a > b ? [b, a] : [a, b]));

  /** Random filters, with values the same as or close to those of the listings. */
  const arbitraryFilters: fc.Arbitrary<ResolvedFilters> = fc
    .record({
      source_slug: arbitraryOptional(fc.constantFrom('one', 'two', 'three')),
      city: arbitraryOptional(fc.constantFrom(...CITIES, 'київ', 'Одеса', '—')),
      include_archived: arbitraryOptional(fc.boolean()),
      price: arbitraryRange(fc.constantFrom(0, 111.49, 111.5, 223, 500, 892, 4922.73, 1e14)),
      pricePerArea: arbitraryRange(fc.constantFrom(0, 5.5, 11.01, 200, 1e14)),
      area: arbitraryRange(fc.constantFrom(0, 20.25, 20.26, 40.5, 121.5, 1e10)),
      rooms: arbitraryRange(fc.constantFrom(0, 1, 5, 9, 10, 11, 12, 10_000)),
    })
    .map(({ price, pricePerArea, area, rooms, ...otherFilters }) => {
      const searchFilters = {
        ...otherFilters,
        conversion,
        price_per_m2_min: pricePerArea[0],
        price_per_m2_max: pricePerArea[1],
        price_min: price[0],
        price_max: price[1],
        area_min: area[0],
        area_max: area[1],
        rooms_min: rooms[0],
        rooms_max: rooms[1],
      };
      return Object.fromEntries(
        Object.entries(searchFilters).filter(([, value]) => value !== undefined),
      );
    });

  const arbitraryQuery = fc.tuple(
    fc.constantFrom('слово', 'слово друге', 'рідкісне', 'друге рідкісне', 'ніде'),
    arbitraryFilters,
    fc.constantFrom(1, 7, 30, 1000),
    fc.constantFrom(
      0,
      50,
      1030,
      40_010,
      3_000_020,
      2 ** 31,
      FIRST_NEWEST_ID + 20,
      Number.MAX_SAFE_INTEGER,
    ),
  );

  test('The ranked matches are those of reading every listing', async () => {
    await fc.assert(
      fc.asyncProperty(arbitraryQuery, async ([text, filters, maxMatches, newestId]) => {
        const { hits } = await rankMatches(db, { text, filters, maxMatches, newestId });
        assert.deepEqual(
          hits.map(({ id, rank }) => ({ id, rank })),
          await rankAll(text, filters, maxMatches, newestId),
        );
      }),
      { numRuns: 150 },
    );
  });

  test('The newest ID is at most the ID of the last listing', async () => {
    const query = { text: 'слово', filters: {}, maxMatches: 1000 };
    const { newestId: lastId } = await rankMatches(db, query);
    assert.ok(lastId >= FIRST_NEWEST_ID + 40);
    for (const newestId of [lastId + 1, 4e12, Number.MAX_SAFE_INTEGER]) {
      assert.equal((await rankMatches(db, { ...query, newestId })).newestId, lastId);
    }
  });

  /** Returns the search statements with their values. */
  async function recordStatements(query: { text: string; maxMatches: number; newestId?: number }) {
    const statements: string[] = [];
    const watchedDb = watchDatabase(db, { before: (text) => void statements.push(text) });
    await rankMatches(watchedDb, { ...query, filters: {} });
    return statements;
  }

  test('A search makes few statements, and each names few ID bands', async () => {
    for (const text of ['слово', 'рідкісне', 'ніде']) {
      for (const maxMatches of [1, 4, 33, 34, 35, 36, 1000]) {
        const statements = await recordStatements({ text, maxMatches });
        assert.ok(
          statements.length <= 30,
          `${text}, ${maxMatches}: ${statements.length} statements`,
        );
        for (const statement of statements) {
          const termCount = statement.match(/"(band|block):/g)?.length ?? 0;
          assert.ok(termCount < 400, `${text}, ${maxMatches}: ${termCount} bands`);
        }
      }
    }
  });

  test('A full-text search with filters reads the index of words and terms', async () => {
    await db.transaction().execute(async (trx) => {
      // The planner would read a small table without the index.
      await sql`set local enable_seqscan = off`.execute(trx);
      const filters = { city: 'Київ', price_max: 500, include_archived: true, conversion };
      const query = { text: 'слово', filters, maxMatches: 5 };
      const { indexes } = await explain(trx, (explained) => rankMatches(explained, query));
      for (const index of ['property_listings_terms', 'property_listings_terms_archived']) {
        assert.ok(indexes.includes(index), String(indexes));
      }
    });
  });
});

test('Any normalized text finds itself', async () => {
  const texts = fc
    .sample(fc.string({ unit: 'binary', maxLength: 40 }), 500)
    .map(normalizeText)
    .filter((text) => text !== '');
  const { rows } = await pool.query<{ text: string }>(
    `select text from unnest($1::text[]) as text
     where numnode(plainto_tsquery('simple', text)) > 0
       and not to_tsvector('simple', text) @@ plainto_tsquery('simple', text)`,
    [texts],
  );
  assert.deepEqual(rows, []);
});
