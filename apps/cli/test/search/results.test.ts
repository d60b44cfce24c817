import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listResults } from '../../src/search/results.ts';

const listing = {
  listing_id: 7,
  title: 'Затишна квартира біля парку',
  summary: 'Двокімнатна квартира.',
  description: 'Продам квартиру.',
  price: 62000,
  currency: 'USD',
  city: 'Львів',
  rooms: 2,
  area_total: 54.5,
};
const bare = { price: null, currency: null, city: null, rooms: null, area_total: null };

function firstLine(texts: { title: null; summary?: null; description?: string }) {
  return listResults({ items: [{ listing: { ...listing, ...texts } }] }).split('\n')[0];
}

test('a found listing is two lines, and the last line tells how many there are', () => {
  assert.equal(
    listResults({ items: [{ listing, rank: 0.10712 }], total: { value: 3, relation: 'eq' } }),
    `#7    Затишна квартира біля парку
      62 000 USD · Львів · 2 rooms · 54,5 m² · rank 0.107
3 found, 1 shown`,
  );
});

test('the nearest come with their distance', () => {
  const items = [{ listing: { ...listing, ...bare, rooms: 1 }, distance: 0.5423 }];
  assert.equal(
    listResults({ items }),
    '#7    Затишна квартира біля парку\n      1 room · distance 0.542\nthe 1 nearest',
  );
});

test('a summary, or the beginning of the description, stands for a missing title', () => {
  assert.equal(firstLine({ title: null }), '#7    Двокімнатна квартира.');
  const long = firstLine({ title: null, summary: null, description: 'дім🏡'.repeat(10_000) });
  assert.equal(long, `#7    ${'дім🏡'.repeat(22)}д…`);
});

test('nothing found, and more found than ranked, are said so', () => {
  assert.equal(listResults({ items: [], total: { value: 0, relation: 'eq' } }), '0 found');
  assert.equal(listResults({ items: [] }), '0 found');
  const many = listResults({ items: [{ listing }], total: { value: 5000, relation: 'gte' } });
  assert.match(many, /^at least 5000 found, 1 shown$/m);
});

test('no text of a listing acts on the terminal', () => {
  const evil = 'a\u001B]0;owned\u0007\nb';
  const odd = { ...listing, title: evil, city: evil, currency: evil };
  const text = listResults({ items: [{ listing: odd }] });
  assert.equal(text.split('\n').length, 3);
  assert.doesNotMatch(text.replaceAll('\n', ''), /\p{Cc}/u);
});
