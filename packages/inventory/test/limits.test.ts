import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_DEPTH, MAX_RECORD_BYTES } from '../src/limits.ts';
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
  assert.deepEqual(await codesOf(nested(MAX_DEPTH + 1), { format: 'jsonl' }), ['limit/depth']);
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
    assert.equal(summary.isComplete, false);
  }
});

test('a syntax error in a record that is too large is the error', async () => {
  const text = `[{"a": 01, "b": "${'x'.repeat(MAX_RECORD_BYTES)}"}]`;
  const { findings } = await validate(text);
  assert.deepEqual(
    findings.map(({ code, column }) => ({ code, column })),
    [{ code: 'json/syntax', column: 8 }],
  );
});
