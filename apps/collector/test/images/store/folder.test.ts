import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { openFolder } from '../../../src/images/store-folder.ts';
import { log } from '../../support/pipeline.ts';
import { until } from '../../support/until.ts';
import { createImageStore } from '../../../src/images/store.ts';

const root = await mkdtemp(join(tmpdir(), 'oselya-store-'));
after(() => rm(root, { recursive: true }));
const folder = join(root, 'images');
const temporary = join(root, 'incoming');
await mkdir(temporary);
const { store } = createImageStore(
  openFolder(folder, () => temporary),
  { log },
);
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

test('what is removed goes with its copies, and may be gone already', async () => {
  const gone = 'ba'.repeat(32);
  await store.put(gone, source);
  for (const side of [320, 1024]) await store.putThumbnail(gone, side, Buffer.from('small'));
  const before = (await files()).length;
  await store.remove(gone);
  assert.equal((await files()).length, before - 3);
  await store.remove(gone);
});

test('a copy that is stored in the midst of the removal of its content goes as well', async () => {
  const gone = 'bc'.repeat(32);
  const disk = openFolder(folder, () => temporary);
  const deleteFile = disk.delete.bind(disk);
  disk.delete = async (key) => {
    await deleteFile(key);
    // Whoever made it finds that the content is there, and leaves it.
    if (await store.has(gone)) await store.putThumbnail(gone, 320, Buffer.from('small'));
  };
  await store.put(gone, source);
  const before = (await files()).length;
  await createImageStore(disk, { log }).store.remove(gone);
  assert.equal((await files()).length, before - 1);
});

test('what is stored can be listed by the first digits of its hash', async () => {
  await writeFile(join(folder, 'ab', 'ab', 'notes.txt'), 'of somebody else');
  const listed = (await Array.fromAsync(store.list('ab'))).flat();
  assert.deepEqual(
    listed.map(({ sha256 }) => sha256),
    [hash],
  );
  const age = Date.now() - ((await listed[0]?.storedAt())?.getTime() ?? 0);
  assert.ok(age < 60_000, `${age} ms`);
  assert.deepEqual((await Array.fromAsync(store.list('99'))).flat(), []);
  await rm(join(folder, 'ab', 'ab', 'notes.txt'));
});

test('however many are stored at once, none of them is in memory', async () => {
  const large = join(root, 'large');
  const bytes = 8 * 1024 * 1024;
  await writeFile(large, Buffer.alloc(bytes, 'picture'));
  const hashes = Array.from({ length: 16 }, (_, nth) => nth.toString(16).padStart(64, '9'));
  const before = process.memoryUsage().arrayBuffers;
  let most = 0;
  const over = new AbortController();
  const stored = Promise.all(hashes.map((one) => store.put(one, large)));
  const ended = stored.finally(() => over.abort());
  while (!over.signal.aborted) {
    most = Math.max(most, process.memoryUsage().arrayBuffers - before);
    await setImmediate();
  }
  await ended;
  assert.equal(Math.floor(most / bytes), 0);
  assert.equal((await stat(join(folder, '99', '99', hashes[0] ?? ''))).size, bytes);
  for (const one of hashes) await store.remove(one);
});

test('a source that fails leaves nothing', async () => {
  const missing = 'cd'.repeat(32);
  await assert.rejects(store.put(missing, join(root, 'no such file')));
  assert.equal(await store.has(missing), false);
  assert.equal((await files()).length, 1);
});

test('a target that fails leaves nothing', async () => {
  await writeFile(join(folder, 'ef'), 'in the way');
  await assert.rejects(store.put('ef'.repeat(32), source));
  // The store is tried again, with a file of its own.
  await until('no file', async () => (await readdir(temporary)).length === 0);
});

test('smaller copies are kept beside, each size by itself', async () => {
  assert.equal(await store.readThumbnail(hash, 320), undefined);
  await store.putThumbnail(hash, 320, Buffer.from('small'));
  assert.equal((await store.readThumbnail(hash, 320))?.toString(), 'small');
  assert.equal(await store.readThumbnail(hash, 1024), undefined);
  assert.equal((await store.read(hash)).toString(), 'bytes');
  assert.deepEqual(await readdir(join(folder, 'thumbnails', '320', 'ab', 'ab')), [hash]);
});
