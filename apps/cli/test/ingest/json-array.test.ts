import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readJsonArray } from '../../src/ingest/json-array.ts';
import { collect, textPieces } from './rows.ts';

const MIB = 1024 * 1024;
const read = (text: string, size?: number) => readJsonArray(textPieces(text, size), 'a.json');

test('each object of an array is a record with its line and number; what is none spoils no other', async () => {
  const text = '\n [{"a":1}, {"a":"ї]}\\"{"},\n7, [{}],\r\n {"b":{"c":[1]}} ]\n';
  for (const size of [1, 3, 1000]) {
    const rows = await Array.fromAsync(read(text, size));
    assert.deepEqual(
      rows.map((row) => [row.index, row.line, 'fields' in row ? row.fields : row.reason]),
      [
        [1, 2, { a: 1 }],
        [2, 2, { a: 'ї]}"{' }],
        [3, 3, 'is no JSON object'],
        [4, 3, 'is no JSON object'],
        [5, 4, { b: { c: [1] } }],
      ],
    );
  }
  assert.deepEqual(await collect(read('[]')), []);
  assert.deepEqual(await collect(read(' \n')), []);
});

test('what is no array, or ends in the middle, says where and what to do', async () => {
  const wrong: [text: string, rows: number, said: RegExp][] = [
    [
      '{"a":1}\n{"a":2}\n',
      0,
      /a\.json is no JSON array, since it begins with "\{": add --format jsonl/,
    ],
    ['a;b\n1;2\n', 0, /begins with "a": add the --format that it has$/],
    [
      '[{"a":1},\n{"a":2}',
      2,
      /cannot be read from line 2 on: the file ends here, but the array opened at 1:1 is not closed/,
    ],
    ['[{"a":1},\n{"a":', 1, /cannot be read from line 2 on: the file ends here/],
    [
      '[{"a":1}\n{"a":2}]',
      1,
      /cannot be read from line 2 on: expected "," or "\]" after the record, found "\{"/,
    ],
    ['[{"a":1},\n{"a":no}]', 1, /cannot be read from line 2 on: record 2 is no JSON/],
    ['[{"a":1}]\n[]', 1, /from line 2 on: the array of records has ended, but "\[" follows/],
  ];
  for (const [text, count, said] of wrong) {
    const rows: unknown[] = [];
    await assert.rejects(async () => {
      for await (const row of read(text)) rows.push(row);
    }, said);
    assert.equal(rows.length, count, text);
  }
});

async function* large() {
  yield '[{"a":"';
  for (let sent = 0; sent < 40; sent += 1) yield await Promise.resolve('x'.repeat(MIB));
  yield '"},{"a":1}]';
}

test('no more is read than is asked for, and a record without end is not kept', async () => {
  let pulled = 0;
  async function* pieces() {
    yield '[{"a":1},';
    for (;;) {
      pulled += 1;
      yield await Promise.resolve('{"a":2},');
    }
  }
  const rows = readJsonArray(pieces(), 'a.json');
  await rows.next();
  await rows.next();
  await rows.next();
  assert.equal(pulled, 2);
  await rows.return(undefined);

  const [long, next] = await Array.fromAsync(readJsonArray(large(), 'a.json'));
  assert.ok(long !== undefined && 'reason' in long && long.found.length === 1000);
  assert.match(long.reason, /at most 1 MiB/);
  assert.ok(next !== undefined && 'fields' in next);
});
