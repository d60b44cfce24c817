import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { estimateTokens } from '../../src/conversations/agent/window.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { person, SEVERAL_PEOPLE, signInEverybody } from '../helpers/people.ts';
import { addMessages, addSessions, takeAudit } from '../sessions/rows.ts';

const assistant = await openAssistant(SEVERAL_PEOPLE);
const { db, instance } = assistant;
const app = await instance();
const { stranger, holder, admin } = await signInEverybody(assistant, app, [
  'svc.sessions.read_all',
  'svc.debug.access',
  'svc.admin.access',
]);
/** Who may speak, and be told what is known of them. */
const owner = await assistant.signedIn(
  app,
  person('u-owner', { permissions: ['svc.profiles.use', 'svc.memory.read_own'] }),
);

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

/** Fails unless it is as many tokens as a request has in all, but for what JSON puts around it. */
function isAbout(tokens: number, request: unknown): void {
  const all = estimateTokens(JSON.stringify(request));
  assert.ok(Math.abs(tokens - all) < all / 20, `${tokens} of ${all}`);
}

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
  assert.equal(context.refusal, null);
  isAbout(context.token_estimate, context.request);
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
    refusal: 'session_not_yours',
  });
  assert.deepEqual(legacy.request.messages, []);
  assert.match(legacy.request.system, /Nothing is remembered/);
});

test('a request that would not be sent says what the next message meets instead', async () => {
  await addSessions(
    db,
    { id: 'hidden', user_id: 'u-owner', profile_id: 'diagnostics' },
    { id: 'mute', user_id: 'u-stranger', profile_id: 'default' },
    { id: 'unknown', user_id: 'u-never-seen', profile_id: 'default' },
    { id: 'mine', user_id: 'u-admin', profile_id: 'diagnostics' },
  );
  for (const [id, expected] of [
    ['hidden', 'admin_only'],
    ['mute', 'permission_missing'],
    ['unknown', 'permission_missing'],
    ['mine', null],
    ['own', null],
  ] as const) {
    const { refusal, request } = (await admin.get(`/sessions/${id}/context`)).json();
    assert.match(request.system, /You help/);
    assert.equal(refusal, expected, id);
  }
});

test('what an owner may not see of their own memory is no part of the context', async () => {
  const fact = { category: 'wishes', key: 'pets', value: 'рись' };
  for (const user_id of ['u-owner', 'u-stranger']) {
    await addSessions(db, { id: `of-${user_id}`, user_id, profile_id: 'default' });
    await db
      .insertInto('memory_facts')
      .values({ ...fact, user_id })
      .execute();
    await db.insertInto('memory_summaries').values({ user_id, summary: 'Має рись.' }).execute();
    const context = (await admin.get(`/sessions/of-${user_id}/context`)).json();
    const isTold = user_id === 'u-owner';
    assert.equal(context.memory.length, isTold ? 1 : 0);
    assert.equal(/рись/.test(JSON.stringify(context)), isTold, user_id);
  }
});

test('the names of attached files are part of what is counted', async () => {
  const before = (await admin.get('/sessions/own/context')).json();
  const content = Buffer.from('x');
  await db
    .insertInto('session_files')
    .values(
      Array.from({ length: 100 }, (_, nth) => ({
        session_id: 'own',
        name: `${nth} ${'ж'.repeat(80)}.txt`,
        size_bytes: 1,
        sha256: '',
        content,
        updated_at: new Date(Date.UTC(2026, 0, 1, 0, nth)),
      })),
    )
    .execute();
  const { request, token_estimate } = (await admin.get('/sessions/own/context')).json();
  isAbout(token_estimate, request);
  const named = request.system.match(/^- "\d+ ж+\.txt" \(.*\)$/gmu);
  assert.match(named[0], /^- "99 ж/u);
  assert.ok(named.length > 20 && named.length < 60, String(named.length));
  assert.match(request.system, new RegExp(`^- and ${100 - named.length} more`, 'm'));
  assert.ok(token_estimate - before.token_estimate < 32_768 / 16 + 200);
});

test('a context holds the latest that there is room for', async () => {
  const kilobyte = 'ж'.repeat(32 * 1024);
  await addMessages(db, 'own', ...['1', '2', '3', '4', '5'].map((n) => n + kilobyte));
  const context = (await admin.get('/sessions/own/context')).json();
  const { messages, request, summary_due, token_estimate } = context;
  assert.deepEqual(
    messages.map(({ content }: { content: string }) => content[0]),
    ['5'],
  );
  isAbout(token_estimate, request);
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
