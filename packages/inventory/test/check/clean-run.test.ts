import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { countClean } from '../../src/check/clean-run.ts';
import type { InventoryFormat } from '../../src/input/format.ts';
import { tally } from '../../src/json/tally.ts';
import { MAX_RECORD_PARTS } from '../../src/limits.ts';
import { almostJson } from '../support/almost-json.ts';
import { inChunks, validate, VALID_RECORD, withParts } from '../support/findings.ts';

const RECORD = JSON.stringify(VALID_RECORD);
const withMember = (member: string) => `${RECORD.slice(0, -1)},${member}}`;
const nested = (depth: number) => `"x":${'['.repeat(depth)}${']'.repeat(depth)}`;

function countIn(text: string, format: InventoryFormat) {
  const piece = Buffer.from(text);
  return countClean(piece, tally(piece).strings, format);
}

test('records without a fault are counted at once', () => {
  const clean = [
    RECORD,
    `${RECORD} , ${RECORD}`,
    [RECORD, withMember('"port":443'), RECORD].join(',\n'),
    withMember(String.raw`"\"":"\\","x":"\\\"","y":["\u0022",{"":""}]`),
    withMember('"__proto__":{"id":"x"},"toString":"","1":"я🏠"'),
    withMember(nested(511)),
    withParts(MAX_RECORD_PARTS),
  ];
  for (const piece of clean) {
    assert.equal(countIn(piece, 'json'), JSON.parse(`[${piece}]`).length, piece);
  }
});

test('what has a fault, or may have one, is not counted', () => {
  const faulty = [
    '{}',
    `${RECORD},1`,
    `${RECORD},`,
    `${RECORD}],[${RECORD}`,
    RECORD.slice(0, -1),
    withMember('"port":"443"'),
    withMember('"x":1,"x":1'),
    withMember(String.raw`"x":1,"\u0078":2,"y":"\""`),
    withMember('"x":1,"x" :"\\":"'),
    withMember('"x":[{"y":1,"y":"z"}]'),
    withMember(nested(512)),
    withMember(nested(20_000)),
    withParts(MAX_RECORD_PARTS + 1),
  ];
  for (const piece of faulty) {
    assert.equal(countIn(piece, 'json'), undefined, piece.slice(0, 300));
  }
});

test('lines have one record each', () => {
  assert.equal(countIn(`${RECORD}\n\n \t\r\n${RECORD}\r\n`, 'jsonl'), 2);
  for (const piece of [
    `${RECORD},${RECORD}`,
    `${RECORD} ${RECORD}`,
    RECORD.replace(',', ',\n'),
    `${withMember('"x":[1\n2]')}\n${RECORD},${RECORD}`,
  ]) {
    assert.equal(countIn(piece, 'jsonl'), undefined, piece);
  }
});

const record = fc
  .dictionary(fc.string(), fc.jsonValue(), { maxKeys: 2 })
  .map((extra) => JSON.stringify({ ...extra, ...VALID_RECORD }));
const oddRecord = almostJson(fc.constant({ port: 1, ...VALID_RECORD }));
const texts = fc.array(
  fc.oneof({ weight: 10, arbitrary: record }, { weight: 1, arbitrary: oddRecord }),
  { maxLength: 12 },
);
const separators = fc.constantFrom(',', ', ', ',\n  ', ' ,\r\n', ',\n\n');

test('the findings are those of reading record by record, in whatever layout and chunks', async () => {
  const counts = { valid: 0, invalid: 0 };
  await fc.assert(
    fc.asyncProperty(
      texts,
      separators,
      fc.constantFrom('json', 'jsonl'),
      fc.array(fc.nat(), { maxLength: 3 }),
      async (records, separator, format, cuts) => {
        const text = format === 'json' ? `[${records.join(separator)}]` : records.join('\n');
        const bytes = Buffer.from(text);
        const ends = cuts.map((cut) => cut % (bytes.length + 1));
        const atOnce = await validate(inChunks(bytes, ends), { format });
        const oneByOne = await validate(inChunks(bytes, ends), { format, inspect: () => [] });
        assert.deepEqual(atOnce, oneByOne);
        counts[atOnce.findings.length === 0 ? 'valid' : 'invalid'] += 1;
      },
    ),
    { numRuns: 1_500 },
  );
  assert.ok(counts.valid > 100 && counts.invalid > 100, JSON.stringify(counts));
});
