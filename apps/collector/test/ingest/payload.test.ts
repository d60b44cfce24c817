import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { checkValues, hashContent, parseTime, PayloadSchema } from '../../src/ingest/payload.ts';
import { createPayload, createTestServer } from '../support/pipeline.ts';

const app = await createTestServer();
app.post('/', { schema: { body: PayloadSchema } }, ({ body }) => {
  checkValues(body);
  return {};
});

const send = (payload: string) =>
  app.inject({
    method: 'POST',
    url: '/',
    payload,
    headers: { 'content-type': 'application/json' },
  });

const validPayloads: Record<string, unknown>[] = [
  {},
  {
    url: 'https://doshka.example/1',
    price: 0,
    currency: 'UAH',
    deal_type: 'daily_rent',
    property_type: 'apartment',
    city: 'Львів',
    district: 'Сихів',
    address: 'вул. Зелена, 1',
    rooms: 0,
    area_total: 54.5,
    area_living: 30,
    area_kitchen: 8,
    floor: -1,
    floors_total: 0,
    latitude: -90,
    longitude: 180,
    contact_name: 'Оксана',
    phones: ['+380 00 123 45 01'],
    published_at: '2025-02-28T10:00:00+02:00',
    image_urls: Array.from({ length: 50 }, (_, n) => `https://doshka.example/${n}.jpg`),
    attributes: { heating: 'gas', tags: ['a', { b: null }], big: 1e300 },
  },
  { external_id: 'я'.repeat(200), title: 'т'.repeat(500), description: 'я'.repeat(50_000) },
  { description: 'emoji 🏠 and a pair \u{1F3E0}' },
  { floor: 9, floors_total: 5 },
  { currency: 'USD' },
  { currency: 'EUR' },
  { published_at: '2025-01-01T00:00:00.123456Z' },
  { published_at: '2025-01-01T00:00:00.123456789+02:00' },
  { published_at: '2016-12-31T23:59:60Z' },
];

test('Valid payloads are accepted', async () => {
  for (const fields of validPayloads) {
    const response = await send(JSON.stringify(createPayload(fields)));
    assert.equal(response.statusCode, 200, response.body);
  }
});

const invalidPayloads: [string, Record<string, unknown>, string][] = [
  ['an unknown key', { colour: 'red' }, 'body'],
  ['no description', { description: undefined }, 'body'],
  ['a source with capitals', { source_slug: 'Doshka' }, 'body/source_slug'],
  ['an empty external id', { external_id: '' }, 'body/external_id'],
  ['an external id of 201 characters', { external_id: 'я'.repeat(201) }, 'body/external_id'],
  ['an empty description', { description: '' }, 'body/description'],
  ['a description of spaces', { description: ' \n ' }, 'body/description'],
  ['a description of zero-width spaces', { description: '\u200B\u200B' }, 'body/description'],
  ['a description of a stress mark', { description: ' \u0301' }, 'body/description'],
  ['a description too long', { description: 'я'.repeat(50_001) }, 'body/description'],
  ['an address that is none', { url: 'not an address' }, 'body/url'],
  ['an address without a host', { url: 'http://' }, 'body/url'],
  ['a javascript address', { url: 'javascript:alert(1)' }, 'body/url'],
  ['a price that the database cannot hold', { price: 1e15 }, 'body/price'],
  ['a currency that is not a code', { currency: 'грн' }, 'body/currency'],
  ['a currency in lower case', { currency: 'uah' }, 'body/currency'],
  ['a currency that no country has', { currency: 'ZZZ' }, 'body/currency'],
  ['an unknown deal', { deal_type: 'swap' }, 'body/deal_type'],
  ['a number of rooms that is not an integer', { rooms: 1.5 }, 'body/rooms'],
  ['an area that the database cannot hold', { area_living: 1e11 }, 'body/area_living'],
  ['a latitude past the pole', { latitude: 90.1 }, 'body/latitude'],
  ['a date that is not a date-time', { published_at: 'yesterday' }, 'body/published_at'],
  ['a date without a zone', { published_at: '2025-01-01T00:00:00' }, 'body/published_at'],
  ['a day that no calendar has', { published_at: '2025-02-31T00:00:00Z' }, 'body/published_at'],
  ['a year that PostgreSQL lacks', { published_at: '0000-01-01T00:00:00Z' }, 'body/published_at'],
  [
    'a time of a million digits',
    { published_at: `2025-01-01T00:00:00.${'1'.repeat(1_000_000)}Z` },
    'body/published_at',
  ],
  ['51 images', { image_urls: Array(51).fill('https://a.example/1') }, 'body/image_urls'],
  ['attributes too large', { attributes: { a: 'x'.repeat(65_536) } }, 'body/attributes'],
  ['attributes too large in bytes', { attributes: { a: 'я'.repeat(33_000) } }, 'body/attributes'],
  ['NUL in the description', { description: 'a\0b' }, 'body/description'],
  ['NUL deep in the attributes', { attributes: { a: [{ b: '\0' }] } }, 'body/attributes/a/0/b'],
  ['NUL in a key', { attributes: { 'a\0': 1 } }, 'body/attributes'],
  ['half a surrogate pair', { title: 'a\uD83C' }, 'body/title'],
];

test('Invalid payloads are 422 with the path of the invalid value', async () => {
  for (const [name, fields, path] of invalidPayloads) {
    const response = await send(JSON.stringify({ ...createPayload(), ...fields }));
    assert.equal(response.statusCode, 422, `${name}: ${response.body}`);
    const { code, errors } = response.json<{ code: string; errors: { path: string }[] }>();
    assert.equal(code, 'validation_failed');
    assert.ok(
      errors.some((error) => error.path === path),
      `${name}: ${response.body}`,
    );
  }
  // An error names every violated rule.
  const response = await send(JSON.stringify(createPayload({ price: -1, latitude: 100 })));
  const { errors } = response.json<{ errors: { path: string }[] }>();
  assert.deepEqual(
    errors.map(({ path }) => path),
    ['body/price', 'body/latitude'],
  );
});

const createRawPayload = (attributes: string) =>
  JSON.stringify({ ...createPayload(), attributes: 0 }).replace(
    '"attributes":0',
    `"attributes":${attributes}`,
  );
const createNestedJson = (levels: number) =>
  `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;

test('Raw JSON with numbers beyond a double or with endless depth is rejected', async () => {
  assert.equal((await send(createRawPayload('{"a":1e400}'))).statusCode, 422);
  assert.equal((await send(createRawPayload(createNestedJson(32)))).statusCode, 200);
  assert.equal((await send(createRawPayload(createNestedJson(33)))).statusCode, 422);
  assert.equal((await send(createRawPayload(createNestedJson(30_000)))).statusCode, 422);
  assert.equal((await send(createRawPayload(createNestedJson(400_000)))).statusCode, 422);
  assert.equal((await send(createRawPayload('{"__proto__":1}'))).statusCode, 400);
});

test('Equal JSON has equal hashes, and different JSON has different hashes', () => {
  assert.equal(hashContent({ a: 1, b: [2] }), hashContent({ b: [2], a: 1 }));
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (left, right) => {
      assert.equal(hashContent(left), hashContent(toStored(left)));
      if (isDeepStrictEqual(toStored(left), toStored(right))) {
        assert.equal(hashContent(left), hashContent(right));
      } else {
        assert.notEqual(hashContent(left), hashContent(right));
      }
    }),
  );
});

/** Returns a value after a JSON round trip, which turns -0 into 0. */
const toStored = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

test('A leap second becomes the second before in any zone, and other times are unchanged', () => {
  for (const [text, instant] of [
    ['2016-12-31T23:59:60Z', '2016-12-31T23:59:59.000Z'],
    ['2017-01-01T01:59:60.5+02:00', '2016-12-31T23:59:59.500Z'],
    ['2026-05-01T10:00:00+03:00', '2026-05-01T07:00:00.000Z'],
  ] as const) {
    assert.equal(parseTime(text).toISOString(), instant);
  }
  assert.ok(Number.isNaN(parseTime('yesterday').getTime()));
});
