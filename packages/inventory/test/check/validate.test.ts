import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { type InventorySource, validateInventory } from '@oselya/inventory';
import fc from 'fast-check';
import { almostJson } from '../support/almost-json.ts';
import {
  codesOf,
  inChunks,
  placeAt,
  validate,
  VALID_RECORD,
  withoutRest,
} from '../support/findings.ts';

const VALID = JSON.stringify([VALID_RECORD, { ...VALID_RECORD, port: 443 }], null, 2);

// One text for each way to be wrong, with characters of one to four bytes.
const TEXTS = [
  VALID,
  '\uFEFF[{"id":"оселя","name":"🏠","port":"x"},\r\n 1]',
  '[{"id":"a","\\u0069d":"b"},{"x":{"y":1,"y":2}},{"id":null}] // end',
  '[{"🏠":“x”}]',
  '[{"a": "é\n"}]',
  '[{"port": 1e400}, NaN]',
  '[{"port": -01}]',
  '[1 2]',
  '[[1}]',
  '[,]',
  '[1,]',
  '{"a": [1, {"b": nul',
  '{"id": "é"}\n{"id": "b"}',
  '"text',
  '}',
  '\u00a0[]',
  'undefined',
  '',
];

test('it refuses exactly the arrays that JSON.parse refuses, in whatever chunks', async () => {
  const tally = { taken: 0, refused: 0 };
  await fc.assert(
    fc.asyncProperty(
      almostJson(fc.array(fc.jsonValue(), { maxLength: 4 })),
      fc.array(fc.nat(), { maxLength: 4 }),
      async (text, cuts) => {
        const bytes = Buffer.from(text);
        const ends = cuts.map((cut) => cut % (bytes.length + 1));
        const { findings, summary } = await validate(inChunks(bytes, ends));
        const isRefused = findings.some(
          ({ code }) => /^(json|encoding)\//.test(code) && code !== 'json/duplicate-key',
        );
        const parsed = parse(text);
        tally[parsed === undefined ? 'refused' : 'taken'] += 1;
        assert.equal(isRefused, parsed === undefined);
        if (Array.isArray(parsed)) assert.equal(summary.records, parsed.length);
      },
    ),
    { numRuns: 4_000 },
  );
  assert.ok(tally.taken > 400 && tally.refused > 400, JSON.stringify(tally));
});

test('chunk borders change nothing', async () => {
  for (const text of TEXTS) {
    const bytes = Buffer.from(text);
    for (const format of ['json', 'jsonl'] as const) {
      const read = async (source: InventorySource) =>
        withoutRest(await validate(source, { format }));
      const whole = await read(bytes);
      assert.deepEqual(await read(text), whole);
      const each = Array.from(bytes.keys());
      assert.deepEqual(await read(inChunks(bytes, each)), whole, text);
      for (const end of each) {
        assert.deepEqual(await read(inChunks(bytes, [end])), whole, text);
      }
    }
  }
});

test('every beginning of an inventory is told as truncated, with what is open', async () => {
  const text = '[\n {"id": "a\\u00e9", "n": [-1.5e+3, {"x": true}]},\n null]';
  for (let length = 1; length < text.length; length += 1) {
    const { findings } = await validate(text.slice(0, length));
    const last = findings.at(-1);
    assert.equal(last?.code, 'json/truncated', text.slice(0, length));
    const { line, column } = last;
    assert.deepEqual({ line, column }, placeAt(text, length));
    assert.deepEqual(last.related?.at(-1), { line: 1, column: 1, message: 'array opened here' });
  }
});

test('findings point at the value, in characters', async () => {
  const filler = fc.string({ unit: 'grapheme' }).map((text) => JSON.stringify(text));
  const space = fc.stringMatching(/^[ \n\t]{0,4}$/);
  await fc.assert(
    fc.asyncProperty(fc.array(filler), space, space, async (fillers, before, after) => {
      const record = JSON.stringify(VALID_RECORD).slice(0, -1);
      const extra = fillers.map((filled, index) => `,"x${index}":${before}${filled}`).join(after);
      const head = `[${before}${fillers.map((filled) => `${record},"f":${filled}},`).join(after)}`;
      const start = `${head}${record}${extra},"port":${after}`;
      const { findings } = await validate(`${start}"443"}]`);
      assert.equal(findings.length, 1);
      const [finding] = findings;
      assert.ok(finding);
      const { line, column, pointer, recordIndex, recordId } = finding;
      assert.deepEqual({ line, column }, placeAt(start, start.length));
      assert.equal(pointer, `/${fillers.length}/port`);
      assert.equal(recordIndex, fillers.length);
      assert.equal(recordId, 'gateway');
      const shown = Array.from(finding.excerpt?.text ?? '').slice(
        (finding.excerpt?.column ?? 0) - 1,
      );
      assert.ok(shown.join('').startsWith('"443"'));
    }),
  );
});

test('findings come while the source is still being read', async () => {
  let given = 0;
  async function* endless() {
    yield Buffer.from('[');
    for (;;) {
      given += 1;
      yield Buffer.from('{},');
    }
  }
  const validation = validateInventory(endless());
  const first = await validation.next();
  assert.ok(!first.done);
  assert.equal(first.value.code, 'schema/required');
  assert.ok(given < 5);
  await validation.return({ records: 0, isComplete: false });
});

test('maxErrors ends the reading and closes the source; warnings do not count', async () => {
  let isClosed = false;
  async function* source() {
    try {
      yield Buffer.from('\uFEFF[1,2,');
      yield Buffer.from('3,4,');
      assert.fail('it reads on');
    } finally {
      isClosed = true;
    }
  }
  const { findings, summary } = await validate(source(), { maxErrors: 3 });
  assert.deepEqual(
    findings.map(({ severity }) => severity),
    ['warning', 'error', 'error', 'error'],
  );
  assert.deepEqual(summary, { records: 3, isComplete: false });
  assert.ok(isClosed);
});

test('it reads strings, bytes, streams, iterables and paths', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'inventory-'));
  try {
    const path = join(folder, 'inventory.json');
    writeFileSync(path, VALID);
    const bytes = new TextEncoder().encode(VALID);
    for (const source of [
      VALID,
      bytes,
      new Blob([bytes]).stream(),
      inChunks(Buffer.from(bytes), []),
      { path },
    ]) {
      const { findings, summary } = await validate(source);
      assert.deepEqual(findings, []);
      assert.deepEqual(summary, { records: 2, isComplete: true });
    }
    const lines = join(folder, 'inventory.jsonl');
    writeFileSync(lines, '{}');
    const { findings } = await validate({ path: lines });
    assert.equal(findings[0]?.pointer, '');
    assert.equal(findings[0]?.file, lines);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a long string is read across its slices', async () => {
  const record = JSON.stringify({ ...VALID_RECORD, notes: '🏠'.repeat(50_001) });
  const { findings, summary } = await validate(`[${record},${record},{}]`);
  assert.equal(summary.records, 3);
  assert.ok(findings.every(({ recordIndex, line }) => recordIndex === 2 && line === 1));
  assert.equal(findings[0]?.column, 2 + 2 * (Array.from(record).length + 1));
});

test('failures of the source are thrown', async () => {
  await assert.rejects(validate({ path: 'no-such-file.json' }), { code: 'ENOENT' });
  // A stream with an encoding gives strings.
  await assert.rejects(validate(Readable.from(['[]'])), TypeError);
});

test('label and format come from the options', async () => {
  const { findings } = await validate('{}\n', { file: 'endpoints.jsonl', maxErrors: 1 });
  assert.equal(findings[0]?.file, 'endpoints.jsonl');
  assert.equal(findings[0]?.code, 'schema/required');
  assert.deepEqual(await codesOf('{}', { file: 'endpoints.jsonl', format: 'json' }), [
    'schema/type',
  ]);
  assert.deepEqual(await codesOf('', { format: 'jsonl' }), []);
});

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
