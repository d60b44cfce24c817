import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Finding } from '@oselya/inventory';
import { getRepetitions } from '@oselya/testing';
import {
  MAX_DEPTH,
  MAX_RECORD_BYTES,
  MAX_RECORD_PARTS,
  MAX_REPEATED_KEYS,
  MAX_YAML_ALIAS_REPEATS,
  MAX_YAML_ALIASES,
  MAX_YAML_BYTES,
} from '../src/limits.ts';
import { collectCodes, inChunks, splitIntoChunks, validate, VALID_RECORD } from './support.ts';

const RECORD = JSON.stringify(VALID_RECORD);

// Failures print the seed; FUZZ_SEED sets a different one.
const SEED = Number(process.env['FUZZ_SEED'] ?? 20_261_120);
const DOCUMENT_COUNT = getRepetitions({ soak: 100_000, ci: 2_000 });
const isSoak = DOCUMENT_COUNT > 10_000;

const SEED_DOCUMENTS = [
  '[]',
  '[{}]',
  '[{"a":{"b":[1,-0.5e+10,true,null]}},"x",[[]],0]',
  '[{"id":"\\u00e9\\n\\"\\\\","a":1,"a":2}]',
  '[ \n{"id" : "🏠é" ,\t"x":[{},[],""]} , -1 ]\r\n',
  '[1e400,1E-2,0,10,-0.0,123456789012345678901234567890]',
  '["\\ud83c\\udfe0","\u2028","/\\/\\b\\f"]',
  `[${RECORD}]`,
  JSON.stringify(
    [1, 2, 3].map((port) => ({ ...VALID_RECORD, port })),
    null,
    1,
  ),
];

/** Documents with several records that are parsed together. */
const RUN_DOCUMENTS = [
  ...SEED_DOCUMENTS.slice(-1),
  // The text between two records also occurs within a record.
  `[${RECORD},${RECORD.slice(0, -1)},"x":[{"id":1},{"id":2},{"id":3}]},${RECORD}]`,
  `[${Array(3).fill('{",":"x","notes":"abc},{"}').join()}]`,
  JSON.stringify(
    ['é', '🏠\u2028', '\\"', 'a', '[{'].map((notes) => ({ ...VALID_RECORD, notes, x: [{}, {}] })),
  ),
];

const JSON_WORDS =
  'true false null "" \\u \\ud800 {"a": [[ ]] // /* NaN 1. .5 01 +1 0x1 1e }{ ,, ,] :,';
const EDIT_PIECES = [
  ...Array.from('[]{}:,"\'\\/ \n\r\t0123456789-+.eEtfnuNI#\u0000\u007f\u00a0\uFEFF🏠'),
  ...JSON_WORDS.split(' '),
];

/** Creates a portable random number generator (mulberry32). */
function createRandom(seed: number): (limit: number) => number {
  let state = seed >>> 0;
  return (limit) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixedState = Math.imul(state ^ (state >>> 15), state | 1);
    mixedState ^= mixedState + Math.imul(mixedState ^ (mixedState >>> 7), mixedState | 61);
    return ((mixedState ^ (mixedState >>> 14)) >>> 0) % limit;
  };
}

function* generateDocuments(
  count: number,
  seed: number,
  seeds = SEED_DOCUMENTS,
): Generator<string> {
  const random = createRandom(seed);
  for (let documentCount = 0; documentCount < count; documentCount += 1) {
    let text = seeds[random(seeds.length)] ?? '';
    for (let remainingEdits = random(4); remainingEdits > 0; remainingEdits -= 1) {
      const start = random(text.length + 1);
      const end = Math.min(text.length, start + random(4));
      const piece = EDIT_PIECES[random(EDIT_PIECES.length)] ?? '';
      const editKind = random(4);
      if (editKind === 0) text = text.slice(0, start) + text.slice(end);
      else if (editKind === 1) text = text.slice(0, end) + text.slice(start);
      else text = text.slice(0, start) + piece + text.slice(editKind === 2 ? end : start);
    }
    yield text.toWellFormed();
  }
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isRejection = ({ code }: Finding) =>
  /^(json|encoding|limit)\//.test(code) && code !== 'json/duplicate-key' && code !== 'encoding/bom';

/** Removes excerpts, which depend on the chunks of the source. */
function withoutExcerpts({ findings, summary }: Awaited<ReturnType<typeof validate>>) {
  return { findings: findings.map(({ excerpt: _excerpt, ...finding }) => finding), summary };
}

/** Returns whether text is JSON or the beginning of JSON. */
function canContinue(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch (error) {
    assert.ok(error instanceof SyntaxError);
    const [, offset] = /at position (\d+)/.exec(error.message) ?? [];
    return (
      /Unexpected end|Unterminated string/.test(error.message) || Number(offset) === text.length
    );
  }
}

function getOffset(text: string, { line, column }: { line: number; column: number }): number {
  const lines = text.split('\n');
  const lineStart = lines.slice(0, line - 1).join('').length + line - 1;
  const characters = Array.from(lines[line - 1] ?? '').slice(0, column - 1);
  return lineStart + characters.join('').length;
}

test(`${DOCUMENT_COUNT} documents are accepted and rejected as by JSON.parse, with positions`, async () => {
  const counts = { accepted: 0, rejected: 0 };
  for (const text of generateDocuments(DOCUMENT_COUNT, SEED)) {
    const parsedValue = tryParse(text.replace(/^\uFEFF/, ''));
    const isArray = Array.isArray(parsedValue);
    const { findings, summary } = await validate(text);
    const hasRootError = findings.some(({ pointer, recordIndex, code }) => {
      return code === 'schema/type' && pointer === '' && recordIndex === null;
    });
    counts[isArray ? 'accepted' : 'rejected'] += 1;
    const failureMessage = `seed ${SEED}: ${JSON.stringify(text)}`;
    assert.equal(!hasRootError && !findings.some(isRejection), isArray, failureMessage);
    if (isArray) assert.equal(summary.records, parsedValue.length, failureMessage);
    const error = findings.findLast(
      (finding) => finding.code.startsWith('json/') && isRejection(finding),
    );
    if (error === undefined || error.code === 'json/empty' || text.startsWith('\uFEFF')) continue;
    // The text before the error can begin valid JSON. The text at the error cannot continue it.
    const offset = getOffset(text, error);
    assert.ok(canContinue(text.slice(0, offset)), `${failureMessage} ${error.message}`);
    if (error.code === 'json/truncated') assert.equal(offset, text.length, failureMessage);
    else {
      const [subject = ''] =
        /^(?:[\w$.+-]+[^]?|\\u?[^]{0,4}|[^])/u.exec(`${text.slice(offset)}\n`) ?? [];
      assert.ok(
        !canContinue(text.slice(0, offset) + subject),
        `${failureMessage} ${offset} ${error.message}`,
      );
    }
  }
  const minCount = DOCUMENT_COUNT / 5;
  assert.ok(counts.accepted > minCount && counts.rejected > minCount, JSON.stringify(counts));
});

test('Each line of JSON Lines is accepted and rejected as by JSON.parse', async () => {
  for (const text of generateDocuments(DOCUMENT_COUNT / 4, SEED + 3)) {
    const lines = text
      .replace(/^\uFEFF/, '')
      .replaceAll('},', '}\n')
      .split('\n');
    const rejectedLines = lines.flatMap((line, index) =>
      /^[ \t\r]*$/.test(line) || tryParse(line) !== undefined ? [] : [index + 1],
    );
    const { findings } = await validate(lines.join('\n'), { format: 'jsonl' });
    const rejectedByValidator = findings.filter(isRejection).map(({ line }) => line);
    assert.deepEqual(rejectedByValidator, rejectedLines, `seed ${SEED}: ${JSON.stringify(lines)}`);
  }
});

test('Records of runs and single records have the same findings', async () => {
  for (const text of generateDocuments(DOCUMENT_COUNT / 10, SEED + 2, RUN_DOCUMENTS)) {
    const lines = text.replaceAll('},{', '}\n{').replace(/^\[|\]$/g, '');
    for (const [source, format] of [
      [text, 'json'],
      [lines, 'jsonl'],
    ] as const) {
      const runResult = await validate(source, { format });
      const singleResult = await validate(source, { format, inspect: () => [] });
      assert.deepEqual(runResult, singleResult, `seed ${SEED}: ${JSON.stringify(source)}`);
    }
  }
});

test('The boundaries of chunks do not affect the findings', async () => {
  const texts = [
    '\uFEFF[{"id":"оселя","name":"🏠","port":"x"},\r\n 1]',
    '[{"id":"a","\\u0069d":"b"},{"x":{"y":1,"y":2}},{"id":null}] // end',
    '[{"🏠":“x”}]',
    '{"a": [1, {"b": nul',
    '{"id": "é"}\n{"id": "b"}',
    '"text',
    '\u00a0[]',
    ...generateDocuments(isSoak ? 150 : 10, SEED + 1),
  ];
  const random = createRandom(SEED);
  for (const text of texts) {
    const bytes = Buffer.from(text);
    const offsets = Array.from(bytes.keys());
    const chunkEnds = isSoak ? offsets : offsets.filter(() => random(offsets.length) < 8);
    for (const format of ['json', 'jsonl'] as const) {
      const expected = withoutExcerpts(await validate(bytes, { format }));
      for (const chunks of [offsets, ...chunkEnds.map((end) => [end])]) {
        const actual = withoutExcerpts(await validate(inChunks(bytes, chunks), { format }));
        assert.deepEqual(actual, expected, `seed ${SEED}: ${JSON.stringify(text)}`);
      }
    }
  }
});

const addMember = (member: string) => `${RECORD.slice(0, -1)},${member}}`;
const createNestedMember = (depth: number) =>
  `"x":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}`;

const summarizeFindings = ({ findings }: { findings: Finding[] }) =>
  findings
    .filter(({ code }) => code !== 'schema/required')
    .map(({ code, line, column, recordIndex }) => [code, line, column, recordIndex]);

test('Records have a maximum depth, and later records are read', async () => {
  assert.deepEqual(await collectCodes(`[${addMember(createNestedMember(MAX_DEPTH))}]`), []);
  const deepRecord = addMember(createNestedMember(MAX_DEPTH + 9));
  const column = deepRecord.indexOf('[') + MAX_DEPTH;
  const jsonResult = await validate(`[\n${deepRecord},\n5]`);
  const expected = [
    ['limit/depth', 2, column, 0],
    ['schema/type', 3, 1, 1],
  ];
  assert.deepEqual(summarizeFindings(jsonResult), expected);
  assert.deepEqual(jsonResult.summary, { records: 2, isComplete: true });
  const linesResult = await validate(`\n${deepRecord}\n5`, { format: 'jsonl' });
  assert.deepEqual(summarizeFindings(linesResult), expected);
  for (const bracket of ['[', '{"a":']) {
    const codes = await collectCodes(bracket.repeat(10_000_000 / bracket.length));
    assert.deepEqual(codes, ['limit/depth', ...(bracket === '[' ? ['json/truncated'] : [])]);
  }
});

/** Returns a valid record with a given number of objects, lists and strings, including keys. */
function createRecordWithParts(partCount: number): string {
  // The record itself, its keys and strings, and the property `x` with its list.
  const basePartCount = 1 + 2 * Object.keys(VALID_RECORD).length + 2;
  const x = Array.from({ length: partCount - basePartCount }, () => ({}));
  return JSON.stringify({ ...VALID_RECORD, x });
}

test('Records have a maximum size and number of parts, and later records are read', async () => {
  const recordWithEmptyNotes = JSON.stringify({ ...VALID_RECORD, notes: '' });
  const notes = 'x'.repeat(MAX_RECORD_BYTES - recordWithEmptyNotes.length);
  const largestRecord = JSON.stringify({ ...VALID_RECORD, notes });
  const emptyStrings = Array(MAX_RECORD_PARTS).fill('""').join();
  const records = [
    largestRecord,
    createRecordWithParts(MAX_RECORD_PARTS),
    largestRecord.replace('"xx', '"xxx'),
    createRecordWithParts(MAX_RECORD_PARTS + 1),
    `{"x":[${emptyStrings}]}`,
    '5',
  ];
  for (const format of ['json', 'jsonl'] as const) {
    const text = format === 'json' ? `[${records.join(',\n')}]` : records.join('\n');
    const bytes = Buffer.from(text);
    const result = await validate(bytes, { format });
    assert.deepEqual(summarizeFindings(result), [
      ['limit/record-size', 3, 1, 2],
      ['limit/record-size', 4, 1, 3],
      ['limit/record-size', 5, 1, 4],
      ['schema/type', 6, 1, 5],
    ]);
    assert.deepEqual(result.summary, { records: 6, isComplete: true });
    for (const size of [65_537, MAX_RECORD_BYTES - 1]) {
      const chunkedResult = await validate(splitIntoChunks(bytes, size), { format });
      const actual = withoutExcerpts(chunkedResult);
      assert.deepEqual(actual, withoutExcerpts(result), `${format} ${size}`);
    }
  }
});

test('Repeated keys are listed in order up to a number, and the others are counted', async () => {
  const members = ',"a":1'.repeat(MAX_REPEATED_KEYS + 3);
  const { findings } = await validate(`[{"a":0,"port":"80"${members},"host":1}]`);
  const duplicateFindings = findings.filter(({ code }) => code === 'json/duplicate-key');
  assert.equal(duplicateFindings.length, MAX_REPEATED_KEYS + 1);
  const lastFinding = duplicateFindings.at(-1);
  assert.match(lastFinding?.message ?? '', /^3 more keys of the record are repeated from here on/);
  assert.equal(lastFinding?.column, 2 + '{"a":0,"port":"80",'.length + 6 * MAX_REPEATED_KEYS);
  const columns = findings.map((finding) => finding.column);
  const sortedColumns = columns.toSorted((a, b) => a - b);
  assert.deepEqual(columns, sortedColumns);
});

const YAML_OPTIONS = { format: 'yaml' } as const;

test('An inventory in YAML is read up to its limits', async () => {
  const createPaddedRecord = (bytes: number) =>
    `- ${RECORD}\n# ${'x'.repeat(bytes - RECORD.length - 5)}`;
  assert.deepEqual(await collectCodes(createPaddedRecord(MAX_YAML_BYTES), YAML_OPTIONS), []);
  const anchoredRecord = `- &a ${RECORD}\n`;
  const aliases = '- *a\n'.repeat(MAX_YAML_ALIAS_REPEATS - 1);
  assert.deepEqual(await collectCodes(anchoredRecord + aliases, YAML_OPTIONS), []);
  const nestedAliases = Array.from({ length: 9 }, (_, index) => {
    return `- &a${index} [${(index === 0 ? 'x,' : `*a${index - 1},`).repeat(9)}]\n`;
  });
  for (const text of [
    createPaddedRecord(MAX_YAML_BYTES + 1),
    anchoredRecord + '- *a\n'.repeat(MAX_YAML_ALIASES + 1),
    nestedAliases.join(''),
    '[,'.repeat(1_000_000),
  ]) {
    assert.deepEqual(await collectCodes(text, YAML_OPTIONS), ['limit/yaml']);
  }
});
