import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inflateSync } from 'node:zlib';
import { normalizeText } from '@oselya/collector/internals';
import { createImage } from '../src/images/image.ts';
import {
  createListing,
  createListingPayload,
  createTextPayloads,
  SOURCES,
} from '../src/listings/listing.ts';
import { createRandom } from '../src/listings/random.ts';
import { formatArray, formatRow } from '../src/listings/rows.ts';
import { createVectorGenerator } from '../src/listings/vector.ts';
import { CITIES, getWord, VOCABULARY } from '../src/listings/words.ts';
import { createBody, createQuestions, formatGroup, KINDS } from '../src/search/questions.ts';
import { createPayloadForRound } from '../src/soak/payload.ts';

const COUNT = 5000;
const generator = { seed: 7 };
const listings = Array.from({ length: COUNT }, (_, index) => createListing(generator, index));
const vectorGenerator = createVectorGenerator(64);
const questionSettings = { count: 48, seed: 1, dimensions: 8 };

test('equal seeds make equal listings in any order, and other seeds make other listings', () => {
  assert.deepEqual(createListing(generator, COUNT - 1), listings.at(-1));
  assert.notDeepEqual(createListing({ seed: 8 }, 0), listings[0]);
  assert.equal(new Set(listings.map(({ description }) => description)).size, COUNT);
  assert.equal(new Set(listings.map(({ external_id }) => external_id)).size, COUNT);
});

test('cities, deals and sources have their shares', () => {
  const share = (isCounted: (listing: (typeof listings)[number]) => boolean) =>
    listings.filter(isCounted).length / COUNT;
  assert.equal(
    CITIES.reduce((sum, { percent }) => sum + percent, 0),
    100,
  );
  for (const { name, percent } of CITIES) {
    const cityShare = share(({ city }) => city === name);
    assert.ok(Math.abs(cityShare - percent / 100) < 0.02, `${name}: ${cityShare}`);
  }
  assert.ok(Math.abs(share(({ deal_type }) => deal_type === 'sale') - 0.5) < 0.03);
  assert.equal(new Set(listings.map(({ source_slug }) => source_slug)).size, SOURCES);
});

test('words are frequent, medium and rare', () => {
  const texts = listings.map(({ description }) => new Set(normalizeText(description).split(' ')));
  const share = (...ranks: number[]) => {
    const counts = ranks.map(
      (rank) => texts.filter((words) => words.has(getWord('uk', rank))).length,
    );
    return counts.reduce((sum, count) => sum + count, 0) / counts.length / COUNT;
  };
  const frequent = share(0, 1, 2);
  const medium = share(300, 500, 700);
  const rare = share(20_000, 30_000, 40_000);
  assert.ok(frequent > 0.4, `frequent: ${frequent}`);
  assert.ok(medium > 0.002 && medium < 0.03, `medium: ${medium}`);
  assert.ok(rare < 0.002, `rare: ${rare}`);
  const vocabulary = Array.from({ length: VOCABULARY }, (_, rank) => getWord('uk', rank));
  assert.equal(new Set(vocabulary).size, VOCABULARY);
});

test('duplicates have the requested share and describe the home of an earlier listing', () => {
  const copies = Array.from({ length: COUNT }, (_, index) => ({
    ...createListing({ seed: 7, duplicates: 0.2 }, index),
    index,
  })).filter(({ copy_of }) => copy_of !== null);
  assert.ok(Math.abs(copies.length / COUNT - 0.2) < 0.02);
  for (const { index, copy_of, address, area_total, price, external_id } of copies) {
    assert.ok(copy_of !== null && copy_of < index);
    const original = createListing(generator, copy_of);
    assert.deepEqual([address, area_total], [original.address, original.area_total]);
    assert.ok(Math.abs(price / original.price - 1) < 0.03);
    assert.equal(external_id, `flat-${index}`);
  }
});

test('payloads have no null fields, and text payloads have only a description', () => {
  const payload = createListingPayload(generator, 3);
  assert.ok(Object.values(payload).every((value) => value !== null));
  assert.equal(payload['city'], listings[3]?.city);
  assert.deepEqual(Object.keys(createTextPayloads(1, generator)[0] ?? {}), [
    'source_slug',
    'external_id',
    'description',
  ]);
});

test('rows for COPY escape separators, and arrays escape quotes and backslashes', () => {
  assert.equal(formatRow(['a\tb\nc\\d\re', null, 5, '']), 'a\\tb\\nc\\\\d\\re\t\\N\t5\t\n');
  assert.equal(formatArray(['a "b"', String.raw`c\d`]), String.raw`{"a \"b\"","c\\d"}`);
  assert.equal(formatArray([]), '{}');
});

test('vectors are equal for equal seeds and form clusters', () => {
  const dot = (one: Int16Array, other: Int16Array) =>
    one.reduce((sum, value, index) => sum + value * (other[index] ?? 0), 0);
  const cosine = (a: Int16Array, b: Int16Array) => dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
  const first = vectorGenerator.next(createRandom(1, 0));
  assert.deepEqual(createVectorGenerator(64).next(createRandom(1, 0)), first);
  const similarities = Array.from({ length: 599 }, (_, index) =>
    cosine(first, vectorGenerator.next(createRandom(1, index + 1))),
  ).toSorted((a, b) => b - a);
  assert.ok((similarities[0] ?? 0) > 0.3, `maximum: ${similarities[0]}`);
  const median = similarities[299] ?? 1;
  assert.ok(Math.abs(median) < 0.3, `median: ${median}`);
});

test('each name makes a different PNG of 512 × 512 grey pixels, and equal names make equal files', () => {
  const images = ['/1/0', '/1/1', '/2/0', '/1/0'].map((name) => createImage(name).toString('hex'));
  assert.equal(new Set(images).size, 3);
  assert.equal(images[0], images[3]);
  const png = createImage('/');
  assert.equal(png.subarray(1, 4).toString(), 'PNG');
  const header = [png.readUInt32BE(16), png.readUInt32BE(20), png[24], png[25]];
  assert.deepEqual(header, [512, 512, 8, 0]);
  const length = png.readUInt32BE(33);
  assert.equal(inflateSync(png.subarray(41, 41 + length)).length, 512 * 513);
});

test('equal seeds make equal questions, and all groups have the same size', () => {
  for (const kind of KINDS) {
    const questions = createQuestions(kind, questionSettings);
    assert.deepEqual(createQuestions(kind, questionSettings), questions);
    const groups = [...Map.groupBy(questions, formatGroup).values()];
    assert.equal(groups.length, ['fulltext', 'hybrid'].includes(kind) ? 12 : 4);
    assert.equal(new Set(groups.map(({ length }) => length)).size, 1);
  }
});

test('similar searches have a vector, and hybrid searches have words', () => {
  const [similar, hybrid] = (['similar', 'hybrid'] as const).map((kind) =>
    createQuestions(kind, questionSettings).map(createBody),
  );
  assert.ok(similar?.every((body) => 'embedding' in body && !('query' in body)));
  assert.ok(hybrid?.every((body) => 'query' in body && !('embedding' in body)));
});

test('one of five listings of a soak run has two images, and one of them changes with the text', () => {
  for (let index = 0; index < 10; index += 1) {
    const payloads = [0, 1, 2, 3, 4].map((round) =>
      createPayloadForRound(index, round, 'http://host.test'),
    );
    const images = payloads.map((payload) => payload['image_urls'] as string[] | undefined);
    assert.deepEqual(
      images.map((urls) => urls?.length),
      Array(5).fill(index % 5 === 0 ? 2 : undefined),
    );
    if (index % 5 !== 0) continue;
    assert.equal(new Set(images.map((urls) => urls?.[0])).size, 1);
    const texts = new Set(payloads.map(({ description }) => description)).size;
    assert.equal(new Set(images.map((urls) => urls?.[1])).size, texts);
  }
});

test('in four rounds of a soak run a listing changes its price once and its text once', () => {
  for (const index of [0, 1, 2, 3, 4711]) {
    for (const first of [0, 3, 10]) {
      const changes = [1, 2, 3, 4].map((step) => {
        const [before, after] = [first + step - 1, first + step].map((round) =>
          createPayloadForRound(index, round, 'http://host.test'),
        );
        assert.ok(before && after);
        const isRepriced = before['price'] !== after['price'];
        const isReworded = before.description !== after.description;
        assert.ok(!(isRepriced && isReworded));
        const ignored = { price: 0, description: '', image_urls: [] };
        assert.deepEqual({ ...before, ...ignored }, { ...after, ...ignored });
        return isRepriced ? 'price' : isReworded ? 'text' : 'same';
      });
      assert.deepEqual(changes.toSorted(), ['price', 'same', 'same', 'text']);
    }
  }
});
