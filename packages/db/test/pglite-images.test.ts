import assert from 'node:assert/strict';
import { openAsBlob } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { pgliteImage } from '../src/testing/pglite-images.ts';

const folder = await mkdtemp(join(tmpdir(), 'oselya-images-'));
after(() => rm(folder, { recursive: true }));

test('an image stays readable when another process makes the same one', async (t) => {
  await writeFile(join(folder, '0001_first.sql'), `-- ${folder}\nselect 1;\n`);
  const migrations = [{ component: 'images', folder }];
  const both = [pgliteImage(migrations), pgliteImage(migrations)];
  const file = await Promise.race(both);
  t.after(() => rm(file));
  const opened = await openAsBlob(file);
  const [one, other] = await Promise.all(both);
  assert.equal(one, other);
  assert.equal((await opened.arrayBuffer()).byteLength, (await readFile(file)).byteLength);
});
