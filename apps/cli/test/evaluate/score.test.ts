import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Expected } from '../../src/evaluate/golden.ts';
import {
  emptyTallies,
  precision,
  recall,
  score,
  sumOf,
  tallyOf,
} from '../../src/evaluate/score.ts';

type Facts = Record<string, unknown>;

function judge(expected: Expected, facts: Facts, isListing = true) {
  const tallies = emptyTallies();
  const differences = score(tallies, expected, { isListing, facts });
  return { tallies, fields: differences.map(({ field }) => field) };
}

const cases: [name: string, expected: Expected, facts: Facts, tally: [number, number, number]][] = [
  ['a right number', { price: 5 }, { price: 5 }, [1, 0, 0]],
  ['a wrong number, which is also missed', { price: 5 }, { price: 6 }, [0, 1, 1]],
  ['a missed number', { price: 5 }, {}, [0, 0, 1]],
  ['a number out of nothing', { price: null }, { price: 6 }, [0, 1, 0]],
  ['nothing where nothing is', { price: null }, {}, [0, 0, 0]],
  ['a field that is not judged', {}, { price: 6 }, [0, 0, 0]],
  ['zero, which is a value', { floor: 0 }, { floor: 0 }, [1, 0, 0]],
  ['any of several forms', { city: ['Львів', 'Lviv'] }, { city: 'Lviv' }, [1, 0, 0]],
  ['another spelling', { city: "Кам'янець" }, { city: 'КАМ’ЯНЕЦЬ ' }, [1, 0, 0]],
  ['other punctuation', { address: 'вул. Наукова, 45' }, { address: 'вул Наукова 45' }, [1, 0, 0]],
  ['another number of the house', { address: 'Наукова 45' }, { address: 'Наукова 4' }, [0, 1, 1]],
  ['a choice in another case', { deal_type: 'sale' }, { deal_type: 'Sale' }, [0, 1, 1]],
  ['phones by their digits', { phones: ['+380001'] }, { phones: ['+380 (00) 1'] }, [1, 0, 0]],
  ['one of two phones, and another', { phones: ['1', '2'] }, { phones: ['2', '3'] }, [1, 1, 1]],
  ['one of two phones, twice', { phones: ['12', '3'] }, { phones: ['12', '1 2'] }, [1, 0, 1]],
  ['no phones', { phones: [] }, { phones: [] }, [0, 0, 0]],
];
for (const [name, expected, facts, [right, wrong, missed]] of cases) {
  test(name, () => {
    const { tallies } = judge(expected, facts);
    assert.deepEqual(sumOf(tallies), { right, wrong, missed });
  });
}

test('a text that is taken for no listing has all its values missed', () => {
  const { tallies, fields } = judge({ is_listing: true, price: 5, city: null }, {}, false);
  assert.deepEqual(tallyOf(tallies, 'is_listing'), { right: 0, wrong: 0, missed: 1 });
  assert.deepEqual(tallyOf(tallies, 'price'), { right: 0, wrong: 0, missed: 1 });
  assert.deepEqual(fields, ['is_listing', 'price']);
});

test('no listing is right when it is found to be none, and wrong when it is not', () => {
  assert.deepEqual(judge({ is_listing: false }, {}, false).fields, []);
  const { tallies, fields } = judge({ is_listing: false }, { price: 3500 });
  assert.deepEqual(tallyOf(tallies, 'is_listing'), { right: 0, wrong: 1, missed: 0 });
  assert.deepEqual(fields, ['is_listing']);
});

test('an answer of no use is nothing read', () => {
  const tallies = emptyTallies();
  const expected = { is_listing: true, price: 5, phones: ['1', '2'] };
  const differences = score(tallies, expected, undefined);
  assert.deepEqual(sumOf(tallies), { right: 0, wrong: 0, missed: 3 });
  assert.equal(differences.length, 3);
});

test('shares are of what was read and of what is there, and none of nothing', () => {
  const tally = { right: 3, wrong: 1, missed: 3 };
  assert.equal(precision(tally), 0.75);
  assert.equal(recall(tally), 0.5);
  assert.equal(precision({ right: 0, wrong: 0, missed: 2 }), null);
  assert.equal(recall({ right: 0, wrong: 2, missed: 0 }), null);
});
