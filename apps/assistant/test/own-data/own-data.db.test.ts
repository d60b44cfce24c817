import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { User } from '../../src/access/user.ts';
import { createMemory } from '../../src/memory/index.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { person, SEVERAL_PEOPLE } from '../helpers/people.ts';

const assistant = await openAssistant(SEVERAL_PEOPLE);
const { db } = assistant;
const app = await assistant.instance();
const olena = await assistant.signedIn(app, person('u-olena'));
const taras = await assistant.signedIn(app, person('u-taras'));

/** Gives somebody so many sessions with one of everything. */
async function fill(userId: string, mark: string, sessions: number): Promise<void> {
  for (let index = 0; index < sessions; index += 1) {
    const session_id = `${userId}-${index}`;
    await db
      .insertInto('conversation_sessions')
      .values({ id: session_id, user_id: userId, profile_id: 'default', name: mark })
      .execute();
    await db
      .insertInto('conversation_messages')
      .values({ session_id, role: 'user', content: `${mark} ${index}` })
      .execute();
    await db
      .insertInto('agent_steps')
      .values({ session_id, turn_id: 't', kind: 'tool', title: mark, status: 'done' })
      .execute();
  }
  const content = Buffer.from(`${mark} file`);
  await db
    .insertInto('session_files')
    .values({
      session_id: `${userId}-0`,
      name: 'notes.txt',
      size_bytes: content.length,
      sha256: '0'.repeat(64),
      content,
      media_type: null,
    })
    .execute();
  await db
    .insertInto('memory_facts')
    .values({ user_id: userId, category: 'wishes', key: 'city', value: mark })
    .execute();
  await db.insertInto('memory_summaries').values({ user_id: userId, summary: mark }).execute();
}

test('an export has everything of the user, over pages, and nothing of anybody else', async () => {
  // More than one page of sessions.
  await fill('u-olena', 'olena-said', 201);
  await fill('u-taras', 'taras-said', 2);
  const answer = await olena.get('/me/export');
  assert.equal(answer.statusCode, 200);
  assert.match(String(answer.headers['content-disposition']), /^attachment; filename="oselya-/);
  assert.ok(!answer.body.includes('taras-said'));
  assert.ok(!answer.body.includes(olena.sid));
  const document = answer.json();
  assert.equal(document.user.id, 'u-olena');
  assert.equal(document.sign_ins.length, 1);
  assert.equal(document.memory.facts[0].value, 'olena-said');
  assert.equal(document.memory.summary.summary, 'olena-said');
  assert.equal(document.sessions.length, 201);
  const names = new Set(
    document.sessions.map((session: { session_id: string }) => session.session_id),
  );
  assert.equal(names.size, 201);
  for (const session of document.sessions) {
    assert.equal(session.messages.length, 1);
    assert.equal(session.steps.length, 1);
  }
  const files = document.sessions.flatMap((session: { files: object[] }) => session.files);
  assert.equal(files.length, 1);
  assert.equal(Buffer.from(files[0].content_base64, 'base64').toString(), 'olena-said file');
  assert.deepEqual(
    document.audit.map(({ action }: { action: string }) => action),
    ['own_data_exported', 'signed_in'],
  );
});

test('deleting leaves nothing of the user, all of the others, and the sign-in', async () => {
  const answer = await olena.request('DELETE', '/me/data');
  assert.deepEqual(answer.json(), {
    ok: true,
    deleted: { sessions: 201, saved_searches: 0, facts: 1, summaries: 1 },
  });
  const left = (await olena.get('/me/export')).json();
  assert.deepEqual([left.sessions, left.memory.facts], [[], []]);
  assert.equal((await olena.get('/auth/me')).statusCode, 200);
  for (const table of ['conversation_messages', 'agent_steps', 'session_files'] as const) {
    const rows = await db.selectFrom(table).select('session_id').execute();
    assert.ok(rows.length > 0);
    assert.ok(rows.every(({ session_id: id }) => id.startsWith('u-taras')));
  }
  // An answer that was being written meanwhile remembers nothing any more.
  const late = {
    category: 'wishes',
    key: 'city',
    value: 'olena-said',
    sourceSessionId: 'u-olena-0',
  };
  const user: User = {
    id: 'u-olena',
    email: 'olena@example.test',
    display_name: null,
    role: 'user',
    permissions: [],
  };
  await assert.rejects(createMemory({ db }).putFact(user, late), { code: 'session_not_found' });
  assert.deepEqual((await olena.get('/me/export')).json().memory.facts, []);
  const other = (await taras.get('/me/export')).json();
  assert.equal(other.sessions.length, 2);
  assert.equal(other.memory.summary.summary, 'taras-said');
});
