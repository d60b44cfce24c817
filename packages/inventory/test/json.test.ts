import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Finding } from '@oselya/inventory';
import {
  MAX_DEPTH,
  MAX_RECORD_BYTES,
  MAX_RECORD_PARTS,
  MAX_REPEATED_KEYS,
  MAX_YAML_ALIAS_REPEATS,
  MAX_YAML_ALIASES,
  MAX_YAML_BYTES,
} from '../src/limits.ts';
import {
  collectCodes,
  inChunks,
  validate,
  VALID_RECORD,
  withoutExcerpts,
  createRecordWithParts,
} from './support.ts';

const RECORD = JSON.stringify(VALID_RECORD);

// Failures print the seed; FUZZ_SEED sets another one. inventory.soak.ts sets FUZZ_DOCUMENTS.
const SEED = Number(process.env['FUZZ_SEED'] ?? 20_261_120);
const DOCUMENTS = Number(process.env['FUZZ_DOCUMENTS'] ?? 2_000);
const isSoak = DOCUMENTS > 10_000;

const SEEDS = [
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
const RUNS = [
  ...SEEDS.slice(-1),
  // The text between two records also occurs within a record.
  `[${RECORD},${RECORD.slice(0, -1)},"x":[{"id":1},{"id":2},{"id":3}]},${RECORD}]`,
  `[${Array(3).fill('{",":"x","notes":"abc},{"}').join()}]`,
  JSON.stringify(
    ['é', '🏠\u2028', '\\"', 'a', '[{'].map((notes) => ({ ...VALID_RECORD, notes, x: [{}, {}] })),
  ),
];

const WORDS = 'true false null "" \\u \\ud800 {"a": [[ ]] // /* NaN 1. .5 01 +1 0x1 1e }{ ,, ,] :,';
const PIECES = [
  ...Array.from('[]{}:,"\'\\/ \n\r\t0123456789-+.eEtfnuNI#\u0000\u007f\u00a0\uFEFF🏠'),
  ...WORDS.split(' '),
];

/** Returns a portable generator of random numbers (mulberry32). */
function createRandom(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

function* generateDocuments(count: number, seed: number, seeds = SEEDS): Generator<string> {
  const random = createRandom(seed);
  for (let made = 0; made < count; made += 1) {
    let text = seeds[random(seeds.length)] ?? '';
    for (let edits = random(4); edits > 0; edits -= 1) {
      const from = random(text.length + 1);
      const to = Math.min(text.length, from + random(4));
      const piece = PIECES[random(PIECES.length)] ?? '';
      const kind = random(4);
      if (kind === 0) text = text.slice(0, from) + text.slice(to);
      else if (kind === 1) text = text.slice(0, to) + text.slice(from);
      else text = text.slice(0, from) + piece + text.slice(kind === 2 ? to : from);
    }
    yield text.toWellFormed();
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isRejection = ({ code }: Finding) =>
  /^(json|encoding|limit)\//.test(code) && code !== 'json/duplicate-key' && code !== 'encoding/bom';

/** Returns whether a text is JSON or the beginning of JSON. */
function canContinue(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch (error) {
    assert.ok(error instanceof SyntaxError);
    const [, at] = /at position (\d+)/.exec(error.message) ?? [];
    return /Unexpected end|Unterminated string/.test(error.message) || Number(at) === text.length;
  }
}

function getOffset(text: string, { line, column }: { line: number; column: number }): number {
  const lines = text.split('\n');
  const before = lines.slice(0, line - 1).join('').length + line - 1;
  return (
    before +
    Array.from(lines[line - 1] ?? '')
      .slice(0, column - 1)
      .join('').length
  );
}

test(`${DOCUMENTS} documents are accepted and rejected as by JSON.parse, with positions`, async () => {
  const tally = { accepted: 0, rejected: 0 };
  for (const text of generateDocuments(DOCUMENTS, SEED)) {
    const parsed = parse(text.replace(/^\uFEFF/, ''));
    const isArray = Array.isArray(parsed);
    const { findings, summary } = await validate(text);
    const isRoot = findings.some(({ pointer, recordIndex, code }) => {
      return code === 'schema/type' && pointer === '' && recordIndex === null;
    });
    tally[isArray ? 'accepted' : 'rejected'] += 1;
    const shown = `seed ${SEED}: ${JSON.stringify(text)}`;
    assert.equal(!isRoot && !findings.some(isRejection), isArray, shown);
    if (isArray) assert.equal(summary.records, parsed.length, shown);
    const error = findings.findLast((one) => one.code.startsWith('json/') && isRejection(one));
    if (error === undefined || error.code === 'json/empty' || text.startsWith('\uFEFF')) continue;
    // The text before the error may begin valid JSON, and the text at the error cannot continue it.
    const at = getOffset(text, error);
    assert.ok(canContinue(text.slice(0, at)), `${shown} ${error.message}`);
    if (error.code === 'json/truncated') assert.equal(at, text.length, shown);
    else {
      const [subject = ''] =
        /^(?:[\w$.+-]+[^]?|\\u?[^]{0,4}|[^])/u.exec(`${text.slice(at)}\n`) ?? [];
      assert.ok(!canContinue(text.slice(0, at) + subject), `${shown} ${at} ${error.message}`);
    }
  }
  const least = DOCUMENTS / 5;
  assert.ok(tally.accepted > least && tally.rejected > least, JSON.stringify(tally));
});

test('Each line of JSON Lines is accepted and rejected as by JSON.parse', async () => {
  for (const text of generateDocuments(DOCUMENTS / 4, SEED + 3)) {
    const lines = text
      .replace(/^\uFEFF/, '')
      .replaceAll('},', '}\n')
      .split('\n');
    const rejected = lines.flatMap((line, index) =>
      /^[ \t\r]*$/.test(line) || parse(line) !== undefined ? [] : [index + 1],
    );
    const { findings } = await validate(lines.join('\n'), { format: 'jsonl' });
    const found = findings.filter(isRejection).map(({ line }) => line);
    assert.deepEqual(found, rejected, `seed ${SEED}: ${JSON.stringify(lines)}`);
  }
});

test('Records of runs and single records have the same findings', async () => {
  for (const text of generateDocuments(DOCUMENTS / 10, SEED + 2, RUNS)) {
    const lines = text.replaceAll('},{', '}\n{').replace(/^\[|\]$/g, '');
    for (const [source, format] of [
      [text, 'json'],
      [lines, 'jsonl'],
    ] as const) {
      const inRuns = await validate(source, { format });
      const inspected = await validate(source, { format, inspect: () => [] });
      assert.deepEqual(inRuns, inspected, `seed ${SEED}: ${JSON.stringify(source)}`);
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
    const ends = isSoak ? offsets : offsets.filter(() => random(offsets.length) < 8);
    for (const format of ['json', 'jsonl'] as const) {
      const whole = withoutExcerpts(await validate(bytes, { format }));
      for (const chunks of [offsets, ...ends.map((end) => [end])]) {
        const cut = await validate(inChunks(bytes, chunks), { format });
        assert.deepEqual(withoutExcerpts(cut), whole, `seed ${SEED}: ${JSON.stringify(text)}`);
      }
    }
  }
});

const withMember = (member: string) => `${RECORD.slice(0, -1)},${member}}`;
const createNestedMember = (depth: number) =>
  `"x":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}`;

const summarizeFindings = ({ findings }: { findings: Finding[] }) =>
  findings
    .filter(({ code }) => code !== 'schema/required')
    .map(({ code, line, column, recordIndex }) => [code, line, column, recordIndex]);

test('Records have a maximum depth, and later records are read', async () => {
  assert.deepEqual(await collectCodes(`[${withMember(createNestedMember(MAX_DEPTH))}]`), []);
  const deep = withMember(createNestedMember(MAX_DEPTH + 9));
  const column = deep.indexOf('[') + MAX_DEPTH;
  const json = await validate(`[\n${deep},\n5]`);
  const expected = [
    ['limit/depth', 2, column, 0],
    ['schema/type', 3, 1, 1],
  ];
  assert.deepEqual(summarizeFindings(json), expected);
  assert.deepEqual(json.summary, { records: 2, isComplete: true });
  const lines = await validate(`\n${deep}\n5`, { format: 'jsonl' });
  assert.deepEqual(summarizeFindings(lines), expected);
  for (const bracket of ['[', '{"a":']) {
    const codes = await collectCodes(bracket.repeat(10_000_000 / bracket.length));
    assert.deepEqual(codes, ['limit/depth', ...(bracket === '[' ? ['json/truncated'] : [])]);
  }
});

test('Records have a maximum size and number of parts, and later records are read', async () => {
  const bare = JSON.stringify({ ...VALID_RECORD, notes: '' });
  const largest = bare.replace('""', `"${'x'.repeat(MAX_RECORD_BYTES - bare.length)}"`);
  const filled = Array(MAX_RECORD_PARTS).fill('""').join();
  const records = [
    largest,
    createRecordWithParts(MAX_RECORD_PARTS),
    largest.replace('"xx', '"xxx'),
    createRecordWithParts(MAX_RECORD_PARTS + 1),
    `{"x":[${filled}]}`,
    '5',
  ];
  for (const format of ['json', 'jsonl'] as const) {
    const text = format === 'json' ? `[${records.join(',\n')}]` : records.join('\n');
    const bytes = Buffer.from(text);
    const whole = await validate(bytes, { format });
    assert.deepEqual(summarizeFindings(whole), [
      ['limit/record-size', 3, 1, 2],
      ['limit/record-size', 4, 1, 3],
      ['limit/record-size', 5, 1, 4],
      ['schema/type', 6, 1, 5],
    ]);
    assert.deepEqual(whole.summary, { records: 6, isComplete: true });
    for (const size of [65_537, MAX_RECORD_BYTES - 1]) {
      const ends = Array.from({ length: bytes.length / size }, (_, nth) => (nth + 1) * size);
      const cut = await validate(inChunks(bytes, ends), { format });
      assert.deepEqual(withoutExcerpts(cut), withoutExcerpts(whole), `${format} ${size}`);
    }
  }
});

test('Repeated keys are listed in order up to a number, and the others are counted', async () => {
  const members = ',"a":1'.repeat(MAX_REPEATED_KEYS + 3);
  const { findings } = await validate(`[{"a":0,"port":"80"${members},"host":1}]`);
  const repeated = findings.filter(({ code }) => code === 'json/duplicate-key');
  assert.equal(repeated.length, MAX_REPEATED_KEYS + 1);
  const last = repeated.at(-1);
  assert.match(last?.message ?? '', /^3 more keys of the record are repeated from here on/);
  assert.equal(last?.column, 2 + '{"a":0,"port":"80",'.length + 6 * MAX_REPEATED_KEYS);
  const columns = findings.map((finding) => finding.column);
  const sorted = columns.toSorted((a, b) => a - b);
  assert.deepEqual(columns, sorted);
});

const YAML = { format: 'yaml' } as const;

test('An inventory in YAML is read up to its limits', async () => {
  const padded = (bytes: number) => `- ${RECORD}\n# ${'x'.repeat(bytes - RECORD.length - 5)}`;
  assert.deepEqual(await collectCodes(padded(MAX_YAML_BYTES), YAML), []);
  const anchored = `- &a ${RECORD}\n`;
  const aliases = '- *a\n'.repeat(MAX_YAML_ALIAS_REPEATS - 1);
  assert.deepEqual(await collectCodes(anchored + aliases, YAML), []);
  const laughs = Array.from({ length: 9 }, (_, nth) => {
    return `- &a${nth} [${(nth === 0 ? 'x,' : `*a${nth - 1},`).repeat(9)}]\n`;
  });
  for (const text of [
    padded(MAX_YAML_BYTES + 1),
    anchored + '- *a\n'.repeat(MAX_YAML_ALIASES + 1),
    laughs.join(''),
    '[,'.repeat(1_000_000),
  ]) {
    assert.deepEqual(await collectCodes(text, YAML), ['limit/yaml']);
  }
});
