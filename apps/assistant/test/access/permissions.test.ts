import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleAccounts } from '@oselya/dev-idp';
import { hasPermission, type Permission, permissions } from '../../src/access/permissions.ts';

const slugs = Object.keys(permissions) as Permission[];
const defaultsOf = (role: 'user' | 'admin') =>
  slugs.filter((slug) => permissions[slug].defaults.some((one) => one === role)).toSorted();

test('the table is that of the specification', () => {
  assert.equal(slugs.length, 13);
  assert.deepEqual(defaultsOf('admin'), slugs.toSorted());
  assert.deepEqual(defaultsOf('user'), [
    'svc.files.read_own',
    'svc.memory.read_own',
    'svc.profiles.use',
    'svc.sessions.delete_own',
    'svc.sessions.read_own',
    'svc.tools.use',
  ]);
});

test('the sample accounts of the development provider have the defaults', () => {
  for (const { role_ids, permission_ids } of sampleAccounts) {
    const role = role_ids.includes('svc_admin') ? 'admin' : 'user';
    assert.deepEqual(permission_ids.toSorted(), defaultsOf(role));
  }
});

test('an admin has every permission, a user those listed, taken literally', () => {
  for (const slug of slugs) {
    assert.ok(hasPermission({ role: 'admin', permissions: [] }, slug));
    assert.ok(hasPermission({ role: 'user', permissions: [slug] }, slug));
    assert.ok(!hasPermission({ role: 'user', permissions: [] }, slug));
    assert.ok(!hasPermission({ role: 'user', permissions: [slug.toUpperCase(), 'svc.*'] }, slug));
  }
});
