import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { CommandError } from '../../src/command.ts';
import { GOLDEN_TEXTS, JUDGED, readGoldenTexts } from '../../src/evaluate/golden.ts';

const folder = mkdtempSync(join(tmpdir(), 'oselya-golden-'));
after(() => rmSync(folder, { recursive: true }));

const texts = await readGoldenTexts(GOLDEN_TEXTS);

test('the texts are many and varied: languages, kinds of deals and of property, and no listings', () => {
  assert.ok(texts.length >= 40);
  assert.equal(new Set(texts.map(({ name }) => name)).size, texts.length);
  const found = (field: 'language' | 'deal_type' | 'property_type') =>
    [...new Set(texts.flatMap(({ expected }) => expected[field] ?? []))].map(String).toSorted();
  assert.deepEqual(found('language'), ['en', 'mixed', 'ru', 'uk']);
  assert.deepEqual(found('deal_type'), ['daily_rent', 'rent', 'sale']);
  assert.deepEqual(found('property_type'), [
    'apartment',
    'commercial',
    'garage',
    'house',
    'land',
    'room',
  ]);
  assert.ok(texts.filter(({ expected }) => expected['is_listing'] === false).length >= 6);
});

const isNothing = (value: unknown) =>
  value === null || (Array.isArray(value) && value.length === 0);

test('each field has values, and those that a text may lack are lacking somewhere', () => {
  const always = new Set(['is_listing', 'language', 'deal_type', 'property_type']);
  for (const field of JUDGED) {
    const values = texts.map(({ expected }) => expected[field]);
    assert.ok(
      values.filter((value) => value !== undefined && !isNothing(value)).length >= 3,
      field,
    );
    assert.ok(always.has(field) || values.some(isNothing), field);
  }
});

test('the texts say all by themselves: no field gives an answer away', () => {
  for (const { name, payload } of texts) {
    const given = Object.keys(payload).filter(
      (key) => !['source_slug', 'external_id', 'title', 'description'].includes(key),
    );
    assert.deepEqual(given, [], name);
  }
});

test('phones and names are invented', () => {
  for (const { name, payload } of texts) {
    for (const [phone] of payload.description.matchAll(/\+?\d[\d ()-]{8,}\d/g)) {
      assert.match(phone.replaceAll(/\D/g, ''), /^(380)?0{2,3}\d/, `${name}: ${phone}`);
    }
  }
});

const bad: [name: string, line: string, said: RegExp][] = [
  ['no JSON', '{', /bad\.jsonl:2: it is no JSON/],
  ['no expectation', '{"name":"a","payload":{"description":"x"}}', /:2: .*see samples\/README\.md/],
  ['an unknown field', '{"name":"a","payload":{"description":"x"},"expected":{"cost":5}}', /:2: /],
  [
    'a payload of no use',
    '{"name":"a","payload":{"description":"x","price":-1},"expected":{}}',
    /payload\/price must be >= 0/,
  ],
];
for (const [name, line, said] of bad) {
  test(`${name} is told with its line`, async () => {
    const path = join(folder, 'bad.jsonl');
    writeFileSync(path, `{"name":"ok","payload":{"description":"x"},"expected":{}}\n${line}\n`);
    await assert.rejects(readGoldenTexts(path), (error) => {
      assert.ok(error instanceof CommandError);
      assert.match(error.message, said);
      return true;
    });
  });
}

test('a file that is not there, and one without texts', async () => {
  await assert.rejects(readGoldenTexts(join(folder, 'none')), /there is no such file/);
  const path = join(folder, 'empty.jsonl');
  writeFileSync(path, '\n');
  await assert.rejects(readGoldenTexts(path), /has no texts/);
});
