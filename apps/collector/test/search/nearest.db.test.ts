import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { findNearest } from '../../src/search/nearest.ts';
import { watchedDatabase } from '@oselya/testing/database';
import { idsOf, openSearch } from './harness.ts';

const { add, serve, db, pool, engine } = await openSearch();

/** A point on a circle, so that distance grows with the angle. */
const at = (degrees: number) => [
  Math.cos((degrees * Math.PI) / 180),
  Math.sin((degrees * Math.PI) / 180),
  0,
];

/** Directions that are spread evenly and differ from one another. */
const scattered = (index: number) => [
  Math.sin(index * 1.1),
  Math.cos(index * 2.3),
  Math.sin(index * 0.7 + 1),
];

test('through the index and without it the order is that of computing every distance', async () => {
  const seeds = Array.from({ length: 400 }, (_, index) => ({
    source_slug: 'scattered',
    embedding: scattered(Math.floor(index / 2)),
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
  for (const exactMatches of [0, 1000]) {
    const body = { embedding: query, source_slug: 'scattered', limit: 30 };
    const answer = await (await serve({ exactMatches })).post('similar', body);
    assert.deepEqual(idsOf(answer.body), expected, `exact up to ${exactMatches}`);
  }
});

function cosineDistance(a: readonly number[], b: readonly number[]): number {
  const dot = a.reduce((sum, element, index) => sum + element * (b[index] ?? 0), 0);
  return 1 - dot / (Math.hypot(...a) * Math.hypot(...b));
}

test('a selective filter gets all its rows, also where the index gives up before', async () => {
  const wanted = await add(
    ...Array.from({ length: 12 }, (_, index) => ({
      source_slug: 'rare',
      city: 'Рідкісне',
      embedding: at(170 + index / 10),
    })),
  );
  // What is nearest to the query are hundreds of others, more than the index keeps in view.
  await add(
    ...Array.from({ length: 600 }, (_, index) => ({
      source_slug: 'crowd',
      embedding: at(index / 20),
    })),
  );
  const search = {
    vector: '[1,0,0]',
    embeddingModel: 'test-model',
    filters: { city: 'рідкісне' },
    limit: 10,
  };
  await db.connection().execute(async (connection) => {
    await sql`set hnsw.max_scan_tuples = 1; set enable_seqscan = off`.execute(connection);
    const index = await connection.transaction().execute(async (trx) => {
      await sql`set local hnsw.ef_search = 100`.execute(trx);
      return sql`select id from property_listings where city_key = 'рідкісне'
        order by embedding <=> '[1,0,0]', id limit 10`.execute(trx);
    });
    assert.ok(index.rows.length < 10, `the index alone found ${index.rows.length}`);
    for (const exactMatches of [0, 11, 12]) {
      const options = { ...search, exactMatches };
      const found = await findNearest(connection, options);
      const ids = found.map(({ id }) => id);
      assert.deepEqual(ids, wanted.slice(0, 10), `exact up to ${exactMatches}`);
    }
    await sql`reset hnsw.max_scan_tuples; reset enable_seqscan`.execute(connection);
  });
});

test('while most embeddings are of another model, not all of many distances are computed', async () => {
  const source_slug = 'half-way';
  const vector = '[0,0,1]';
  // Six times as many as are kept in view: what the index passes by on its way is given, too.
  await add(
    ...Array.from({ length: 1200 }, (_, index) => ({
      source_slug,
      embedding_model: 'older-model',
      embedding: [index / 20_000, 0, 1],
    })),
  );
  const wanted = await add(
    ...Array.from({ length: 12 }, (_, index) => ({
      source_slug,
      embedding_model: 'test-model',
      embedding: [1, 0, -1 - index],
    })),
  );
  await add(
    ...Array.from({ length: 800 }, (_, index) => ({
      source_slug: 'far',
      embedding_model: 'older-model',
      embedding: [1, index / 20_000, -1],
    })),
  );
  // The planner is to know how many are of the source, or more of them are kept in view than there are.
  await sql`analyze property_listings`.execute(db);
  const search = { vector, limit: 10, exactMatches: 0 };
  await db.connection().execute(async (connection) => {
    // A sort is what every plan without the index needs.
    await sql`set hnsw.max_scan_tuples = 1; set enable_sort = off`.execute(connection);
    const statements: string[] = [];
    const watched = watchedDatabase(connection, { before: (text) => statements.push(text) });
    const idsBy = async (embeddingModel: string, maxExact: number, source = source_slug) => {
      const wants = { filters: { source_slug: source }, embeddingModel, maxExact };
      const found = await findNearest(watched, { ...search, ...wants });
      return found.map(({ id }) => id);
    };
    const some = await idsBy('test-model', 0);
    assert.ok(statements.every((text) => !text.includes('with candidates as materialized')));
    assert.ok(some.every((id) => wanted.includes(id)));
    assert.deepEqual(await idsBy('test-model', 100_000), wanted.slice(0, 10));
    assert.equal((await idsBy('older-model', 0)).length, 10);
    await sql`reset hnsw.max_scan_tuples; reset enable_sort`.execute(connection);
  });
});

test('an unfiltered search goes through the index', async () => {
  const vector = '[1,0,0]';
  await sql`analyze property_listings`.execute(db);
  const { rows } = await db.transaction().execute(async (trx) => {
    await sql`set local enable_seqscan = off`.execute(trx);
    return sql<Record<string, string>>`explain
      select id, embedding <=> ${vector}::vector as distance from property_listings
      where archived_at is null and embedding is not null order by distance, id limit 10`.execute(
      trx,
    );
  });
  const plan = rows.map((row) => Object.values(row).join()).join('\n');
  assert.match(plan, /Index Scan using property_listings_nearest/);
});

async function scanSetting(): Promise<string> {
  const { rows } = await pool.query(`select current_setting('hnsw.iterative_scan', true) as scan`);
  return rows[0]?.scan || 'off';
}

test('the settings of a search do not outlive it, nor reach others', async () => {
  const search = {
    vector: '[1,0,0]',
    embeddingModel: null,
    filters: {},
    limit: 5,
    exactMatches: 0,
  };
  const rounds = engine === 'pglite' ? 3 : 20;
  const seen = await Promise.all(
    Array.from({ length: rounds }, async () => {
      const before = await scanSetting();
      assert.equal((await findNearest(db, search)).length, 5);
      return [before, await scanSetting()];
    }),
  );
  assert.deepEqual(new Set(seen.flat()), new Set(['off']));
});
