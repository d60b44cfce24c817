import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { removeLeftovers } from '../../src/images/leftovers.ts';

const folder = await mkdtemp(join(tmpdir(), 'oselya-leftovers-'));
after(() => rm(folder, { recursive: true }));

const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000);

test('a store that is not there yet has no leftovers', async () => {
  await removeLeftovers(join(folder, 'missing'));
});

test('temporary files older than an hour go; young ones and stored pictures stay', async () => {
  await mkdir(join(folder, 'incoming'));
  await mkdir(join(folder, 'ab'));
  for (const [name, minutes] of [
    ['incoming/old', 61],
    ['incoming/young', 59],
    ['ab/picture', 10_000],
  ] as const) {
    await writeFile(join(folder, name), 'bytes');
    await utimes(join(folder, name), minutesAgo(minutes), minutesAgo(minutes));
  }
  // As when several processes start at once.
  await Promise.all([removeLeftovers(folder), removeLeftovers(folder)]);
  const files = await readdir(folder, { recursive: true });
  assert.deepEqual(files.toSorted(), ['ab', 'ab/picture', 'incoming', 'incoming/young']);
});
