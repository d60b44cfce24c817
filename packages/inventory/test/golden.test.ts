import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { RULES } from '@oselya/inventory';
import { formatTranscript, parseTranscript, replay } from './support/transcript.ts';

const folder = new URL('golden/', import.meta.url);

// UPDATE_GOLDEN=1 writes the actual transcripts; review the differences.
const isUpdate = process.env['UPDATE_GOLDEN'] === '1';

const names = readdirSync(folder, { encoding: 'utf8', recursive: true }).filter((name) =>
  name.endsWith('.txt'),
);

for (const name of names) {
  test(`Transcript ${name}`, async () => {
    const file = new URL(name, folder);
    const expected = readFileSync(file, 'utf8');
    const actual = formatTranscript(await replay(parseTranscript(expected)));
    if (isUpdate) writeFileSync(file, actual);
    else assert.equal(actual, expected);
  });
}

test('The transcripts show every rule', () => {
  const all = names.map((name) => readFileSync(new URL(name, folder), 'utf8'));
  // A transcript of a record beyond 1 MiB would be unreadable; json.test.ts has one.
  const shown = Object.keys(RULES).filter((code) => code !== 'limit/record-size');
  const missing = shown.filter((code) => !all.some((text) => text.includes(` [${code}]`)));
  assert.deepEqual(missing, []);
});
