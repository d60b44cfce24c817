import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ReadRecord } from '@oselya/inventory';
import { ArrayScanner } from '../../src/json/array-scanner.ts';
import { MAX_RECORD_PARTS } from '../../src/limits.ts';
import { almostJson } from '../support/almost-json.ts';
import { inChunks, placeAt, validate, VALID_RECORD, withParts } from '../support/findings.ts';

const RECORD = JSON.stringify(VALID_RECORD);
const withMember = (member: string) => `${RECORD.slice(0, -1)},${member}}`;
const nested = (depth: number) => `"x":${'['.repeat(depth)}${']'.repeat(depth)}`;

/** The kinds of events that a scanner gives for records of an array. */
function kindsIn(records: string): string[] {
  const scanner = new ArrayScanner();
  const events = scanner.push(Buffer.from(`[${RECORD},${records},${RECORD}]`));
  return Array.from(events, (event) => event.kind);
}

test('records between the first and the last one are read as one run', () => {
  for (const records of [
    RECORD,
    [RECORD, withMember('"port":"443"'), '{"id":1}', withMember('"a":[],"a":1')].join(),
    withMember(String.raw`"\"":"\\","x":"\\\"","y":["\u0022",{"":""}]`),
    withMember('"__proto__":{"x":"id"},"toString":"","1":"я🏠"'),
    withMember('"x":[{"a":1},{"a":2}]'),
    withMember(nested(511)),
  ]) {
    assert.deepEqual(kindsIn(records), ['record', 'run', 'record'], records);
  }
});

test('records whose borders are not certain are read one by one', () => {
  for (const records of [
    // The text between records stands in a record as well, and once less between records.
    `${withMember('"x":[{"id":1},{"id":2}]')} ,${RECORD}`,
    `${withMember('"x":{"y":[{"id":1},{"id":2}]}')}, ${RECORD}`,
    `${RECORD} ,${RECORD}`,
    `${RECORD},1`,
    withMember(nested(512)),
    withMember(nested(20_000)),
  ]) {
    assert.equal(kindsIn(records).includes('run'), false, records.slice(0, 300));
  }
  const large = kindsIn(withParts(MAX_RECORD_PARTS + 1));
  assert.equal(large.includes('run'), false);
});

test('a key that may end a text begins no run', () => {
  const odd = JSON.stringify({ ',': 'x', ...VALID_RECORD, notes: 'abc},{' });
  const scanner = new ArrayScanner();
  const events = scanner.push(Buffer.from(`[${[odd, odd, odd].join()}]`));
  assert.deepEqual(
    Array.from(events, (event) => event.kind),
    ['record', 'record', 'record'],
  );
});

const record = fc
  .dictionary(fc.string(), fc.jsonValue(), { maxKeys: 2 })
  .map((extra) => JSON.stringify({ ...VALID_RECORD, ...extra }));
const layered = fc.constant(JSON.stringify({ ...VALID_RECORD, notes: 'я🏠' }, null, 2));
const listed = fc.constant(withMember('"x":[{"id":1},{"id":2},{"id":3}]'));
const faulty = fc.constantFrom('{"id":1}', withMember('"port":"я"'), withMember('"a":1,"a":2'));
const oddRecord = almostJson(fc.constant({ port: 1, ...VALID_RECORD }));
const texts = fc.array(
  fc.oneof(
    { weight: 10, arbitrary: record },
    { weight: 3, arbitrary: layered },
    { weight: 3, arbitrary: faulty },
    { weight: 1, arbitrary: listed },
    { weight: 1, arbitrary: oddRecord },
  ),
  { maxLength: 12 },
);
const separators = fc.constantFrom(',', ', ', ',\n  ', ' ,\r\n', ',\n\n');

test('records, places and findings are those of reading record by record, in whatever layout and chunks', async () => {
  const counts = { valid: 0, invalid: 0 };
  await fc.assert(
    fc.asyncProperty(
      texts,
      separators,
      fc.constantFrom('json', 'jsonl'),
      fc.array(fc.nat(), { maxLength: 3 }),
      async (records, separator, format, cuts) => {
        const isArray = format === 'json';
        const lines = records.map((text) => text.replaceAll('\n', ''));
        const text = isArray ? `[${records.join(separator)}]` : lines.join('\n');
        const bytes = Buffer.from(text);
        const read = async (ends: number[]) => {
          const seen: ReadRecord[] = [];
          const inspect = (one: ReadRecord) => {
            seen.push(one);
            return [];
          };
          const found = await validate(inChunks(bytes, ends), { format, inspect });
          const alone = await validate(inChunks(bytes, ends), { format });
          assert.deepEqual(alone, found);
          return { seen, ...found, findings: found.findings.map(withoutExcerpt) };
        };
        const atOnce = await read(cuts.map((cut) => cut % (bytes.length + 1)));
        // No chunk has two whole records, so none has a run.
        const oneByOne = await read(
          Array.from({ length: bytes.length / 40 }, (_, nth) => 40 * nth),
        );
        assert.deepEqual(atOnce, oneByOne);
        for (const { position, index } of atOnce.findings.length === 0 && isArray
          ? atOnce.seen
          : []) {
          const offset = 1 + records.slice(0, index).join(separator).length;
          const at = index === 0 ? 1 : offset + separator.length;
          assert.deepEqual(position, placeAt(text, at));
        }
        counts[atOnce.findings.length === 0 ? 'valid' : 'invalid'] += 1;
      },
    ),
    { numRuns: 1_000 },
  );
  assert.ok(counts.valid > 50 && counts.invalid > 50, JSON.stringify(counts));
});

/** Excerpts show what has come of the line. */
function withoutExcerpt<T extends { excerpt?: unknown }>({ excerpt: _excerpt, ...finding }: T) {
  return finding;
}
