import assert from 'node:assert/strict';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ProblemError, StartError } from '@oselya/kit';
import { parseProfile } from '../../src/profiles/profile-file.ts';
import { SHIPPED_PROFILES } from '../../src/profiles/profiles.ts';
import { PROFILE_TOOLS } from '../../src/conversations/tools/tools.ts';
import { listen } from '../conversations/stage.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { pages, createPerson, SEVERAL_PEOPLE } from '../helpers/people.ts';
import { until } from '@oselya/testing';
import { createFolder, openTestProfiles, profile } from './folder.ts';

const { createInstance, listAuditEntries, signInUser } = await openAssistant(SEVERAL_PEOPLE);
const app = await createInstance();
const olena = await signInUser(app, createPerson('u-1', { permissions: ['svc.profiles.use'] }));
const manager = await signInUser(
  app,
  createPerson('u-3', { permissions: ['svc.profiles.manage'] }),
);
const adminBrowser = await signInUser(app, createPerson('u-4', { isAdmin: true }));

const rules = { toolNames: PROFILE_TOOLS };
const MINIMAL = 'profile_id: a\nname: A\nsystem: Help.\n';
const MEMBER_NAMES = 'profile_id, name, description, system, model, tools, is_admin_only';
const ID_RULE = 'must be 1 to 64 lower-case letters, digits, _ and -, the first no _ or -';
const TOOLS_RULE = `tools must list each tool once, of: ${PROFILE_TOOLS.join(', ')}`;

function findFaults(text: string): string[] {
  const parsedProfile = parseProfile(text, rules);
  return 'violations' in parsedProfile
    ? parsedProfile.violations.map(({ line, rule }) => `${line}: ${rule}`)
    : [];
}

test('Omitted members get their defaults', () => {
  assert.deepEqual(parseProfile(`# A comment.\n${MINIMAL}`, rules), {
    profile: {
      profile_id: 'a',
      name: 'A',
      description: '',
      system: 'Help.',
      model: '',
      tools: [],
      is_admin_only: false,
    },
    idLine: 2,
  });
});

test('Each error is reported with its line and rule', () => {
  const cases: [text: string, ...faults: string[]][] = [
    ['', `1: must be a map with ${MEMBER_NAMES}`],
    ['- profile_id: a\n', `1: must be a map with ${MEMBER_NAMES}`],
    [
      'name: A\n',
      `1: profile_id is missing: it ${ID_RULE}`,
      '1: system is missing: it must be 1 to 32,000 characters',
    ],
    [`${MINIMAL}colour: red\n`, `4: colour is unknown: a profile has ${MEMBER_NAMES}`],
    [
      `${MINIMAL}__proto__: { is_admin_only: true }\n`,
      `4: __proto__ is unknown: a profile has ${MEMBER_NAMES}`,
    ],
    [MINIMAL.replace(': a', ': Ab c'), `1: profile_id ${ID_RULE}`],
    [MINIMAL.replace(': A', ': 7'), '2: name must be 1 to 100 characters'],
    [MINIMAL.replace('Help.', "''"), '3: system must be 1 to 32,000 characters'],
    [`${MINIMAL}is_admin_only: yes\n`, '4: is_admin_only must be true or false'],
    [`${MINIMAL}tools:\n  - get_listing\n  - get_password\n`, `6: ${TOOLS_RULE}`],
    [`${MINIMAL}tools: [get_listing, get_listing]\n`, `4: ${TOOLS_RULE}`],
    [`${MINIMAL}name: B\n`, '4: Map keys must be unique'],
    [`${MINIMAL}model: !!env KEY\n`, '4: Unresolved tag: tag:yaml.org,2002:env'],
  ];
  for (const [text, ...faults] of cases) assert.deepEqual(findFaults(text), faults);

  const levels = ['a0: &a0 [x, x, x, x, x, x, x, x, x]'];
  for (let level = 1; level < 12; level += 1) {
    const aliases = Array.from({ length: 9 }, () => `*a${level - 1}`).join(', ');
    levels.push(`a${level}: &a${level} [${aliases}]`);
  }
  assert.match(findFaults(levels.join('\n'))[0] ?? '', /Excessive alias count/);
});

async function readStartError(folder: string): Promise<string[]> {
  const error: unknown = await openTestProfiles(folder).catch((reason: unknown) => reason);
  assert.ok(error instanceof StartError, String(error));
  return error.message.replaceAll(folder, '').split('\n');
}

const listIds = (profiles: readonly { profile_id: string }[]) =>
  profiles.map(({ profile_id }) => profile_id);

test('The shipped profiles treat tool output as data, and one is admin-only', async () => {
  const profiles = (await openTestProfiles(SHIPPED_PROFILES)).listAll();
  assert.deepEqual(listIds(profiles), ['default', 'diagnostics', 'market']);
  assert.deepEqual(listIds(profiles.filter(({ is_admin_only }) => is_admin_only)), ['diagnostics']);
  for (const { system, description, tools } of profiles) {
    assert.match(system, /is data/);
    assert.ok(description.length > 20 && tools.length > 0);
  }
});

test('Startup fails with all errors of all files, or without a file', async () => {
  const folder = await createFolder({
    'a.yaml': profile('a').replace('name: a', 'name: 7'),
    'b.yaml': 'a: [\n',
    'c.yaml': profile('same'),
    'd.yaml': `# Another.\n${profile('same')}`,
    'large.yaml': `${profile('large')}# ${'x'.repeat(256 * 1024)}`,
    'latin.yaml': Buffer.from('profile_id: \xe4\n', 'latin1'),
    'README.md': 'Not a profile: [',
  });
  await mkdir(join(folder, 'folder.yaml'));
  const [title, ...faults] = await readStartError(folder);
  assert.equal(title, 'Agent profiles cannot be used:');
  const text = faults.join('\n');
  assert.match(text, /^ {2}\/a\.yaml:2 name must be 1 to 100 characters$/m);
  assert.match(text, /^ {2}\/b\.yaml:\d /m);
  assert.match(text, /^ {2}\/d\.yaml:2 profile_id must differ from the one in c\.yaml:1$/m);
  assert.match(text, /^ {2}\/folder\.yaml:1 cannot be read: EISDIR/m);
  assert.match(text, /^ {2}\/large\.yaml:1 must be at most 256 KiB$/m);
  assert.match(text, /^ {2}\/latin\.yaml:1 cannot be read: /m);
  const emptyFolder = await createFolder({});
  assert.match(
    (await readStartError(emptyFolder)).join(),
    /There is no agent profile in .*PROFILES_DIR/,
  );
  const missingFolderError = await readStartError(join(emptyFolder, 'none'));
  assert.match(missingFolderError.join(), /cannot be read .*ENOENT.*PROFILES_DIR must be a folder/);
});

/** Opens and reloads the profiles of a folder, and collects their log lines. */
async function openAndReload(files: string | Record<string, string>) {
  const folder = typeof files === 'string' ? files : await createFolder(files);
  const errors: string[][] = [];
  const infoEntries: unknown[] = [];
  const log = {
    error: (fields: { faults: string[] }) => errors.push(fields.faults),
    info: (...entry: unknown[]) => infoEntries.push(entry),
  };
  const profiles = await openTestProfiles(folder, { log });
  const reload = async () => {
    await profiles.reload();
    await profiles.reload();
  };
  await reload();
  return { ...profiles, reload, folder, errors, infoEntries };
}

const user = { role: 'user' as const };
const admin = { role: 'admin' as const };
const isProblem = (code: string) => (error: unknown) =>
  error instanceof ProblemError && error.code === code;

test('Users choose among the profiles that are not admin-only', async () => {
  const adminOnlyLine = 'is_admin_only: true\n';
  const profiles = await openAndReload({
    'a.yaml': profile('a'),
    'b.yml': profile('b', adminOnlyLine),
    'c.yaml': profile('default'),
  });
  assert.deepEqual(listIds(profiles.listUsable(user)), ['a', 'default']);
  assert.deepEqual(listIds(profiles.listUsable(admin)), ['a', 'b', 'default']);
  assert.equal(profiles.choose(user).profile_id, 'default');
  assert.equal(profiles.choose(admin, 'b').profile_id, 'b');
  assert.throws(() => profiles.choose(user, 'b'), isProblem('admin_only'));
  for (const id of ['', 'none', '__proto__', 'toString']) {
    assert.throws(() => profiles.choose(admin, id), isProblem('profile_not_found'));
  }
  const removedProfile = profiles.choose(admin, 'b');

  // The current file determines who may use a profile; after its removal, the last file does.
  await writeFile(join(profiles.folder, 'a.yaml'), profile('a', adminOnlyLine));
  await rm(join(profiles.folder, 'b.yml'));
  await rm(join(profiles.folder, 'c.yaml'));
  await profiles.reload();
  assert.throws(() => profiles.checkUse(user, removedProfile), isProblem('admin_only'));
  assert.equal(profiles.findDefault(user), undefined);
  assert.throws(() => profiles.choose(user), isProblem('profile_not_found'));
  assert.equal(profiles.choose(admin).profile_id, 'a');
});

test('Changed, added, renamed and removed files take effect', async () => {
  const profiles = await openAndReload({ 'a.yaml': profile('a'), 'b.yaml': profile('b') });
  const { folder, infoEntries, reload, listAll } = profiles;
  assert.equal(infoEntries.length, 0);
  const resolvePath = (name: string) => join(folder, name);
  await writeFile(resolvePath('.a.swp'), profile('a', 'description: Changed.\n'));
  await rename(resolvePath('.a.swp'), resolvePath('a.yaml'));
  await writeFile(resolvePath('c.yaml'), profile('c'));
  await rm(resolvePath('b.yaml'));
  await reload();
  assert.deepEqual(listIds(listAll()), ['a', 'c']);
  assert.equal(profiles.find('a')?.description, 'Changed.');
  assert.equal(infoEntries.length, 1);

  await rename(resolvePath('a.yaml'), resolvePath('d.yaml'));
  await reload();
  assert.deepEqual(listIds(listAll()).toSorted(), ['a', 'c']);
  await writeFile(resolvePath('c.yaml'), profile('a'));
  await writeFile(resolvePath('d.yaml'), profile('c'));
  await reload();
  assert.deepEqual(
    [listIds(listAll()), profiles.errors],
    [['a', 'c'], []],
    'files may exchange their IDs',
  );
});

test('An invalid file keeps its last valid profile, and its error is logged once', async () => {
  const profiles = await openAndReload({ 'a.yaml': profile('a'), 'b.yaml': profile('b') });
  const { folder, reload, errors, infoEntries } = profiles;
  await writeFile(join(folder, 'a.yaml'), profile('a').replace('name: a', 'name: 7'));
  await writeFile(join(folder, 'b.yaml'), profile('b', 'description: Changed.\n'));
  await writeFile(join(folder, 'new.yaml'), 'a: [\n');
  await reload();
  await reload();
  assert.deepEqual(listIds(profiles.listAll()), ['a', 'b']);
  assert.equal(profiles.find('a')?.name, 'a');
  assert.equal(profiles.find('b')?.description, 'Changed.');
  assert.equal(profiles.findViolation('a'), 'a.yaml:2 name must be 1 to 100 characters');
  assert.equal(profiles.findViolation('b'), undefined);
  assert.equal(errors.length, 1);
  assert.match(errors[0]?.join('\n') ?? '', /^a\.yaml:2 .*\nnew\.yaml:\d /);

  await writeFile(join(folder, 'a.yaml'), profile('a'));
  await rm(join(folder, 'new.yaml'));
  const earlierCount = infoEntries.length;
  await reload();
  assert.equal(profiles.findViolation('a'), undefined);
  assert.ok(infoEntries.length > earlierCount);
});

test('A file that changes to the ID of another file keeps its earlier profile', async () => {
  const profiles = await openAndReload({ 'b.yaml': profile('b'), 'c.yaml': profile('c') });
  const { folder, reload, errors } = profiles;
  await writeFile(join(folder, 'a.yaml'), profile('b', 'description: Impostor.\n'));
  await writeFile(join(folder, 'c.yaml'), profile('b'));
  await reload();
  assert.deepEqual(listIds(profiles.listAll()), ['b', 'c']);
  assert.equal(profiles.find('b')?.description, '');
  const rule = 'profile_id must differ from the one in b.yaml:1';
  assert.deepEqual(errors, [[`a.yaml:1 ${rule}`, `c.yaml:1 ${rule}`]]);
  assert.match(profiles.findViolation('c') ?? '', /^c\.yaml:1 /);
});

test('A Kubernetes config map is followed through its link', async () => {
  const folder = await createFolder({});
  const createVersion = async (name: string, files: Record<string, string>) => {
    await mkdir(join(folder, name));
    for (const [file, text] of Object.entries(files))
      await writeFile(join(folder, name, file), text);
    await symlink(name, join(folder, '..data_tmp'));
    await rename(join(folder, '..data_tmp'), join(folder, '..data'));
  };
  await createVersion('..2026_01', { 'a.yaml': profile('a'), 'b.yaml': profile('b') });
  for (const file of ['a.yaml', 'b.yaml']) {
    await symlink(join('..data', file), join(folder, file));
  }
  const profiles = await openAndReload(folder);
  await createVersion('..2026_02', { 'a.yaml': profile('a', 'description: Second.\n') });
  await profiles.reload();
  assert.equal(profiles.find('a')?.description, 'Second.');
  assert.match(profiles.errors[0]?.[0] ?? '', /^b\.yaml:1 cannot be read: ENOENT/);
  await rm(join(folder, 'b.yaml'));
  await profiles.reload();
  assert.deepEqual(listIds(profiles.listAll()), ['a']);
});

test('Users see the available profiles, managers see all', async () => {
  assert.deepEqual(listIds((await olena.get('/profiles')).json()), ['default', 'market']);
  const allIds = ['default', 'diagnostics', 'market'];
  assert.deepEqual(listIds((await adminBrowser.get('/profiles')).json()), allIds);
  for (const browser of [manager, adminBrowser]) {
    assert.deepEqual(listIds((await browser.get('/admin/profiles')).json()), allIds);
  }
  const [defaultProfile] = (await olena.get('/profiles')).json();
  assert.deepEqual(defaultProfile, {
    profile_id: 'default',
    name: 'Search assistant',
    description: 'Finds flats and houses to rent or buy, and remembers what matters to you.',
    model: '',
    tools: ['search_listings', 'similar_listings', 'get_listing', 'remember_fact', 'forget_fact'],
    is_admin_only: false,
  });
});

test('Lists have pages', async () => {
  for (const [browser, path, expected] of [
    [olena, '/profiles', ['default', 'market']],
    [manager, '/admin/profiles', ['default', 'diagnostics', 'market']],
  ] as const) {
    const responses = await pages(browser, `${path}?limit=1`);
    assert.deepEqual(
      responses.flatMap((page) => listIds(page.json())),
      expected,
    );
    assert.equal(responses.length, expected.length);
    for (const query of ['limit=0', 'limit=501', 'cursor=x', 'cursor=LTE']) {
      assert.equal((await browser.get(`${path}?${query}`)).statusCode, 422, query);
    }
  }
});

test('A changed file takes effect without a restart, and managers see its errors', async () => {
  const folder = await createFolder({ 'a.yaml': profile('a'), 'b.yaml': profile('b') });
  const reloadingApp = await createInstance({ PROFILES_DIR: folder });
  await listen(reloadingApp);
  const readProfiles = async (browser: typeof olena, path: string) =>
    (await browser.get(path, { app: reloadingApp })).json();
  const readIds = async () => listIds(await readProfiles(olena, '/profiles'));
  assert.deepEqual(await readIds(), ['a', 'b']);
  const findFirstFault = async () => (await readProfiles(manager, '/admin/profiles'))[0].fault;
  await writeFile(join(folder, 'a.yaml'), profile('a', 'tools: [none]\n'));
  await until(async () => (await findFirstFault()) !== undefined);
  await writeFile(join(folder, 'b.yaml'), profile('b', 'is_admin_only: true\n'));
  await until(async () => (await readIds()).length === 1);
  assert.deepEqual(await readIds(), ['a']);
  const [invalid, valid] = await readProfiles(manager, '/admin/profiles');
  assert.match(invalid.fault, /^a\.yaml:4 tools must list each tool once/);
  assert.deepEqual([invalid.tools, valid.is_admin_only, valid.fault], [[], true, undefined]);
  assert.equal((await readProfiles(olena, '/profiles'))[0].fault, undefined);
});

const AVAILABILITY_PATH = '/admin/profiles/default/availability';

test('A request to change the availability changes nothing and is recorded', async () => {
  const payload = { is_admin_only: true };
  const response = await manager.request('PATCH', AVAILABILITY_PATH, { payload });
  assert.equal(response.statusCode, 200);
  const { ok, note } = response.json();
  assert.equal(ok, true);
  assert.match(note, /availability is managed via profile config files/);
  assert.deepEqual(listIds((await olena.get('/profiles')).json()), ['default', 'market']);
  assert.deepEqual(await listAuditEntries('profile_availability_asked'), [
    { actor_id: 'u-3', user_id: null, details: { profile_id: 'default', is_admin_only: true } },
  ]);
  const rejection = await manager.request('PATCH', AVAILABILITY_PATH.replace('default', 'none'), {
    payload,
  });
  assert.deepEqual([rejection.statusCode, rejection.json().code], [404, 'profile_not_found']);
  for (const invalidPayload of [{}, { is_admin_only: 'true' }, { ...payload, x: 1 }]) {
    const options = { payload: invalidPayload };
    assert.equal((await manager.request('PATCH', AVAILABILITY_PATH, options)).statusCode, 422);
  }
});
