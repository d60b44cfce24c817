import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModelError } from '@oselya/model';
import { createSearches } from '../../src/search/service.ts';
import { HYBRID_DEPTH } from '../../src/search/schemas.ts';
import { watchedDatabase } from '@oselya/testing/database';
import { idsOf, modelOf, openSearch } from './harness.ts';

const { add, db, serve, pool } = await openSearch();
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

const passing = { status: 503, code: 'model_unavailable', retryAfter: '5' };
const fatal = { status: 502, code: 'model_failed', retryAfter: undefined };

for (const [name, error, expected] of [
  ['whose server is away', new ModelError('MODEL_UNREACHABLE', 'secret'), passing],
  ['that is left alone', new ModelError('MODEL_BREAKER_OPEN', 'secret'), passing],
  ['of a process that stops', new ModelError('MODEL_CLOSED', 'secret'), passing],
  ['that does not take the text', new ModelError('MODEL_REJECTED', 'secret'), fatal],
  ['that is misconfigured', new ModelError('MODEL_MISCONFIGURED', 'secret'), fatal],
  ['that answers nonsense', new ModelError('MODEL_INVALID_OUTPUT', 'secret'), fatal],
  ['that gives no direction', undefined, fatal],
] as const) {
  test(`a model ${name} is ${expected.status}`, async () => {
    const failing = { embed: error === undefined ? model.embed : () => Promise.reject(error) };
    const server = await serve({ model: failing });
    for (const kind of ['similar', 'hybrid']) {
      const { status, body, headers } = await server.post(kind, { query: 'нуль' });
      assert.deepEqual({ status, code: body.code, retryAfter: headers['retry-after'] }, expected);
      assert.ok(!body.detail.includes('secret'));
    }
  });
}

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

test('one that comes while the first page of the hybrid search is made takes no place of another', async () => {
  const source = { source_slug: 'crowded' };
  const nearest = Array.from({ length: HYBRID_DEPTH - 1 }, (_, nth) => ({
    ...source,
    embedding: at(1 + nth),
  }));
  const known = await add(
    ...nearest,
    // The last of those that are near, and the second by words: both together are the first.
    { ...source, description: 'тиха вулиця', embedding: at(HYBRID_DEPTH) },
    { ...source, description: 'тиха вулиця, тиха вулиця' },
  );
  let isFirst = true;
  const ranked = Promise.withResolvers<void>();
  const watched = watchedDatabase(db, {
    async after(text) {
      if (text.includes('newest')) ranked.resolve();
      if (!text.includes('explain') || !isFirst) return;
      isFirst = false;
      await ranked.promise;
      await add({ ...source, embedding: at(0) });
    },
  });
  const searches = createSearches({ db: watched, model });
  const { signal } = new AbortController();
  const walked: number[] = [];
  let cursor: string | null = null;
  do {
    const request = { query: 'тиха вулиця', ...source, limit: 20, ...(cursor && { cursor }) };
    const page = await searches.hybrid(request, signal);
    walked.push(...idsOf(page));
    cursor = page.next_cursor;
  } while (cursor !== null);
  assert.equal(walked[0], known[HYBRID_DEPTH - 1]);
  assert.deepEqual(
    walked.toSorted((one, other) => one - other),
    known,
  );
});
