import assert from 'node:assert/strict';
import { test } from 'node:test';
import { permissions, type Permission } from '../../src/access/permissions.ts';
import { reachOf } from '../../src/access/reach.ts';

const everyPermission = Object.keys(permissions);
const user = (held: string[]) => ({ id: 'u-1', role: 'user' as const, permissions: held });
const admin = { id: 'u-1', role: 'admin' as const, permissions: [] };

test('an admin reaches everything, with or without a permission', () => {
  assert.equal(reachOf(admin), 'everything');
  assert.equal(reachOf(admin, 'svc.files.read_all'), 'everything');
});

test('the permission that is asked for reaches every user, and no other does', () => {
  const asked: Permission = 'svc.sessions.read_all';
  assert.equal(reachOf(user([asked]), asked), 'every-user');
  const others = everyPermission.filter((slug) => slug !== asked);
  assert.deepEqual(reachOf(user(others), asked), { userId: 'u-1' });
});

test('where no permission is named none reaches beyond what is one’s own', () => {
  assert.deepEqual(reachOf(user(everyPermission)), { userId: 'u-1' });
});
