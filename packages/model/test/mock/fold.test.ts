import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { clean, fold } from '../../src/mock/fold.ts';

const folded = (text: string): string => fold(clean(text, 1_000));

describe('clean and fold', () => {
  test('put look-alike letters into the alphabet of their word', () => {
    assert.equal(clean('Здaм квapтиpу y Львoвi', 100), 'Здам квартиру y Львові');
    assert.equal(clean('Аpаrtmеnt', 100), 'Apartment');
    assert.equal(clean('kitchen кухня', 100), 'kitchen кухня');
  });

  test('know one apostrophe, dash and space', () => {
    assert.equal(folded('п’ять пʼять п`ять'), 'пять пять пять');
    assert.equal(folded('2‑кімн – 3—к'), '2-кімн - 3-к');
    assert.equal(folded('85\u00A0000\u2009грн'), '85 000 грн');
  });

  test('drop stress marks and soft hyphens, and keep й and ї', () => {
    assert.equal(folded('за\u0301мок кварти\u00ADра'), 'замок квартира');
    assert.equal(folded('Йосип, Їжак, ёлка'), 'йосип, їжак, елка');
    assert.equal(folded('и\u0306'), 'й');
  });

  test('give for folded text the same text again', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        assert.equal(folded(folded(text)), folded(text));
      }),
      { examples: [['一İ']] },
    );
  });

  test('read no more than the limit', () => {
    assert.equal(clean('абв'.repeat(100), 5), 'абваб');
    assert.equal(clean('\uFDFA'.repeat(100), 20).length <= 20, true);
  });
});
