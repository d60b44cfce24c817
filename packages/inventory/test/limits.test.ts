import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_DEPTH, MAX_RECORD_BYTES, MAX_REPEATED_KEYS } from '../src/limits.ts';
import { where } from '../src/output/wording.ts';
import { codesOf, validate, VALID_RECORD } from './support/findings.ts';

function nested(levels: number): string {
  const record = JSON.stringify(VALID_RECORD).slice(0, -1);
  return `${record},"x":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
}

test('values nest as deep as the limit, and one level more is told', async () => {
  assert.deepEqual(await codesOf(`[${nested(MAX_DEPTH)}]`), []);
  const { findings, summary } = await validate(`[\n${nested(MAX_DEPTH + 1)}]`);
  assert.deepEqual(
    findings.map(({ code, line, column }) => ({ code, line, column })),
    [{ code: 'limit/depth', line: 2, column: nested(MAX_DEPTH + 1).indexOf('[') + MAX_DEPTH }],
  );
  assert.equal(summary.isComplete, false);
  assert.deepEqual(await codesOf(nested(MAX_DEPTH), { format: 'jsonl' }), []);
});

test('a line beyond a limit is told where it is, and the lines after it are read', async () => {
  const deep = nested(MAX_DEPTH + 1);
  const large = JSON.stringify({ ...VALID_RECORD, notes: 'x'.repeat(MAX_RECORD_BYTES) });
  const { findings, summary } = await validate(`é\n${deep}\n${large}\n5\n`, { format: 'jsonl' });
  assert.deepEqual(
    findings.map(({ code, line, column, recordIndex }) => ({ code, line, column, recordIndex })),
    [
      { code: 'json/syntax', line: 1, column: 1, recordIndex: 0 },
      { code: 'limit/depth', line: 2, column: deep.indexOf('[') + MAX_DEPTH, recordIndex: 1 },
      { code: 'limit/record-size', line: 3, column: 1, recordIndex: 2 },
      { code: 'schema/type', line: 4, column: 1, recordIndex: 3 },
    ],
  );
  assert.deepEqual(summary, { records: 4, isComplete: true });
});

test('ten million brackets do not overflow the stack', async () => {
  for (const bracket of ['[', '{"a":']) {
    assert.deepEqual(await codesOf(bracket.repeat(10_000_000 / bracket.length)), ['limit/depth']);
  }
});

test('a record is as large as the limit, and one byte more is told', async () => {
  const bare = JSON.stringify({ ...VALID_RECORD, notes: '' });
  const fits = bare.replace('""', `"${'x'.repeat(MAX_RECORD_BYTES - bare.length)}"`);
  const exceeds = fits.replace('"xx', '"xxx');
  for (const format of ['json', 'jsonl'] as const) {
    const wrap = (record: string) => (format === 'json' ? `[${record}]` : `${record}\n`);
    assert.deepEqual(await codesOf(wrap(fits), { format }), []);
    const { findings, summary } = await validate(wrap(exceeds), { format });
    assert.deepEqual(
      findings.map(({ code, line }) => ({ code, line })),
      [{ code: 'limit/record-size', line: 1 }],
    );
    assert.equal(summary.isComplete, format === 'jsonl');
  }
});

test('keys that are repeated very often are counted from some point on', async () => {
  const members = ',"a":1'.repeat(MAX_REPEATED_KEYS + 3);
  const { findings } = await validate(`[{"a":0,"port":"80"${members},"host":1}]`);
  const repeated = findings.filter(({ code }) => code === 'json/duplicate-key');
  assert.equal(repeated.length, MAX_REPEATED_KEYS + 1);
  const last = repeated.at(-1);
  assert.match(last?.message ?? '', /^from here on 3 more of the record's keys are repeated/);
  assert.equal(last?.column, 2 + '{"a":0,"port":"80",'.length + 6 * MAX_REPEATED_KEYS);
  // What else is wrong stands where it is written, among them.
  assert.deepEqual(
    findings.flatMap(({ pointer, code }) => (code === 'schema/type' ? [pointer] : [])),
    ['/0/port', '/0/host'],
  );
  const columns = findings.map(({ column }) => column);
  assert.deepEqual(
    columns,
    columns.toSorted((a, b) => a - b),
  );
});

test('long keys and ids are shortened in messages', async () => {
  const long = 'k'.repeat(100_000);
  const { findings } = await validate(`[{"id":"${long}","${long}":1,"${long}":2}]`);
  for (const finding of findings) {
    const { message, related = [] } = finding;
    for (const shown of [message, where(finding), ...related.map((place) => place.message)]) {
      assert.ok(shown.length < 300, shown.slice(0, 300));
    }
  }
  assert.ok(findings.some(({ pointer }) => pointer === `/0/${long}`));
});

test('a syntax error in a record that is too large is the error', async () => {
  const text = `[{"a": 01, "b": "${'x'.repeat(MAX_RECORD_BYTES)}"}]`;
  const { findings } = await validate(text);
  assert.deepEqual(
    findings.map(({ code, column }) => ({ code, column })),
    [{ code: 'json/syntax', column: 8 }],
  );
});
