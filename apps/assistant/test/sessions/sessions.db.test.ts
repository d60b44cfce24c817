import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import fc from 'fast-check';
import { openAssistant } from '../helpers/assistant.ts';
import { person, SEVERAL_PEOPLE } from '../helpers/people.ts';
import { addMessages, addSessions } from './rows.ts';

const { db, instance, signedIn } = await openAssistant(SEVERAL_PEOPLE);
const app = await instance();
const owner = await signedIn(app, person('u-owner'));
const admin = await signedIn(app, person('u-admin', { isAdmin: true }));

beforeEach(async () => {
  await db.deleteFrom('conversation_sessions').execute();
  await addSessions(db, {
    id: 's-1',
    user_id: 'u-owner',
    profile_id: 'default',
    name: 'Перша',
    pinned: true,
    created_at: '2026-01-01T10:00:00Z',
    last_active: '2026-01-02T10:00:00.123456Z',
  });
});

const summary = {
  session_id: 's-1',
  profile_id: 'default',
  user_id: 'u-owner',
  name: 'Перша',
  message_count: 0,
  pinned: true,
  created_at: '2026-01-01T10:00:00.000Z',
  last_active: '2026-01-02T10:00:00.123Z',
};

test('a session is answered as the specification says, in the list and by itself', async () => {
  assert.deepEqual((await owner.get('/sessions')).json(), [summary]);
  assert.deepEqual((await owner.get('/sessions/s-1')).json(), { ...summary, messages: [] });
});

test('messages come with it in their order, and are counted', async () => {
  await addMessages(db, 's-1', 'one', 'two', 'three');
  await addSessions(db, { id: 'other', user_id: 'u-owner' });
  await addMessages(db, 'other', 'elsewhere');
  const { message_count, messages } = (await owner.get('/sessions/s-1')).json();
  assert.equal(message_count, 3);
  assert.deepEqual(
    messages.map(({ content }: { content: string }) => content),
    ['one', 'two', 'three'],
  );
  assert.deepEqual(Object.keys(messages[0]).toSorted(), ['content', 'created_at', 'id', 'role']);
});

test('what the assistant used comes as it is stored', async () => {
  const calls = [{ name: 'get_listing', arguments: { id: 7 }, result: null }];
  await db
    .insertInto('conversation_messages')
    .values({
      session_id: 's-1',
      role: 'assistant',
      content: '',
      tool_calls: JSON.stringify(calls),
    })
    .execute();
  const [message] = (await owner.get('/sessions/s-1')).json().messages;
  assert.deepEqual(message.tool_calls, calls);
});

test('a change is answered with the session as it now is, and leaves its place in the list', async () => {
  const renamed = await owner.request('PATCH', '/sessions/s-1', { payload: { name: 'Нова' } });
  assert.deepEqual(renamed.json(), { ...summary, name: 'Нова' });
  const unpinned = await owner.request('PATCH', '/sessions/s-1', { payload: { pinned: false } });
  assert.deepEqual(unpinned.json(), { ...summary, name: 'Нова', pinned: false });
  const both = { name: '', pinned: true };
  const answer = await owner.request('PATCH', '/sessions/s-1', { payload: both });
  assert.deepEqual(answer.json(), { ...summary, ...both });
});

for (const payload of [
  {},
  { name: 7 },
  { name: null },
  { name: 'a'.repeat(201) },
  { name: `a${String.fromCodePoint(0)}b` },
  { pinned: 'true' },
  { name: 'x', user_id: 'u-other' },
  { session_id: 'x' },
  [],
]) {
  test(`${JSON.stringify(payload).slice(0, 40)} is no change`, async () => {
    const answer = await owner.request('PATCH', '/sessions/s-1', { payload });
    assert.equal(answer.statusCode, 422);
    assert.equal(answer.json().code, 'validation_failed');
    assert.deepEqual((await owner.get('/sessions')).json(), [summary]);
  });
}

test('two hundred characters are a name, also where each of them is two units', async () => {
  const name = '😀'.repeat(200);
  const answer = await owner.request('PATCH', '/sessions/s-1', { payload: { name } });
  assert.equal(answer.json().name, name);
});

test('any text in place of an id, a cursor or a name finds nothing, and breaks nothing', async () => {
  const anything = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 60 }),
    fc.constantFrom("' or 1=1 --", String.fromCodePoint(0), '%', '../own', 'Ж'.repeat(300), '..'),
  );
  await fc.assert(
    fc.asyncProperty(anything, fc.boolean(), async (text, isAdmin) => {
      const encoded = encodeURIComponent(text);
      const browser = isAdmin ? admin : owner;
      const answers = [
        await browser.get(`/sessions/${encoded}`),
        await browser.request('PATCH', `/sessions/${encoded}`, { payload: { name: text } }),
        await browser.request('DELETE', `/sessions/${encoded}/files/${encoded}`),
        await browser.get(`/sessions/s-1?cursor=${encoded}`),
        await browser.get(`/sessions?user_id=${encoded}&cursor=${encoded}`),
        await browser.get(`/sessions/s-1/planning?cursor=${encoded}`),
      ];
      for (const { statusCode, body } of answers) assert.ok(statusCode < 500, body);
    }),
    { numRuns: 150 },
  );
});

test('a cursor that was made up is 422, whatever numbers it holds', async () => {
  for (const value of [
    [1e300, 'a'],
    ['now', 'a'],
    [0.5, 1],
    [null],
    {},
    7,
    [0, 'a', 'b'],
    [0, '\0'],
  ]) {
    const cursor = Buffer.from(JSON.stringify(value)).toString('base64url');
    for (const path of ['/sessions', '/sessions/s-1', '/sessions/s-1/planning']) {
      if (path.endsWith('planning') && value === 7) continue;
      const answer = await admin.get(`${path}?cursor=${cursor}`);
      assert.equal(answer.statusCode, 422, `${path} ${JSON.stringify(value)}`);
    }
  }
  for (const limit of ['0', '501', '-1', 'x', '1.5', '1e400']) {
    assert.equal((await owner.get(`/sessions?limit=${limit}`)).statusCode, 422, limit);
  }
});

test('the largest numbers that a cursor can hold are times too', async () => {
  for (const number of [Number.MAX_SAFE_INTEGER, -Number.MAX_SAFE_INTEGER]) {
    const cursor = Buffer.from(JSON.stringify([number, 'a'])).toString('base64url');
    assert.equal((await owner.get(`/sessions?cursor=${cursor}`)).statusCode, 200);
  }
});
