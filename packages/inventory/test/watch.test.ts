import assert from 'node:assert/strict';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { runInventory } from '@oselya/inventory';
import { VALID_RECORD } from './support/findings.ts';
import { Collector } from './support/transcript.ts';

const folder = await mkdtemp(join(tmpdir(), 'inventory-watch-'));
after(() => rm(folder, { recursive: true }));

test('a file is checked again after each change, however it is written, until the end', async () => {
  const file = join(folder, 'net.json');
  await writeFile(file, '[]');
  const stdout = new Collector();
  const stderr = new Collector();
  const ending = new AbortController();
  const watching = runInventory(['validate', '--watch', file], {
    stdin: Readable.from([]),
    stdout,
    stderr,
    env: {},
    signal: ending.signal,
  });

  /** Writes until it is noticed: what is written before the watch has begun is not. */
  async function shows(text: string, write: () => Promise<void>): Promise<void> {
    for (let tries = 0; !stdout.text.includes(text); tries += 1) {
      assert.ok(tries < 100, `not seen: ${text}, but ${stdout.text}`);
      await write();
      await sleep(100);
    }
  }
  await shows('0 records, valid', () => Promise.resolve());
  await shows('1 record, valid', () => writeFile(file, JSON.stringify([VALID_RECORD])));
  await shows('must be an object', async () => {
    await writeFile(`${file}.new`, '[5]');
    await rename(`${file}.new`, file);
  });
  ending.abort();
  assert.equal(await watching, 1);
  assert.equal(stderr.text, '');
});
