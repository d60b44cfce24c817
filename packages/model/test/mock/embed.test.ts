import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { embedText } from '../../src/mock/embed.ts';

const DIMENSIONS = 384;

function cosine(a: string, b: string): number {
  const left = embedText(a, DIMENSIONS);
  const right = embedText(b, DIMENSIONS);
  return left.reduce((sum, value, at) => sum + value * (right[at] ?? 0), 0);
}

/** A text, one that means much the same, and one that does not. */
const TRIPLES: [text: string, related: string, unrelated: string][] = [
  ['квартира у Львові', 'apartment in Lviv', 'гараж в Одессе'],
  ['квартира в Києві', 'квартира в Киеве', 'house in Odesa'],
  ['оренда квартири подобово', 'посуточная аренда квартиры', 'продаж земельної ділянки'],
  ['будинок з садом', 'house with a garden', 'офіс у центрі'],
  ['кімната для студента', 'room for a student', 'продаж складу'],
  ['земельна ділянка 10 соток', 'участок 10 соток', 'кімната біля метро'],
  ['офіс у центрі Харкова', 'office in the centre of Kharkiv', 'дача біля лісу'],
  ['квартира з балконом', 'flat with a balcony', 'гараж з ямою'],
  ['продам двушку', 'продаж двокімнатної квартири', 'сдам офис'],
  ['вид на море, Одеса', 'sea view in Odessa', 'новобудова, Київ'],
  ['квартира біля метро', 'apartment near the subway', 'house by the sea'],
  ['можна з тваринами', 'pets allowed', 'без меблів'],
  ['автономне опалення', 'own heating', 'вид на море'],
  ['новобудова з ліфтом', 'new building with an elevator', 'старий будинок у селі'],
  ['квартира з ремонтом', 'renovated flat', 'ділянка без комунікацій'],
  ['дешева кімната', 'cheap room', 'luxury villa'],
  ['тихий район для сімʼї', 'quiet area for a family', 'офіс біля вокзалу'],
  ['гараж у кооперативі', 'garage for sale', 'apartment for rent'],
  ['паркінг у дворі', 'parking in the yard', 'балкон і тераса'],
  ['здам квартиру', 'сдам квартиру', 'продам дом'],
  ['п’ятий поверх', "п'ятий поверх", 'перша лінія моря'],
  ['мебель и техника', 'furniture and appliances', 'гараж и подвал'],
  ['Flat in Dnipro', 'квартира у Дніпрі', 'будинок у Полтаві'],
];

describe('embedText', () => {
  for (const [text, related, unrelated] of TRIPLES) {
    test(`"${text}" is nearer to "${related}" than to "${unrelated}"`, () => {
      assert.ok(cosine(text, related) > cosine(text, unrelated));
    });
  }

  test('reads look-alike letters, case, ё and apostrophes as one', () => {
    assert.deepEqual(embedText('КВАРТИРА, мёд', 64), embedText('квартира мед', 64));
    assert.deepEqual(embedText('пʼять', 64), embedText("п'ять", 64));
    assert.deepEqual(embedText('квapтира', 64), embedText('квартира', 64));
  });

  test('gives texts without words one fixed vector', () => {
    assert.deepEqual(embedText('', 3), [1, 0, 0]);
    assert.deepEqual(embedText(' … !', 3), [1, 0, 0]);
  });

  test('refuses a width that is no positive whole number', () => {
    for (const dimensions of [0, -1, 1.5, Number.NaN]) {
      assert.throws(() => embedText('квартира', dimensions), RangeError);
    }
  });

  test('is a finite vector of length 1 and of the width asked for', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        fc.integer({ min: 1, max: 1_024 }),
        (text, width) => {
          const vector = embedText(text, width);
          assert.equal(vector.length, width);
          assert.ok(vector.every(Number.isFinite));
          assert.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-9);
          assert.deepEqual(embedText(text, width), vector);
        },
      ),
    );
  });
});
