import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ArrayScanner } from '../../src/json/array-scanner.ts';
import { LinesScanner } from '../../src/json/lines-scanner.ts';
import type { Scanner, TakeRun } from '../../src/json/scan-event.ts';

const RECORDS = Array.from({ length: 9 }, (_, index) => `{"id":"${index}","x":[{}]}`);

const array = (takeRun: TakeRun) => new ArrayScanner(takeRun);
const lines = (takeRun: TakeRun) => new LinesScanner(takeRun);

/** What a scanner offers as runs, and what it gives one by one, of a text in chunks. */
function scan(create: (takeRun: TakeRun) => Scanner, chunks: string[], isTaken: boolean) {
  const runs: string[] = [];
  const scanner = create((run) => {
    runs.push(run.toString());
    return isTaken;
  });
  const events = chunks.flatMap((chunk) => [...scanner.push(Buffer.from(chunk))]);
  events.push(...scanner.end());
  const single = events.map((event) => (event.kind === 'problem' ? event : event.value.text));
  return { runs, single, end: scanner.position() };
}

for (const separator of [',', ', ', ',\n\t', ' ,\r\n']) {
  test(`an array is offered as a run from its second record on, between ${JSON.stringify(separator)}`, () => {
    const text = `[${RECORDS.join(separator)}]`;
    const taken = scan(array, [text], true);
    assert.deepEqual(taken.runs, [RECORDS.slice(1, -1).join(separator)]);
    assert.deepEqual(taken.single, [RECORDS[0], RECORDS.at(-1)]);
    const refused = scan(array, [text], false);
    assert.deepEqual(refused, { ...taken, single: RECORDS });
  });
}

test('objects in records that stand as records do end no run', () => {
  const records = RECORDS.map((record) => record.replace('[{}]', '[{"a":1},{"a":2}]'));
  const { runs } = scan(array, [`[${records.join()}]`], true);
  assert.deepEqual(runs, [records.slice(1, -1).join()]);
});

test('a word that ends with its chunk begins no run', () => {
  const text = [',{"a":1}', '{"b":2} '];
  const { runs, single } = scan(array, ['[1', text.join()], true);
  assert.deepEqual(runs, []);
  assert.deepEqual(single.slice(0, 3), ['1', '{"a":1}', '{"b":2}']);
});

test('each chunk of an array is offered from its second whole record on', () => {
  const chunks = [`[${RECORDS.slice(0, 4).join()},{"id"`, `:4},${RECORDS.slice(4).join()}]`];
  const { runs } = scan(array, chunks, true);
  assert.deepEqual(runs, [RECORDS.slice(1, 4).join(), RECORDS.slice(4, -1).join()]);
});

test('whole lines are offered as a run, after the one that began in the chunk before', () => {
  const chunks = [
    `${RECORDS.slice(0, 4).join('\n')}\n{"id"`,
    `:4}\n${RECORDS.slice(5).join('\r\n')}`,
  ];
  const taken = scan(lines, chunks, true);
  assert.deepEqual(taken.runs, [
    `${RECORDS.slice(0, 4).join('\n')}\n`,
    `${RECORDS.slice(5, -1).join('\r\n')}\r\n`,
  ]);
  assert.deepEqual(taken.single, ['{"id":4}', RECORDS.at(-1)]);
  const refused = scan(lines, chunks, false);
  assert.deepEqual(refused.end, taken.end);
  assert.equal(refused.single.length, RECORDS.length);
});
