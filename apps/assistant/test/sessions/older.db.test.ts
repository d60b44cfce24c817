import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { openAssistant } from '../helpers/assistant.ts';
import { person, SEVERAL_PEOPLE } from '../helpers/people.ts';

const { db, instance, signedIn } = await openAssistant(SEVERAL_PEOPLE);
const app = await instance();
const admin = await signedIn(app, person('u-admin', { isAdmin: true }));

/** As an older system may have made its tables: without a reference, or with one that forbids. */
before(async () => {
  for (const table of ['conversation_messages', 'agent_steps', 'session_files']) {
    await sql`
      alter table ${sql.table(table)}
      drop constraint ${sql.ref(`${table}_session_id_fkey`)}`.execute(db);
  }
  await sql`
    alter table conversation_messages
    add foreign key (session_id) references conversation_sessions (id)`.execute(db);
  await sql`
    insert into conversation_sessions (id) values ('old'), ('kept')`.execute(db);
  await sql`
    insert into conversation_messages (session_id, role, content)
    values ('old', 'user', 'one'), ('kept', 'user', 'two'), ('kept', 'assistant', null)`.execute(
    db,
  );
  await sql`
    insert into agent_steps (session_id, turn_id, kind, title, status)
    values ('old', 't', 'tool', 'x', 'done')`.execute(db);
  await sql`
    insert into session_files (session_id, name, size_bytes, sha256, content)
    values ('old', 'a', 1, '', 'a')`.execute(db);
});

test('rows that an older system inserts have no owner, and what they need', async () => {
  const { user_id, profile_id, name, pinned, messages } = (await admin.get('/sessions/old')).json();
  assert.deepEqual([user_id, profile_id, name, pinned], [null, '', '', false]);
  assert.deepEqual([messages.length, messages[0].content], [1, 'one']);
});

const contents = (messages: { content: string }[]) => messages.map(({ content }) => content);

test('a message without a text has an empty one, wherever it is read', async () => {
  for (const path of ['/sessions/kept', '/sessions/kept/context']) {
    assert.deepEqual(contents((await admin.get(path)).json().messages), ['two', ''], path);
  }
});

test('a session is deleted with all that is in it, whatever the tables say of that', async () => {
  assert.equal((await admin.request('DELETE', '/sessions/old')).statusCode, 200);
  const left = await db.selectFrom('conversation_messages').select('session_id').execute();
  assert.deepEqual(left, [{ session_id: 'kept' }, { session_id: 'kept' }]);
  for (const table of ['agent_steps', 'session_files'] as const) {
    assert.deepEqual(await db.selectFrom(table).select('session_id').execute(), []);
  }
});
