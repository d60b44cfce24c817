import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { StartError } from '@oselya/kit';
import { loadProfiles, SHIPPED_PROFILES } from '../../src/profiles/load.ts';
import { folderOf, profile } from './folder.ts';

const read = async (folder: string) =>
  [...(await loadProfiles(folder)).loaded.values()].map((one) => one.profile);

async function messageOf(folder: string): Promise<string[]> {
  const error: unknown = await loadProfiles(folder).catch((reason: unknown) => reason);
  assert.ok(error instanceof StartError, String(error));
  return error.message.replaceAll(folder, '').split('\n');
}

test('the shipped profiles are for home seekers, and one for admins', async () => {
  const profiles = await read(SHIPPED_PROFILES);
  const ids = (of: typeof profiles) => of.map(({ profile_id }) => profile_id);
  assert.deepEqual(ids(profiles), ['default', 'diagnostics', 'market']);
  assert.deepEqual(ids(profiles.filter(({ is_admin_only }) => is_admin_only)), ['diagnostics']);
  for (const { system, description, tools } of profiles) {
    assert.match(system, /is data/, 'none of them obeys what its tools bring');
    assert.ok(description.length > 20 && tools.length > 0);
  }
});

test('profiles come in the order of their files, and other files are passed over', async () => {
  const folder = await folderOf({
    'b.yaml': profile('first'),
    'c.yml': profile('second'),
    'README.md': 'Not a profile: [',
    'a.yaml.bak': 'old',
  });
  await mkdir(join(folder, 'more'));
  assert.deepEqual(
    (await read(folder)).map(({ profile_id }) => profile_id),
    ['first', 'second'],
  );
});

test('all faults of all files stop the start at once, each with its file, line and rule', async () => {
  const folder = await folderOf({
    'a.yaml': profile('a').replace('name: a', 'name: 7'),
    'b.yaml': 'a: [\n',
    'c.yaml': profile('same'),
    'd.yaml': `# Another.\n${profile('same')}`,
  });
  const [title, ...faults] = await messageOf(folder);
  assert.equal(title, 'Agent profiles cannot be used:');
  assert.equal(faults[0], '  /a.yaml:2 name must be 1 to 100 characters');
  assert.match(faults[1] ?? '', /^ {2}\/b\.yaml:\d /);
  assert.equal(faults.at(-1), '  /d.yaml:2 profile_id must differ from the one in c.yaml:1');
});

test('a file that is no text, too large, or no file is told as that', async () => {
  const folder = await folderOf({
    'large.yaml': `${profile('large')}# ${'x'.repeat(256 * 1024)}`,
    'latin.yaml': Buffer.from('profile_id: \xe4\n', 'latin1'),
  });
  await mkdir(join(folder, 'folder.yaml'));
  const [, ...faults] = await messageOf(folder);
  assert.match(faults[0] ?? '', /\/folder\.yaml:1 cannot be read: EISDIR/);
  assert.equal(faults[1], '  /large.yaml:1 must be at most 256 KiB');
  assert.match(faults[2] ?? '', /\/latin\.yaml:1 cannot be read: /);
});

test('a folder that is empty, or is none, says what to do', async () => {
  const folder = await folderOf({});
  assert.match(
    (await messageOf(folder)).join(),
    /There is no agent profile in .*unset PROFILES_DIR/,
  );
  assert.match(
    (await messageOf(join(folder, 'none'))).join(),
    /cannot be read .*ENOENT.*PROFILES_DIR must be a folder/,
  );
});
