import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Payload } from '../../src/ingest/schemas.ts';
import type { Extraction } from '../../src/pipeline/extraction.ts';
import { mergeFacts } from '../../src/pipeline/merge.ts';

const nothing: Extraction = {
  is_listing: true,
  reason: null,
  language: null,
  title: null,
  summary: null,
  deal_type: null,
  property_type: null,
  price: null,
  currency: null,
  city: null,
  district: null,
  address: null,
  rooms: null,
  area_total: null,
  area_living: null,
  area_kitchen: null,
  floor: null,
  floors_total: null,
  contact_name: null,
  phones: [],
  features: [],
};
const bare: Payload = { source_slug: 'doshka', external_id: '1', description: 'Текст.' };

const merge = (payload: Partial<Payload>, extraction: Partial<Extraction>) =>
  mergeFacts({ ...bare, ...payload }, { ...nothing, ...extraction });

test('the payload wins, the model fills in, and each fact knows its origin', () => {
  const { facts, provenance } = merge(
    { price: 100, city: ' Львів ', phones: [] },
    { price: 200, city: 'Київ', rooms: 2, phones: ['+380001234501'], summary: 'Опис.' },
  );
  assert.deepEqual(facts, {
    price: 100,
    city: 'Львів',
    rooms: 2,
    phones: ['+380001234501'],
    summary: 'Опис.',
    features: [],
  });
  assert.deepEqual(provenance, {
    price: 'payload',
    city: 'payload',
    rooms: 'model',
    phones: 'model',
    summary: 'model',
    features: 'model',
  });
});

test('empty text of the source leaves the word to the model; property types are in lower case', () => {
  const { facts } = merge({ title: '  ', property_type: 'Apartment' }, { title: 'Квартира' });
  assert.equal(facts.title, 'Квартира');
  assert.equal(facts.property_type, 'apartment');
});

const impossible: [string, Partial<Extraction>][] = [
  ['a price below 0', { price: -5 }],
  ['a price past all bounds', { price: 1e300 }],
  ['a currency that is no code', { currency: '$' }],
  ['half a room', { rooms: 2.5 }],
  ['an area below 0', { area_total: -1 }],
  ['a title too long', { title: 'т'.repeat(501) }],
  ['a phone too long', { phones: ['1'.repeat(51)] }],
];

for (const [name, extraction] of impossible) {
  test(`${name} is left out`, () => {
    const { facts, provenance } = merge({}, extraction);
    assert.deepEqual(facts, { features: [] });
    assert.deepEqual(provenance, { features: 'model' });
  });
}

const contradictions: [string, Partial<Payload>, Partial<Extraction>, object][] = [
  ['both floors of the source', { floor: 9, floors_total: 5 }, {}, {}],
  ['both floors of the model', {}, { floor: 9, floors_total: 5 }, {}],
  ["the model's floor", { floors_total: 5 }, { floor: 9 }, { floors_total: 5 }],
  ["the model's floors", { floor: 9 }, { floors_total: 5 }, { floor: 9 }],
  ['a living area above the total', { area_living: 90, area_total: 50 }, {}, { area_total: 50 }],
  ["the model's total", { area_kitchen: 60 }, { area_total: 50 }, { area_kitchen: 60 }],
];

for (const [name, payload, extraction, left] of contradictions) {
  test(`of a contradiction goes: ${name}`, () => {
    assert.deepEqual(merge(payload, extraction).facts, { ...left, features: [] });
  });
}

test('facts that fit are kept', () => {
  const { facts } = merge({ floor: 5, floors_total: 5, area_total: 50, area_kitchen: 9 }, {});
  assert.deepEqual(facts, {
    floor: 5,
    floors_total: 5,
    area_total: 50,
    area_kitchen: 9,
    features: [],
  });
});

test('what the model writes is storable: no NUL, no half pairs, no repetition', () => {
  const { facts } = merge(
    {},
    { title: ' a\0b ', summary: 'x\uD800', features: ['balcony', 'balcony ', '', '\0'] },
  );
  assert.equal(facts.title, 'ab');
  assert.equal(facts.summary, 'x\uFFFD');
  assert.deepEqual(facts.features, ['balcony']);
});

test('a feature that is a whole text is left out', () => {
  const longest = 'б'.repeat(100);
  const { facts } = merge({}, { features: ['б'.repeat(101), longest] });
  assert.deepEqual(facts.features, [longest]);
});
