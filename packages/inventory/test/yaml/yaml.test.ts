import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { lintInventory, readRecords, type Finding } from '@oselya/inventory';
import { stringify } from 'yaml';
import { TextPlaces } from '../../src/yaml/text-places.ts';
import { inChunks, placeAt, validate, VALID_RECORD } from '../support/findings.ts';

const value = fc.oneof(fc.string(), fc.integer(), fc.constantFrom(null, true, 'public', '443'));
const key = fc.constantFrom('id', 'port', 'exposure', 'notes', 'x', 'я🏠', 'host');
const record = fc
  .array(fc.tuple(key, value), { maxLength: 6 })
  .map((members) => [...Object.entries(VALID_RECORD), ...members])
  .map(
    (members) =>
      `{${members.map((member) => member.map((part) => JSON.stringify(part)).join(': ')).join(',\n ')}}`,
  );

test('a text of JSON has the same findings when it is read as YAML', async () => {
  let count = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(record, { minLength: 1, maxLength: 4 }), async (records) => {
      const text = `[${records.join(',\n')}]`;
      const [json, yaml] = await Promise.all(
        (['json', 'yaml'] as const).map((format) => linted(text, format)),
      );
      assert.deepEqual(yaml, json, text);
      count += json?.length ?? 0;
    }),
    { numRuns: 300 },
  );
  assert.ok(count > 300, `${count}`);
});

async function linted(text: string, format: 'json' | 'yaml'): Promise<Finding[]> {
  const findings = await Array.fromAsync(lintInventory(text, { format, today: '2026-11-20' }));
  // The record alone is looked at, or all of the text.
  return findings.map(({ excerpt: _excerpt, ...finding }) => finding);
}

test('records in the block style of YAML have the values of those in JSON', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: true }), {
        maxLength: 3,
      }),
      async (extras) => {
        const records = extras.map((extra) => ({ ...extra, ...VALID_RECORD, exposure: 'vpn' }));
        const text = stringify(records);
        const read = await Array.fromAsync(readRecords(text, { format: 'yaml' }));
        assert.deepEqual(
          // JSON has no negative zero.
          JSON.parse(JSON.stringify(read.map((one) => one.value))),
          JSON.parse(JSON.stringify(records)),
          text,
        );
      },
    ),
    { numRuns: 300 },
  );
});

test('a list of YAML comes in chunks, packed, and with a byte order mark', async () => {
  const text = `\uFEFF${stringify([VALID_RECORD, { ...VALID_RECORD, name: 'я🏠', port: 'x' }])}`;
  const whole = await validate(Buffer.from(text), { file: 'a.yaml' });
  assert.deepEqual(
    whole.findings.map(({ code }) => code),
    ['encoding/bom', 'schema/type'],
  );
  const bytes = Buffer.from(text);
  const chunks = inChunks(
    bytes,
    Array.from({ length: 40 }, (_, nth) => 7 * nth),
  );
  assert.deepEqual(await validate(chunks, { file: 'a.yaml' }), whole);
  const packed = await validate(gzipSync(bytes), { file: 'a.yml.gz' });
  assert.deepEqual(packed.summary, whole.summary);
});

test('what is no UTF-8 in YAML is told with its place', async () => {
  const bytes = Buffer.from('- id: я\n  name: \xff\n', 'latin1');
  const { findings } = await validate(Buffer.concat([Buffer.from('# я\n'), bytes]), {
    format: 'yaml',
  });
  assert.deepEqual(
    findings.map(({ code, line, column }) => [code, line, column]),
    [['encoding/utf-8', 3, 9]],
  );
});

test('places are counted in whatever order they are asked for', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.array(fc.nat(40)), (words, offsets) => {
      const text = `${words}\n🏠я\r\n${words}`;
      const places = new TextPlaces(text);
      for (const offset of offsets) {
        const at = Math.min(offset, text.length);
        // No token begins within a character.
        if (/^[\uDC00-\uDFFF]/.test(text.slice(at))) continue;
        assert.deepEqual(places.at(at), placeAt(text, at));
      }
    }),
  );
});
