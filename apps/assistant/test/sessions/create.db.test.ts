import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProblemError } from '@oselya/kit';
import { createSessions } from '../../src/conversations/sessions.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { folderOf, openFolder, profile } from '../profiles/folder.ts';
import { addSessions } from './rows.ts';

const { db } = await openAssistant();
const folder = await folderOf({
  'a.yaml': profile('a'),
  'default.yaml': profile('default'),
  'secret.yaml': profile('secret', 'is_admin_only: true\n'),
});
const profiles = await openFolder(folder);
const sessions = createSessions({ db, profiles });

const user = {
  id: 'u-1',
  email: 'u-1@example.test',
  display_name: null,
  role: 'user' as const,
  permissions: ['svc.profiles.use'],
};
const admin = { ...user, id: 'u-2', role: 'admin' as const, permissions: [] };
const ids = () => db.selectFrom('conversation_sessions').select('id').execute();
const isProblem = (code: string) => (error: unknown) =>
  error instanceof ProblemError && error.code === code;

test('a new session belongs to who made it, is empty, and active as of now', async () => {
  const before = Date.now();
  const session = await sessions.createSession(user, { profileId: 'a', name: 'Львів' });
  const { session_id, created_at, last_active, ...rest } = session;
  assert.deepEqual(rest, {
    profile_id: 'a',
    user_id: 'u-1',
    name: 'Львів',
    message_count: 0,
    pinned: false,
  });
  assert.match(session_id, /^[0-9a-f-]{36}$/);
  assert.deepEqual(created_at, last_active);
  assert.ok(Math.abs(created_at.getTime() - before) < 60_000);
});

test('without a profile it has the default one, without a name none', async () => {
  const session = await sessions.createSession(user, {});
  assert.deepEqual([session.profile_id, session.name], ['default', '']);
});

test('a profile that does not exist or is for admins only makes no session', async () => {
  const { length } = await ids();
  await assert.rejects(
    sessions.createSession(user, { profileId: 'none' }),
    isProblem('profile_not_found'),
  );
  await assert.rejects(
    sessions.createSession(user, { profileId: 'secret' }),
    isProblem('admin_only'),
  );
  assert.equal((await ids()).length, length);
  assert.equal((await sessions.createSession(admin, { profileId: 'secret' })).profile_id, 'secret');
});

test('it takes the permission to use profiles, which an admin has', async () => {
  const without = { ...user, permissions: ['svc.tools.use'] };
  await assert.rejects(sessions.createSession(without, {}), isProblem('permission_missing'));
  assert.equal((await sessions.createSession(admin, {})).user_id, 'u-2');
});

test('a user owns so many sessions and no more, until one is deleted', async () => {
  const bounded = createSessions({
    db,
    profiles,
    maxSessions: 3,
  });
  const owner = { ...user, id: 'u-bounded' };
  // Of these, one is another's, and one nobody's.
  await addSessions(db, { id: 'x', user_id: 'u-other' }, { id: 'y' });
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, () =>
      bounded.createSession(owner, {}).then(({ session_id }) => session_id, String),
    ),
  );
  const refused = outcomes.filter((outcome) => outcome.includes('too_many_sessions'));
  assert.equal(refused.length, 17);
  assert.match(String(refused[0]), /You have 3 sessions, which is the limit/);
  await assert.rejects(bounded.createSession(owner, {}), isProblem('too_many_sessions'));
  assert.equal((await bounded.createSession(user, {})).user_id, 'u-1');

  const made = outcomes.find((outcome) => !refused.includes(outcome)) ?? '';
  await bounded.deleteSession(owner, made);
  assert.equal((await bounded.createSession(owner, {})).user_id, 'u-bounded');
  await assert.rejects(bounded.createSession(owner, {}), isProblem('too_many_sessions'));
});
