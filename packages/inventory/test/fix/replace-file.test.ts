import assert from 'node:assert/strict';
import { chmodSync, lstatSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { replaceFile } from '../../src/fix/replace-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'inventory-replace-'));
const file = join(folder, 'net.json');
const link = join(folder, 'link.json');
symlinkSync('net.json', link);
after(() => rmSync(folder, { recursive: true }));
beforeEach(() => writeFileSync(file, 'old'));

test('what a symbolic link leads to is replaced, with its rights, and the link stays', async () => {
  chmodSync(file, 0o640);
  assert.equal(await replaceFile(link, Buffer.from('old'), 'new'), true);
  assert.equal(readFileSync(file, 'utf8'), 'new');
  assert.equal(statSync(file).mode & 0o777, 0o640);
  assert.ok(lstatSync(link).isSymbolicLink());
});

test('a file that holds something else by now stays, and nothing is left beside it', async () => {
  assert.equal(await replaceFile(file, Buffer.from('older'), 'new'), false);
  assert.equal(readFileSync(file, 'utf8'), 'old');
  assert.deepEqual(readdirSync(folder).toSorted(), ['link.json', 'net.json']);
});
