import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readText } from '../../src/mock/listing-text.ts';
import { readPrice } from '../../src/mock/price.ts';
import type { DealType } from '../../src/mock/types.ts';

function priceIn(text: string, deal: DealType | null): [number | null, string | null] {
  const { price, currency } = readPrice(readText('', text).folded, deal, 'apartment');
  return [price, currency];
}

const CASES: [
  text: string,
  deal: DealType | null,
  price: number | null,
  currency: string | null,
][] = [
  ['85 000 у.е.', 'sale', 85_000, 'USD'],
  ['85.000$', 'sale', 85_000, 'USD'],
  ['85,000 USD', 'sale', 85_000, 'USD'],
  ['85к$', 'sale', 85_000, 'USD'],
  ['$85k', 'sale', 85_000, 'USD'],
  ['85 т.у.е.', 'sale', 85_000, 'USD'],
  ['15тис', 'rent', 15_000, 'UAH'],
  ['$ 1,200/mo', 'rent', 1_200, 'USD'],
  ['1,2 млн грн', 'sale', 1_200_000, 'UAH'],
  ['1 млн 250 тис. грн', 'sale', 1_250_000, 'UAH'],
  ['€35 per night', 'daily_rent', 35, 'EUR'],
  ['€ 35.50 per night', 'daily_rent', 35.5, 'EUR'],
  ['було 90000, тепер 85000 $', 'sale', 85_000, 'USD'],
  ['reduced from 90,000 to 85,000 USD', 'sale', 85_000, 'USD'],
  ['депозит 9000 грн, оренда 8000 грн', 'rent', 8_000, 'UAH'],
  ['8000 грн + залог 9000 грн + комісія 4000 грн', 'rent', 8_000, 'UAH'],
  ['комунальні 3000 грн, ціна 8000 грн', 'rent', 8_000, 'UAH'],
  ['8 000 грн (застава 8 000 грн)', 'rent', 8_000, 'UAH'],
  ['950 $/м2', 'sale', null, null],
  ['950 $ за м², 57 000 $', 'sale', 57_000, 'USD'],
  ['500-600 $ в месяц', 'rent', 500, 'USD'],
  ['12000 грн/міс або 900 грн/доба', 'daily_rent', 900, 'UAH'],
  ['12000 грн/міс або 900 грн/доба', 'rent', 12_000, 'UAH'],
  ['ціна 9000', 'sale', 9_000, null],
  ['ціна 50000$ за квартиру', 'sale', 50_000, 'USD'],
  ['оренда 9000 міс', 'rent', 9_000, 'UAH'],
  ['ціна за сотку 3000$', 'sale', null, null],
  ['будинок здається у вересні, 50000$', 'sale', 50_000, 'USD'],
  ['здана орендарю за 9000 грн, 50000$', 'sale', 50_000, 'USD'],
  ['будинок 2015 року, 60 м2, 5/9', 'sale', null, null],
  ['000 123 45 67', 'rent', null, null],
  ['комісія 50 %', 'rent', null, null],
  ['2к, 3 поверх', 'rent', null, null],
];

describe('readPrice', () => {
  for (const [text, deal, price, currency] of CASES) {
    test(`${text} (${deal}) → ${price} ${currency}`, () => {
      assert.deepEqual(priceIn(text, deal), [price, currency]);
    });
  }
});
