import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkMapping } from '../../src/ingest/check-mapping.ts';
import { readJsonLines } from '../../src/ingest/jsonl.ts';
import { textPieces } from './rows.ts';

/** Passes records on, and gives how many were taken by then, and what was noted. */
async function pass(records: object[], mapping: Record<string, string>) {
  const text = records.map((record) => JSON.stringify(record)).join('\n');
  const notes: string[] = [];
  const rows = checkMapping(
    readJsonLines(textPieces(text, 1000)),
    new Map(Object.entries(mapping)),
    (line) => notes.push(line),
  );
  return { count: (await Array.fromAsync(rows)).length, notes };
}

const many = (count: number, record: object = { id: '1', text: 'Гараж' }) =>
  Array.from({ length: count }, () => record);

test('a column that the records do not have is named before any is passed on', async () => {
  await assert.rejects(
    pass(many(3), { price: 'cost' }),
    /^CommandError: no record has "cost" \(--map price=cost\): they have id, text$/,
  );
  await assert.rejects(
    pass(many(500), { price: 'cost', description: 'txt', external_id: 'id' }),
    /none of the first 100 records has "txt" \(--map description=txt\): they have id, text$/,
  );
});

test('a column that comes later holds the first records back, and an optional one may come late', async () => {
  const late = [...many(99), { id: '2', text: 'Дім', cost: 5 }];
  assert.deepEqual(await pass(late, { price: 'cost' }), { count: 100, notes: [] });
  assert.deepEqual(await pass([...many(100), ...late], { price: 'cost' }), {
    count: 200,
    notes: [
      'The collector gets no price of them: none of the first 100 records has "cost" (--map price=cost).',
    ],
  });
});

test('where no record can be read, their own reasons are told', async () => {
  assert.equal((await pass([[], []], { price: 'cost' })).count, 2);
});
