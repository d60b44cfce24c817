import assert from 'node:assert/strict';
import { appendFile, mkdir, readlink, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadProfiles } from '../../src/profiles/load.ts';
import { createProfiles } from '../../src/profiles/profiles.ts';
import { createReload } from '../../src/profiles/reload.ts';
import { folderOf, profile } from './folder.ts';

/** Profiles of a folder that can be read anew, with what was logged. */
async function opened(folder: string) {
  const profiles = createProfiles(await loadProfiles(folder));
  const errors: string[][] = [];
  const infos: unknown[] = [];
  const log = {
    error: (fields: { faults: string[] }) => errors.push(fields.faults),
    info: (...line: unknown[]) => infos.push(line),
  };
  const look = createReload({ folder, profiles, log: log as never });
  return {
    profiles,
    errors,
    infos,
    look,
    /** As often as it takes for a change to be taken. */
    reload: async () => {
      await look();
      await look();
    },
    ids: () => profiles.all().map(({ profile_id }) => profile_id),
  };
}

/** As editors do that write another file and rename it. */
async function replace(folder: string, name: string, text: string): Promise<void> {
  await writeFile(join(folder, `.${name}.swp`), text);
  await rename(join(folder, `.${name}.swp`), join(folder, name));
}

test('files that are changed, added and removed are taken', async () => {
  const folder = await folderOf({ 'a.yaml': profile('a'), 'b.yaml': profile('b') });
  const { reload, profiles, ids, infos } = await opened(folder);
  await reload();
  assert.equal(infos.length, 0, 'nothing has changed');
  await replace(folder, 'a.yaml', profile('a', 'is_admin_only: true\n'));
  await writeFile(join(folder, 'c.yaml'), profile('c'));
  await rm(join(folder, 'b.yaml'));
  await reload();
  assert.deepEqual(ids(), ['a', 'c']);
  assert.deepEqual(
    profiles.usable({ role: 'user' }).map(({ profile_id }) => profile_id),
    ['c'],
  );
  assert.equal(infos.length, 1);
});

test('a file that becomes bad keeps its profile, and its line is told once', async () => {
  const folder = await folderOf({ 'a.yaml': profile('a'), 'b.yaml': profile('b') });
  const { reload, profiles, ids, errors, infos } = await opened(folder);
  await writeFile(join(folder, 'a.yaml'), profile('a').replace('name: a', 'name: 7'));
  await writeFile(join(folder, 'new.yaml'), 'a: [\n');
  await writeFile(join(folder, 'b.yaml'), profile('b', 'description: Changed.\n'));
  await reload();
  await reload();
  assert.deepEqual(ids(), ['a', 'b']);
  assert.equal(profiles.find('a')?.name, 'a');
  assert.equal(profiles.find('b')?.description, 'Changed.');
  assert.equal(profiles.faultOf('a'), 'a.yaml:2 name must be 1 to 100 characters');
  assert.equal(profiles.faultOf('b'), undefined);
  assert.equal(errors.length, 1);
  assert.match(errors[0]?.join('\n') ?? '', /^a\.yaml:2 .*\nnew\.yaml:\d /);

  await writeFile(join(folder, 'a.yaml'), profile('a', 'description: Mended.\n'));
  await rm(join(folder, 'new.yaml'));
  const before = infos.length;
  await reload();
  assert.equal(profiles.find('a')?.description, 'Mended.');
  assert.equal(profiles.faultOf('a'), undefined);
  assert.ok(infos.length > before, 'that it is well again is told');
});

test('a file is taken when it has stayed as it is from one look to the next, and no half of it before', async () => {
  const folder = await folderOf({ 'a.yaml': profile('a'), 'b.yaml': profile('b') });
  const { look, reload, profiles, ids, errors } = await opened(folder);
  await reload();
  const file = join(folder, 'a.yaml');
  const whole = profile('a', 'description: Whole.\n');
  await writeFile(file, '');
  for (const char of whole) {
    await look();
    assert.equal(profiles.find('a')?.description, '');
    await appendFile(file, char);
  }
  assert.deepEqual(errors, []);
  await look();
  assert.equal(profiles.find('a')?.description, '', 'it may go on');
  await look();
  assert.equal(profiles.find('a')?.description, 'Whole.');

  // Under another name its profile is there all the time.
  await rename(file, join(folder, 'c.yaml'));
  for (let looks = 0; looks < 3; looks += 1) {
    await look();
    assert.deepEqual(ids().toSorted(), ['a', 'b']);
  }
  assert.deepEqual(ids(), ['b', 'a']);
});

test('a bad file that is removed takes its profile with it', async () => {
  const folder = await folderOf({ 'a.yaml': profile('a'), 'b.yaml': profile('b') });
  const { reload, ids } = await opened(folder);
  await writeFile(join(folder, 'a.yaml'), ': [');
  await reload();
  await rm(join(folder, 'a.yaml'));
  await reload();
  assert.deepEqual(ids(), ['b']);
});

test('an id that another file has is refused, and both keep what they had', async () => {
  const folder = await folderOf({ 'b.yaml': profile('b'), 'c.yaml': profile('c') });
  const { reload, profiles, ids, errors } = await opened(folder);
  await writeFile(join(folder, 'a.yaml'), profile('b', 'description: Impostor.\n'));
  await writeFile(join(folder, 'c.yaml'), profile('b'));
  await reload();
  assert.deepEqual(ids(), ['b', 'c']);
  assert.equal(profiles.find('b')?.description, '');
  assert.deepEqual(errors, [
    [
      'a.yaml:1 profile_id must differ from the one in b.yaml:1',
      'c.yaml:1 profile_id must differ from the one in b.yaml:1',
    ],
  ]);
  assert.match(profiles.faultOf('c') ?? '', /^c\.yaml:1 /);
});

test('files may exchange their ids', async () => {
  const folder = await folderOf({ 'a.yaml': profile('a'), 'b.yaml': profile('b') });
  const { reload, ids, errors } = await opened(folder);
  await writeFile(join(folder, 'a.yaml'), profile('b'));
  await writeFile(join(folder, 'b.yaml'), profile('a'));
  await reload();
  assert.deepEqual([ids(), errors], [['b', 'a'], []]);
});

test('a folder that is gone or empty for a moment keeps all profiles', async () => {
  const folder = await folderOf({ 'a.yaml': profile('a') });
  const { reload, ids, errors } = await opened(folder);
  await rename(join(folder, 'a.yaml'), join(folder, 'a.bak'));
  await reload();
  assert.deepEqual(ids(), ['a']);
  assert.match(errors[0]?.[0] ?? '', /There is no agent profile/);
  await rename(join(folder, 'a.bak'), join(folder, 'a.yaml'));
  await reload();
  assert.deepEqual([ids(), errors.length], [['a'], 1]);
});

test('a config map is taken as Kubernetes changes it: by one link', async () => {
  const folder = await folderOf({});
  const version = async (name: string, files: Record<string, string>) => {
    await mkdir(join(folder, name));
    for (const [file, text] of Object.entries(files)) {
      await writeFile(join(folder, name, file), text);
    }
    await symlink(name, join(folder, '..data_tmp'));
    await rename(join(folder, '..data_tmp'), join(folder, '..data'));
  };
  await version('..2026_01', { 'a.yaml': profile('a'), 'b.yaml': profile('b') });
  await symlink(join('..data', 'a.yaml'), join(folder, 'a.yaml'));
  await symlink(join('..data', 'b.yaml'), join(folder, 'b.yaml'));
  const { reload, profiles, ids, errors } = await opened(folder);
  assert.deepEqual(ids(), ['a', 'b']);

  await version('..2026_02', { 'a.yaml': profile('a', 'description: Second.\n') });
  // The link of a file that is gone is taken away a moment later.
  await reload();
  assert.equal(profiles.find('a')?.description, 'Second.');
  assert.match(errors[0]?.[0] ?? '', /^b\.yaml:1 cannot be read: ENOENT/);
  await rm(join(folder, 'b.yaml'));
  await rm(join(folder, '..2026_01'), { recursive: true });
  await reload();
  assert.deepEqual(ids(), ['a']);
  assert.equal(await readlink(join(folder, '..data')), '..2026_02');
});
