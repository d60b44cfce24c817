import assert from 'node:assert/strict';
import { chmodSync, lstatSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { replaceFile, writeWhole } from '../../src/command/replace-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'inventory-replace-'));
const file = join(folder, 'net.json');
const link = join(folder, 'link.json');
symlinkSync('net.json', link);
after(() => rmSync(folder, { recursive: true }));
beforeEach(() => writeFileSync(file, 'old'));

test('what a symbolic link leads to is replaced, with its rights, and the link stays', async () => {
  chmodSync(file, 0o666);
  assert.equal(await replaceFile(link, Buffer.from('old'), 'new'), true);
  assert.equal(readFileSync(file, 'utf8'), 'new');
  assert.equal(statSync(file).mode & 0o777, 0o666);
  assert.ok(lstatSync(link).isSymbolicLink());
});

test('a file that holds something else by now stays, and nothing is left beside it', async () => {
  assert.equal(await replaceFile(file, Buffer.from('older'), 'new'), false);
  assert.equal(readFileSync(file, 'utf8'), 'old');
  assert.deepEqual(readdirSync(folder).toSorted(), ['link.json', 'net.json']);
});

test('what a run left that was killed does not keep one with its number from writing', async () => {
  const left = `${file}.${process.pid}.tmp`;
  writeFileSync(left, 'half');
  assert.equal(await replaceFile(file, Buffer.from('old'), 'new'), true);
  assert.equal(readFileSync(file, 'utf8'), 'new');
  assert.equal(readFileSync(left, 'utf8'), 'half');
  rmSync(left);
});

test('a file is the old one until the new one is whole, and stays it when that cannot be put there', async () => {
  const writing = writeWhole(file, 'new', () => {
    assert.equal(readFileSync(file, 'utf8'), 'old');
    return Promise.reject(new Error('The disk is gone'));
  });
  await assert.rejects(writing, { message: 'The disk is gone' });
  assert.equal(readFileSync(file, 'utf8'), 'old');
  assert.deepEqual(readdirSync(folder).toSorted(), ['link.json', 'net.json']);
});

test('one that is not there yet is written as any new one', async () => {
  const fresh = join(folder, 'fresh.json');
  assert.equal(await writeWhole(fresh, 'new'), true);
  assert.equal(readFileSync(fresh, 'utf8'), 'new');
  rmSync(fresh);
});
