import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clean, fold } from '../../src/mock/fold.ts';
import { spellOutNumbers } from '../../src/mock/numbers-in-words.ts';

const CASES: [words: string, digits: string][] = [
  ["двадцять п'ять тисяч гривень", '25000 гривень'],
  ['двадцять пʼять тисяч гривень', '25000 гривень'],
  ['сто двадцать тысяч долларов', '120000 долларов'],
  ['one hundred and twenty-five thousand dollars', '125000 dollars'],
  ['три миллиона двести тысяч', '3200000'],
  ['півтора мільйона', '1500000'],
  ['півмільйона', '500000'],
  ['тысяча гривен', '1000 гривен'],
  ['девятсот девяносто девять', '999'],
  ['25 тисяч', '25 тисяч'],
  ['п’ять дев’ять', '5 9'],
  ['двокімнатна, двухкомнатная, двух-комнатная', '2-кімнатна, 2-комнатная, 2-комнатная'],
  ['на пʼятому поверсі девʼятиповерхового', 'на 5-й поверсі 9-поверхового'],
  ['на двадцать первом этаже', 'на 21-й этаже'],
  ['the fifth floor of a nine-storey house', 'the 5-й floor of a 9-storey house'],
  ['третий из девяти', '3-й из 9'],
  ['перша лінія, второй вход', 'перша лінія, второй вход'],
  ['стоянка, трикотаж, семья, often', 'стоянка, трикотаж, семья, often'],
];

for (const [words, digits] of CASES) {
  test(`${words} → ${digits}`, () => {
    assert.equal(spellOutNumbers(fold(clean(words, 1_000))), digits);
  });
}
