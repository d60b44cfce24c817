import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProblemError } from '@oselya/kit';
import type { Profile } from '../../src/profiles/profile.ts';
import { createProfiles as create } from '../../src/profiles/profiles.ts';
import { readAs } from './folder.ts';

const profile = (profile_id: string, is_admin_only = false) => ({
  profile_id,
  name: profile_id,
  description: '',
  system: 'Help.',
  model: '',
  tools: [],
  is_admin_only,
});
const createProfiles = (profiles: readonly Profile[]) => create(readAs(profiles));
const user = { role: 'user' as const };
const admin = { role: 'admin' as const };
const ids = (profiles: readonly { profile_id: string }[]) => profiles.map((one) => one.profile_id);
const isProblem = (code: string) => (error: unknown) =>
  error instanceof ProblemError && error.code === code;

test('what is for admins only is hidden from others', () => {
  const { usable, all } = createProfiles([profile('a'), profile('b', true), profile('c')]);
  assert.deepEqual(ids(usable(user)), ['a', 'c']);
  assert.deepEqual(ids(usable(admin)), ['a', 'b', 'c']);
  assert.deepEqual(ids(all()), ['a', 'b', 'c']);
});

test('the one that is asked for is chosen', () => {
  const profiles = createProfiles([profile('default'), profile('b', true)]);
  assert.equal(profiles.choose(user, 'default').profile_id, 'default');
  assert.equal(profiles.choose(admin, 'b').profile_id, 'b');
  assert.throws(() => profiles.choose(user, 'b'), isProblem('admin_only'));
  for (const id of ['', 'none', '__proto__', 'toString']) {
    assert.throws(() => profiles.choose(admin, id), isProblem('profile_not_found'));
  }
});

test('who may use a profile is decided by its file as it is now, and one that is gone by how it was', () => {
  const [a, b] = [profile('a'), profile('b', true)];
  const profiles = createProfiles([a, b]);
  profiles.checkUse(user, a);
  assert.throws(() => profiles.checkUse(user, b), isProblem('admin_only'));
  profiles.replace(readAs([profile('a', true), profile('b')]));
  assert.throws(() => profiles.checkUse(user, a), isProblem('admin_only'));
  profiles.checkUse(admin, a);
  profiles.checkUse(user, b);
  profiles.replace(readAs([profile('c')]));
  profiles.checkUse(user, a);
  assert.throws(() => profiles.checkUse(user, b), isProblem('admin_only'));
});

test('where none is asked for it is the default, else the first that may be used', () => {
  assert.equal(
    createProfiles([profile('a'), profile('default')]).choose(user).profile_id,
    'default',
  );
  const restricted = createProfiles([profile('default', true), profile('a', true), profile('b')]);
  assert.equal(restricted.choose(user).profile_id, 'b');
  assert.equal(restricted.choose(admin).profile_id, 'default');
});

test('where all are for admins nobody else has one', () => {
  const profiles = createProfiles([profile('default', true)]);
  assert.throws(() => profiles.choose(user), isProblem('profile_not_found'));
});
