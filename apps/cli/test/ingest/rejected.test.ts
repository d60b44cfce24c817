import assert from 'node:assert/strict';
import {
  closeSync,
  linkSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { CommandError } from '../../src/command-error.ts';
import { openRejected } from '../../src/ingest/rejected.ts';
import { isSameFile } from '../../src/ingest/same-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'oselya-rejected-'));
after(() => rmSync(folder, { recursive: true }));

test('each record is a line with its place and reason, in place of an earlier file', async () => {
  const path = join(folder, 'a.rejected.jsonl');
  writeFileSync(path, 'an earlier run\n');
  const rejected = await openRejected(path);
  await rejected.add({ line: 2, end: 9, fields: { price: 'x\n' } }, 'price must be number');
  await rejected.add({ line: 3, end: 12, reason: 'is no JSON', found: '{' }, 'is no JSON');
  for (let line = 4; line < 1000; line += 1) {
    await rejected.add({ line, end: 0, fields: { text: 'x'.repeat(1000) } }, 'no');
  }
  await rejected.end();
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  assert.equal(lines.length, 998);
  assert.deepEqual(
    lines.slice(0, 2).map((line): unknown => JSON.parse(line)),
    [
      { line: 2, reason: 'price must be number', record: { price: 'x\n' } },
      { line: 3, reason: 'is no JSON', record: '{' },
    ],
  );
});

test('a file that cannot be written is told', async () => {
  await assert.rejects(openRejected(join(folder, 'missing', 'a.jsonl')), (error) => {
    assert.ok(error instanceof CommandError);
    assert.match(error.message, /a\.jsonl cannot be written: .*ENOENT/);
    return true;
  });
});

test('a file is the same by whatever name, and what is none is the same as nothing', () => {
  const [file, link, symlink] = ['same.jsonl', 'link.jsonl', 'symlink.jsonl'].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  writeFileSync(file, '{}\n');
  linkSync(file, link);
  symlinkSync(file, symlink);
  writeFileSync(join(folder, 'other.jsonl'), '{}\n');
  const open = openSync(file, 'r');
  for (const name of [file, `${folder}/./same.jsonl`, link, symlink]) {
    assert.equal(isSameFile(file, name), true, name);
    assert.equal(isSameFile(open, name), true, name);
  }
  closeSync(open);
  for (const [one, other] of [
    [file, join(folder, 'other.jsonl')],
    [file, join(folder, 'missing.jsonl')],
    [join(folder, 'missing.jsonl'), join(folder, 'missing.jsonl')],
    [folder, folder],
    [file, join(folder, 'x'.repeat(300))],
    [undefined, file],
  ] as const) {
    assert.equal(isSameFile(one, other), false, `${one} ${other}`);
  }
});
