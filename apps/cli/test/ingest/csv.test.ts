import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandError } from '../../src/command-error.ts';
import { detectDelimiter, type DelimiterName, readCsv } from '../../src/ingest/csv.ts';
import { collect, textPieces } from './rows.ts';

async function read(content: string, delimiter?: DelimiterName, size?: number) {
  let columns: string[] = [];
  const rows = await collect(
    readCsv(textPieces(content, size), {
      name: 'a.csv',
      delimiter,
      onColumns: (names) => {
        columns = names;
      },
    }),
  );
  return { columns, rows };
}

test('the header names the fields; quotes hold delimiters, quotes and line ends', async () => {
  for (const size of [1, 7, 1000]) {
    const { columns, rows } = await read(
      'id, description \r\n1,"two, ""rooms""\r\nnear the park"\r\n\r\n2,12" window\r\n3,\r\n',
      undefined,
      size,
    );
    assert.deepEqual(columns, ['id', 'description']);
    assert.deepEqual(rows, [
      [2, { id: '1', description: 'two, "rooms"\r\nnear the park' }],
      [5, { id: '2', description: '12" window' }],
      [6, { id: '3', description: '' }],
    ]);
  }
});

test('a record with more or fewer cells than the header is bad, and the next one is not', async () => {
  const { rows } = await read('a,b\n1\n1,2,3\n4,5');
  assert.deepEqual(rows, [
    [2, 'has 1 cells, but the header has 2'],
    [3, 'has 3 cells, but the header has 2'],
    [4, { a: '4', b: '5' }],
  ]);
});

test('columns without a name get one, and may have any', async () => {
  const { columns, rows } = await read('a,,__proto__\n1,2,3');
  assert.deepEqual(columns, ['a', 'column_2', '__proto__']);
  assert.deepEqual(Object.entries(rows[0]?.[1] ?? {}), [
    ['a', '1'],
    ['column_2', '2'],
    ['__proto__', '3'],
  ]);
});

test('as many columns as the limit are read', async () => {
  const { columns, rows } = await read(
    `a${';'.repeat(999)}\n1${';'.repeat(999)}\n`,
    undefined,
    500,
  );
  assert.deepEqual([columns.length, rows.length], [1000, 1]);
});

test('the delimiter is what the header has most of, outside of quotes', () => {
  assert.equal(detectDelimiter('a,b,c'), ',');
  assert.equal(detectDelimiter('a;b, c;d'), ';');
  assert.equal(detectDelimiter('a\tb\tc'), '\t');
  assert.equal(detectDelimiter('a|b'), '|');
  assert.equal(detectDelimiter('"x;y;z",b'), ',');
  assert.equal(detectDelimiter('description'), ',');
});

test('semicolons, tabs, a comma as the decimal mark, and a delimiter that is told', async () => {
  assert.deepEqual((await read('a;b\n1,5;2')).rows, [[2, { a: '1,5', b: '2' }]]);
  assert.deepEqual((await read('a\tb\n1;5\t2')).rows, [[2, { a: '1;5', b: '2' }]]);
  assert.deepEqual((await read('a;b,c\n1;2,3', 'comma')).rows, [[2, { 'a;b': '1;2', c: '3' }]]);
  assert.deepEqual((await read('description\nflat, new; cheap')).rows, [
    [2, 'has 2 cells, but the header has 1'],
  ]);
});

const hopeless: [name: string, content: string, said: RegExp][] = [
  ['nothing', '', /a\.csv is empty: the first line of CSV names the columns/],
  ['only line ends', '\n\r\n', /is empty/],
  ['a column twice', 'a,b,a\n1,2,3', /has the column "a" twice/],
  [
    'a quote that is never closed',
    'a,b\n1,2\n"3,4\n5,6\n',
    /from line 3 on: a quote is never closed/,
  ],
  [
    'a cell without end',
    `a,b\n1,"${'x'.repeat(3 * 1024 * 1024)}`,
    /from line 2 on: .*longer than 2 MiB/,
  ],
  ['a header without end', `a${';'.repeat(3 * 1024 * 1024)}\n1\n`, /from line 1 on: .*than 2 MiB/],
  [
    'a line of delimiters without end',
    `a;b\r\n1;2\r\n\n${';'.repeat(3 * 1024 * 1024)}`,
    /from line 4 on: .*longer than 2 MiB/,
  ],
  [
    'more columns than the limit',
    `a${';'.repeat(1000)}\n1\n`,
    /has 1001 columns, and at most 1000/,
  ],
];
for (const [name, content, said] of hopeless) {
  test(`${name} ends the reading with what to do`, async () => {
    await assert.rejects(read(content, undefined, 100_000), (error) => {
      assert.ok(error instanceof CommandError);
      assert.match(error.message, said);
      return true;
    });
  });
}

test('what is before a quote that is never closed has been read', async () => {
  const found: unknown[] = [];
  const options = { name: 'a.csv', delimiter: undefined, onColumns: () => undefined };
  await assert.rejects(async () => {
    for await (const row of readCsv(textPieces('a\n1\n2\n"3'), options)) found.push(row.line);
  }, CommandError);
  assert.deepEqual(found, [2, 3]);
});

async function* broken() {
  yield await Promise.resolve('a,b\n1,2\n');
  throw new CommandError('a.csv is not UTF-8 text');
}

test('an error of the text itself comes through', async () => {
  const options = { name: 'a.csv', delimiter: undefined, onColumns: () => undefined };
  await assert.rejects(collect(readCsv(broken(), options)), /is not UTF-8 text/);
});
