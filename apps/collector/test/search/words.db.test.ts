import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { createStems } from '../../src/search/listing-stems.ts';
import { openSearch } from './harness.ts';

const { db } = await openSearch();

test('Stems have terms for the facts of fields and texts, title before facts before text', () => {
  const stems = createStems({
    title: 'Двушка у Львові',
    description: 'Площа 45/30/9 м², 3/9, ціна 12 000 грн. Тел. 067 123-45-67',
    deal_type: 'rent',
    property_type: 'apartment',
    place_path: [702550],
    floor: 9,
    floors_total: 9,
    area_total: 54.5,
    price: 12_000,
    phones: ['+380501112233'],
  });
  const weights = new Map(
    stems.split(' ').map((entry) => {
      const [term = '', positions = ''] = entry.split(':');
      return [term.slice(1, -1), positions.replaceAll(/[\d,]/g, '')];
    }),
  );
  const expected = {
    A: '@rooms2 dvushk ^@rooms2 ^dvushk',
    B: '@rent @apartment @place702550 @floor9 @floors9 @last_floor @area54 @area55 @phone501112233 @phone1112233',
    D: 'plosch @area45 @floor3 @phone671234567 @phone1234567',
  };
  for (const [weight, terms] of Object.entries(expected)) {
    for (const term of terms.split(' '))
      assert.match(weights.get(term) ?? '', RegExp(`^${weight}`), term);
  }
  assert.equal(weights.get('12000'), 'BD');
});

test('Stems of the longest texts stay below the limits of PostgreSQL', async () => {
  const fill = (create: (index: number) => string) =>
    Array.from({ length: 50_000 }, (_, index) => create(index))
      .join('')
      .slice(0, 50_000);
  const letters = 'щжюяєхчцшї';
  const texts = [
    fill((index) => `${letters[index % 10]}${letters[(index * 7) % 10]}${letters[index % 7]} `),
    fill((index) => `${String.fromCodePoint(0x4e00 + index)} `),
    fill(() => 'щ'),
    fill(() => '\u{1E9E}'),
    fill((index) => `${index} `),
    fill(() => '1 '),
    fill(() => '5/9 2к '),
    fill(() => `'"\\:* @rooms2`),
  ];
  for (const description of texts) {
    const stems = createStems({ description });
    const { rows } = await sql<{ terms: number }>`
      select length(${stems}::tsvector) as terms`.execute(db);
    assert.ok((rows[0]?.terms ?? 0) > 0, description.slice(0, 20));
  }
});
