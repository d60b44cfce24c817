import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ImportError } from '../../src/import/draft.ts';
import { importNginx } from '../../src/import/nginx.ts';
import { MAX_INCLUDED_FILES, MAX_TEXT_BYTES } from '../../src/limits.ts';

const home = await mkdtemp(join(tmpdir(), 'inventory-include-'));
after(() => rm(home, { recursive: true }));

const path = join(home, 'nginx');
const server = (name: string) => `server { server_name ${name}; }`;
await mkdir(join(path, 'available'), { recursive: true });
await mkdir(join(path, 'enabled'));
await mkdir(join(path, 'enabled', 'folder'));
await mkdir(join(home, 'nginx-other'));
await writeFile(join(path, 'available', 'inside'), server('inside.example.test'));
await writeFile(join(home, 'outside'), server('outside.example.test'));
await writeFile(join(home, 'nginx-other', 'beside'), server('beside.example.test'));
await symlink('../available/inside', join(path, 'enabled', 'inside'));
await symlink('../../outside', join(path, 'enabled', 'outside'));
await symlink('../nowhere', join(path, 'enabled', 'nowhere'));

const read = (text: string) => {
  const { found, leftOut } = importNginx(text, { path, file: undefined });
  return { domains: found.map(({ domain }) => domain), lines: leftOut.lines };
};

test('links are followed as long as they stay in the folder', () => {
  assert.deepEqual(read('include enabled/*;'), {
    domains: ['inside.example.test'],
    lines: ['include enabled/*: it is outside of the folder'],
  });
  for (const outside of [join(home, 'outside'), '../nginx-other/beside', '../nginx-other/*']) {
    assert.deepEqual(read(`include ${outside};`), {
      domains: [],
      lines: [`include ${outside}: it is outside of the folder`],
    });
  }
  assert.deepEqual(read(`include ${join(path, 'available', 'i?side')};`).domains, [
    'inside.example.test',
  ]);
});

test('a file that is not there is told, a pattern that matches nothing is not', () => {
  assert.deepEqual(read('include none; include enabled/nowhere; include none/*.conf;').lines, [
    'include none: there is no such file in the folder',
    'include enabled/nowhere: there is no such file in the folder',
  ]);
});

test('the number and the size of included files are bounded', async () => {
  await writeFile(join(path, 'some'), 'include more; '.repeat(MAX_INCLUDED_FILES / 10));
  await writeFile(join(path, 'more'), '# nothing');
  const most = (times: number) => () => read('include some; '.repeat(times));
  assert.deepEqual(most(9)().domains, []);
  assert.throws(most(10), ImportError);
  await writeFile(join(path, 'large'), ' '.repeat(MAX_TEXT_BYTES / 2 + 1));
  assert.deepEqual(read('include large;').domains, []);
  assert.throws(() => read('include large; include large;'), ImportError);
});
