import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { RULES } from '@oselya/inventory';
import { formatTranscript, parseTranscript, replay } from './support/transcript.ts';

const folder = new URL('golden/', import.meta.url);

// UPDATE_GOLDEN=1 writes what the command does now; read the difference before it is kept.
const isUpdating = process.env['UPDATE_GOLDEN'] === '1';

const names = readdirSync(folder, { encoding: 'utf8', recursive: true }).filter((name) =>
  name.endsWith('.txt'),
);

for (const name of names) {
  test(`transcript ${name}`, async () => {
    const file = new URL(name, folder);
    const expected = readFileSync(file, 'utf8');
    const actual = formatTranscript(await replay(parseTranscript(expected)));
    if (isUpdating) writeFileSync(file, actual);
    else assert.equal(actual, expected);
  });
}

test('the transcripts show every rule', () => {
  const all = names.map((name) => readFileSync(new URL(name, folder), 'utf8'));
  // A file of more than 1 MiB is no reading; test/limits.test.ts makes one.
  const shown = Object.keys(RULES).filter((code) => code !== 'limit/record-size');
  for (const code of shown) {
    assert.ok(
      all.some((text) => text.includes(` [${code}]`)),
      `no transcript shows ${code}`,
    );
  }
});
