import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { findNearest } from '../../src/search/nearest.sql.ts';
import { idsOf, modelOf, openSearch } from './harness.ts';

const { add, serve, db, pool, engine } = await openSearch();
const model = modelOf({ 'тиха вулиця': [1, 0, 0], нуль: [0, 0, 0] });
const { post } = await serve({ model });

const ok = async (kind: string, body: object) => {
  const answer = await post(kind, body);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
};

/** A point on a circle, so that distance grows with the angle. */
const at = (degrees: number) => [
  Math.cos((degrees * Math.PI) / 180),
  Math.sin((degrees * Math.PI) / 180),
  0,
];

const [near, tie, far, opposite] = await add(
  { source_slug: 'circle', embedding: at(10), city: 'Київ', price: 100 },
  {
    source_slug: 'circle',
    embedding: at(10),
    city: 'Львів',
    price: 300,
    property_type: 'квартира',
  },
  { source_slug: 'circle', embedding: at(60), city: 'Київ', price: 500 },
  { source_slug: 'circle', embedding: at(180), city: 'Київ' },
);
const [archived, bare] = await add(
  { source_slug: 'circle', embedding: at(1), archived: true },
  { source_slug: 'circle' },
);
const circle = { source_slug: 'circle' };

test('the nearest come first, ties by id, with their distances', async () => {
  const { items, took_ms } = await ok('similar', { embedding: [2, 0, 0], ...circle });
  assert.deepEqual(idsOf({ items }), [near, tie, far, opposite]);
  const distances = items.map(({ distance }: { distance: number }) => distance.toFixed(3));
  assert.deepEqual(distances, ['0.015', '0.015', '0.500', '2.000']);
  assert.ok(Number.isInteger(took_ms));
});

test('a text is embedded by the model; a listing is not its own neighbour', async () => {
  const byText = await ok('similar', { query: 'тиха вулиця', ...circle });
  assert.deepEqual(idsOf(byText), [near, tie, far, opposite]);
  const byListing = await ok('similar', { listing_id: far, ...circle });
  assert.deepEqual(idsOf(byListing), [near, tie, opposite]);
});

test('filters and the limit hold, and archived listings come only when asked for', async () => {
  const embedding = [1, 0, 0];
  const cases: [object, (number | undefined)[]][] = [
    [{ limit: 1 }, [near]],
    [{ city: 'КИЇВ', limit: 2 }, [near, far]],
    [{ price_min: 200, price_max: 500 }, [tie, far]],
    [{ include_archived: true }, [archived, near, tie, far, opposite]],
    [{ city: 'Одеса' }, []],
    [{ property_type: 'Квартира' }, [tie]],
  ];
  for (const [filters, ids] of cases) {
    const body = await ok('similar', { embedding, ...circle, ...filters });
    assert.deepEqual(idsOf(body), ids, JSON.stringify(filters));
  }
});

test('vectors of any length have a direction', async () => {
  for (const size of [1e-320, 1e-30, 1e30, 1e308]) {
    const body = await ok('similar', { embedding: [size, 0, 0], ...circle, limit: 1 });
    assert.deepEqual(idsOf(body), [near], String(size));
  }
});

test('embeddings of another model are no neighbours; those of an unknown one are', async () => {
  const [same, unknown] = await add(
    { source_slug: 'models', embedding: [1, 0, 0], embedding_model: 'test-model' },
    { source_slug: 'models', embedding: at(5) },
    { source_slug: 'models', embedding: [1, 0, 0], embedding_model: 'older-model' },
  );
  const body = await ok('similar', { query: 'тиха вулиця', source_slug: 'models' });
  assert.deepEqual(idsOf(body), [same, unknown]);
});

test('a text without a word is near to nothing, and the model is not asked', async () => {
  assert.deepEqual((await ok('similar', { query: '?!…' })).items, []);
});

test('what the model cannot embed is 503', async () => {
  for (const query of ['слово, якого модель не знає', 'нуль']) {
    for (const kind of ['similar', 'hybrid']) {
      const answer = await post(kind, { query });
      assert.equal(answer.status, 503);
      assert.equal(answer.body.code, 'model_unavailable');
      assert.equal(answer.headers['retry-after'], '5');
      assert.ok(!answer.body.detail.includes('refused'));
    }
  }
});

test('a listing that is unknown is 404, one without an embedding 409', async () => {
  assert.equal((await post('similar', { listing_id: 999_999 })).body.code, 'listing_not_found');
  const answer = await post('similar', { listing_id: bare });
  assert.deepEqual([answer.status, answer.body.code], [409, 'listing_not_embedded']);
});

const refused: [string, object | string, string][] = [
  ['nothing to be near to', {}, 'body'],
  ['two things to be near to', { query: 'a', listing_id: 1 }, 'body'],
  ['all three', { query: 'a', listing_id: 1, embedding: [1, 0, 0] }, 'body'],
  ['a narrow embedding', { embedding: [1, 0] }, 'body/embedding'],
  ['a wide embedding', { embedding: [1, 0, 0, 0] }, 'body/embedding'],
  ['an empty embedding', { embedding: [] }, 'body/embedding'],
  ['the zero vector', { embedding: [0, 0, 0] }, 'body/embedding'],
  ['null in an embedding', { embedding: [1, null, 0] }, 'body/embedding/1'],
  ['text in an embedding', { embedding: [1, '0', 0] }, 'body/embedding/1'],
  ['infinity in an embedding', '{"embedding":[1e999,0,0]}', 'body/embedding/0'],
  ['an unknown key', { embedding: [1, 0, 0], cursor: 'a' }, 'body'],
  ['a wrong range', { embedding: [1, 0, 0], price_min: 2, price_max: 1 }, 'body/price_min'],
  ['NUL in the query', { query: 'a\0' }, 'body/query'],
  ['an id that is no id', { listing_id: 0 }, 'body/listing_id'],
];

for (const [name, body, path] of refused) {
  test(`${name} is 422 and says where`, async () => {
    const answer = await post('similar', body);
    assert.equal(answer.status, 422, JSON.stringify(answer.body));
    assert.deepEqual(
      answer.body.errors.map((one: { path: string }) => one.path),
      [path],
    );
  });
}

test('NaN is no JSON: 400', async () => {
  assert.equal((await post('similar', '{"embedding":[NaN,0,0]}')).status, 400);
});

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
    embeddingModel: null,
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
      const found = await findNearest(connection, { ...search, exactMatches });
      const ids = found.map(({ id }) => id);
      assert.deepEqual(ids, wanted.slice(0, 10), `exact up to ${exactMatches}`);
    }
    await sql`reset hnsw.max_scan_tuples; reset enable_seqscan`.execute(connection);
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

test('no connection is held while the model is asked', async () => {
  let inUse = -1;
  const watching = {
    ...model,
    embed: async (...call: Parameters<typeof model.embed>) => {
      inUse = pool.totalCount - pool.idleCount;
      return model.embed(...call);
    },
  };
  const server = await serve({ model: watching });
  assert.equal((await server.post('similar', { query: 'тиха вулиця' })).status, 200);
  assert.equal(inUse, 0);
});

test('the hybrid search fuses both rankings and walks them with a cursor', async () => {
  const [both, words, meaning] = await add(
    { source_slug: 'hybrid', description: 'тиха вулиця', embedding: at(20) },
    { source_slug: 'hybrid', description: 'тиха вулиця, тиха вулиця', embedding: at(120) },
    { source_slug: 'hybrid', description: 'спокійне місце', embedding: at(5) },
  );
  const request = { query: 'тиха вулиця', source_slug: 'hybrid', highlight: true };
  const { items, total } = await ok('hybrid', request);
  assert.deepEqual(idsOf({ items }), [words, both, meaning]);
  assert.deepEqual(total, { value: 3, relation: 'eq' });
  // First by words and third by meaning; second by both; first by meaning only.
  const ranks = [1 / 61 + 1 / 63, 1 / 62 + 1 / 62, 1 / 61];
  assert.deepEqual(
    items.map(({ rank }: { rank: number }) => rank),
    ranks,
  );
  assert.match(items[1].highlight, /<mark>тиха<\/mark>/);

  const walked = [];
  let cursor: string | undefined;
  do {
    const page = await ok('hybrid', { ...request, limit: 1, ...(cursor && { cursor }) });
    walked.push(...idsOf(page));
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  assert.deepEqual(walked, [words, both, meaning]);

  const { next_cursor } = await ok('hybrid', { ...request, limit: 1 });
  const elsewhere = await post('fulltext', { ...request, cursor: next_cursor });
  assert.equal(elsewhere.status, 422);
  assert.deepEqual((await ok('hybrid', { query: '?!' })).items, []);
});

test('listings that come between two pages of the hybrid search shift nothing', async () => {
  const source = { source_slug: 'growing' };
  const seed = { ...source, description: 'тиха вулиця', embedding: at(30) };
  const [first, second, third] = await add(
    { ...seed, description: 'тиха вулиця, тиха вулиця', embedding: at(10) },
    { ...seed, embedding: at(20) },
    { ...source, description: 'спокійне місце', embedding: at(90) },
  );
  const request = { query: 'тиха вулиця', ...source, limit: 1 };
  const walked = [];
  let cursor: string | undefined;
  do {
    const page = await ok('hybrid', { ...request, ...(cursor && { cursor }) });
    walked.push(...idsOf(page));
    cursor = page.next_cursor ?? undefined;
    // Better than all by words and by meaning.
    await add({ ...seed, description: 'тиха вулиця '.repeat(4), embedding: at(0) });
  } while (cursor !== undefined);
  assert.deepEqual(walked, [first, second, third]);
});
