import assert from 'node:assert/strict';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { runInventory } from '@oselya/inventory';
import { watchFiles } from '../src/command/watch-files.ts';
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

  /** Writes once: by the end of the first check, the watch has begun. */
  async function shows(text: string, write: () => Promise<void>): Promise<void> {
    await write();
    for (let tries = 0; !stdout.text.includes(text); tries += 1) {
      assert.ok(tries < 600, `not seen: ${text}, but ${stdout.text}`);
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

test('who has stopped it before it began has one check', async () => {
  const file = join(folder, 'once.json');
  await writeFile(file, '[5]');
  let checks = 0;
  const check = async () => {
    checks += 1;
    return 1;
  };
  assert.equal(await watchFiles([file], { signal: AbortSignal.abort() }, check), 1);
  assert.equal(checks, 1);
});

test('a change during the first check is looked at after it', async () => {
  const file = join(folder, 'during.json');
  await writeFile(file, '[]');
  const ending = new AbortController();
  let checks = 0;
  const status = await watchFiles([file], { signal: ending.signal }, async () => {
    checks += 1;
    if (checks === 1) await writeFile(file, '[5]');
    else ending.abort();
    return checks;
  });
  assert.equal(status, 2);
});
