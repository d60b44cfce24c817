import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkPayload } from '@oselya/collector/payload';
import fc from 'fast-check';
import { createToPayload, FIELDS } from '../../src/ingest/to-payload.ts';
import { toValue } from '../../src/ingest/values.ts';

function makeOf(record: Record<string, unknown>, mapping: Record<string, string> = {}) {
  const unknown: string[] = [];
  const toPayload = createToPayload({
    source: 'doshka',
    mapping: new Map(Object.entries(mapping)),
    onUnknown: (name) => unknown.push(name),
  });
  return { made: toPayload(record), unknown };
}

function make(record: Record<string, unknown>, mapping: Record<string, string> = {}) {
  const { made, unknown } = makeOf(record, mapping);
  if ('reason' in made) throw new Error(made.reason);
  return { payload: made.payload, unknown };
}

test('fields go where they belong, all else into attributes as it is', () => {
  const { payload, unknown } = make({
    external_id: 7,
    description: ' Здам квартиру ',
    condition: 'новий ',
    seller: { name: 'Олена' },
    empty: '',
    none: null,
  });
  assert.deepEqual(payload, {
    source_slug: 'doshka',
    external_id: '7',
    description: ' Здам квартиру ',
    attributes: { condition: 'новий ', seller: { name: 'Олена' } },
  });
  assert.deepEqual(unknown, ['condition', 'seller']);
  assert.deepEqual(checkPayload(payload), []);
});

test('--source says whose they are, whatever the file says', () => {
  const { payload, unknown } = make({ source_slug: 'other', external_id: '1' });
  assert.deepEqual(payload, { source_slug: 'doshka', external_id: '1' });
  assert.deepEqual(unknown, []);
});

test('a mapped column serves its field alone, and the column of that name is kept as an attribute', () => {
  const { payload } = make(
    { link: 'http://a.example/1', text: 'Flat', price: '5', price_usd: '52 000' },
    { external_id: 'link', url: 'link', description: 'text', price: 'price_usd' },
  );
  assert.deepEqual(payload, {
    source_slug: 'doshka',
    external_id: 'http://a.example/1',
    url: 'http://a.example/1',
    description: 'Flat',
    price: 52_000,
    attributes: { price: '5' },
  });
});

test("attributes of the record's own are joined; what is no object is left to be refused", () => {
  assert.deepEqual(make({ attributes: '{"a":1}', b: '2' }).payload['attributes'], { b: '2', a: 1 });
  assert.deepEqual(make({ attributes: { a: 1 } }).payload['attributes'], { a: 1 });
  assert.deepEqual(make({ attributes: 'new', b: '2' }).payload['attributes'], 'new');
});

test('a record with two values for an attribute makes no payload; the same value twice is one', () => {
  const { made } = makeOf({ condition: 'new', a: '1', attributes: { condition: 'old', a: 1 } });
  assert.deepEqual(made, {
    reason:
      'condition is given twice, by itself and within attributes: leave one of them out; ' +
      'a is given twice, by itself and within attributes: leave one of them out',
  });
  const { payload } = make({ heating: ['gas'], attributes: { heating: ['gas'], b: 2 } });
  assert.deepEqual(payload['attributes'], { heating: ['gas'], b: 2 });
});

const values: [field: string, value: unknown, expected: unknown][] = [
  ['price', '52000', 52_000],
  ['price', ' 52 000 ', 52_000],
  ['price', '1 250 000,50', 1_250_000.5],
  ['price', '52000.5', 52_000.5],
  ['price', 'about 5', 'about 5'],
  ['price', '1,200', '1,200'],
  ['price', '1.200', '1.200'],
  ['price', ' 52.000 ', ' 52.000 '],
  ['price', '52000.000', 52_000],
  ['price', '1.20', 1.2],
  ['price', '0.125', 0.125],
  ['price', '0,125', 0.125],
  ['price', '5 2', '5 2'],
  ['price', '1e5', '1e5'],
  ['price', 5, 5],
  ['floor', '-1', -1],
  ['rooms', '2', 2],
  ['area_total', '47,5', 47.5],
  ['area_total', '47.125', 47.125],
  ['area_total', '47,125', '47,125'],
  ['title', 5, '5'],
  ['external_id', 9_007_199_254_740_991, '9007199254740991'],
  ['external_id', -9_007_199_254_740_992, -9_007_199_254_740_992],
  ['external_id', 1e21, 1e21],
  ['external_id', 12.1, 12.1],
  ['title', true, true],
  ['phones', '+380 00 1, +380 00 2; +380 00 3', ['+380 00 1', '+380 00 2', '+380 00 3']],
  ['phones', '["+380 00 1"]', ['+380 00 1']],
  ['phones', ['+380 00 1'], ['+380 00 1']],
  ['image_urls', 'http://a.example/1,2.jpg', ['http://a.example/1,2.jpg']],
  [
    'image_urls',
    'http://a.example/1.jpg,https://a.example/2.jpg',
    ['http://a.example/1.jpg', 'https://a.example/2.jpg'],
  ],
  [
    'image_urls',
    'http://a.example/1.jpg | http://a.example/2.jpg',
    ['http://a.example/1.jpg', 'http://a.example/2.jpg'],
  ],
  [
    'image_urls',
    'http://a.example/1.jpg\nhttp://a.example/2.jpg',
    ['http://a.example/1.jpg', 'http://a.example/2.jpg'],
  ],
];
for (const [field, value, expected] of values) {
  test(`${field} of ${JSON.stringify(value)} is ${JSON.stringify(expected)}`, () => {
    assert.deepEqual(make({ [field]: value }).payload[field], expected);
  });
}

test('any record becomes something that the check can judge, without losing a value', () => {
  const key = fc.oneof(fc.constantFrom(...FIELDS, '__proto__', 'source_slug'), fc.string());
  fc.assert(
    fc.property(fc.dictionary(key, fc.jsonValue(), { noNullPrototype: true }), (record) => {
      const { made, unknown } = makeOf(record);
      const own = toValue('object', record['attributes']) ?? {};
      if ('reason' in made) {
        const isTwice = (name: string) => Object.hasOwn(Object(own), name);
        return assert.ok(unknown.some(isTwice), made.reason);
      }
      assert.ok(Array.isArray(checkPayload(made.payload)));
      if (typeof own !== 'object' || Array.isArray(own)) return;
      const kept = Object(made.payload['attributes'] ?? {});
      for (const [name, value] of [
        ...unknown.map((column) => [column, record[column]] as const),
        ...Object.entries(own),
      ]) {
        assert.deepEqual(kept[name], value);
      }
      assert.equal(Object.keys(kept).length, new Set([...unknown, ...Object.keys(own)]).size);
    }),
    { numRuns: 300 },
  );
});
