import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { after, test } from 'node:test';
import { runInventory } from '@oselya/inventory';
import { Collector } from '../support/transcript.ts';

const folder = await mkdtemp(join(tmpdir(), 'inventory-files-'));
after(() => rm(folder, { recursive: true }));

const path = (name: string) => join(folder, name);

async function validate(files: string[], stderr = new Collector()) {
  const stdout = new Collector();
  const stdin = Readable.from([]);
  const status = await runInventory(['validate', ...files], { stdin, stdout, stderr, env: {} });
  return { status, stdout: stdout.text, stderr: stderr.text };
}

test('of what a pattern matches, broken links are told, and folders and pipes are no files', async () => {
  await writeFile(path('a.json'), '[]');
  await symlink(path('circle.json'), path('circle.json'));
  await symlink(path('nothing'), path('gone.json'));
  await mkdir(path('folder.json'));
  // Nobody writes to the pipe, so to read it would be to wait for ever.
  execFileSync('mkfifo', [path('pipe.json')]);
  const { status, stdout, stderr } = await validate([path('*.json')]);
  assert.equal(stdout, `${path('a.json')}: 0 records, valid\n`);
  assert.equal(
    stderr,
    `oselya inventory validate: cannot read ${path('circle.json')}: its symbolic links lead in a circle; name the file itself\n` +
      `oselya inventory validate: cannot read ${path('gone.json')}: there is no such file; check the path\n`,
  );
  assert.equal(status, 2);
});

test('a name that is no text is told as such', async () => {
  const { status, stderr } = await validate([path('\u{FFFD}.json')]);
  assert.match(stderr, /its name is no UTF-8; give it another one\n$/);
  assert.equal(status, 2);
});

test('the exit status is right where nobody reads standard error', async () => {
  const closed = new Writable({
    write(_chunk, _encoding, done) {
      done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
    },
  });
  const stdout = new Collector();
  const io = { stdin: Readable.from([]), stdout, stderr: closed, env: {} };
  assert.equal(await runInventory(['validate', path('none.json')], io), 2);
});
