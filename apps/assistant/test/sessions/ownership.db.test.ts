import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { openAssistant } from '../helpers/assistant.ts';
import { SEVERAL_PEOPLE, signInEverybody } from '../helpers/people.ts';
import { addMessages, addSessions, takeAudit } from './rows.ts';

const assistant = await openAssistant(SEVERAL_PEOPLE);
const { db, instance } = assistant;
const app = await instance();
const people = await signInEverybody(assistant, app, [
  'svc.sessions.read_all',
  'svc.sessions.delete_all',
]);
const { owner, stranger, holder, admin } = people;

type Who = keyof typeof people;
const everybody = Object.entries(people) as [Who, (typeof people)[Who]][];

beforeEach(async () => {
  await db.deleteFrom('conversation_sessions').execute();
  await addSessions(
    db,
    { id: 'own', user_id: 'u-owner', last_active: '2026-01-02' },
    { id: 'legacy', last_active: '2026-01-01' },
  );
  await takeAudit(db);
});

const others = (action: string, details: object, userId: string | null = 'u-owner') => ({
  action,
  actor_id: 'u-admin',
  user_id: userId,
  details,
});

test('a session of another is 403, one that does not exist is 404', async () => {
  const body = { payload: { name: 'x' } };
  for (const method of ['GET', 'PATCH', 'DELETE'] as const) {
    const options = method === 'PATCH' ? body : {};
    const other = await stranger.request(method, '/sessions/own', options);
    assert.deepEqual([other.statusCode, other.json().code], [403, 'session_not_yours']);
    for (const browser of [stranger, admin]) {
      const none = await browser.request(method, '/sessions/none', options);
      assert.deepEqual([none.statusCode, none.json().code], [404, 'session_not_found']);
    }
  }
  assert.deepEqual(await takeAudit(db), [], 'a refusal shows nothing');
});

const expected: Record<Who, Record<string, number>> = {
  owner: { 'GET own': 200, 'PATCH own': 200, 'DELETE own': 200, 'GET legacy': 403 },
  stranger: { 'GET own': 403, 'PATCH own': 403, 'DELETE own': 403, 'GET legacy': 403 },
  holder: { 'GET own': 200, 'PATCH own': 403, 'DELETE own': 200, 'GET legacy': 403 },
  admin: { 'GET own': 200, 'PATCH own': 200, 'DELETE own': 200, 'GET legacy': 200 },
};

for (const [who, browser] of everybody) {
  for (const [what, status] of Object.entries(expected[who])) {
    test(`${who}: ${what} is ${status}`, async () => {
      const [method, id] = what.split(' ') as ['GET' | 'PATCH' | 'DELETE', string];
      const answer = await browser.request(method, `/sessions/${id}`, {
        ...(method === 'PATCH' && { payload: { name: 'x' } }),
      });
      assert.equal(answer.statusCode, status);
    });
  }
}

test('a session without an owner is for admins only, whatever permissions somebody has', async () => {
  for (const browser of [owner, stranger, holder]) {
    for (const method of ['PATCH', 'DELETE'] as const) {
      const options = method === 'PATCH' ? { payload: { name: 'x' } } : {};
      const answer = await browser.request(method, '/sessions/legacy', options);
      assert.equal(answer.statusCode, 403);
    }
  }
  assert.equal((await admin.request('DELETE', '/sessions/legacy')).statusCode, 200);
});

test('what an admin reads or changes of others is recorded, and what is their own is not', async () => {
  await addSessions(db, { id: 'mine', user_id: 'u-admin' });
  await admin.get('/sessions/mine');
  await admin.request('PATCH', '/sessions/mine', { payload: { pinned: true } });
  await owner.get('/sessions/own');
  await owner.get('/sessions');
  assert.deepEqual(await takeAudit(db), []);

  await admin.get('/sessions');
  await admin.get('/sessions?user_id=u-owner');
  await admin.get('/sessions?user_id=u-admin');
  await admin.get('/sessions/own');
  await admin.request('PATCH', '/sessions/own', { payload: { pinned: true } });
  await admin.request('DELETE', '/sessions/own');
  await admin.get('/sessions/legacy');
  const session = { data: 'session', session_id: 'own' };
  assert.deepEqual(await takeAudit(db), [
    others('others_data_read', { data: 'sessions' }, null),
    others('others_data_read', { data: 'sessions' }),
    others('others_data_read', session),
    others('others_data_changed', session),
    others('others_data_changed', { ...session, deleted: true }),
    others('others_data_read', { data: 'session', session_id: 'legacy' }, null),
  ]);
});

test('who holds the permission is recorded too', async () => {
  await holder.get('/sessions/own');
  const [line, ...more] = await takeAudit(db);
  assert.deepEqual([line?.actor_id, line?.user_id, more.length], ['u-holder', 'u-owner', 0]);
});

test('deleting takes messages, steps and files along, and nothing of other sessions', async () => {
  await addSessions(db, { id: 'kept', user_id: 'u-owner' });
  for (const id of ['own', 'kept']) {
    await addMessages(db, id, 'one', 'two');
    await db
      .insertInto('agent_steps')
      .values({ session_id: id, turn_id: 't', kind: 'tool', title: 'x', status: 'done' })
      .execute();
    await db
      .insertInto('session_files')
      .values({ session_id: id, name: 'a', size_bytes: 1, sha256: '', content: Buffer.from('a') })
      .execute();
  }
  const answer = await owner.request('DELETE', '/sessions/own');
  assert.deepEqual(answer.json(), { ok: true });
  for (const table of ['conversation_messages', 'agent_steps', 'session_files'] as const) {
    const rows = await db.selectFrom(table).select('session_id').execute();
    assert.deepEqual([...new Set(rows.map((row) => row.session_id))], ['kept'], table);
  }
  assert.equal((await owner.request('DELETE', '/sessions/own')).statusCode, 404);
});

test('of a session that two delete at once one is told that it is gone', async () => {
  const answers = await Promise.all([1, 2].map(() => owner.request('DELETE', '/sessions/own')));
  assert.deepEqual(new Set(answers.map(({ statusCode }) => statusCode)), new Set([200, 404]));
});
