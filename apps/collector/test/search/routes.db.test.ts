import assert from 'node:assert/strict';
import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { test } from 'node:test';
import { ModelError } from '@oselya/model';
import fc from 'fast-check';
import { storeRates } from '../../src/money/rates.ts';
import { computeStoredStems } from '../../src/search/stored-stems.ts';
import { refreshVocabulary } from '../../src/search/vocabulary.ts';
import { createPointAtAngle, getListingIds, createModel, openSearch } from './harness.ts';

const { add, db, serve } = await openSearch();
const model = createModel({ 'тиха вулиця': [1, 0, 0], світлиця: [1, 0, 0], нуль: [0, 0, 0] });
const { post } = await serve({ model });

const searchOk = async (kind: string, body: object) => {
  const response = await post(kind, body);
  assert.equal(response.status, 200, JSON.stringify(response.body));
  return response.body;
};

/** Returns the listing IDs of each page of a search. Calls `afterPage` after each page. */
async function readAllPages(kind: string, body: object, afterPage?: () => Promise<unknown>) {
  const pages: number[][] = [];
  let cursor: string | undefined;
  do {
    const page = await searchOk(kind, { ...body, ...(cursor && { cursor }) });
    pages.push(getListingIds(page));
    cursor = page.next_cursor ?? undefined;
    await afterPage?.();
  } while (cursor !== undefined);
  return pages;
}

test('Ukrainian, Russian and English are found in every spelling', async () => {
  const [ukrainianId, russianId, englishId] = await add(
    { description: "П’ЯТЬ кімнат в Івано-Франківську, 54,5 м², об'єкт здано, за\u0301мок" },
    { description: 'Ёлки у дома, 2-к квартира на Подо\u0301ле, съёмное жильё' },
    { description: 'Sunny two-bedroom flat near the river, don’t miss' },
  );
  const queries: [string, number | undefined][] = [
    ["п'ять", ukrainianId],
    ['пʼять КІМНАТ', ukrainianId],
    ['івано франківську', ukrainianId],
    ['Івано‑Франківську', ukrainianId],
    ['54.5 м2', ukrainianId],
    ['замок обʼєкт', ukrainianId],
    ['елки', russianId],
    ['ЁЛКИ подоле', russianId],
    ['2 к квартира', russianId],
    ['2–К', russianId],
    ['жилье', russianId],
    ['TWO BEDROOM', englishId],
    ["don't two-bedroom", englishId],
  ];
  for (const [query, id] of queries) {
    assert.deepEqual(getListingIds(await searchOk('fulltext', { query })), [id], query);
  }
});

test('More of the words, nearer together, rank first', async () => {
  const [apartId, adjacentId] = await add(
    { description: 'Затишна мансарда, а ще є велика простора лоджія' },
    { description: 'Затишна лоджія, лоджія затишна' },
    { description: 'Затишна кухня' },
  );
  const { items } = await searchOk('fulltext', { query: 'затишна лоджія' });
  assert.deepEqual(getListingIds({ items }), [adjacentId, apartId]);
  assert.ok(items[0].rank > items[1].rank);
});

test('A response has the whole listing', async () => {
  const facts = { title: 'Хата', description: 'унікальнахата', price: 1250.5, rooms: 2 };
  const [listing_id] = await add(facts);
  const { items, took_ms, ...page } = await searchOk('fulltext', { query: 'унікальнахата' });
  const { listing } = items[0];
  assert.partialDeepStrictEqual(listing, { ...facts, listing_id, archived_at: null });
  assert.ok(!('search_text' in listing) && !('embedding' in listing));
  const total = { value: 1, relation: 'eq' };
  assert.deepEqual(page, { total, currency: 'UAH', next_cursor: null });
  assert.ok(Number.isInteger(took_ms) && took_ms >= 0);
});

test('Each filter leaves out the other listings', async () => {
  const description = 'фільтр';
  const rentedFacts = {
    deal_type: 'rent',
    property_type: 'apartment',
    city: 'Кам’янець-Подільський',
  };
  const soldFacts = { deal_type: 'sale', property_type: 'house', city: 'Київ' };
  const [rentedId, soldId, unknownId, hiddenId] = await add(
    { description, ...rentedFacts, price: 500, rooms: 2, area_total: 54.5, source_slug: 'rented' },
    { description, ...soldFacts, price: 900, rooms: 5, area_total: 120, source_slug: 'sold' },
    { description },
    { description, archived: true },
  );
  const cases: [object, (number | undefined)[]][] = [
    [{}, [unknownId, soldId, rentedId]],
    [{ include_archived: true }, [hiddenId, unknownId, soldId, rentedId]],
    [{ deal_type: 'rent' }, [rentedId]],
    [{ deal_type: ['rent', 'sale'], source_slug: ['sold', 'new'] }, [soldId]],
    [{ property_type: 'Apartment' }, [rentedId]],
    [{ property_type: '1-кімн. кв.' }, [rentedId]],
    [{ property_type: 'dom' }, [soldId]],
    [{ property_type: 'гараж' }, []],
    [{ city: "КАМ'ЯНЕЦЬ ПОДІЛЬСЬКИЙ" }, [rentedId]],
    [{ city: '—' }, []],
    [{ source_slug: 'rented' }, [rentedId]],
    [{ price_min: 500, price_max: 500 }, [rentedId]],
    [{ price_min: 500.01 }, [soldId]],
    [{ price_max: 899.99 }, [rentedId]],
    [{ rooms_min: 2, rooms_max: 4 }, [rentedId]],
    [{ rooms_min: 3 }, [soldId]],
    [{ area_min: 54.5, area_max: 100 }, [rentedId]],
    [{ area_max: 54.4 }, []],
    [{ deal_type: 'sale', city: 'київ', price_min: 1, rooms_max: 5 }, [soldId]],
    [{ deal_type: 'sale', city: 'Львів' }, []],
  ];
  for (const [filters, ids] of cases) {
    const body = await searchOk('fulltext', { query: 'фільтр', ...filters });
    assert.deepEqual(getListingIds(body), ids, JSON.stringify(filters));
    assert.equal(body.total.value, ids.length);
  }
  const allResults = await searchOk('fulltext', { query: 'фільтр', include_archived: true });
  assert.equal(allResults.items[0].listing.archived_at, '2026-01-02T03:04:05.000Z');
});

test('An unknown word for a property type is rejected with the known kinds', async () => {
  for (const kind of ['fulltext', 'hybrid', 'similar']) {
    const { status, body } = await post(kind, { query: 'а', property_type: 'замок' });
    assert.equal(status, 422);
    const message =
      'must be apartment, house, room, land, commercial, garage, or a word for one of them';
    assert.deepEqual(body.errors, [{ path: 'body/property_type', message }]);
  }
});

test('Filters by place find every spelling, and unknown names as they are written', async () => {
  const description = 'місцина';
  const [sykhivId, lvivId, smallTownId, kyivId, districtId, unknownId, oldId] = await add(
    { description, place: { city: 'Львов', district: 'Сихов' } },
    { description, place: { city: 'Lviv', district: 'Вигаданий' } },
    { description, place: { city: 'Миколаїв', address: 'Львівська область' } },
    { description, place: { city: 'Киев' } },
    { description, place: { district: 'Троєщина' } },
    { description, place: { city: 'с. Нетутешнє', district: 'Край' } },
    { description, city: 'Львів' },
  );
  const cases: [object, (number | undefined)[]][] = [
    [{ city: 'во Львове' }, [lvivId, sykhivId]],
    [{ city: 'Львів' }, [oldId, lvivId, sykhivId]],
    [{ city: 'в селі Нетутешнє' }, [unknownId]],
    [{ city: ['Kyiv', 'нетутешнє'] }, [unknownId, districtId, kyivId]],
    [{ city: 'Миколаїв (Львівська обл.)' }, [smallTownId]],
    [{ city: 'Троещина' }, [districtId]],
    [{ district: 'Sykhiv' }, [sykhivId]],
    [{ district: 'Сихівський район', city: 'Львов' }, [sykhivId]],
    [{ district: ['Деснянський', 'КРАЙ'] }, [unknownId, districtId]],
    [{ district: 'вигаданий' }, [lvivId]],
    [{ region: 'Львовская обл.' }, [smallTownId, lvivId, sykhivId]],
    [{ region: ['Львівщина', 'Одеська'] }, [smallTownId, lvivId, sykhivId]],
    [{ region: 'Lviv Oblast', city: 'Миколаїв' }, [smallTownId]],
    [{ region: 'Київ' }, [districtId, kyivId]],
    [{ region: 'Невідома' }, []],
    [{ city: 'Сам собою', region: 'Львівська' }, []],
  ];
  const searchedIds = [sykhivId, lvivId, smallTownId, kyivId, districtId, unknownId, oldId];
  for (const [filters, expectedIds] of cases) {
    const body = await searchOk('fulltext', { query: description, ...filters });
    assert.deepEqual(getListingIds(body), expectedIds, JSON.stringify(filters));
    const matches = await searchOk('matches', { ids: searchedIds, ...filters });
    assert.deepEqual(getListingIds(matches).toReversed(), expectedIds, JSON.stringify(filters));
  }
  const { items } = await searchOk('matches', { ids: searchedIds });
  const places = items.map((item: { listing: { place: object | null } }) => item.listing.place);
  const region = 'Львівська область';
  assert.partialDeepStrictEqual(places, [
    { status: 'resolved', city: 'Львів', district: 'Сихів', region, text: 'Львов, Сихов' },
    { city: 'Львів', district: null, region, text: 'Lviv, Вигаданий' },
    { city: 'Миколаїв', district: null, region, text: 'Миколаїв' },
    { city: 'Київ', district: null, region: null, text: 'Киев' },
    { city: 'Київ', district: 'Троєщина', region: null, text: 'Троєщина' },
    {
      status: 'unknown',
      place_id: null,
      city: null,
      district: null,
      region: null,
      text: 'с. Нетутешнє, Край',
    },
    null,
  ]);
  assert.ok(places.slice(0, 5).every(({ place_id }: { place_id: number }) => place_id > 0));
});

test('Prices in other currencies are converted for filters and shown in both', async () => {
  await db.deleteFrom('currency_rates').execute();
  await storeRates(db, [
    { date: '2026-11-01', currency: 'USD', rate: 99 },
    { date: '2026-11-20', currency: 'USD', rate: 40 },
    { date: '2026-11-10', currency: 'EUR', rate: 48.3 },
  ]);
  await storeRates(db, [{ date: '2026-11-30', currency: 'USD', rate: 1 }], 'starting_set');
  const createSeed = (price: number, currency: string | null, area_total?: number) => ({
    description: 'гроші',
    deal_type: 'sale',
    price,
    currency,
    ...(area_total !== undefined && { area_total }),
  });
  const [dollarId, hryvniaId, euroId] = await add(
    createSeed(1000, 'USD', 50),
    createSeed(41_000, 'UAH', 50),
    createSeed(900, 'EUR'),
    createSeed(1000, null, 50),
    createSeed(1000, 'XAU', 50),
    { description: 'гроші', deal_type: 'sale' },
  );
  const cases: [filters: object, ids: (number | undefined)[], currency: string][] = [
    [{ price_min: 1000, price_max: 1000, currency: 'USD' }, [dollarId], 'USD'],
    [{ price_min: 1000.01, currency: 'USD' }, [euroId, hryvniaId], 'USD'],
    [{ price_min: 1025, price_max: 1025, currency: 'USD' }, [hryvniaId], 'USD'],
    [{ price_max: 40_000, currency: 'UAH' }, [dollarId], 'UAH'],
    [{ price_max: 41_000, price_min: 40_000, currency: 'UAH' }, [hryvniaId, dollarId], 'UAH'],
    // 900 × 48.3 ÷ 40 and 41,000 ÷ 48.3, which are shown with two decimals.
    [{ price_min: 1086.75, price_max: 1086.75, currency: 'USD' }, [euroId], 'USD'],
    [{ price_min: 848.86, price_max: 848.86, currency: 'EUR' }, [hryvniaId], 'EUR'],
    [{ price_min: 0, currency: 'EUR' }, [euroId, hryvniaId, dollarId], 'EUR'],
    [{ price_per_m2_min: 20.5, currency: 'USD' }, [hryvniaId], 'USD'],
    [{ price_per_m2_max: 800, currency: 'UAH' }, [dollarId], 'UAH'],
    // A price without a currency is in hryvnias, or in dollars for sales.
    [{ price_max: 1000 }, [], 'UAH'],
    [{ deal_type: ['sale'], price_max: 1000 }, [dollarId], 'USD'],
    [{ deal_type: ['sale', 'rent'], price_max: 1000 }, [], 'UAH'],
  ];
  for (const [filters, ids, currency] of cases) {
    const body = await searchOk('fulltext', { query: 'гроші', ...filters });
    assert.deepEqual(new Set(getListingIds(body)), new Set(ids), JSON.stringify(filters));
    assert.equal(body.currency, currency);
    const matches = await searchOk('matches', {
      ids: [dollarId, hryvniaId, euroId],
      query: 'гроші',
      ...filters,
    });
    assert.deepEqual(new Set(getListingIds(matches)), new Set(ids));
    assert.equal(matches.currency, currency);
  }
  const readConversions = async (filters: object) => {
    const { items } = await searchOk('fulltext', { query: 'гроші', ...filters });
    const entries = items.map(({ listing }: { listing: Record<string, unknown> }) => [
      listing['listing_id'],
      listing['price_converted'],
    ]);
    return new Map(entries);
  };
  const inEuros = await readConversions({ currency: 'EUR' });
  assert.deepEqual(inEuros.get(dollarId), {
    amount: 828.16,
    currency: 'EUR',
    rate_date: '2026-11-10',
  });
  assert.deepEqual(inEuros.get(hryvniaId), {
    amount: 848.86,
    currency: 'EUR',
    rate_date: '2026-11-10',
  });
  assert.equal(inEuros.size, 6);
  assert.equal([...inEuros.values()].filter((price) => price !== null).length, 2);
  const inHryvnias = await readConversions({ price_max: 41_000, currency: 'UAH' });
  assert.deepEqual(inHryvnias.get(dollarId), {
    amount: 40_000,
    currency: 'UAH',
    rate_date: '2026-11-20',
  });
  assert.equal(inHryvnias.get(hryvniaId), null);
  assert.ok([...(await readConversions({})).values()].every((price) => price === null));
  const { status, body } = await post('fulltext', { query: 'гроші', currency: 'JPY' });
  assert.deepEqual(
    [status, body.errors],
    [422, [{ path: 'body/currency', message: 'must be a currency with a rate: EUR, UAH, USD' }]],
  );
});

test('Operators and quotes are plain text, and a query without a word finds nothing', async () => {
  const [id] = await add({ description: 'операторний & текст | без ! дужок (тут)' });
  const body = await searchOk('fulltext', { query: "текст & (операторний) | !'" });
  assert.deepEqual(getListingIds(body), [id]);
  for (const query of ['?!', '—', ' ', "'", '🏠', '\u00AD', '𐐨'.repeat(512)]) {
    const { items, total, next_cursor } = await searchOk('fulltext', { query });
    assert.deepEqual([items, total.value, next_cursor], [[], 0, null]);
    // The model, which would fail for these texts, is not called.
    if (query.length < 5) assert.deepEqual((await searchOk('similar', { query })).items, []);
  }
});

test('A cursor is valid for its own search only', async () => {
  await add({ description: 'курсор', price: 1 }, { description: 'курсор', price: 1 });
  const request = { query: 'курсор', limit: 1, price_min: 0, include_archived: false };
  const cursor = (await searchOk('fulltext', request)).next_cursor;
  assert.match(cursor, /^[\w-]+$/);
  const reorderedRequest = { include_archived: false, price_min: 0, limit: 2, query: 'КУРСОР' };
  assert.equal((await searchOk('fulltext', reorderedRequest)).next_cursor, null);
  assert.equal((await searchOk('fulltext', { ...reorderedRequest, cursor })).items.length, 1);
  for (const body of [
    { ...request, query: 'інше', cursor },
    { ...request, price_min: 1, cursor },
    { ...request, cursor: 'nonsense' },
    { ...request, cursor: Buffer.from('{"v":0,"q":"","r":1,"i":1}').toString('base64url') },
    { ...request, cursor: cursor.slice(0, -8) },
  ]) {
    const response = await post('fulltext', body);
    assert.deepEqual([response.status, response.body.errors[0].path], [422, 'body/cursor']);
  }
});

test('A highlight of the title and the description is escaped HTML, on request only', async () => {
  await add({ title: 'Об’єкт <b>', description: '<script>світлиця' });
  const query = "світлиця об'єкт";
  assert.ok(!('highlight' in (await searchOk('fulltext', { query })).items[0]));
  const { items } = await searchOk('fulltext', { query, highlight: true });
  const expected = '<mark>Об’єкт</mark> &#60;b&#62;\n&#60;script&#62;<mark>світлиця</mark>';
  assert.equal(items[0].highlight, expected);
});

test('An invalid search is rejected with the path of the error', async () => {
  const fulltext: [object | string, string][] = [
    [{}, 'body'],
    [{ query: '' }, 'body/query'],
    [{ query: 'а'.repeat(513) }, 'body/query'],
    [{ query: 'a\0b' }, 'body/query'],
    [{ query: 'a', city: 'a\0' }, 'body/city'],
    [{ query: 'a', city: '' }, 'body/city'],
    [{ query: 'a', city: 5 }, 'body/city'],
    [{ query: 'a', city: [] }, 'body/city'],
    [{ query: 'a', district: ['a', 'a\0'] }, 'body/district/1'],
    [{ query: 'a', region: Array.from({ length: 51 }, String) }, 'body/region'],
    [{ query: 'a', property_type: 'a\0' }, 'body/property_type'],
    [{ query: 'a', property_type: 'замок' }, 'body/property_type'],
    [{ query: 'a', currency: 'usd' }, 'body/currency'],
    [{ query: 'a', price_per_m2_min: 2, price_per_m2_max: 1 }, 'body/price_per_m2_min'],
    [{ query: 'a', sort: 'price' }, 'body'],
    [{ query: 'a', deal_type: 'gift' }, 'body/deal_type'],
    [{ query: 'a', limit: 0 }, 'body/limit'],
    [{ query: 'a', limit: 101 }, 'body/limit'],
    [{ query: 'a', price_min: '5' }, 'body/price_min'],
    ['{"query":"a","rooms_min":1e400}', 'body/rooms_min'],
    [{ query: 'a', rooms_min: 2, rooms_max: 1 }, 'body/rooms_min'],
    [{ query: 'a', price_min: 2, price_max: 1, area_min: 2, area_max: 1 }, 'price_min, area_min'],
  ];
  const similar: [object | string, string][] = [
    [{}, 'body'],
    [{ query: 'a', listing_id: 1 }, 'body'],
    [{ query: 'a', listing_id: 1, embedding: [1, 0, 0] }, 'body'],
    [{ embedding: [1, 0] }, 'body/embedding'],
    [{ embedding: [1, 0, 0, 0] }, 'body/embedding'],
    [{ embedding: [0, 0, 0] }, 'body/embedding'],
    [{ embedding: [1, null, 0] }, 'body/embedding/1'],
    ['{"embedding":[1e999,0,0]}', 'body/embedding/0'],
    [{ embedding: [1, 0, 0], cursor: 'a' }, 'body'],
    [{ embedding: [1, 0, 0], price_min: 2, price_max: 1 }, 'body/price_min'],
    [{ query: 'a\0' }, 'body/query'],
    [{ listing_id: 0 }, 'body/listing_id'],
  ];
  const matches: [object | string, string][] = [
    [{}, 'body'],
    [{ ids: [] }, 'body/ids'],
    [{ ids: [1, 1] }, 'body/ids'],
    [{ ids: [0] }, 'body/ids/0'],
    [{ ids: Array.from({ length: 101 }, (_, index) => index + 1) }, 'body/ids'],
    [{ ids: [1], query: '' }, 'body/query'],
    [{ ids: [1], limit: 5 }, 'body'],
    [{ ids: [1], rooms_min: 3, rooms_max: 2 }, 'body/rooms_min'],
  ];
  const casesByKind = { fulltext, hybrid: fulltext, similar, matches };
  for (const [kind, cases] of Object.entries(casesByKind)) {
    for (const [body, path] of cases) {
      const response = await post(kind, body);
      assert.equal(response.status, 422, `${kind} ${JSON.stringify(body)}`);
      const paths = response.body.errors.map((error: { path: string }) => error.path);
      assert.deepEqual(paths, path.includes(',') ? ['body/price_min', 'body/area_min'] : [path]);
    }
  }
  assert.equal((await post('similar', '{"embedding":[NaN,0,0]}')).status, 400);
});

test('A search past the rate limit is rejected on every instance, and each is measured', async () => {
  const instances = [await serve({ perMinute: 3 }), await serve({ perMinute: 3 })];
  for (const [kind, body] of [
    ['fulltext', { query: 'а' }],
    ['similar', { embedding: [1, 0, 0] }],
    ['points', { bbox: [24, 49, 25, 50], zoom: 5 }],
  ] as const) {
    for (const [requestIndex, status] of [200, 200, 200, 429].entries()) {
      const response = await instances[requestIndex % 2]?.post(kind, body);
      assert.equal(response?.status, status);
      if (requestIndex === 0) assert.equal(response?.headers['ratelimit-remaining'], '2');
      if (status === 200) continue;
      assert.equal(response?.body.code, 'rate_limited');
      const retryAfterSeconds = Number(response?.headers['retry-after']);
      assert.ok(retryAfterSeconds >= 1 && retryAfterSeconds <= 60, String(retryAfterSeconds));
    }
  }
  assert.equal((await instances[0]?.post('hybrid', { query: 'а' }))?.status, 429);
  assert.equal((await instances[1]?.post('matches', { ids: [1] }))?.status, 429);
  assert.equal((await instances[0]?.post('browse', {}))?.status, 429);
  assert.equal((await instances[0]?.get('/search/suggest', { q: 'а' }))?.status, 429);
  assert.equal((await instances[0]?.get('/listings'))?.status, 429);
  for (const [user, status] of [
    ['user-1', 200],
    ['user-2', 200],
    ['not one word', 429],
  ] as const) {
    const headers = { 'x-on-behalf-of': user };
    assert.equal((await instances[0]?.post('browse', {}, headers))?.status, status, user);
  }
  await db.deleteFrom('rate_limits').execute();
  const text = (await instances[0]?.registry.metrics()) ?? '';
  for (const kind of ['fulltext', 'similar']) {
    assert.ok(text.includes(`collector_search_duration_seconds_count{kind="${kind}"} 2`), text);
  }
});

const circleFilter = { source_slug: 'circle' };
const lvivFacts = { city: 'Львів', price: 300, property_type: 'apartment' };
const [nearId, tiedId, farId, oppositeId, archivedId, unembeddedId] = await add(
  { ...circleFilter, embedding: createPointAtAngle(10), city: 'Київ', price: 100 },
  { ...circleFilter, embedding: createPointAtAngle(10), ...lvivFacts },
  { ...circleFilter, embedding: createPointAtAngle(60), city: 'Київ', price: 500 },
  { ...circleFilter, embedding: createPointAtAngle(180), city: 'Київ' },
  { ...circleFilter, embedding: createPointAtAngle(1), archived: true },
  circleFilter,
);

test('The nearest listings come first, ties by ID, with their distances', async () => {
  const { items, took_ms } = await searchOk('similar', { embedding: [2, 0, 0], ...circleFilter });
  assert.deepEqual(getListingIds({ items }), [nearId, tiedId, farId, oppositeId]);
  const distances = items.map(({ distance }: { distance: number }) => distance.toFixed(3));
  assert.deepEqual(distances, ['0.015', '0.015', '0.500', '2.000']);
  assert.ok(Number.isInteger(took_ms));
});

test('The length of a vector does not affect the nearest listings', async () => {
  const vectors = [1e-320, 1e-200, 1e200, 1e308].map((length) => [length, 0, 0]);
  // The length of the last vector exceeds the largest finite number.
  for (const embedding of [...vectors, [1.79e308, 3e307, 0]]) {
    const body = await searchOk('similar', { embedding, ...circleFilter });
    assert.deepEqual(getListingIds(body), [nearId, tiedId, farId, oppositeId], String(embedding));
  }
});

test('The model embeds a text, and a listing is not its own neighbour', async () => {
  const byText = await searchOk('similar', { query: 'тиха вулиця', ...circleFilter });
  assert.deepEqual(getListingIds(byText), [nearId, tiedId, farId, oppositeId]);
  const byListing = await searchOk('similar', { listing_id: farId, ...circleFilter });
  assert.deepEqual(getListingIds(byListing), [nearId, tiedId, oppositeId]);
});

test('Filters and the limit apply to similar listings', async () => {
  const embedding = [1, 0, 0];
  const cases: [object, (number | undefined)[]][] = [
    [{ limit: 1 }, [nearId]],
    [{ city: 'КИЇВ', limit: 2 }, [nearId, farId]],
    [{ price_min: 200, price_max: 500 }, [tiedId, farId]],
    [{ include_archived: true }, [archivedId, nearId, tiedId, farId, oppositeId]],
    [{ city: 'Одеса' }, []],
    [{ property_type: 'Квартира' }, [tiedId]],
  ];
  for (const [filters, ids] of cases) {
    const body = await searchOk('similar', { embedding, ...circleFilter, ...filters });
    assert.deepEqual(getListingIds(body), ids, JSON.stringify(filters));
  }
});

test('Embeddings of another model are not neighbours', async () => {
  const [sameModelId, unknownId] = await add(
    { source_slug: 'models', embedding: [1, 0, 0], embedding_model: 'test-model' },
    { source_slug: 'models', embedding: createPointAtAngle(5) },
    { source_slug: 'models', embedding: [1, 0, 0], embedding_model: 'older-model' },
  );
  const body = await searchOk('similar', { query: 'тиха вулиця', source_slug: 'models' });
  assert.deepEqual(getListingIds(body), [sameModelId, unknownId]);
});

test('A failure of the model is 503 if a retry may help, otherwise 502', async () => {
  const unavailability = { status: 503, code: 'model_unavailable', retryAfter: '5' };
  const failure = { status: 502, code: 'model_failed', retryAfter: undefined };
  for (const [code, expected] of [
    ['MODEL_UNREACHABLE', unavailability],
    ['MODEL_BREAKER_OPEN', unavailability],
    ['MODEL_CLOSED', unavailability],
    ['MODEL_REJECTED', failure],
    ['MODEL_MISCONFIGURED', failure],
    ['MODEL_INVALID_OUTPUT', failure],
    ['an embedding of zeros', failure],
  ] as const) {
    const error = code.startsWith('MODEL') && new ModelError(code as 'MODEL_CLOSED', 'secret');
    const failingModel = { embed: error ? () => Promise.reject(error) : model.embed };
    const server = await serve({ model: failingModel });
    for (const kind of ['similar', 'hybrid']) {
      const { status, body, headers } = await server.post(kind, { query: 'нуль' });
      assert.deepEqual({ status, code: body.code, retryAfter: headers['retry-after'] }, expected);
      assert.ok(!body.detail.includes('secret'));
    }
  }
});

test('An unknown listing is 404, and one without an embedding 409', async () => {
  assert.equal((await post('similar', { listing_id: 999_999 })).body.code, 'listing_not_found');
  const response = await post('similar', { listing_id: unembeddedId });
  assert.deepEqual([response.status, response.body.code], [409, 'listing_not_embedded']);
});

test('The hybrid search fuses its rankings and pages through them', async () => {
  const source = { source_slug: 'hybrid' };
  const [bothId, wordsId, meaningId] = await add(
    { ...source, description: 'тиха вулиця', embedding: createPointAtAngle(20) },
    { ...source, description: 'тиха вулиця, тиха вулиця', embedding: createPointAtAngle(120) },
    { ...source, description: 'спокійне місце', embedding: createPointAtAngle(5) },
  );
  const request = { query: 'тиха вулиця', ...source, highlight: true };
  const { items, total } = await searchOk('hybrid', request);
  assert.deepEqual(getListingIds({ items }), [wordsId, bothId, meaningId]);
  assert.deepEqual(total, { value: 3, relation: 'eq' });
  // Positions by words and by meaning: 1 and 3, 2 and 2, none and 1. No listing has stems yet.
  const ranks = [0.3 / 11 + 0.2 / 13, 0.3 / 12 + 0.2 / 12, 0.2 / 11];
  assert.deepEqual(
    items.map(({ rank }: { rank: number }) => rank),
    ranks,
  );
  assert.match(items[1].highlight, /<mark>тиха<\/mark>/);

  const pages = await readAllPages('hybrid', { ...request, limit: 1 });
  assert.deepEqual(pages, [[wordsId], [bothId], [meaningId]]);

  const { next_cursor } = await searchOk('hybrid', { ...request, limit: 1 });
  const crossSearchResponse = await post('fulltext', { ...request, cursor: next_cursor });
  assert.equal(crossSearchResponse.status, 422);
  assert.deepEqual((await searchOk('hybrid', { query: '?!' })).items, []);
});

test('The hybrid search finds other forms, languages, alphabets and typos, and understands limits', async () => {
  const source = { source_slug: 'stems', deal_type: 'rent', property_type: 'apartment' };
  const [cheapId, dearId, houseId] = await add(
    {
      ...source,
      title: 'Затишна квартира у Львові',
      rooms: 2,
      price: 14_000,
      place: { city: 'Львів' },
    },
    { ...source, title: 'Простора квартира з балконом', price: 40_000, place: { city: 'Київ' } },
    { ...source, title: 'Будинок із садом', property_type: 'house', place: { city: 'Одеса' } },
  );
  const { signal } = new AbortController();
  await computeStoredStems(db, signal);
  await refreshVocabulary(db, signal, { isForced: true });
  const anyModel = { embed: () => model.embed(['тиха вулиця']) };
  const server = await serve({ model: anyModel });
  const search = async (query: string, filters: object = {}) => {
    const body = { query, source_slug: 'stems', highlight: true, ...filters };
    const response = await server.post('hybrid', body);
    assert.equal(response.status, 200, JSON.stringify(response.body));
    return response.body;
  };
  for (const [query, id] of [
    ['квартиры Львов', cheapId],
    ['kvartyra lviv', cheapId],
    ['flat in Lviv', cheapId],
    ['двушка', cheapId],
    ['зтишна', cheapId],
    ['балкони', dearId],
    ['дом', houseId],
    ['просто', dearId],
  ] as const) {
    assert.equal(getListingIds(await search(query))[0], id, query);
  }
  const understood = await search('квартира до 15 000 грн');
  assert.deepEqual(getListingIds(understood), [cheapId]);
  assert.deepEqual(understood.understood, { price_max: 15_000, currency: 'UAH' });
  assert.match(understood.items[0].highlight, /<mark>квартира<\/mark>/);
  const nearLviv = await search('квартира недалеко від Львова');
  assert.deepEqual(getListingIds(nearLviv), [cheapId]);
  assert.equal(nearLviv.understood.near.radius_m, 40_000);
  const inPlace = await search('квартира недалеко від Львова', { place_ids: [1] });
  assert.equal(inPlace.understood, undefined);
});

test('The pages of the hybrid search have every match once', async () => {
  const source = { source_slug: 'paged', property_type: 'apartment' };
  const ids = await add(
    ...Array.from({ length: 130 }, (_, index) => ({
      ...source,
      description: index % 2 ? 'тиха вулиця' : 'тихі вулиці',
      ...(index < 10 && { duplicate_group: 1 }),
    })),
  );
  await computeStoredStems(db, new AbortController().signal);
  const request = { query: 'тиха вулиця', source_slug: 'paged', limit: 40 };
  const pages = await readAllPages('hybrid', request);
  assert.deepEqual(
    pages.flat().toSorted((a, b) => a - b),
    ids,
  );
  const { total } = await searchOk('hybrid', request);
  assert.deepEqual(total, { value: 130, relation: 'gte' });
  const foldedPages = await readAllPages('hybrid', { ...request, fold_duplicates: true });
  assert.equal(new Set(foldedPages.flat()).size, 121);
  assert.equal(foldedPages.flat().length, 121);
});

test('Listings added between pages of the hybrid search shift no page', async () => {
  const source = { source_slug: 'growing' };
  const seed = { ...source, description: 'тиха вулиця', embedding: createPointAtAngle(30) };
  const [firstId, secondId, thirdId] = await add(
    { ...seed, description: 'тиха вулиця, тиха вулиця', embedding: createPointAtAngle(10) },
    { ...seed, embedding: createPointAtAngle(20) },
    { ...source, description: 'спокійне місце', embedding: createPointAtAngle(90) },
  );
  const request = { query: 'тиха вулиця', ...source, limit: 1 };
  // The added listings rank first by words and by meaning.
  const pages = await readAllPages('hybrid', request, () =>
    add({ ...seed, description: 'тиха вулиця '.repeat(4), embedding: createPointAtAngle(0) }),
  );
  assert.deepEqual(pages, [[firstId], [secondId], [thirdId]]);
});

/** Creates a model that responds after `release` is resolved. */
function createSlowModel() {
  const modelCalled = Promise.withResolvers<AbortSignal | undefined>();
  const release = Promise.withResolvers<void>();
  const embed: typeof model.embed = async (texts, options) => {
    modelCalled.resolve(options?.signal);
    await release.promise;
    return model.embed(texts, options);
  };
  return { model: { embed }, called: modelCalled.promise, release };
}

for (const kind of ['similar', 'hybrid']) {
  test(`A ${kind} search aborts its request to the model once its client has gone`, async () => {
    const request = (server: string, signal?: AbortSignal) =>
      fetch(`${server}/search/${kind}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ query: 'тиха вулиця' }),
        ...(signal && { signal }),
      });
    const waitingModel = createSlowModel();
    const responsePromise = request(await (await serve({ model: waitingModel.model })).listen());
    const waitingSignal = await waitingModel.called;
    // The end of the request body arrives within ten iterations of the event loop.
    for (let steps = 0; steps < 10; steps += 1) await setImmediate();
    assert.equal(waitingSignal?.aborted, false);
    waitingModel.release.resolve();
    assert.equal((await responsePromise).status, 200);

    const abandonedModel = createSlowModel();
    const clientController = new AbortController();
    const server = await (await serve({ model: abandonedModel.model })).listen();
    const abandonedRequest = assert.rejects(request(server, clientController.signal), {
      name: 'AbortError',
    });
    const signal = (await abandonedModel.called) ?? assert.fail();
    const aborted = once(signal, 'abort', { signal: AbortSignal.timeout(10_000) });
    clientController.abort();
    await Promise.all([abandonedRequest, aborted]);
    abandonedModel.release.reject(new Error('The client has gone'));
  });
}

const garageFacts = { price: 90_000, rooms: 1, area_total: 20 };
const flatFacts = {
  deal_type: 'rent',
  property_type: 'apartment',
  city: 'Кам’янець-Подільський',
  price: 15_000,
  rooms: 5,
  area_total: 110.5,
  source_slug: 'matches',
};
const ids = await add(
  { title: 'Мезонін', description: 'Тераса під вікном', ...flatFacts },
  { description: 'Мезонін без ціни', city: 'Львів', source_slug: 'matches-2' },
  { description: 'Мезонін в архіві', price: 15_000, archived: true, source_slug: 'matches' },
  { description: 'Гараж', deal_type: 'sale', source_slug: 'matches', ...garageFacts },
);
const [flatId = 0, pricelessId = 0, , garageId = 0] = ids;

const findMatches = async (body: object) => getListingIds(await searchOk('matches', body));

test('The matches among the given IDs come in the order of the IDs', async () => {
  for (const [requestedIds, query, expected] of [
    [[garageId, pricelessId, flatId], 'МЕЗОНІН', [pricelessId, flatId]],
    [[garageId], 'мезонін', []],
    [[999_999], 'мезонін', []],
    [ids, undefined, [flatId, pricelessId, garageId]],
    [ids, ' !? ', []],
  ] as const) {
    assert.deepEqual(await findMatches({ ids: requestedIds, ...(query && { query }) }), expected);
  }
  const { items, took_ms } = await searchOk('matches', { ids: [flatId] });
  assert.deepEqual([items[0].listing.title, items[0].listing.rooms], ['Мезонін', 5]);
  assert.ok(!('search_text' in items[0].listing) && Number.isInteger(took_ms));
});

test('Words and filters of matches find what the full-text search finds', async () => {
  const filters = [
    {},
    { deal_type: 'rent' },
    { city: 'камʼянець подільський' },
    { property_type: 'Apartment' },
    { price_min: 15_000, price_max: 15_000 },
    { price_min: 15_001 },
    { rooms_min: 2 },
    { area_min: 100, area_max: 110.5 },
    { source_slug: 'matches-2' },
    { include_archived: true, price_max: 20_000 },
  ];
  for (const query of ['мезонін', 'гараж', 'мезонін гараж']) {
    for (const filter of filters) {
      const foundIds = getListingIds(await searchOk('fulltext', { query, ...filter }));
      const matchingIds = await findMatches({ ids, query, ...filter });
      assert.equal(matchingIds.length, foundIds.length);
      assert.deepEqual(new Set(matchingIds), new Set(foundIds), JSON.stringify(filter));
    }
  }
});

type ResultItem = { listing: { listing_id: number }; duplicates?: number[] };

async function groupListings(...members: number[]): Promise<void> {
  await db
    .updateTable('property_listings')
    .set({ duplicate_group: Math.min(...members) })
    .where('id', 'in', members)
    .execute();
}

test('Each search shows the best hit of a group and names the others', async () => {
  const source = { source_slug: 'fold' };
  const [bestId = 0, worseId = 0, ungroupedId = 0, wordlessId = 0, archivedDuplicateId = 0] =
    await add(
      { ...source, description: 'світлиця світлиця світлиця', embedding: createPointAtAngle(10) },
      { ...source, description: 'світлиця', embedding: createPointAtAngle(20) },
      { ...source, description: 'світлиця світлиця', embedding: createPointAtAngle(30) },
      { ...source, description: 'без слова', embedding: createPointAtAngle(5) },
      { ...source, description: 'світлиця', embedding: createPointAtAngle(40), archived: true },
    );
  await groupListings(bestId, worseId, wordlessId, archivedDuplicateId);
  const request = { ...source, fold_duplicates: true };
  const query = { query: 'світлиця', ...request };

  const { items, total } = await searchOk('fulltext', query);
  assert.deepEqual(getListingIds({ items }), [bestId, ungroupedId]);
  assert.deepEqual(
    items.map(({ duplicates }: ResultItem) => duplicates),
    [[worseId, wordlessId], []],
  );
  assert.deepEqual(total, { value: 2, relation: 'eq' });
  const unfoldedPage = await searchOk('fulltext', { query: 'світлиця', ...source });
  assert.deepEqual(getListingIds(unfoldedPage), [bestId, ungroupedId, worseId]);
  assert.ok(unfoldedPage.items.every((item: ResultItem) => !('duplicates' in item)));
  const allResults = await searchOk('fulltext', { ...query, include_archived: true });
  assert.deepEqual(allResults.items[0].duplicates, [worseId, wordlessId, archivedDuplicateId]);

  const similarResults = await searchOk('similar', { embedding: [1, 0, 0], ...request, limit: 2 });
  assert.deepEqual(getListingIds(similarResults), [wordlessId, ungroupedId]);
  assert.deepEqual(similarResults.items[0].duplicates, [bestId, worseId]);
  const hybridResults = await searchOk('hybrid', query);
  assert.deepEqual(getListingIds(hybridResults), [bestId, ungroupedId]);
  assert.equal(hybridResults.total.value, 2);

  const { next_cursor: cursor } = await searchOk('fulltext', { ...query, limit: 1 });
  const body = { query: 'світлиця', ...source, cursor };
  assert.equal((await post('fulltext', body)).status, 422);
  assert.equal((await post('fulltext', { ...body, fold_duplicates: true })).status, 200);
});

test('Pages, folded or not, have each listing once while others are added', async () => {
  let run = 0;
  const seed = fc.record({ words: fc.integer({ min: 1, max: 3 }), group: fc.nat({ max: 4 }) });
  await fc.assert(
    fc.asyncProperty(
      fc.array(seed, { minLength: 1, maxLength: 14 }),
      fc.integer({ min: 1, max: 4 }),
      async (seeds, limit) => {
        const source_slug = `property-${(run += 1)}`;
        const addedIds = await add(
          ...seeds.map(({ words }) => ({ source_slug, description: 'горище '.repeat(words) })),
        );
        // The number 0 stands for listings without a group.
        const groups = Map.groupBy(addedIds, (_, index) => seeds[index]?.group ?? 0);
        for (const [number, members] of groups) if (number > 0) await groupListings(...members);
        for (const fold_duplicates of [false, true]) {
          const request = { query: 'горище', source_slug, fold_duplicates };
          const { items } = await searchOk('fulltext', { ...request, limit: 100 });
          const foundIds = items.flatMap(({ listing, duplicates = [] }: ResultItem) => [
            listing.listing_id,
            ...duplicates,
          ]);
          assert.deepEqual(new Set(foundIds), new Set(addedIds));
          assert.equal(foundIds.length, addedIds.length);
          const pages = await readAllPages('fulltext', { ...request, limit }, async () => {
            addedIds.push(...(await add({ source_slug, description: 'горище '.repeat(4) })));
          });
          assert.deepEqual(pages.flat(), getListingIds({ items }));
        }
      },
    ),
    { numRuns: 15 },
  );
});
