import assert from 'node:assert/strict';
import { test } from 'node:test';
import { idsOf, openSearch } from './harness.ts';

const { add, serve, db } = await openSearch();
const { post, registry } = await serve();

const search = async (body: object) => {
  const answer = await post('fulltext', body);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
};

test('Ukrainian, Russian and English are found, whichever way either side is written', async () => {
  const [ukrainian, russian, english] = await add(
    { description: "П’ЯТЬ кімнат в Івано-Франківську, 54,5 м², об'єкт здано, за\u0301мок" },
    { description: 'Ёлки у дома, 2-к квартира на Подо\u0301ле, съёмное жильё' },
    { description: 'Sunny two-bedroom flat near the river, don’t miss' },
  );
  const queries: [string, number | undefined][] = [
    ["п'ять", ukrainian],
    ['пʼять КІМНАТ', ukrainian],
    ['івано франківську', ukrainian],
    ['Івано‑Франківську', ukrainian],
    ['54.5 м2', ukrainian],
    ['замок обʼєкт', ukrainian],
    ['елки', russian],
    ['ЁЛКИ подоле', russian],
    ['2 к квартира', russian],
    ['2–К', russian],
    ['жилье', russian],
    ['TWO BEDROOM', english],
    ["don't two-bedroom", english],
  ];
  for (const [query, id] of queries) {
    assert.deepEqual(idsOf(await search({ query })), [id], query);
  }
});

test('what has more of the words, nearer together, comes first; what lacks one is not found', async () => {
  const [apart, together] = await add(
    { description: 'Затишна мансарда, а ще є велика простора лоджія' },
    { description: 'Затишна лоджія, лоджія затишна' },
    { description: 'Затишна кухня' },
  );
  const { items } = await search({ query: 'затишна лоджія' });
  assert.deepEqual(idsOf({ items }), [together, apart]);
  assert.ok(items[0].rank > items[1].rank);
});

test('an answer has the whole listing', async () => {
  const [id] = await add({ title: 'Хата', description: 'унікальнахата', price: 1250.5, rooms: 2 });
  const { items, total, next_cursor, took_ms } = await search({ query: 'унікальнахата' });
  const { listing } = items[0];
  assert.deepEqual(
    [listing.listing_id, listing.title, listing.price, listing.rooms, listing.archived_at],
    [id, 'Хата', 1250.5, 2, null],
  );
  assert.ok(!('search_text' in listing) && !('embedding' in listing));
  assert.deepEqual(total, { value: 1, relation: 'eq' });
  assert.equal(next_cursor, null);
  assert.ok(Number.isInteger(took_ms) && took_ms >= 0);
});

test('each filter leaves out what it should', async () => {
  const [wanted, other, unknown] = await add(
    {
      description: 'фільтр',
      deal_type: 'rent',
      property_type: 'apartment',
      city: 'Кам’янець-Подільський',
      price: 500,
      rooms: 2,
      area_total: 54.5,
      source_slug: 'wanted',
    },
    {
      description: 'фільтр',
      deal_type: 'sale',
      property_type: 'house',
      city: 'Київ',
      price: 900,
      rooms: 5,
      area_total: 120,
      source_slug: 'other',
    },
    { description: 'фільтр' },
  );
  const [spelled] = await add({ description: 'написання', property_type: "об'єкт-дача" });
  const cases: [object, (number | undefined)[]][] = [
    [{}, [unknown, other, wanted]],
    [{ deal_type: 'rent' }, [wanted]],
    [{ property_type: 'apartment' }, [wanted]],
    [{ property_type: 'Apartment' }, [wanted]],
    [{ city: "КАМ'ЯНЕЦЬ ПОДІЛЬСЬКИЙ" }, [wanted]],
    [{ city: '—' }, []],
    [{ source_slug: 'wanted' }, [wanted]],
    [{ price_min: 500, price_max: 500 }, [wanted]],
    [{ price_min: 500.01 }, [other]],
    [{ price_max: 899.99 }, [wanted]],
    [{ rooms_min: 2, rooms_max: 4 }, [wanted]],
    [{ rooms_min: 3 }, [other]],
    [{ area_min: 54.5, area_max: 100 }, [wanted]],
    [{ area_max: 54.4 }, []],
    [{ deal_type: 'sale', city: 'київ', price_min: 1, rooms_max: 5 }, [other]],
    [{ deal_type: 'sale', city: 'Львів' }, []],
  ];
  for (const [filters, ids] of cases) {
    const body = await search({ query: 'фільтр', ...filters });
    assert.deepEqual(idsOf(body), ids, JSON.stringify(filters));
    assert.equal(body.total.value, ids.length);
  }
  for (const property_type of [
    "Об'єкт-дача",
    'об’єкт–дача',
    'ОБʼЄКТ\u2011ДА\u0301ЧА',
    'об`є\u00ADкт-дача',
  ]) {
    const body = await search({ query: 'написання', property_type });
    assert.deepEqual(idsOf(body), [spelled], property_type);
  }
});

test('archived listings are found only when asked for', async () => {
  const [kept, archived] = await add(
    { description: 'архівне' },
    { description: 'архівне', archived: true },
  );
  assert.deepEqual(idsOf(await search({ query: 'архівне' })), [kept]);
  const all = await search({ query: 'архівне', include_archived: true });
  assert.deepEqual(idsOf(all), [archived, kept]);
  assert.equal(all.items[0].listing.archived_at, '2026-01-02T03:04:05.000Z');
});

test('a query without a word finds nothing, and is no error', async () => {
  for (const query of ['?!', '—', ' ', "'", '🏠', '\u00AD']) {
    const body = await search({ query });
    assert.deepEqual([body.items, body.total.value, body.next_cursor], [[], 0, null]);
  }
});

test('operators and quotes are plain text, and the longest words do no harm', async () => {
  const [id] = await add({ description: 'операторний & текст | без ! дужок (тут)' });
  const body = await search({ query: "текст & (операторний) | !'" });
  assert.deepEqual(idsOf(body), [id]);
  const longest = '𐐨'.repeat(512);
  assert.deepEqual(idsOf(await search({ query: longest })), []);
});

test('pages walk everything exactly once, through ties and while listings come in', async () => {
  const seeds = Array.from({ length: 23 }, (_, index) => ({
    description: index % 3 === 0 ? 'сторінка сторінка' : 'сторінка',
  }));
  const expected = await add(...seeds);
  const whole = idsOf(await search({ query: 'сторінка', limit: 100 }));
  const walked: number[] = [];
  let cursor: string | undefined;
  do {
    const page = await search({ query: 'сторінка', limit: 5, ...(cursor && { cursor }) });
    assert.equal(page.total.value, 23);
    walked.push(...idsOf(page));
    cursor = page.next_cursor ?? undefined;
    await add({ description: 'сторінка сторінка сторінка' });
  } while (cursor !== undefined);
  assert.deepEqual(walked, whole);
  assert.deepEqual(
    walked.toSorted((a, b) => a - b),
    expected,
  );
});

test('a page that is exactly full at the end has no next one', async () => {
  await add({ description: 'рівно' }, { description: 'рівно' });
  assert.equal((await search({ query: 'рівно', limit: 2 })).next_cursor, null);
  assert.notEqual((await search({ query: 'рівно', limit: 1 })).next_cursor, null);
});

test('a cursor serves for its own search only', async () => {
  await add({ description: 'курсор' }, { description: 'курсор' });
  const request = { query: 'курсор', limit: 1, price_min: 0, include_archived: false };
  await db
    .updateTable('property_listings')
    .set({ price: 1 })
    .where('search_text', '=', 'курсор')
    .execute();
  const cursor = (await search(request)).next_cursor;
  assert.match(cursor, /^[\w-]+$/);
  const reordered = { include_archived: false, price_min: 0, limit: 10, query: 'КУРСОР', cursor };
  assert.equal((await search(reordered)).items.length, 1);
  const old = Buffer.from('{"v":0,"q":"","r":1,"i":1}').toString('base64url');
  for (const body of [
    { ...request, query: 'інше', cursor },
    { ...request, price_min: 1, cursor },
    { ...request, cursor: 'nonsense' },
    { ...request, cursor: old },
    { ...request, cursor: `${cursor.slice(0, -8)}` },
  ]) {
    const answer = await post('fulltext', body);
    assert.equal(answer.status, 422);
    assert.equal(answer.body.errors[0].path, 'body/cursor');
  }
});

test('at the bound the newest are ranked and the total is a lower limit', async () => {
  const bounded = await serve({ rankedMatches: 3 });
  const ids = await add(...Array.from({ length: 5 }, () => ({ description: 'межа межа' })));
  const first = await bounded.post('fulltext', { query: 'межа', limit: 2 });
  assert.deepEqual(idsOf(first.body), [ids[4], ids[3]]);
  assert.deepEqual(first.body.total, { value: 3, relation: 'gte' });
  const cursor = first.body.next_cursor;
  const second = await bounded.post('fulltext', { query: 'межа', limit: 2, cursor });
  assert.deepEqual(idsOf(second.body), [ids[2]]);
  assert.equal(second.body.next_cursor, null);
  assert.deepEqual((await search({ query: 'межа' })).total, { value: 5, relation: 'eq' });
});

test('highlights are marked and everything else is escaped', async () => {
  await add({
    title: 'Об’єкт <b>',
    description: '<script>alert(1)</script> світлиця & "вікно" <mark>',
  });
  const plain = await search({ query: 'світлиця' });
  assert.ok(!('highlight' in plain.items[0]));
  const { items } = await search({ query: "світлиця об'єкт", highlight: true });
  assert.equal(
    items[0].highlight,
    '<mark>Об’єкт</mark> &#60;b&#62;\n&#60;script&#62;alert(1)&#60;/script&#62; <mark>світлиця</mark> &#38; &#34;вікно&#34; &#60;mark&#62;',
  );
});

const refused: [string, object | string, string][] = [
  ['no query', {}, 'body'],
  ['an empty query', { query: '' }, 'body/query'],
  ['a query of 513 characters', { query: 'а'.repeat(513) }, 'body/query'],
  ['NUL in the query', { query: 'a\0b' }, 'body/query'],
  ['NUL in the city', { query: 'a', city: 'a\0' }, 'body/city'],
  ['NUL in the type', { query: 'a', property_type: 'a\0' }, 'body/property_type'],
  ['an unknown key', { query: 'a', sort: 'price' }, 'body'],
  ['an unknown deal type', { query: 'a', deal_type: 'gift' }, 'body/deal_type'],
  ['a limit of 0', { query: 'a', limit: 0 }, 'body/limit'],
  ['a limit of 101', { query: 'a', limit: 101 }, 'body/limit'],
  ['text for a number', { query: 'a', price_min: '5' }, 'body/price_min'],
  ['a number that is too large', '{"query":"a","rooms_min":1e400}', 'body/rooms_min'],
  ['prices the wrong way round', { query: 'a', price_min: 2, price_max: 1 }, 'body/price_min'],
  ['rooms the wrong way round', { query: 'a', rooms_min: 2, rooms_max: 1 }, 'body/rooms_min'],
  ['areas the wrong way round', { query: 'a', area_min: 2, area_max: 1 }, 'body/area_min'],
];

for (const [name, body, path] of refused) {
  test(`${name} is 422 and says where`, async () => {
    for (const kind of ['fulltext', 'hybrid']) {
      const answer = await post(kind, body);
      assert.equal(answer.status, 422, JSON.stringify(answer.body));
      assert.ok(answer.body.errors.some((one: { path: string }) => one.path === path));
    }
  });
}

test('all wrong ranges are named at once', async () => {
  const body = { query: 'a', price_min: 2, price_max: 1, area_min: 2, area_max: 1 };
  const { errors } = (await post('fulltext', body)).body;
  assert.deepEqual(errors, [
    { path: 'body/price_min', message: 'must not be above price_max' },
    { path: 'body/area_min', message: 'must not be above area_max' },
  ]);
});

test('beyond the rate it is 429 with the time to wait, on every instance together', async () => {
  const instances = [await serve({ perMinute: 3 }), await serve({ perMinute: 3 })];
  const answers = [];
  for (let index = 0; index < 4; index += 1) {
    answers.push(await instances[index % 2]?.post('fulltext', { query: 'а' }));
  }
  assert.deepEqual(
    answers.map((answer) => answer?.status),
    [200, 200, 200, 429],
  );
  assert.equal(answers[0]?.headers['ratelimit-remaining'], '2');
  const refusal = answers[3];
  assert.equal(refusal?.body.code, 'rate_limited');
  const wait = Number(refusal?.headers['retry-after']);
  assert.ok(wait >= 1 && wait <= 60, String(wait));
  assert.equal((await instances[0]?.post('hybrid', { query: 'а' }))?.status, 429);
  // Similar searches, which ask the model too, have as many of their own.
  const similar: (number | undefined)[] = [];
  for (let nth = 0; nth < 4; nth += 1) {
    const answer = await instances[nth % 2]?.post('similar', { embedding: [1, 0, 0] });
    similar.push(answer?.status);
  }
  assert.deepEqual(similar, [200, 200, 200, 429]);
  await db.deleteFrom('rate_limits').execute();
});

test('searches are measured by kind', async () => {
  await search({ query: 'метрика' });
  assert.match(
    await registry.metrics(),
    /collector_search_duration_seconds_count\{kind="fulltext"\} \d+/,
  );
});
