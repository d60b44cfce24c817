import assert from 'node:assert/strict';
import { test } from 'node:test';
import { idsOf, openSearch } from './harness.ts';

const { add, serve } = await openSearch();
const { post, registry } = await serve();

const matches = async (body: object): Promise<number[]> => {
  const answer = await post('matches', body);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return idsOf(answer.body);
};

const ids = await add(
  {
    title: 'Мансарда',
    description: 'Ёлка під вікном, п’ять кімнат',
    city: 'Кам’янець-Подільський',
    deal_type: 'rent',
    property_type: 'apartment',
    price: 15_000,
    rooms: 5,
    area_total: 110.5,
    source_slug: 'one',
  },
  { description: 'Мансарда без ціни', city: 'Львів', source_slug: 'two' },
  { description: 'Мансарда в архіві', price: 15_000, archived: true },
  { description: 'Гараж', deal_type: 'sale', price: 90_000, rooms: 1, area_total: 20 },
);
const [wanted = 0, priceless = 0, archived = 0, garage = 0] = ids;

test('of the named listings those are given that the search finds, in the order of their names', async () => {
  assert.deepEqual(await matches({ ids: [garage, priceless, wanted], query: 'МАНСАРДА' }), [
    priceless,
    wanted,
  ]);
  assert.deepEqual(await matches({ ids: [priceless], query: 'мансарда' }), [priceless]);
  assert.deepEqual(await matches({ ids: [garage], query: 'мансарда' }), []);
  assert.deepEqual(await matches({ ids: [999_999], query: 'мансарда' }), []);
  assert.deepEqual(await matches({ ids }), [wanted, priceless, garage], 'no word is needed');
  assert.deepEqual(
    await matches({ ids, query: ' !? ' }),
    [],
    'a query without a word finds nothing',
  );
});

test('words and filters mean what they mean in the full-text search', async () => {
  const filters = [
    {},
    { deal_type: 'rent' },
    { deal_type: 'sale' },
    { city: 'камʼянець подільський' },
    { property_type: 'Apartment' },
    { price_min: 15_000, price_max: 15_000 },
    { price_min: 15_001 },
    { rooms_min: 2 },
    { rooms_max: 1 },
    { area_min: 100, area_max: 110.5 },
    { source_slug: 'two' },
    { include_archived: true },
    { include_archived: true, price_max: 20_000 },
  ];
  for (const query of ['мансарда', 'елка', "п'ять КІМНАТ", 'гараж', 'мансарда гараж']) {
    for (const filter of filters) {
      const search = await post('fulltext', { query, ...filter });
      assert.deepEqual(
        (await matches({ ids, query, ...filter })).toSorted((a, b) => a - b),
        idsOf(search.body).toSorted((a, b) => a - b),
        `${query} ${JSON.stringify(filter)}`,
      );
    }
  }
  assert.ok((await matches({ ids, include_archived: true })).includes(archived));
});

test('an answer has the whole listing, and is measured', async () => {
  const { body } = await post('matches', { ids: [wanted] });
  const [{ listing }] = body.items;
  assert.deepEqual([listing.title, listing.price, listing.rooms], ['Мансарда', 15_000, 5]);
  assert.ok(!('search_text' in listing));
  assert.ok(Number.isInteger(body.took_ms));
  assert.match(await registry.metrics(), /search_duration_seconds_count\{kind="matches"\} [1-9]/);
});

test('what cannot be asked is 422', async () => {
  const wrong = [
    {},
    { ids: [] },
    { ids: [1, 1] },
    { ids: [0] },
    { ids: ['1'] },
    { ids: [1.5] },
    { ids: Array.from({ length: 101 }, (_, nth) => nth + 1) },
    { ids: [1], query: '' },
    { ids: [1], limit: 5 },
    { ids: [1], price_min: 2, price_max: 1 },
    { ids: [1], rooms_min: 3, rooms_max: 2 },
  ];
  for (const body of wrong) {
    assert.equal((await post('matches', body)).status, 422, JSON.stringify(body));
  }
});

test('it counts as a full-text search', async () => {
  const limited = await serve({ perMinute: 2 });
  assert.equal((await limited.post('fulltext', { query: 'гараж' })).status, 200);
  assert.equal((await limited.post('matches', { ids: [garage] })).status, 200);
  const refused = await limited.post('matches', { ids: [garage] });
  assert.equal(refused.status, 429);
  assert.ok(Number(refused.headers['retry-after']) > 0);
});
