import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  MAX_DEPTH,
  MAX_RECORD_BYTES,
  MAX_RECORD_PARTS,
  MAX_REPEATED_KEYS,
  MAX_YAML_ALIAS_REPEATS,
  MAX_YAML_ALIASES,
  MAX_YAML_BYTES,
} from '../src/limits.ts';
import { where } from '../src/output/wording.ts';
import {
  codesOf,
  inChunks,
  placeAt,
  validate,
  VALID_RECORD,
  withParts,
  withoutRest,
} from './support/findings.ts';

function nested(levels: number): string {
  const record = JSON.stringify(VALID_RECORD).slice(0, -1);
  return `${record},"x":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
}

test('values nest as deep as the limit, and one level more is told', async () => {
  assert.deepEqual(await codesOf(`[${nested(MAX_DEPTH)}]`), []);
  const { findings, summary } = await validate(`[\n${nested(MAX_DEPTH + 9)},\n5]`);
  assert.deepEqual(
    findings.map(({ code, line, column, pointer }) => ({ code, line, column, pointer })),
    [
      {
        code: 'limit/depth',
        line: 2,
        column: nested(MAX_DEPTH).indexOf('[') + MAX_DEPTH,
        pointer: '/0',
      },
      { code: 'schema/type', line: 3, column: 1, pointer: '/1' },
    ],
  );
  assert.deepEqual(summary, { records: 2, isComplete: true });
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
    assert.deepEqual(await codesOf(bracket.repeat(10_000_000 / bracket.length)), [
      'limit/depth',
      ...(bracket === '[' ? ['json/truncated'] : []),
    ]);
  }
});

test('a record is as large as the limit, and one byte more is told', async () => {
  const bare = JSON.stringify({ ...VALID_RECORD, notes: '' });
  const fits = bare.replace('""', `"${'x'.repeat(MAX_RECORD_BYTES - bare.length)}"`);
  const exceeds = fits.replace('"xx', '"xxx');
  for (const format of ['json', 'jsonl'] as const) {
    const wrap = (record: string) =>
      format === 'json' ? `[${record},\n${bare}]` : `${record}\n${bare}\n`;
    assert.deepEqual(await codesOf(wrap(fits), { format }), []);
    const { findings, summary } = await validate(wrap(exceeds), { format });
    assert.deepEqual(
      findings.map(({ code, line }) => ({ code, line })),
      [{ code: 'limit/record-size', line: 1 }],
    );
    assert.deepEqual(summary, { records: 2, isComplete: true });
  }
});

test('what follows a record beyond a limit is read, wherever the chunks end', async () => {
  const large = `{"notes":"${'é€'.repeat(MAX_RECORD_BYTES / 5)}\\"]","x":[[1,{"y":"z"}]]}`;
  const deep = nested(MAX_DEPTH + 40);
  const text = `[${large}\n,${deep},\n {"id":5}, ${large}, 7]`;
  const bytes = Buffer.from(text);
  const whole = await validate(text);
  assert.deepEqual(
    whole.findings.map(({ code }) => code).filter((code) => code !== 'schema/required'),
    ['limit/record-size', 'limit/depth', 'schema/type', 'limit/record-size', 'schema/type'],
  );
  assert.deepEqual(whole.summary, { records: 5, isComplete: true });
  const last = whole.findings.at(-1);
  assert.deepEqual({ line: last?.line, column: last?.column }, placeAt(text, text.length - 2));
  const ends = (size: number) =>
    Array.from({ length: Math.floor(bytes.length / size) }, (_, nth) => (nth + 1) * size);
  for (const size of [1013, 65_537, MAX_RECORD_BYTES - 1]) {
    const cut = await validate(inChunks(bytes, ends(size)));
    assert.deepEqual(withoutRest(cut), withoutRest(whole), `${size} bytes`);
  }
});

test('a record has no more objects, lists and texts than the limit, and the next one is read', async () => {
  for (const format of ['json', 'jsonl'] as const) {
    const filled = Array(MAX_RECORD_PARTS).fill('""').join();
    const all = [
      withParts(MAX_RECORD_PARTS),
      withParts(MAX_RECORD_PARTS + 1),
      `{"x":[${filled}]}`,
      '5',
    ];
    const text = format === 'json' ? `[${all.join(',\n')}]` : all.join('\n');
    const { findings, summary } = await validate(text, { format });
    assert.deepEqual(
      findings
        .filter(({ code }) => code !== 'schema/required')
        .map(({ code, line, column }) => ({ code, line, column })),
      [
        { code: 'limit/record-size', line: 2, column: 1 },
        { code: 'limit/record-size', line: 3, column: 1 },
        { code: 'schema/type', line: 4, column: 1 },
      ],
    );
    assert.deepEqual(summary, { records: 4, isComplete: true });
  }
});

test('a record that has too much is told wherever the chunks end, and whoever reads', async () => {
  const record = JSON.stringify(VALID_RECORD);
  for (const [format, separator] of [
    ['json', ','],
    ['jsonl', '\n'],
  ] as const) {
    const records = [record, record, withParts(MAX_RECORD_PARTS + 1), record, record];
    const joined = records.join(separator);
    const bytes = Buffer.from(format === 'json' ? `[${joined}]` : joined);
    const expected = await validate(bytes, { format, inspect: () => [] });
    assert.deepEqual(
      expected.findings.map(({ code, recordIndex }) => [code, recordIndex]),
      [['limit/record-size', 2]],
    );
    for (const ends of [[], [10], [record.length + 5], [40_000], [bytes.length - 10]]) {
      const found = await validate(inChunks(bytes, ends), { format });
      assert.deepEqual(withoutRest(found), withoutRest(expected), `${format} ${ends.join()}`);
    }
  }
});

test('a record beyond a limit that breaks off, or has what no JSON has, ends the reading there', async () => {
  const large = `[{"notes":"${'x'.repeat(MAX_RECORD_BYTES)}"`;
  for (const [rest, code, index] of [
    ['', 'json/truncated', 0],
    [',"y":"a\n"}]', 'json/syntax', 7],
    [',"y":é}]', 'json/syntax', 5],
  ] as const) {
    const text = large + rest;
    const { findings, summary } = await validate(text);
    assert.deepEqual(
      findings.map((finding) => finding.code),
      ['limit/record-size', code],
    );
    const { line, column } = findings[1] ?? {};
    assert.deepEqual({ line, column }, placeAt(text, large.length + index));
    assert.equal(summary.isComplete, false);
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

const codesOfYaml = async (text: string) => codesOf(text, { format: 'yaml' });

test('an inventory in YAML is read up to its limits', async () => {
  const record = JSON.stringify(VALID_RECORD);
  const padded = (bytes: number) => `- ${record}\n# ${'x'.repeat(bytes - record.length - 5)}`;
  assert.deepEqual(await codesOfYaml(padded(MAX_YAML_BYTES)), []);
  assert.deepEqual(await codesOfYaml(padded(MAX_YAML_BYTES + 1)), ['limit/yaml']);
  const anchored = `- &a ${record}\n`;
  assert.deepEqual(await codesOfYaml(anchored + '- *a\n'.repeat(MAX_YAML_ALIAS_REPEATS - 1)), []);
  assert.deepEqual(await codesOfYaml(anchored + '- *a\n'.repeat(MAX_YAML_ALIASES + 1)), [
    'limit/yaml',
  ]);
  const laughs = Array.from({ length: 9 }, (_, nth) => {
    const before =
      nth === 0
        ? 'x'
        : Array(9)
            .fill(`*a${nth - 1}`)
            .join();
    return `- &a${nth} [${before}]\n`;
  });
  assert.deepEqual(await codesOfYaml(laughs.join('')), ['limit/yaml']);
  assert.deepEqual(await codesOfYaml('[,'.repeat(1_000_000)), ['limit/yaml']);
});
