import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, test } from 'node:test';
import { createTemporaryFolder } from '../../src/images/temporary.ts';

const parent = join(await mkdtemp(join(tmpdir(), 'oselya-temporary-')), 'incoming');
after(() => rm(join(parent, '..'), { recursive: true }));
const open = () => createTemporaryFolder(parent, (error) => assert.fail(String(error)));

test('a folder that nobody has asked for is not made, and nothing is there to be removed', async () => {
  const folder = open();
  await folder.sweep();
  await folder.close();
  await assert.rejects(readdir(parent), { code: 'ENOENT' });
});

test('it is the same until it is closed; then it is gone with all that is in it', async () => {
  const folder = open();
  const path = folder.path();
  assert.equal(folder.path(), path);
  await writeFile(join(path, 'half a picture'), 'bytes');
  await folder.close();
  assert.deepEqual(await readdir(parent), []);
});

test('a sweep leaves folders in use alone, and removes all else', async () => {
  const [one, other] = [open(), open()];
  const [left, used] = [join(parent, 'left'), other.path()];
  await mkdir(left);
  for (const path of [join(left, 'a'), join(used, 'a'), join(parent, 'a file')]) {
    await writeFile(path, 'bytes');
  }
  await Promise.all([one.sweep(), open().sweep()]);
  assert.deepEqual(await readdir(parent), [basename(used)]);
  assert.ok((await readdir(used)).includes('a'));
  await other.close();
});

test('what a killed process leaves is removed, and not before it is dead', async () => {
  const child = fork(new URL('temporary-folder.child.ts', import.meta.url), [parent]);
  const [path] = (await once(child, 'message')) as [string];
  const folder = open();
  await folder.sweep();
  assert.ok((await readdir(path)).includes('half a picture'));
  child.kill('SIGKILL');
  await once(child, 'exit');
  await folder.sweep();
  assert.deepEqual(await readdir(parent), []);
  await folder.close();
});
