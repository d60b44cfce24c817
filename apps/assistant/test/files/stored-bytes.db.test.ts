import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { ProblemError } from '@oselya/kit';
import { sql } from 'kysely';
import type { Role, User } from '../../src/access/permissions.ts';
import { createFiles } from '../../src/files/service.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { person, SEVERAL_PEOPLE } from '../helpers/people.ts';
import { addSessions } from '../sessions/rows.ts';
import { upload } from './upload.ts';

const { db, instance, signedIn } = await openAssistant(SEVERAL_PEOPLE);
const files = createFiles({ db, maxOwnerBytes: 100 });
const account = (id: string, role: Role = 'user'): User => {
  return { id, email: `${id}@example.test`, display_name: null, role, permissions: [] };
};
const owner = account('u-1');
const other = account('u-2');
const admin = account('u-3', 'admin');

beforeEach(async () => {
  await db.deleteFrom('conversation_sessions').execute();
  await addSessions(
    db,
    { id: 'a', user_id: 'u-1' },
    { id: 'b', user_id: 'u-1' },
    { id: 'c', user_id: 'u-2' },
    { id: 'legacy' },
  );
});

/** Stores a file of so many bytes; the code of the refusal, where there is one. */
async function put(user: User, sessionId: string, name: string, bytes: number): Promise<string> {
  try {
    await files.writeFile(user, { sessionId, name, content: Buffer.alloc(bytes) });
    return 'ok';
  } catch (error) {
    if (error instanceof ProblemError) return `${error.status} ${error.code}`;
    throw error;
  }
}

const FULL = '409 too_much_stored';

const stored = async (userId: string) =>
  (
    await sql<{ bytes: number }>`
      select coalesce(sum(size_bytes), 0)::int as bytes from session_files
      join conversation_sessions s on s.id = session_id where s.user_id = ${userId}`.execute(db)
  ).rows[0]?.bytes;

test('the files of all sessions of an owner are so many bytes together, to the byte', async () => {
  assert.equal(await put(owner, 'a', 'one', 60), 'ok');
  assert.equal(await put(owner, 'b', 'two', 41), FULL);
  assert.equal(await put(owner, 'b', 'two', 40), 'ok');
  assert.equal(await put(owner, 'b', 'three', 1), FULL);
  assert.equal(await put(owner, 'b', 'empty', 0), 'ok');
  assert.equal(await stored('u-1'), 100);
});

test('a file counts once when it is replaced, and no more when it is deleted', async () => {
  await put(owner, 'a', 'one', 90);
  assert.equal(await put(owner, 'a', 'one', 100), 'ok');
  assert.equal(await put(owner, 'a', 'one', 101), FULL);
  assert.equal(await put(owner, 'b', 'one', 1), FULL, 'one of that name elsewhere is another');
  await files.deleteFile(owner, { sessionId: 'a', name: 'one' });
  assert.equal(await put(owner, 'b', 'one', 100), 'ok');
});

test('what an admin stores counts for the owner of the session, and for nobody where it has none', async () => {
  assert.equal(await put(admin, 'a', 'one', 90), 'ok');
  assert.equal(await put(owner, 'b', 'two', 20), FULL);
  assert.equal(await put(other, 'c', 'two', 100), 'ok');
  assert.equal(await put(admin, 'legacy', 'one', 90), 'ok');
  assert.equal(await put(admin, 'legacy', 'two', 90), 'ok');
});

test('of twenty files at once as many are stored as there is room for', async () => {
  // Files of one session wait for one another in any case.
  const ids = Array.from({ length: 20 }, (_, index) => `s-${index}`);
  await addSessions(db, ...ids.map((id) => ({ id, user_id: 'u-1' })));
  const outcomes = await Promise.all(ids.map((id) => put(owner, id, 'x', 30)));
  assert.equal(outcomes.filter((outcome) => outcome === 'ok').length, 3);
  assert.equal(outcomes.filter((outcome) => outcome === FULL).length, 17);
  assert.equal(await stored('u-1'), 90);
});

test('users do not stand in one another’s way', async () => {
  const users = Array.from({ length: 10 }, (_, index) => account(`many-${index}`));
  await addSessions(db, ...users.map(({ id }) => ({ id, user_id: id })));
  const outcomes = await Promise.all(users.map((user) => put(user, user.id, 'x', 100)));
  assert.ok(outcomes.every((outcome) => outcome === 'ok'));
});

test('over HTTP the bound is one gibibyte', async () => {
  const app = await instance();
  const browser = await signedIn(app, person('u-1'));
  const size_bytes = 1024 ** 3 - 5;
  await db
    .insertInto('session_files')
    .values({ session_id: 'b', name: 'big', size_bytes, sha256: '', content: Buffer.of(1) })
    .execute();
  const send = (text: string) =>
    upload(app, browser, '/sessions/a/files/x', { content: Buffer.from(text) });
  const refused = await send('123456');
  assert.deepEqual([refused.statusCode, refused.json().code], [409, 'too_much_stored']);
  assert.match(refused.json().detail, /1073741824 bytes/);
  assert.equal((await send('12345')).statusCode, 201);
});
