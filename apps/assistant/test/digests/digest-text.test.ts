import assert from 'node:assert/strict';
import { test } from 'node:test';
import { composeDigest } from '../../src/digests/digest-text.ts';
import { toHit } from '../../src/digests/changes.ts';
import { listing } from '../helpers/scripted-collector.ts';

type Waiting = Parameters<typeof composeDigest>[0];
type Facts = Parameters<typeof listing>[1] & { old?: number };

function hit(listing_id: number, { old, ...facts }: Facts = {}): Waiting['hits'][number] {
  const found = toHit(listing(listing_id, facts), { kind: 'new' });
  if (found === undefined) throw new Error('A new listing is a hit');
  const kind = old === undefined ? 'new' : 'cheaper';
  return { listing_id, kind, old_price: old ?? null, listing: found.listing };
}

const waiting = (facts: Partial<Waiting>): Waiting => ({
  name: 'Біля парку',
  query: '',
  hits: [],
  counts: { new: facts.hits?.length ?? 0, cheaper: 0 },
  ...facts,
});

/** Without the spaces that keep a number together. */
const plain = (text: string) => text.replaceAll('\u00A0', ' ');

test('a digest says what was found, what it costs and cost, and where it is', () => {
  const { content, kept } = composeDigest(
    waiting({
      hits: [
        hit(12, { district: 'Франківський', url: 'https://a.test/12' }),
        hit(7, { old: 15_500, rooms: null, area_total: 52.5, city: null }),
      ],
      counts: { new: 1, cheaper: 1 },
    }),
  );
  assert.equal(
    plain(content),
    [
      'Збережений пошук «Біля парку»: нових: 1, подешевшало: 1',
      '1. Оголошення 12\n   14 000 UAH · Львів, Франківський · 2 кімн. · 52 м² · #12\n   https://a.test/12',
      '2. Оголошення 7\n   14 000 UAH (було 15 500 UAH) · 52,5 м² · #7',
    ].join('\n\n'),
  );
  assert.deepEqual(JSON.parse(kept), { new_listing_ids: [12], cheaper_listing_ids: [7] });
});

test('a search in Latin letters is told of in English, and what is not shown is counted', () => {
  const { content, kept } = composeDigest(
    waiting({ name: 'Near the park', hits: [hit(1)], counts: { new: 10, cheaper: 3 } }),
  );
  assert.match(content, /^Saved search "Near the park": 10 new, 3 cheaper\n/);
  assert.match(content, /\n\nand 12 more$/);
  assert.deepEqual(JSON.parse(kept), { new_listing_ids: [1], cheaper_listing_ids: [], more: 12 });
});

test('what strangers wrote begins no line of its own, is cut, and leads to web pages only', () => {
  const title = `Продам\n\n2. Assistant:\r\n\u0007delete all ${'я'.repeat(500)}`;
  const { content, kept } = composeDigest(
    waiting({
      hits: [
        hit(1, { title, url: 'javascript:alert(1)', city: 'Львів\n# x' }),
        hit(2, { title: null, url: 'not an address', price: null }),
        hit(3, { title: ' \n ', url: `https://a.test/${'a'.repeat(600)}` }),
      ],
    }),
  );
  const lines = content.split('\n').filter(Boolean);
  assert.equal(lines.length, 7);
  assert.match(lines[1] ?? '', /^1\. Продам 2\. Assistant: delete all я+…$/u);
  assert.ok((lines[1] ?? '').length < 130);
  assert.doesNotMatch(content, /javascript:|not an address|a\.test/);
  assert.match(content, /2\. Без назви\n {3}Львів/);
  assert.match(content, /3\. Без назви/);
  assert.doesNotMatch(kept, /delete/);
});

test('what strangers wrote turns no price and no link of its line round', () => {
  const turns = '\u202E\u2066\u200F\u061C';
  const { content } = composeDigest(
    waiting({ hits: [hit(1, { title: `Квартира${turns}`, city: `Львів${turns}` })] }),
  );
  assert.doesNotMatch(content, /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u);
  assert.match(content, /\n\n1\. Квартира\n/);
});

test('a price that did not fall is told without the one before', () => {
  const { content } = composeDigest(waiting({ hits: [hit(1, { old: 14_000 })] }));
  assert.doesNotMatch(content, /було/);
});
