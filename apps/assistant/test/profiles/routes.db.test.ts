import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '@oselya/testing';
import { openAssistant } from '../helpers/assistant.ts';
import { pages, person, SEVERAL_PEOPLE } from '../helpers/people.ts';
import { listening } from '../conversations/stage.ts';
import { folderOf, profile } from './folder.ts';

const { db, instance, signedIn } = await openAssistant(SEVERAL_PEOPLE);
const app = await instance();
const user = await signedIn(app, person('u-1', { permissions: ['svc.profiles.use'] }));
const stranger = await signedIn(app, person('u-2'));
const manager = await signedIn(app, person('u-3', { permissions: ['svc.profiles.manage'] }));
const admin = await signedIn(app, person('u-4', { isAdmin: true }));

const ids = (answer: { json(): { profile_id: string }[] }) =>
  answer.json().map(({ profile_id }) => profile_id);

test('Users see the available profiles, managers see all', async () => {
  assert.deepEqual(ids(await user.get('/profiles')), ['default', 'market']);
  const all = ['default', 'diagnostics', 'market'];
  assert.deepEqual(ids(await admin.get('/profiles')), all);
  for (const browser of [manager, admin]) {
    assert.deepEqual(ids(await browser.get('/admin/profiles')), all);
  }
  for (const [browser, path] of [
    [stranger, '/profiles'],
    [manager, '/profiles'],
    [user, '/admin/profiles'],
    [stranger, '/admin/profiles'],
  ] as const) {
    const answer = await browser.get(path);
    assert.deepEqual([answer.statusCode, answer.json().code], [403, 'permission_missing']);
  }
  const [first] = (await user.get('/profiles')).json();
  assert.deepEqual(first, {
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
    [user, '/profiles', ['default', 'market']],
    [manager, '/admin/profiles', ['default', 'diagnostics', 'market']],
  ] as const) {
    const answers = await pages(browser, `${path}?limit=1`);
    assert.deepEqual(answers.flatMap(ids), expected);
    assert.equal(answers.length, expected.length);
    for (const query of ['limit=0', 'limit=501', 'cursor=x', 'cursor=LTE']) {
      assert.equal((await browser.get(`${path}?${query}`)).statusCode, 422, query);
    }
  }
});

test('A changed file takes effect at once, and managers see its errors', async () => {
  const folder = await folderOf({ 'a.yaml': profile('a'), 'b.yaml': profile('b') });
  const reloading = await instance({ PROFILES_DIR: folder });
  await listening(reloading);
  const seen = async (browser: typeof user, path: string) =>
    (await browser.get(path, { app: reloading })).json();
  const idsNow = async () =>
    (await seen(user, '/profiles')).map((one: { profile_id: string }) => one.profile_id);
  assert.deepEqual(await idsNow(), ['a', 'b']);
  const faultOfA = async () => (await seen(manager, '/admin/profiles'))[0].fault;
  await writeFile(join(folder, 'a.yaml'), profile('a', 'tools: [none]\n'));
  await until(async () => (await faultOfA()) !== undefined);
  await writeFile(join(folder, 'b.yaml'), profile('b', 'is_admin_only: true\n'));
  await until(async () => (await idsNow()).length === 1);
  assert.deepEqual(await idsNow(), ['a']);
  const [a, b] = await seen(manager, '/admin/profiles');
  assert.match(a.fault, /^a\.yaml:4 tools must list each tool once/);
  assert.deepEqual([a.tools, b.is_admin_only, b.fault], [[], true, undefined]);
  assert.equal((await seen(user, '/profiles'))[0].fault, undefined);
});

const PATH = '/admin/profiles/default/availability';

test('A request to change the availability changes nothing and is recorded', async () => {
  const payload = { is_admin_only: true };
  const answer = await manager.request('PATCH', PATH, { payload });
  assert.equal(answer.statusCode, 200);
  const { ok, note } = answer.json();
  assert.equal(ok, true);
  assert.match(note, /availability is managed via profile config files/);
  assert.deepEqual(ids(await user.get('/profiles')), ['default', 'market']);
  const lines = await db
    .selectFrom('audit_log')
    .select(['actor_id', 'user_id', 'details'])
    .where('action', '=', 'profile_availability_asked')
    .execute();
  assert.deepEqual(lines, [
    { actor_id: 'u-3', user_id: null, details: { profile_id: 'default', is_admin_only: true } },
  ]);
  for (const browser of [user, stranger]) {
    assert.equal((await browser.request('PATCH', PATH, { payload })).statusCode, 403);
  }
  const unknown = await manager.request('PATCH', PATH.replace('default', 'none'), { payload });
  assert.deepEqual([unknown.statusCode, unknown.json().code], [404, 'profile_not_found']);
  for (const bad of [{}, { is_admin_only: 'true' }, { ...payload, x: 1 }]) {
    assert.equal((await manager.request('PATCH', PATH, { payload: bad })).statusCode, 422);
  }
});
