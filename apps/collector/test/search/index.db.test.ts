import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';
import { formatVector } from '@oselya/db';
import fc from 'fast-check';
import { sql } from 'kysely';
import { readConversion } from '../../src/money/conversion.ts';
import { type ResolvedFilters, whereFilters } from '../../src/search/filters.ts';
import { computeIndexedDistance, findNearest } from '../../src/search/nearest.ts';
import {
  rankPage,
  type RankedPage,
  type RankedSearch,
  readNewestId,
} from '../../src/search/ranking.ts';
import { createExactQuery } from '../../src/search/word-queries.ts';
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
        order by ${computeIndexedDistance('[1,0,0]')}, id limit 10`.execute(trx);
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
  await sql`truncate property_listings, listing_index, listing_facts cascade`.execute(db);
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
    assert.ok(statements.every((text) => !text.includes('candidates as materialized')));
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
  async function rankAll(text: string, filters: ResolvedFilters, maxId: number) {
    const query = sql`plainto_tsquery('simple', ${text})`;
    const { rows } = await sql<{ id: number; rank: number }>`
      select id, ts_rank_cd(search_vector, ${query}) as rank from property_listings
      where to_tsvector('simple', search_text) @@ ${query} and id <= ${maxId}
        and id in (select id from listing_index where ${whereFilters(filters)})
      order by rank desc, id desc`.execute(db);
    return rows;
  }

  /** Returns all hits in the order of the pages, and the number of matches. */
  async function readPages(search: RankedSearch, pageSize: number, maxId: number) {
    const hits: { id: number; rank: number }[] = [];
    const newestId = await readNewestId(db, maxId);
    let page: RankedPage | undefined;
    do {
      page = await rankPage(db, search, { limit: pageSize, newestId, start: page?.next });
      hits.push(...page.hits.map(({ id, rank }) => ({ id, rank })));
    } while (page.next !== undefined);
    return { hits, matchCount: page.matchCount };
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

  test('The pages of all matches are the ranking that reads every listing', async () => {
    await fc.assert(
      fc.asyncProperty(arbitraryQuery, async ([text, filters, pageSize, maxId]) => {
        const search = { words: createExactQuery(text), filters };
        const { hits, matchCount } = await readPages(search, pageSize, maxId);
        const expected = await rankAll(text, filters, maxId);
        assert.deepEqual(hits, expected);
        assert.equal(matchCount, expected.length);
      }),
      { numRuns: 100 },
    );
  });

  test('With more matches than one block has, each match is on one page', async () => {
    await sql`analyze listing_index`.execute(db);
    await fc.assert(
      fc.asyncProperty(arbitraryQuery, async ([text, filters, pageSize, maxId]) => {
        const search = { words: createExactQuery(text), filters, minRankedMatches: 8 };
        const { hits, matchCount } = await readPages(search, pageSize, maxId);
        const expected = await rankAll(text, filters, maxId);
        const compareById = (a: { id: number }, b: { id: number }) => a.id - b.id;
        assert.deepEqual(hits.toSorted(compareById), expected.toSorted(compareById));
        assert.equal(matchCount, expected.length);
      }),
      { numRuns: 50 },
    );
  });

  test('A search names few ID bands, whatever block its cursor has', async () => {
    const statements: string[] = [];
    const watchedDb = watchDatabase(db, { before: (text) => void statements.push(text) });
    const block = {
      part: 'rest',
      firstId: 0,
      lastId: 4e12,
      newestId: 4e12,
      countBefore: 0,
    } as const;
    const search = { words: createExactQuery('слово'), filters: {} };
    for (const lastId of [5000, 4e6, 4e12]) {
      const newestId = await readNewestId(db, block.newestId);
      await rankPage(watchedDb, search, {
        limit: 1,
        newestId,
        start: { block: { ...block, lastId } },
      });
    }
    for (const statement of statements) {
      const termCount = statement.match(/"(band|block):/g)?.length ?? 0;
      assert.ok(termCount < 2100, `${termCount} bands`);
    }
  });

  test('A cursor with a block of all matches ranks only a part of them at once', async () => {
    const [text, filters, newestId] = ['слово', {}, FIRST_NEWEST_ID + 100];
    const block = { part: 'all', firstId: 0, lastId: newestId, newestId, countBefore: 0 } as const;
    const search = { words: createExactQuery(text), filters, minRankedMatches: 8 };
    const expected = await rankAll(text, filters, newestId);
    const ids: number[] = [];
    const counts: number[] = [];
    for (let next: RankedPage['next'] = { block }; next !== undefined;) {
      const page: RankedPage = await rankPage(db, search, { limit: 10, newestId, start: next });
      ids.push(...page.hits.map(({ id }) => id));
      counts.push(page.matchCount);
      next = page.next;
    }
    assert.ok((counts[0] ?? 0) <= 40 && expected.length > 160, String(counts));
    assert.deepEqual(new Set(ids), new Set(expected.map(({ id }) => id)));
    assert.equal(ids.length, expected.length);
  });

  test('A full-text search with filters reads the index of words and terms', async () => {
    await db.transaction().execute(async (trx) => {
      // The planner would read a small table without the index.
      await sql`set local enable_seqscan = off`.execute(trx);
      const filters = { city: 'Київ', price_max: 500, conversion };
      const search = { words: createExactQuery('слово'), filters };
      const newestId = FIRST_NEWEST_ID * 2;
      const block = {
        part: 'all',
        firstId: 0,
        lastId: newestId,
        newestId,
        countBefore: 0,
      } as const;
      const { indexes } = await explain(trx, (explained) =>
        rankPage(explained, search, { limit: 5, newestId, start: { block } }),
      );
      assert.ok(indexes.includes('listing_index_search'), String(indexes));
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
