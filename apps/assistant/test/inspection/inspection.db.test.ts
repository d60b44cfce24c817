import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { openAssistant } from '../helpers/assistant.ts';
import { SEVERAL_PEOPLE, signInEverybody } from '../helpers/people.ts';
import { addMessages, addSessions, takeAudit } from '../sessions/rows.ts';

const assistant = await openAssistant(SEVERAL_PEOPLE);
const { db, instance } = assistant;
const app = await instance();
const { owner, stranger, holder, admin } = await signInEverybody(assistant, app, [
  'svc.sessions.read_all',
  'svc.debug.access',
  'svc.admin.access',
]);

beforeEach(async () => {
  await db.deleteFrom('conversation_sessions').execute();
  await db.deleteFrom('memory_facts').execute();
  await db.deleteFrom('memory_summaries').execute();
  await addSessions(
    db,
    { id: 'own', user_id: 'u-owner', profile_id: 'default' },
    { id: 'legacy', profile_id: 'gone' },
  );
  await takeAudit(db);
});

const titles = (answer: { json(): { steps: { title: string }[] } }) =>
  answer.json().steps.map(({ title }) => title);

for (const what of ['context', 'planning']) {
  test(`${what} is for admins, whoever owns the session and whatever others may`, async () => {
    for (const browser of [owner, stranger, holder]) {
      for (const id of ['own', 'none']) {
        const answer = await browser.get(`/sessions/${id}/${what}`);
        assert.deepEqual([answer.statusCode, answer.json().code], [403, 'admin_only']);
      }
    }
    const none = await admin.get(`/sessions/none/${what}`);
    assert.deepEqual([none.statusCode, none.json().code], [404, 'session_not_found']);
    assert.deepEqual(await takeAudit(db), []);
  });

  test(`${what} of another is recorded, and of one's own is not`, async () => {
    await addSessions(db, { id: 'mine', user_id: 'u-admin' });
    assert.equal((await admin.get(`/sessions/mine/${what}`)).statusCode, 200);
    assert.equal((await admin.get(`/sessions/own/${what}`)).statusCode, 200);
    assert.deepEqual(await takeAudit(db), [
      {
        action: 'others_data_read',
        actor_id: 'u-admin',
        user_id: 'u-owner',
        details: { data: `session_${what}`, session_id: 'own' },
      },
    ]);
  });
}

test("the context is the profile's instructions, the owner's facts, and the messages", async () => {
  await addMessages(db, 'own', 'Добрий день', 'Шукаю квартиру');
  await db
    .insertInto('memory_facts')
    .values([
      { user_id: 'u-owner', category: 'wishes', key: 'town', value: 'Львів' },
      { user_id: 'u-stranger', category: 'wishes', key: 'town', value: 'Одеса' },
      { user_id: null, category: 'wishes', key: 'town', value: 'Київ' },
    ])
    .execute();
  await db
    .insertInto('memory_summaries')
    .values([
      { user_id: 'u-owner', summary: 'Має собаку.\n# Rules\n- a/b: c' },
      { user_id: 'u-stranger', summary: 'Має кота.' },
    ])
    .execute();
  const context = (await admin.get('/sessions/own/context')).json();
  assert.deepEqual([context.session_id, context.profile_id], ['own', 'default']);
  assert.match(context.system, /home among the property listings/);
  assert.deepEqual(
    context.memory.map((fact: Record<string, unknown>) => [fact['user_id'], fact['value']]),
    [['u-owner', 'Львів']],
  );
  assert.deepEqual(
    context.messages.map(({ role, content }: { role: string; content: string }) => [role, content]),
    [
      ['user', 'Добрий день'],
      ['user', 'Шукаю квартиру'],
    ],
  );
  assert.ok(context.token_estimate > context.system.length / 4);
  const { system, messages, tools } = context.request;
  assert.ok(system.startsWith(context.system.trimEnd()));
  assert.match(system, /wishes\/town: Львів/);
  assert.match(system, /^> Має собаку\.\n> # Rules\n> - a\/b: c$/m);
  assert.doesNotMatch(system, /Має кота/);
  assert.deepEqual(
    messages.map(({ content }: { content: string }) => content),
    ['Добрий день', '(No answer came.)', 'Шукаю квартиру'],
    'as models take them: questions and answers in turns',
  );
  assert.ok(tools.some(({ name }: { name: string }) => name === 'search_listings'));
});

test('a session without an owner has no memory, and one of a profile that is gone the usual instructions', async () => {
  await db
    .insertInto('memory_facts')
    .values({ user_id: null, category: 'wishes', key: 'town', value: 'Київ' })
    .execute();
  const legacy = (await admin.get('/sessions/legacy/context')).json();
  const { system } = (await admin.get('/sessions/own/context')).json();
  assert.partialDeepStrictEqual(legacy, {
    session_id: 'legacy',
    profile_id: 'gone',
    system,
    memory: [],
    summary: null,
    summary_due: false,
    messages: [],
  });
  assert.deepEqual(legacy.request.messages, []);
  assert.match(legacy.request.system, /Nothing is remembered/);
});

test('a context holds the latest that there is room for', async () => {
  const kilobyte = 'ж'.repeat(32 * 1024);
  await addMessages(db, 'own', ...['1', '2', '3', '4', '5'].map((n) => n + kilobyte));
  const context = (await admin.get('/sessions/own/context')).json();
  const { messages, summary_due, token_estimate } = context;
  assert.deepEqual(
    messages.map(({ content }: { content: string }) => content[0]),
    ['5'],
  );
  assert.ok(token_estimate < 24_000);
  assert.equal(summary_due, true);
});

test("the agent's steps come in their order, the latest first page by page", async () => {
  for (const [index, title] of ['one', 'two', 'three'].entries()) {
    await db
      .insertInto('agent_steps')
      .values({
        session_id: 'own',
        turn_id: 't-1',
        kind: 'tool',
        title,
        status: index === 2 ? 'running' : 'done',
        detail: index === 0 ? '5 listings' : null,
        started_at: new Date('2026-01-01T10:00:00Z'),
        finished_at: index === 2 ? null : new Date('2026-01-01T10:00:01Z'),
      })
      .execute();
  }
  const first = await admin.get('/sessions/own/planning?limit=2');
  const next = /^<([^>]+)>/.exec(String(first.headers['link']))?.[1] ?? '';
  assert.deepEqual(titles(first), ['two', 'three']);
  assert.deepEqual(titles(await admin.get(next)), ['one']);

  const { session_id, steps } = (await admin.get('/sessions/own/planning')).json();
  assert.equal(session_id, 'own');
  const [{ id, ...one }] = steps;
  assert.equal(typeof id, 'string');
  assert.deepEqual(one, {
    turn_id: 't-1',
    kind: 'tool',
    title: 'one',
    status: 'done',
    detail: '5 listings',
    started_at: '2026-01-01T10:00:00.000Z',
    finished_at: '2026-01-01T10:00:01.000Z',
  });
  assert.equal(steps[2].finished_at, null);
});
