import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readJsonLines } from '../../src/ingest/jsonl.ts';
import { collect, textPieces } from './rows.ts';

const MIB = 1024 * 1024;

test('each line is a record by its number; empty ones are none, and bad ones spoil no other', async () => {
  const text = '{"a":1}\r\n\n  \n{"a":\n[1]\n"x"\nnull\n{"a":"ї\\n"}';
  const rows = await collect(readJsonLines(textPieces(text)));
  assert.deepEqual(
    rows.map(([line, found]) => [line, typeof found === 'string' ? 'bad' : found]),
    [
      [1, { a: 1 }],
      [4, 'bad'],
      [5, 'bad'],
      [6, 'bad'],
      [7, 'bad'],
      [8, { a: 'ї\n' }],
    ],
  );
  assert.match(String(rows[1]?.[1]), /^is no JSON: /);
  assert.equal(rows[2]?.[1], 'is no JSON object');
});

test('a key may have any name', async () => {
  for await (const row of readJsonLines(textPieces('{"__proto__":{"a":1},"constructor":2}'))) {
    assert.ok('fields' in row);
    assert.deepEqual(Object.keys(row.fields), ['__proto__', 'constructor']);
    assert.equal('a' in row.fields, false);
  }
});

async function* endless() {
  for (let sent = 0; sent < 40; sent += 1) yield await Promise.resolve('x'.repeat(MIB));
  yield '\n{"a":1}\n';
}

test('a line without end is refused without being kept', async () => {
  const found: unknown[] = [];
  for await (const row of readJsonLines(endless())) {
    found.push('fields' in row ? row.fields : [row.reason, row.found.length]);
  }
  assert.deepEqual(found, [['has more than 8388608 characters', 1000], { a: 1 }]);
});

test('however the text is cut, the records, lines and ends are the same', async () => {
  const record = fc.record({ line: fc.constantFrom('{"a":"ґ€😀"}', '', 'no', '{}') });
  await fc.assert(
    fc.asyncProperty(fc.array(record), fc.integer({ min: 1, max: 20 }), async (lines, size) => {
      const text = lines.map(({ line }) => line).join('\n');
      const rows = [];
      for await (const row of readJsonLines(textPieces(text, size))) rows.push(row);
      let end = 0;
      const expected = lines.flatMap(({ line }, index) => {
        end += Buffer.byteLength(line) + (index === 0 ? 0 : 1);
        return line === '' ? [] : [[index + 1, end]];
      });
      assert.deepEqual(
        rows.map(({ line, end: at }) => [line, at]),
        expected,
      );
    }),
    { numRuns: 100 },
  );
});
