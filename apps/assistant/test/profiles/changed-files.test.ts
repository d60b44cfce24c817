import assert from 'node:assert/strict';
import { readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createChangedFiles } from '../../src/profiles/changed-files.ts';
import { folderOf } from './folder.ts';

/** A folder with two files, and which of them were read, in their order. */
async function opened() {
  const folder = await folderOf({ a: '1', b: '2' });
  const path = (name: string) => join(folder, name);
  const names: string[] = [];
  const during = { reading: undefined as (() => Promise<void>) | undefined };
  const look = createChangedFiles(async (file) => {
    names.push(file.slice(-1));
    const text = await readFile(file, 'utf8').catch(() => 'none');
    await during.reading?.();
    return text;
  });
  return {
    path,
    names,
    /** What is done while a file is being read. */
    during,
    /** The contents, where there is something new. */
    look: async (...files: string[]) => {
      const contents = await look(files.map(path));
      return contents && [...contents.values()];
    },
  };
}

test('what has not changed is not read again', async () => {
  const { look, names, path } = await opened();
  assert.equal(await look('a', 'b'), undefined);
  assert.deepEqual(await look('a', 'b'), ['1', '2']);
  for (let looks = 0; looks < 3; looks += 1) assert.equal(await look('a', 'b'), undefined);
  await writeFile(path('b'), 'longer');
  assert.equal(await look('a', 'b'), undefined);
  assert.deepEqual(await look('a', 'b'), ['1', 'longer']);
  assert.deepEqual(names, ['a', 'b', 'b']);
});

test('a write that keeps the size and the time of the file is seen', async () => {
  const { look, path } = await opened();
  const { atime, mtime } = await stat(path('a'));
  await utimes(path('a'), atime, mtime);
  const before = await stat(path('a'), { bigint: true });
  await look('a');
  assert.deepEqual(await look('a'), ['1']);
  let after = before;
  // Times of files go by ticks of some milliseconds.
  while (after.ctimeNs === before.ctimeNs) {
    await writeFile(path('a'), '9');
    await utimes(path('a'), atime, mtime);
    after = await stat(path('a'), { bigint: true });
  }
  assert.deepEqual([after.size, after.mtimeNs], [before.size, before.mtimeNs]);
  await look('a');
  assert.deepEqual(await look('a'), ['9']);
});

test('what changes while it is read is read again', async () => {
  const { look, path, during } = await opened();
  during.reading = () => writeFile(path('a'), 'later');
  await look('a');
  assert.equal(await look('a'), undefined);
  during.reading = undefined;
  assert.deepEqual(await look('a'), ['later']);
});

test('files that come and go are a change, and one that cannot be read is one as well', async () => {
  const { look, names } = await opened();
  await look('a', 'none');
  assert.deepEqual(await look('a', 'none'), ['1', 'none']);
  await look('a', 'b');
  assert.deepEqual(await look('a', 'b'), ['1', '2']);
  await look('a');
  assert.deepEqual(await look('a'), ['1']);
  assert.deepEqual(names, ['a', 'e', 'b']);
});
