import { after } from 'node:test';
import type { ClientType } from '@oselya/protocol';
import { type Frame, SocketClient } from '../helpers/socket-client.ts';
import { createFolder, openFolder } from '../profiles/folder.ts';
import { listen } from './stage.ts';
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { estimateTokens } from '../../src/conversations/agent/window.ts';
import { createSessionService } from '../../src/conversations/sessions.ts';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { pages, person, SEVERAL_PEOPLE, signInUsers, userOf } from '../helpers/people.ts';
import { profile } from '../profiles/folder.ts';
import { addMessages, addSessions, drainAudit } from './stage.ts';

const assistant = await openAssistant(SEVERAL_PEOPLE);
const { db, signedIn } = assistant;
const app = await assistant.instance();
const { stranger, holder, admin } = await signInUsers(assistant, app, [
  'svc.sessions.read_all',
  'svc.sessions.delete_all',
]);
const owner = await signedIn(
  app,
  person('u-owner', { permissions: ['svc.profiles.use', 'svc.memory.read_own'] }),
);

const USE_PERMISSION = 'svc.profiles.use' as const;
const senders = {
  signedOut: undefined,
  speaker: person('u-speaker', { permissions: [USE_PERMISSION] }),
  other: person('u-other', { permissions: [USE_PERMISSION] }),
  reader: person('u-reader', { permissions: [USE_PERMISSION, 'svc.sessions.read_all'] }),
  admin: person('u-admin', { isAdmin: true }),
  denied: person('u-denied', { permissions: ['svc.sessions.read_all'] }),
};
type Sender = keyof typeof senders;

const url = await listen(app);
const clients = new Map<string, SocketClient>();
for (const [name, user] of Object.entries(senders)) {
  const options = user === undefined ? {} : { sid: (await signedIn(app, user)).sid };
  clients.set(name, await SocketClient.open(url, options));
}
after(() => clients.forEach(({ socket }) => socket.terminate()));

beforeEach(async () => {
  await db.deleteFrom('conversation_sessions').execute();
  await db.deleteFrom('memory_facts').execute();
  await db.deleteFrom('memory_summaries').execute();
  await addSessions(
    db,
    {
      id: 'own',
      user_id: 'u-owner',
      profile_id: 'default',
      name: 'Перша',
      pinned: true,
      created_at: '2026-01-01T10:00:00Z',
      last_active: '2026-01-02T10:00:00.123456Z',
    },
    { id: 'legacy', profile_id: 'gone', last_active: '2026-01-01' },
  );
  await drainAudit(db);
});

const summary = {
  session_id: 'own',
  profile_id: 'default',
  user_id: 'u-owner',
  name: 'Перша',
  message_count: 0,
  pinned: true,
  created_at: '2026-01-01T10:00:00.000Z',
  last_active: '2026-01-02T10:00:00.123Z',
};

test('A session has the members of the specification, in the list and alone', async () => {
  assert.deepEqual((await owner.get('/sessions')).json(), [summary]);
  assert.deepEqual((await owner.get('/sessions/own')).json(), { ...summary, messages: [] });
});

test('Messages come in order and are counted', async () => {
  await addMessages(db, 'own', 'one', 'two', 'three');
  await addSessions(db, { id: 'other', user_id: 'u-owner' });
  await addMessages(db, 'other', 'elsewhere');
  const { message_count, messages } = (await owner.get('/sessions/own')).json();
  assert.equal(message_count, 3);
  assert.deepEqual(
    messages.map(({ content }: { content: string }) => content),
    ['one', 'two', 'three'],
  );
  assert.deepEqual(Object.keys(messages[0]).toSorted(), ['content', 'created_at', 'id', 'role']);
});

test('A change returns the changed session', async () => {
  const renameResponse = await owner.request('PATCH', '/sessions/own', {
    payload: { name: 'Нова' },
  });
  assert.deepEqual(renameResponse.json(), { ...summary, name: 'Нова' });
  const unpinResponse = await owner.request('PATCH', '/sessions/own', {
    payload: { pinned: false },
  });
  assert.deepEqual(unpinResponse.json(), { ...summary, name: 'Нова', pinned: false });
  const bothChanges = { name: '', pinned: true };
  const answer = await owner.request('PATCH', '/sessions/own', { payload: bothChanges });
  assert.deepEqual(answer.json(), { ...summary, ...bothChanges });
});

test('An invalid change is rejected', async () => {
  for (const payload of [
    {},
    { name: 7 },
    { name: null },
    { name: 'a'.repeat(201) },
    { name: `a${String.fromCodePoint(0)}b` },
    { pinned: 'true' },
    { name: 'x', user_id: 'u-other' },
    [],
  ]) {
    const answer = await owner.request('PATCH', '/sessions/own', { payload });
    assert.deepEqual([answer.statusCode, answer.json().code], [422, 'validation_failed']);
  }
  assert.deepEqual((await owner.get('/sessions')).json(), [summary]);
});

test('An invalid cursor or limit is rejected', async () => {
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
    for (const path of ['/sessions', '/sessions/own', '/sessions/own/planning']) {
      if (path.endsWith('planning') && value === 7) continue;
      const answer = await admin.get(`${path}?cursor=${cursor}`);
      assert.equal(answer.statusCode, 422, `${path} ${JSON.stringify(value)}`);
    }
  }
  for (const limit of ['0', '501', '-1', 'x', '1.5', '1e400']) {
    assert.equal((await owner.get(`/sessions?limit=${limit}`)).statusCode, 422, limit);
  }
});

const createAuditEntry = (action: string, details: object, userId: string | null = 'u-owner') => ({
  action,
  actor_id: 'u-admin',
  user_id: userId,
  details,
});

test('Reading, changing and deleting a session need permissions', async () => {
  // Statuses of GET, PATCH and DELETE for a session of `u-owner`, then of GET for a session without an owner.
  for (const [who, browser, statuses] of [
    ['stranger', stranger, [403, 403, 403, 403]],
    ['owner', owner, [200, 200, 200, 403]],
    ['holder', holder, [200, 403, 200, 403]],
    ['admin', admin, [200, 200, 200, 200]],
  ] as const) {
    await addSessions(db, { id: who, user_id: 'u-owner' });
    const payload = { name: 'x' };
    const answers = [
      await browser.get(`/sessions/${who}`),
      await browser.request('PATCH', `/sessions/${who}`, { payload }),
      await browser.request('DELETE', `/sessions/${who}`),
      await browser.get('/sessions/legacy'),
    ];
    assert.deepEqual(
      answers.map(({ statusCode }) => statusCode),
      statuses,
      who,
    );
  }
});

test('Only admins access a session without an owner, whatever the permissions', async () => {
  for (const browser of [owner, stranger, holder]) {
    for (const method of ['PATCH', 'DELETE'] as const) {
      const options = method === 'PATCH' ? { payload: { name: 'x' } } : {};
      const answer = await browser.request(method, '/sessions/legacy', options);
      assert.equal(answer.statusCode, 403);
    }
  }
  assert.equal((await admin.request('DELETE', '/sessions/legacy')).statusCode, 200);
});

test('Access to sessions of other users is recorded, access to own sessions is not', async () => {
  await addSessions(db, { id: 'mine', user_id: 'u-admin' });
  await admin.get('/sessions/mine');
  await admin.request('PATCH', '/sessions/mine', { payload: { pinned: true } });
  await owner.get('/sessions/own');
  await owner.get('/sessions');
  assert.deepEqual(await drainAudit(db), []);

  await admin.get('/sessions');
  await admin.get('/sessions?user_id=u-owner');
  await admin.get('/sessions?user_id=u-admin');
  await admin.get('/sessions/own');
  await admin.request('PATCH', '/sessions/own', { payload: { pinned: true } });
  await admin.request('DELETE', '/sessions/own');
  await admin.get('/sessions/legacy');
  const session = { data: 'session', session_id: 'own' };
  assert.deepEqual(await drainAudit(db), [
    createAuditEntry('others_data_read', { data: 'sessions' }, null),
    createAuditEntry('others_data_read', { data: 'sessions' }),
    createAuditEntry('others_data_read', session),
    createAuditEntry('others_data_changed', session),
    createAuditEntry('others_data_changed', { ...session, deleted: true }),
    createAuditEntry('others_data_read', { data: 'session', session_id: 'legacy' }, null),
  ]);
  await holder.get('/sessions/own');
  assert.deepEqual(await drainAudit(db), []);
});

test('Deleting a session deletes its messages, steps and files only', async () => {
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

type ListedSessions = { session_id: string; last_active: string }[];

/** Returns the bodies of all pages. */
const readAllPages = async <Body>(browser: Browser, first: string): Promise<Body[]> =>
  (await pages(browser, first)).map((page) => page.json());
const readAllIds = async (browser: Browser, first: string) =>
  (await readAllPages<ListedSessions>(browser, first)).flat().map(({ session_id }) => session_id);

test('Sessions of an older system are listed by their known time', async () => {
  await db.deleteFrom('conversation_sessions').execute();
  await addSessions(
    db,
    { id: 'nothing-a' },
    { id: 'nothing-b' },
    { id: 'created', created_at: '2026-01-02T00:00:00Z' },
    { id: 'active', last_active: '2026-01-03T00:00:00Z' },
    { id: 'new', user_id: 'u-owner', created_at: '2026-01-01', last_active: '2026-01-04' },
  );
  const order = ['new', 'active', 'created', 'nothing-b', 'nothing-a'];
  for (const limit of [1, 2, 100]) {
    assert.deepEqual(await readAllIds(admin, `/sessions?limit=${limit}`), order);
  }
  const [firstPage = []] = await readAllPages<Record<string, unknown>[]>(admin, '/sessions');
  const unknownSession = {
    session_id: 'nothing-a',
    profile_id: '',
    user_id: null,
    name: '',
    message_count: 0,
    pinned: false,
    created_at: '1970-01-01T00:00:00.000Z',
    last_active: '1970-01-01T00:00:00.000Z',
  };
  assert.deepEqual(firstPage.at(-1), unknownSession);
  assert.deepEqual(firstPage.at(2)?.['last_active'], '2026-01-02T00:00:00.000Z');
  assert.deepEqual(firstPage.at(1)?.['created_at'], '2026-01-03T00:00:00.000Z');
  const lastActiveTimes = firstPage.map((session) => String(session['last_active']));
  assert.deepEqual(lastActiveTimes, lastActiveTimes.toSorted().toReversed());
});

test('A list has only the sessions that the user may read', async () => {
  await db.deleteFrom('conversation_sessions').execute();
  await addSessions(
    db,
    { id: 'owners', user_id: 'u-owner', last_active: '2026-01-03' },
    { id: 'strangers', user_id: 'u-stranger', last_active: '2026-01-02' },
    { id: 'ownerless', last_active: '2026-01-01' },
  );
  assert.deepEqual(await readAllIds(owner, '/sessions?limit=1'), ['owners']);
  assert.deepEqual(await readAllIds(stranger, '/sessions?limit=1'), ['strangers']);
  assert.deepEqual(await readAllIds(holder, '/sessions?limit=1'), ['owners', 'strangers']);
  assert.deepEqual(await readAllIds(admin, '/sessions?limit=1'), [
    'owners',
    'strangers',
    'ownerless',
  ]);
  assert.deepEqual(await readAllIds(admin, '/sessions?limit=1&user_id=u-stranger'), ['strangers']);
  assert.deepEqual(await readAllIds(stranger, '/sessions?user_id=u-owner'), []);
});

type Conversation = { messages: { content: string; created_at: string | null }[] };
const getContents = (conversations: Conversation[]) =>
  conversations.map(({ messages }) => messages.map(({ content }) => content).join(' '));

test('The latest page of messages comes first, and links to the earlier ones', async () => {
  await addSessions(db, { id: 'long', user_id: 'u-owner' });
  await addMessages(db, 'long', '1', '2', '3', '4', '5');
  const answers = await readAllPages<Conversation>(owner, '/sessions/long?limit=2');
  assert.deepEqual(getContents(answers), ['4 5', '2 3', '1']);
});

test('Messages are ordered by time, then by number', async () => {
  await addSessions(db, { id: 'old', user_id: 'u-owner' });
  for (const [content, time] of [
    ['third', '2026-01-01T00:00:00.000002Z'],
    ['first', '2026-01-01T00:00:00.000001Z'],
    ['second', '2026-01-01T00:00:00.000001Z'],
    ['unknown', null],
  ]) {
    await sql`
      insert into conversation_messages (session_id, role, content, created_at)
      values ('old', 'user', ${content}, ${time}::timestamptz)`.execute(db);
  }
  for (const limit of [1, 2, 3, 1000]) {
    const answers = await readAllPages<Conversation>(owner, `/sessions/old?limit=${limit}`);
    assert.equal(getContents(answers).toReversed().join(' '), 'unknown first second third');
  }
  const [wholeConversation] = await readAllPages<Conversation>(owner, '/sessions/old');
  assert.equal(wholeConversation?.messages[0]?.created_at, null);
});

test('A user has a maximum number of sessions, even if created concurrently', async () => {
  const sessions = createSessionService({
    db,
    profiles: await openFolder(await createFolder({ 'default.yaml': profile('default') })),
    maxSessions: 3,
  });
  const user = userOf('u-bounded', ['svc.profiles.use']);
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, () =>
      sessions.createSession(user, {}).then(({ session_id }) => session_id, String),
    ),
  );
  const rejectedOutcomes = outcomes.filter((outcome) => outcome.includes('too_many_sessions'));
  assert.equal(rejectedOutcomes.length, 17);
  assert.match(String(rejectedOutcomes[0]), /You have 3 sessions, which is the limit/);
  const createdOutcome = outcomes.find((outcome) => !rejectedOutcomes.includes(outcome)) ?? '';
  await sessions.deleteSession(user, createdOutcome);
  assert.equal((await sessions.createSession(user, {})).user_id, 'u-bounded');
  await assert.rejects(sessions.createSession(user, {}), { code: 'too_many_sessions' });
});

/** Asserts that an estimate is close to the token count of the request JSON. */
function assertEstimate(tokens: number, request: unknown): void {
  const exactTokens = estimateTokens(JSON.stringify(request));
  assert.ok(Math.abs(tokens - exactTokens) < exactTokens / 20, `${tokens} of ${exactTokens}`);
}

const getTitles = (answer: { json(): { steps: { title: string }[] } }) =>
  answer.json().steps.map(({ title }) => title);

for (const endpoint of ['context', 'planning']) {
  test(`${endpoint} is for admins`, async () => {
    for (const browser of [owner, stranger, holder]) {
      for (const id of ['own', 'none']) {
        const answer = await browser.get(`/sessions/${id}/${endpoint}`);
        assert.deepEqual([answer.statusCode, answer.json().code], [403, 'admin_only']);
      }
    }
    const missingAnswer = await admin.get(`/sessions/none/${endpoint}`);
    assert.deepEqual(
      [missingAnswer.statusCode, missingAnswer.json().code],
      [404, 'session_not_found'],
    );
    assert.deepEqual(await drainAudit(db), []);
  });

  test(`${endpoint} of another user is recorded, own access is not`, async () => {
    await addSessions(db, { id: 'mine', user_id: 'u-admin' });
    assert.equal((await admin.get(`/sessions/mine/${endpoint}`)).statusCode, 200);
    assert.equal((await admin.get(`/sessions/own/${endpoint}`)).statusCode, 200);
    assert.deepEqual(await drainAudit(db), [
      {
        action: 'others_data_read',
        actor_id: 'u-admin',
        user_id: 'u-owner',
        details: { data: `session_${endpoint}`, session_id: 'own' },
      },
    ]);
  });
}

test('The context has the instructions, the facts of the owner and the messages', async () => {
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
  assertEstimate(context.token_estimate, context.request);
  const { system, messages, tools } = context.request;
  assert.ok(system.startsWith(context.system.trimEnd()));
  assert.match(system, /wishes\/town: Львів/);
  assert.match(system, /^> Має собаку\.\n> # Rules\n> - a\/b: c$/m);
  assert.doesNotMatch(system, /Має кота/);
  assert.deepEqual(
    messages.map(({ content }: { content: string }) => content),
    ['Добрий день', '(No answer came.)', 'Шукаю квартиру'],
  );
  assert.ok(tools.some(({ name }: { name: string }) => name === 'search_listings'));
});

test('The context has no memory that its owner may not see', async () => {
  const user_id = 'u-stranger';
  await addSessions(db, { id: 'foreign', user_id, profile_id: 'default' });
  await db
    .insertInto('memory_facts')
    .values({ user_id, category: 'wishes', key: 'pets', value: 'рись' })
    .execute();
  await db.insertInto('memory_summaries').values({ user_id, summary: 'Має рись.' }).execute();
  const answer = await admin.get('/sessions/foreign/context');
  assert.deepEqual(answer.json().memory, []);
  assert.doesNotMatch(answer.body, /рись/);
});

test('The context names the problem of the next message', async () => {
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

test('Steps come in order, the latest page first', async () => {
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
  const firstPageAnswer = await admin.get('/sessions/own/planning?limit=2');
  const nextPath = /^<([^>]+)>/.exec(String(firstPageAnswer.headers['link']))?.[1] ?? '';
  assert.deepEqual(getTitles(firstPageAnswer), ['two', 'three']);
  assert.deepEqual(getTitles(await admin.get(nextPath)), ['one']);

  const { session_id, steps } = (await admin.get('/sessions/own/planning')).json();
  assert.equal(session_id, 'own');
  const [{ id, ...onlyStep }] = steps;
  assert.equal(typeof id, 'string');
  assert.deepEqual(onlyStep, {
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

async function ask(name: Sender, frame: object): Promise<Frame> {
  const client = clients.get(name);
  assert.ok(client);
  return client.ask(frame);
}

/** Errors for senders without the required permission. */
const useErrors = { signedOut: 'not_signed_in', denied: 'permission_missing' };
const ownerErrors = {
  other: 'session_not_yours',
  reader: 'session_not_yours',
  admin: 'session_not_yours',
};
const createErrors = (
  code: string,
  names: readonly Sender[] = ['speaker', 'other', 'reader', 'admin'],
) => Object.fromEntries(names.map((name) => [name, code]));

/** Client messages with the expected errors by sender. Senders without an entry succeed. */
const messageCases: Record<ClientType, readonly [object, Partial<Record<Sender, string>>][]> = {
  ping: [[{}, {}]],
  'session.create': [
    [{}, useErrors],
    [
      { profile_id: 'diagnostics' },
      { ...useErrors, ...createErrors('admin_only', ['speaker', 'other', 'reader']) },
    ],
    [{ profile_id: 'none' }, { ...createErrors('profile_not_found'), ...useErrors }],
  ],
  'session.open': [
    [{ session_id: 'spoken' }, { ...useErrors, other: 'session_not_yours' }],
    [
      { session_id: 'legacy' },
      { ...useErrors, ...createErrors('session_not_yours', ['speaker', 'other', 'reader']) },
    ],
    [{ session_id: 'none' }, { ...createErrors('session_not_found'), ...useErrors }],
  ],
  'session.close': [[{ session_id: 'spoken' }, { signedOut: 'not_signed_in' }]],
  'message.send': [
    [
      { session_id: 'spoken', text: 'Дві кімнати?' },
      { ...useErrors, ...ownerErrors },
    ],
    [
      { session_id: 'none', text: 'Дві кімнати?' },
      { ...createErrors('session_not_found'), ...useErrors },
    ],
    [
      { session_id: 'spoken', text: ' \n ' },
      { ...createErrors('validation_failed'), ...useErrors },
    ],
  ],
  'message.retry': [
    [{ session_id: 'spoken' }, { speaker: 'nothing_to_retry', ...useErrors, ...ownerErrors }],
  ],
  'message.cancel': [
    [
      { session_id: 'spoken' },
      {
        speaker: 'no_turn_running',
        signedOut: 'not_signed_in',
        denied: 'session_not_yours',
        ...ownerErrors,
      },
    ],
  ],
  'memory.undo': [
    [
      { session_id: 'spoken', step_id: 'none' },
      {
        ...createErrors('permission_missing', ['speaker', 'other', 'reader', 'denied']),
        signedOut: 'not_signed_in',
        admin: 'session_not_yours',
      },
    ],
  ],
};

for (const [type, cases] of Object.entries(messageCases)) {
  test(`${type} is allowed or denied by its sender`, async () => {
    await addSessions(db, { id: 'spoken', user_id: 'u-speaker', profile_id: 'default' });
    for (const [frame, codes] of cases) {
      for (const name of Object.keys(senders) as Sender[]) {
        const { problem } = await ask(name, { ...frame, type });
        assert.equal(problem?.code, codes[name], `${name} ${JSON.stringify(frame)}`);
      }
    }
  });
}

test('A created session belongs to the user of the cookie', async () => {
  const { session } = await ask('speaker', {
    type: 'session.create',
    name: null,
    profile_id: null,
  });
  const { session_id, created_at, last_active, ...summaryMembers } = session as Record<
    string,
    unknown
  >;
  assert.deepEqual(summaryMembers, {
    profile_id: 'default',
    user_id: 'u-speaker',
    name: '',
    message_count: 0,
    pinned: false,
  });
  assert.match(String(session_id), /^[0-9a-f-]{36}$/);
  assert.equal(created_at, last_active);
  const claimedSession = { type: 'session.create', user_id: 'u-admin' };
  assert.equal((await ask('other', claimedSession)).problem?.code, 'validation_failed');
});

test('An opened session has the members of GET /sessions/{id}, and reading is recorded', async () => {
  await addMessages(db, 'own', 'Дві кімнати?', 'Біля парку');
  const openedFrame = await ask('admin', { type: 'session.open', session_id: 'own' });
  const { messages, ...session } = (await owner.get('/sessions/own')).json();
  assert.deepEqual([openedFrame['session'], openedFrame['messages']], [session, messages]);
  const details = { data: 'session', session_id: 'own' };
  assert.deepEqual(await drainAudit(db), [createAuditEntry('others_data_read', details)]);
});

test('Opening long sessions is limited for a user over all connections', async () => {
  await addSessions(db, { id: 'long', user_id: 'u-other' });
  await sql`insert into conversation_messages (session_id, role, content, tool_calls)
    select 'long', 'assistant', repeat('ї', 8000),
      jsonb_build_array(jsonb_build_object('output', repeat('ї', 8000)))
    from generate_series(1, 100)`.execute(db);
  const secondClient = await SocketClient.open(url, {
    sid: (await signedIn(app, senders.other)).sid,
  });
  const openMessage = { type: 'session.open', session_id: 'long' };
  for (let index = 0; index < 10; index += 1) {
    const answer =
      index % 2 === 0 ? await ask('other', openMessage) : await secondClient.ask(openMessage);
    assert.equal(answer.problem, undefined);
  }
  const { problem } = await secondClient.ask(openMessage);
  secondClient.socket.terminate();
  assert.equal(problem?.code, 'rate_limited');
  assert.match(JSON.stringify(problem), /wait for \d+ s, then open it again/);
  assert.equal((await ask('reader', { ...openMessage, session_id: 'own' })).problem, undefined);
});

test('A session is deleted with all its rows, whatever constraints an older system had', async () => {
  for (const table of ['conversation_messages', 'agent_steps', 'session_files']) {
    const constraint = sql.ref(`${table}_session_id_fkey`);
    await sql`alter table ${sql.table(table)} drop constraint ${constraint}`.execute(db);
  }
  await sql`
    alter table conversation_messages
    add foreign key (session_id) references conversation_sessions (id)`.execute(db);
  await addMessages(db, 'legacy', 'one');
  await sql`
    insert into agent_steps (session_id, turn_id, kind, title, status)
    values ('legacy', 't', 'tool', 'x', 'done')`.execute(db);
  await sql`
    insert into session_files (session_id, name, size_bytes, sha256, content)
    values ('legacy', 'a', 1, '', 'a')`.execute(db);
  assert.equal((await admin.request('DELETE', '/sessions/legacy')).statusCode, 200);
  for (const table of ['conversation_messages', 'agent_steps', 'session_files'] as const) {
    assert.deepEqual(await db.selectFrom(table).select('session_id').execute(), []);
  }
});
