import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import {
  isEndpointRecord,
  isInventory,
  lintInventory,
  validateInventory,
  type EndpointRecord,
} from '@oselya/inventory';
import schema from '@oselya/inventory/endpoint.schema.json' with { type: 'json' };
import { openFolder } from '@oselya/testing';
import fc from 'fast-check';
import { stringify } from 'yaml';
import { collectCodes, inChunks, splitIntoChunks, validate, VALID_RECORD } from './support.ts';

// The compiler checks that the table has all fields of the type.
type Field = keyof {
  [Name in keyof EndpointRecord as string extends Name ? never : Name]: unknown;
};

// Specification 002, Resources and their fields, row by row.
const FIELD_TABLE = {
  id: ['string', 'required'],
  name: ['string', 'required'],
  type: ['string', 'required'],
  status: ['string', 'required'],
  exposure: ['exposure', 'required'],
  docs: ['string', 'required'],
  last_reviewed: ['string', 'required'],
  url: ['string', 'optional'],
  protocol: ['string', 'optional'],
  host: ['string', 'optional'],
  port: ['integer', 'optional'],
  domain: ['string', 'optional'],
  service: ['string', 'optional'],
  owner_host: ['string', 'optional'],
  purpose: ['string', 'optional'],
  auth: ['string', 'optional'],
  notes: ['string', 'optional'],
  source_of_truth: ['string', 'optional'],
} as const satisfies Record<Field, readonly [string, string]>;

const EXPOSURES = ['public', 'vpn', 'local', 'private', 'unknown'];
const otherValue = fc.oneof(fc.constantFrom(null, true), fc.array(fc.string()), fc.object());
const numberValue = fc.oneof(fc.integer(), fc.double());
const fraction = fc.double().filter((value) => !Number.isInteger(value));
const unknownExposure = fc
  .oneof(fc.string(), fc.constantFrom('Public', ' local', 'private '))
  .filter((text) => !EXPOSURES.includes(text));
const ACCEPTED_VALUES = {
  string: fc.string(),
  exposure: fc.constantFrom(...EXPOSURES),
  integer: fc.oneof(fc.integer(), fc.maxSafeInteger()),
};
const REJECTED_VALUES = {
  string: fc.oneof(otherValue, numberValue),
  exposure: fc.oneof(otherValue, numberValue, unknownExposure),
  integer: fc.oneof(otherValue, fc.string(), fc.integer().map(String), fraction),
};

test('The schema has the fields of the table and no other rule', () => {
  for (const [field, [type, requirement]] of Object.entries(FIELD_TABLE)) {
    fc.assert(
      fc.property(ACCEPTED_VALUES[type], REJECTED_VALUES[type], (validValue, invalidValue) => {
        assert.ok(isEndpointRecord({ ...VALID_RECORD, [field]: validValue }));
        assert.ok(!isEndpointRecord({ ...VALID_RECORD, [field]: invalidValue }));
        assert.equal(isEndpointRecord.errors?.[0]?.instancePath, `/${field}`);
      }),
    );
    const recordWithoutField: Record<string, unknown> = { ...VALID_RECORD };
    delete recordWithoutField[field];
    assert.equal(isEndpointRecord(recordWithoutField), requirement === 'optional', field);
  }
  assert.equal(schema.$id, 'endpoint.schema.json');
  assert.equal(schema.$schema, 'https://json-schema.org/draft/2020-12/schema');
  assert.deepEqual(Object.keys(schema.items.properties), Object.keys(FIELD_TABLE));
  const rules = new Set(Object.values(schema.items.properties).flatMap(Object.keys));
  assert.deepEqual([...rules].toSorted(), ['enum', 'type']);
  assert.deepEqual(Object.keys(schema.items).toSorted(), ['properties', 'required', 'type']);
});

test('An inventory is an array of records, with extra properties and own properties only', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (extraProperties) => {
      assert.ok(isEndpointRecord({ ...extraProperties, ...VALID_RECORD }));
    }),
  );
  assert.ok(!isEndpointRecord(Object.create(VALID_RECORD)));
  assert.ok(!isEndpointRecord(JSON.parse('{"__proto__": {"id": "x"}}')));
  for (const inventory of [[], [VALID_RECORD]]) assert.ok(isInventory(inventory));
  for (const invalidValue of [{}, null, 'x', VALID_RECORD, [VALID_RECORD, 1], [[]]]) {
    assert.ok(!isInventory(invalidValue));
  }
});

test('Findings have the position of the value in characters', async () => {
  const filler = fc.string({ unit: 'grapheme' }).map((text) => JSON.stringify(text));
  const space = fc.stringMatching(/^[ \n\t]{0,4}$/);
  const record = JSON.stringify(VALID_RECORD).slice(0, -1);
  const property = fc.asyncProperty(
    fc.array(filler),
    space,
    space,
    async (values, spaceBefore, spaceAfter) => {
      const precedingRecords = values.map((value) => `${record},"f":${value}},`).join(spaceAfter);
      const extraMembers = values.map((value, index) => `,"x${index}":${spaceBefore}${value}`);
      const lastRecord = `${record}${extraMembers.join(spaceAfter)},"port":${spaceAfter}`;
      const textBefore = `[${spaceBefore}${precedingRecords}${lastRecord}`;
      const { findings } = await validate(`${textBefore}"443"}]`);
      const lines = textBefore.split('\n');
      const recordIndex = values.length;
      assert.equal(findings.length, 1);
      assert.partialDeepStrictEqual(findings[0], {
        line: lines.length,
        column: Array.from(lines.at(-1) ?? '').length + 1,
        pointer: `/${recordIndex}/port`,
        recordIndex,
        recordId: 'gateway',
      });
      const { text = '', column = 0 } = findings[0]?.excerpt ?? {};
      const characters = Array.from(text).slice(column - 1, column + 4);
      assert.equal(characters.join(''), '"443"');
    },
  );
  await fc.assert(property);
});

test('Findings are yielded while the source is read', async () => {
  let chunkCount = 0;
  async function* generateChunks() {
    yield Buffer.from('[');
    for (;;) {
      chunkCount += 1;
      yield Buffer.from('{},');
    }
  }
  const validation = validateInventory(generateChunks());
  const firstIteration = await validation.next();
  assert.ok(!firstIteration.done && firstIteration.value.code === 'schema/required');
  assert.ok(chunkCount < 5);
  await validation.return({ records: 0, isComplete: false });
});

test('Reading ends after maxErrors errors and closes the source; warnings do not count', async () => {
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
  const severities = findings.map(({ severity }) => severity);
  assert.deepEqual(severities, ['warning', 'error', 'error', 'error']);
  assert.deepEqual(summary, { records: 3, isComplete: false });
  assert.ok(isClosed);
});

test('Strings, bytes, streams, iterables and paths are read, and their errors are thrown', async () => {
  const text = JSON.stringify([VALID_RECORD, { ...VALID_RECORD, port: 443 }], null, 2);
  const folder = await openFolder();
  const [path, linesPath] = [join(folder, 'inventory.json'), join(folder, 'inventory.jsonl')];
  writeFileSync(path, text);
  writeFileSync(linesPath, '{}');
  const bytes = new TextEncoder().encode(text);
  const stream = new Blob([bytes]).stream();
  for (const source of [text, bytes, stream, inChunks(Buffer.from(bytes), []), { path }]) {
    const { findings, summary } = await validate(source);
    assert.deepEqual([findings, summary], [[], { records: 2, isComplete: true }]);
  }
  const { findings } = await validate({ path: linesPath });
  assert.partialDeepStrictEqual(findings[0], { pointer: '', file: linesPath });
  assert.deepEqual(await collectCodes('', { file: 'empty.jsonl' }), []);
  const options = { file: 'a.jsonl', format: 'json' } as const;
  assert.deepEqual(await collectCodes('{}', options), ['schema/type']);
  await assert.rejects(validate({ path: 'no-such-file.json' }), { code: 'ENOENT' });
  // A stream with an encoding yields strings.
  await assert.rejects(validate(Readable.from(['[]'])), TypeError);
});

test('Invalid UTF-8 is rejected at its first byte, in chunks of any size', async () => {
  const findEncodingErrors = async (text: Buffer, size: number) => {
    const { findings } = await validate(splitIntoChunks(text, size));
    const encodingErrors = findings.filter(({ code }) => code.startsWith('encoding/'));
    return encodingErrors.map(({ message }) => message);
  };
  for (const size of [1, 2, 3, 5, 100]) {
    for (const [name, ...bytes] of [
      ['UTF-16 (little-endian)', 0xff, 0xfe, 0x5b, 0, 0x5d, 0],
      ['UTF-16 (big-endian)', 0xfe, 0xff, 0, 0x5b, 0, 0x5d],
      ['UTF-16 (little-endian)', 0x5b, 0, 0x5d, 0],
      ['UTF-16 (big-endian)', 0, 0x5b, 0, 0x5d],
      ['UTF-32 (little-endian)', 0xff, 0xfe, 0, 0, 0x5b, 0, 0, 0],
      ['UTF-32 (big-endian)', 0, 0, 0xfe, 0xff, 0, 0, 0, 0x5b],
      ['UTF-32 (little-endian)', 0x5b, 0, 0, 0, 0x5d, 0, 0, 0],
      ['UTF-32 (big-endian)', 0, 0, 0, 0x5b, 0, 0, 0, 0x5d],
    ] as const) {
      const messages = await findEncodingErrors(Buffer.from(bytes), size);
      assert.deepEqual(messages, [`the file is ${name}; save it as UTF-8`]);
    }
    const invalidText = Buffer.from([0xef, 0xbb, 0xbf, 0x5b, 0xff]);
    const [markMessage = '', byteMessage = ''] = await findEncodingErrors(invalidText, size);
    assert.match(markMessage, /begins with a byte order mark/);
    assert.match(byteMessage, /^byte 4 \(0xFF\)/);
    const [message = ''] = await findEncodingErrors(Buffer.from('["🏠').subarray(0, 5), size);
    assert.match(message, /ends inside a UTF-8 character that begins at byte 2/);
  }
  for (const sequence of ['c0af', 'eda080', 'f4908080', '80', 'e28228', 'f09f8f']) {
    const text = Buffer.from(`5b22c3a9${sequence}225d`, 'hex');
    for (const size of [1, 2, 3, 100]) {
      const [message = ''] = await findEncodingErrors(text, size);
      assert.match(message, /^byte 4 \(0x/, sequence);
    }
  }
});

async function lint(text: string, format: 'json' | 'yaml') {
  const findings = await Array.fromAsync(lintInventory(text, { format, today: '2026-11-20' }));
  return findings.map(({ excerpt: _excerpt, ...finding }) => finding);
}

test('JSON has the same findings when it is read as YAML', async () => {
  const value = fc.oneof(fc.string(), fc.integer(), fc.constantFrom(null, true, 'public', '443'));
  const key = fc.constantFrom('id', 'port', 'exposure', 'notes', 'x', 'я🏠', 'host');
  const record = fc.array(fc.tuple(key, value), { maxLength: 6 }).map((members) => {
    const entries = [...Object.entries(VALID_RECORD), ...members];
    const memberTexts = entries.map((member) =>
      member.map((part) => JSON.stringify(part)).join(': '),
    );
    return `{${memberTexts.join(',\n ')}}`;
  });
  let count = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(record, { minLength: 1, maxLength: 4 }), async (records) => {
      const text = `[${records.join(',\n')}]`;
      const json = await lint(text, 'json');
      assert.deepEqual(await lint(text, 'yaml'), json, text);
      count += json.length;
    }),
    { numRuns: 200 },
  );
  assert.ok(count > 200, `${count}`);
});

test('YAML is read in chunks, compressed, with a byte order mark and invalid bytes', async () => {
  const text = `\uFEFF${stringify([VALID_RECORD, { ...VALID_RECORD, name: 'я🏠', port: 'x' }])}`;
  const bytes = Buffer.from(text);
  const expected = await validate(bytes, { file: 'a.yaml' });
  const codes = expected.findings.map(({ code }) => code);
  assert.deepEqual(codes, ['encoding/bom', 'schema/type']);
  assert.deepEqual(await validate(splitIntoChunks(bytes, 7), { file: 'a.yaml' }), expected);
  const compressedResult = await validate(gzipSync(bytes), { file: 'a.yml.gz' });
  assert.deepEqual(compressedResult.summary, expected.summary);
  const invalidBytes = Buffer.from('- id: я\n  name: \xff\n', 'latin1');
  const invalidText = Buffer.concat([Buffer.from('# я\n'), invalidBytes]);
  const { findings } = await validate(invalidText, { format: 'yaml' });
  const codesAndPositions = findings.map(({ code, line, column }) => [code, line, column]);
  assert.deepEqual(codesAndPositions, [['encoding/utf-8', 3, 9]]);
});
