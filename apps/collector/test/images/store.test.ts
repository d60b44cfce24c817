import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { createImageStore } from '../../src/images/store.ts';

const root = await mkdtemp(join(tmpdir(), 'oselya-store-'));
after(() => rm(root, { recursive: true }));
const folder = join(root, 'images');
const store = createImageStore(folder);
const source = join(root, 'source');
const hash = 'ab'.repeat(32);

const files = async () =>
  (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

test('equal bytes are one file, also when they come at once', async () => {
  await writeFile(source, 'bytes');
  assert.equal(await store.has(hash), false);
  await Promise.all([store.put(hash, source), store.put(hash, source)]);
  await store.put(hash, source);
  assert.deepEqual(await files(), [join(folder, 'ab', 'ab', hash)]);
  assert.equal(await store.has(hash), true);
  assert.equal((await store.read(hash)).toString(), 'bytes');
  const chunks = await (await store.stream(hash)).toArray();
  assert.equal(Buffer.concat(chunks).toString(), 'bytes');
});

test('a source that fails leaves nothing', async () => {
  const missing = 'cd'.repeat(32);
  await assert.rejects(store.put(missing, join(root, 'no such file')));
  assert.equal(await store.has(missing), false);
  assert.equal((await files()).length, 1);
});
