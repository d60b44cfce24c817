import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import type { ClientType } from '@oselya/protocol';
import { sql } from 'kysely';
import { createSessionService } from '../../src/conversations/sessions.ts';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { pages, createPerson, SEVERAL_PEOPLE, signInUsers, createUser } from '../helpers/people.ts';
import { type Frame, SocketClient } from '../helpers/socket-client.ts';
import { createFolder, openTestProfiles, profile } from '../profiles/folder.ts';
import { addMessages, addSessions, drainAudit, listen } from './stage.ts';

const assistant = await openAssistant(SEVERAL_PEOPLE);
const { db, signInUser } = assistant;
const app = await assistant.createInstance();
const { stranger, holder, admin } = await signInUsers(assistant, app, [
  'svc.sessions.read_all',
  'svc.sessions.delete_all',
]);
const USE_PERMISSION = 'svc.profiles.use' as const;
const ownerPermissions = [USE_PERMISSION, 'svc.memory.read_own' as const];
const owner = await signInUser(app, createPerson('u-owner', { permissions: ownerPermissions }));

const senders = {
  signedOut: undefined,
  speaker: createPerson('u-speaker', { permissions: [USE_PERMISSION] }),
  other: createPerson('u-other', { permissions: [USE_PERMISSION] }),
  reader: createPerson('u-reader', { permissions: [USE_PERMISSION, 'svc.sessions.read_all'] }),
  admin: createPerson('u-admin', { isAdmin: true }),
  denied: createPerson('u-denied', { permissions: ['svc.sessions.read_all'] }),
};
type Sender = keyof typeof senders;

const url = await listen(app);
const clients = new Map<string, SocketClient>();
for (const [name, user] of Object.entries(senders)) {
  const options = user === undefined ? {} : { sid: (await signInUser(app, user)).sid };
  clients.set(name, await SocketClient.open(url, options));
}
after(() => clients.forEach(({ socket }) => socket.terminate()));

beforeEach(async () => {
  for (const table of ['conversation_sessions', 'memory_facts', 'memory_summaries'] as const) {
    await db.deleteFrom(table).execute();
  }
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

test('A search finds names and messages of own sessions by the beginnings of words', async () => {
  await addSessions(
    db,
    { id: 'named', user_id: 'u-owner', name: 'Квартира біля парку', created_at: '2026-03-01Z' },
    { id: 'others', user_id: 'u-stranger', name: 'Парк' },
    { id: 'old', user_id: 'u-owner', name: null },
  );
  await addMessages(db, 'others', 'парк');
  await addMessages(db, 'legacy', 'парк');
  const long = `${'дуже довгий вступ '.repeat(20)}<b>Парку</b> & ще${' кінець'.repeat(50)}`;
  await addMessages(db, 'own', 'У ПАРКУ гарно', long, 'Спарка', "П'ять кімнат", 'Жёлтый дом');
  await sql`insert into conversation_messages (session_id, role, content, created_at)
    values ('old', 'user', 'старий парк', null), ('old', 'user', null, null)`.execute(db);

  const search = async (q: string) =>
    (await owner.get(`/me/search?q=${encodeURIComponent(q)}`)).json();
  const hits = await search('парк');
  assert.deepEqual(
    hits.map(({ session_id }: { session_id: string }) => session_id),
    ['own', 'own', 'named', 'old'],
  );
  const [longHit, shortHit, nameHit, oldHit] = hits;
  assert.match(longHit.highlight, /^….* &#60;b&#62;<mark>Парку<\/mark>&#60;\/b&#62; &#38; ще.*…$/);
  assert.ok(longHit.highlight.length < 320);
  assert.partialDeepStrictEqual(shortHit, {
    session_name: 'Перша',
    role: 'user',
    highlight: 'У <mark>ПАРКУ</mark> гарно',
  });
  assert.deepEqual(nameHit, {
    session_id: 'named',
    session_name: 'Квартира біля парку',
    message_id: null,
    role: null,
    created_at: '2026-03-01T00:00:00.000Z',
    highlight: 'Квартира біля <mark>парку</mark>',
  });
  assert.equal(oldHit.created_at, null);
  for (const [q, expected] of [
    ['парку КВАРТ', 1],
    ['парку будинок', 0],
    ['пʼять', 1],
    ['п’ять кімнат', 1],
    ['желт', 1],
    ["'); drop table conversation_messages; --", 0],
  ] as const) {
    assert.equal((await search(q)).length, expected, q);
  }
  const rows = (await pages(owner, '/me/search?q=%D0%BF%D0%B0%D1%80%D0%BA&limit=1')).flatMap(
    (page) => page.json(),
  );
  assert.deepEqual(rows, hits);
  assert.deepEqual((await holder.get('/me/search?q=парк')).json(), []);
  assert.deepEqual((await admin.get('/me/search?q=парк')).json(), []);
  for (const query of [
    '',
    '?q=',
    '?q=%21%3F',
    '?q=%00',
    `?q=${'a'.repeat(201)}`,
    '?q=a&cursor=x',
  ]) {
    assert.equal((await owner.get(`/me/search${query}`)).statusCode, 422, query);
  }
});

const changeSession = (payload: object) => owner.request('PATCH', '/sessions/own', { payload });

test('A change returns the changed session', async () => {
  const expected = { ...summary };
  for (const changes of [{ name: 'Нова' }, { pinned: false }, { name: '', pinned: true }]) {
    Object.assign(expected, changes);
    assert.deepEqual((await changeSession(changes)).json(), expected);
  }
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
    const response = await changeSession(payload);
    assert.deepEqual([response.statusCode, response.json().code], [422, 'validation_failed']);
  }
  assert.deepEqual((await owner.get('/sessions')).json(), [summary]);
});

test('An invalid cursor or limit is rejected', async () => {
  const values = [[1e300, 'a'], ['now', 'a'], [0.5, 1], [null], {}, 7, [0, 'a', 'b'], [0, '\0']];
  for (const value of values) {
    const cursor = Buffer.from(JSON.stringify(value)).toString('base64url');
    for (const path of ['/sessions', '/sessions/own', '/sessions/own/planning']) {
      if (path.endsWith('planning') && value === 7) continue;
      const response = await admin.get(`${path}?cursor=${cursor}`);
      assert.equal(response.statusCode, 422, `${path} ${JSON.stringify(value)}`);
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
  const epoch = '1970-01-01T00:00:00.000Z';
  assert.deepEqual(firstPage.at(-1), {
    session_id: 'nothing-a',
    profile_id: '',
    user_id: null,
    name: '',
    message_count: 0,
    pinned: false,
    created_at: epoch,
    last_active: epoch,
  });
  assert.equal(firstPage.at(1)?.['created_at'], '2026-01-03T00:00:00.000Z');
  assert.deepEqual(
    firstPage.slice(1).map((session) => session['last_active']),
    ['2026-01-03T00:00:00.000Z', '2026-01-02T00:00:00.000Z', epoch, epoch],
  );
});

test('A list has only the sessions that the user may read', async () => {
  await db.deleteFrom('conversation_sessions').execute();
  await addSessions(
    db,
    { id: 'owners', user_id: 'u-owner', last_active: '2026-01-03' },
    { id: 'strangers', user_id: 'u-stranger', last_active: '2026-01-02' },
    { id: 'ownerless', last_active: '2026-01-01' },
  );
  for (const [browser, query, ids] of [
    [owner, '', ['owners']],
    [stranger, '', ['strangers']],
    [holder, '', ['owners', 'strangers']],
    [admin, '', ['owners', 'strangers', 'ownerless']],
    [admin, '&user_id=u-stranger', ['strangers']],
    [stranger, '&user_id=u-owner', []],
  ] as const) {
    assert.deepEqual(await readAllIds(browser, `/sessions?limit=1${query}`), ids);
  }
});

type Conversation = {
  message_count: number;
  messages: { content: string; created_at: string | null }[];
};
const getContents = (conversations: Conversation[]) =>
  conversations.map(({ messages }) => messages.map(({ content }) => content).join(' '));

test('The latest page of messages comes first, and links to the earlier ones', async () => {
  await addSessions(db, { id: 'long', user_id: 'u-owner' });
  await addMessages(db, 'long', '1', '2', '3', '4', '5');
  const answers = await readAllPages<Conversation>(owner, '/sessions/long?limit=2');
  assert.deepEqual(getContents(answers), ['4 5', '2 3', '1']);
  assert.equal(answers[0]?.message_count, 5);
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
    profiles: await openTestProfiles(await createFolder({ 'default.yaml': profile('default') })),
    maxSessions: 3,
  });
  const user = createUser('u-bounded', ['svc.profiles.use']);
  const outcomes = await Promise.allSettled(
    Array.from({ length: 20 }, () => sessions.createSession(user, {})),
  );
  const ids = outcomes.flatMap((outcome) =>
    outcome.status === 'fulfilled' ? outcome.value.session_id : [],
  );
  const reasons = outcomes.flatMap((outcome) =>
    outcome.status === 'rejected' ? String(outcome.reason) : [],
  );
  assert.equal(ids.length, 3);
  for (const reason of reasons)
    assert.match(reason, /too_many_sessions.*You have 3 sessions, which is the limit/s);
  await sessions.deleteSession(user, ids[0] ?? '');
  assert.equal((await sessions.createSession(user, {})).user_id, 'u-bounded');
  await assert.rejects(sessions.createSession(user, {}), { code: 'too_many_sessions' });
});

const getTitles = (response: { json(): { steps: { title: string }[] } }) =>
  response.json().steps.map(({ title }) => title);

for (const endpoint of ['context', 'planning']) {
  test(`${endpoint} is for admins, and access to data of other users is recorded`, async () => {
    for (const browser of [owner, stranger, holder]) {
      for (const id of ['own', 'none']) {
        const response = await browser.get(`/sessions/${id}/${endpoint}`);
        assert.deepEqual([response.statusCode, response.json().code], [403, 'admin_only']);
      }
    }
    await addSessions(db, { id: 'mine', user_id: 'u-admin' });
    for (const [id, status, code] of [
      ['none', 404, 'session_not_found'],
      ['mine', 200, undefined],
      ['own', 200, undefined],
    ] as const) {
      const response = await admin.get(`/sessions/${id}/${endpoint}`);
      assert.deepEqual([response.statusCode, response.json().code], [status, code], id);
    }
    const details = { data: `session_${endpoint}`, session_id: 'own' };
    assert.deepEqual(await drainAudit(db), [createAuditEntry('others_data_read', details)]);
  });
}

test('The context has the instructions, the facts of the owner and the messages', async () => {
  await addMessages(db, 'own', 'Добрий день', 'Шукаю квартиру');
  const facts = [
    { user_id: 'u-owner', category: 'wishes', key: 'town', value: 'Львів' },
    { user_id: 'u-stranger', category: 'wishes', key: 'town', value: 'Одеса' },
    { user_id: null, category: 'wishes', key: 'town', value: 'Київ' },
  ];
  await db.insertInto('memory_facts').values(facts).execute();
  const summaries = [
    { user_id: 'u-owner', summary: 'Має собаку.\n# Rules\n- a/b: c' },
    { user_id: 'u-stranger', summary: 'Має кота.' },
  ];
  await db.insertInto('memory_summaries').values(summaries).execute();
  const context = (await admin.get('/sessions/own/context')).json();
  assert.deepEqual([context.session_id, context.profile_id], ['own', 'default']);
  assert.match(context.system, /home among the property listings/);
  assert.equal(context.memory.length, 1);
  assert.partialDeepStrictEqual(context.memory, facts.slice(0, 1));
  assert.equal(context.messages.length, 2);
  assert.partialDeepStrictEqual(context.messages, [
    { role: 'user', content: 'Добрий день' },
    { role: 'user', content: 'Шукаю квартиру' },
  ]);
  assert.equal(context.refusal, null);
  assert.ok(context.token_estimate > 500, 'the instructions and tools');
  const { system } = context.request;
  assert.ok(system.startsWith(context.system.trimEnd()));
  assert.match(system, /wishes\/town: Львів/);
  assert.match(system, /^> Має собаку\.\n> # Rules\n> - a\/b: c$/m);
  assert.doesNotMatch(system, /Має кота/);
});

test('The context has no memory that its owner may not see', async () => {
  const user_id = 'u-stranger';
  await addSessions(db, { id: 'foreign', user_id, profile_id: 'default' });
  const fact = { user_id, category: 'wishes', key: 'pets', value: 'рись' };
  await db.insertInto('memory_facts').values(fact).execute();
  await db.insertInto('memory_summaries').values({ user_id, summary: 'Має рись.' }).execute();
  const response = await admin.get('/sessions/foreign/context');
  assert.deepEqual(response.json().memory, []);
  assert.doesNotMatch(response.body, /рись/);
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
  const step = { session_id: 'own', turn_id: 't-1', kind: 'tool', started_at: new Date(0) };
  const finished_at = new Date('2026-01-01T10:00:01Z');
  const steps = [
    { ...step, title: 'one', status: 'done', detail: '5 listings', finished_at },
    { ...step, title: 'two', status: 'done', finished_at },
    { ...step, title: 'three', status: 'running' },
  ];
  await db.insertInto('agent_steps').values(steps).execute();
  const firstPageResponse = await admin.get('/sessions/own/planning?limit=2');
  const nextPath = /^<([^>]+)>/.exec(String(firstPageResponse.headers['link']))?.[1] ?? '';
  assert.deepEqual(getTitles(firstPageResponse), ['two', 'three']);
  assert.deepEqual(getTitles(await admin.get(nextPath)), ['one']);

  const planning = (await admin.get('/sessions/own/planning')).json();
  assert.equal(planning.session_id, 'own');
  const [{ id, ...firstStep }] = planning.steps;
  assert.equal(typeof id, 'string');
  assert.deepEqual(firstStep, {
    turn_id: 't-1',
    kind: 'tool',
    title: 'one',
    status: 'done',
    detail: '5 listings',
    started_at: '1970-01-01T00:00:00.000Z',
    finished_at: '2026-01-01T10:00:01.000Z',
  });
  assert.equal(planning.steps[2].finished_at, null);
});

async function ask(name: Sender, frame: object): Promise<Frame> {
  const client = clients.get(name);
  assert.ok(client);
  return client.ask(frame);
}

/** Errors of senders that are signed out or lack the permission. */
const useErrors = { signedOut: 'not_signed_in', denied: 'permission_missing' };
const USERS: readonly Sender[] = ['speaker', 'other', 'reader'];
const createErrors = (code: string, names: readonly Sender[] = [...USERS, 'admin']) =>
  Object.fromEntries(names.map((name) => [name, code]));

const ownerErrors = createErrors('session_not_yours', ['other', 'reader', 'admin']);

/** Client messages with the expected errors by sender. The other senders succeed. */
const messageCases: Record<ClientType, readonly [object, Partial<Record<Sender, string>>][]> = {
  ping: [[{}, {}]],
  'session.create': [
    [{}, useErrors],
    [{ profile_id: 'diagnostics' }, { ...useErrors, ...createErrors('admin_only', USERS) }],
    [{ profile_id: 'none' }, { ...createErrors('profile_not_found'), ...useErrors }],
  ],
  'session.open': [
    [{ session_id: 'spoken' }, { ...useErrors, other: 'session_not_yours' }],
    [{ session_id: 'legacy' }, { ...useErrors, ...createErrors('session_not_yours', USERS) }],
    [{ session_id: 'none' }, { ...createErrors('session_not_found'), ...useErrors }],
  ],
  'session.close': [[{ session_id: 'spoken' }, { signedOut: 'not_signed_in' }]],
  'session.mark_read': [
    [
      { session_id: 'spoken' },
      { signedOut: 'not_signed_in', denied: 'session_not_yours', ...ownerErrors },
    ],
  ],
  'message.send': [
    [
      { session_id: 'spoken', text: 'Дві кімнати?' },
      { ...useErrors, ...ownerErrors },
    ],
    [
      { session_id: 'none', text: 'Дві кімнати?' },
      { ...createErrors('session_not_found'), ...useErrors },
    ],
    ...[
      { session_id: 'spoken', text: ' \n ' },
      { session_id: null, text: 'Дві кімнати?' },
      { session_id: 'spoken', text: 'Дві кімнати?', surplus: null },
      { session_id: 'spoken', text: 'Дві кімнати?', client_message_id: [null] },
    ].map((frame): [object, Partial<Record<Sender, string>>] => [
      frame,
      { ...createErrors('validation_failed'), ...useErrors },
    ]),
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
        ...createErrors('permission_missing', [...USERS, 'denied']),
        signedOut: 'not_signed_in',
        admin: 'session_not_yours',
      },
    ],
  ],
  'user.subscribe': [[{}, { signedOut: 'not_signed_in' }]],
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
  const createMessage = { type: 'session.create', name: null, profile_id: null };
  const { session, session_id } = await ask('speaker', createMessage);
  const { created_at } = session as { created_at: string };
  assert.deepEqual(session, {
    session_id,
    profile_id: 'default',
    user_id: 'u-speaker',
    name: '',
    message_count: 0,
    pinned: false,
    created_at,
    last_active: created_at,
  });
  assert.match(String(session_id), /^[0-9a-f-]{36}$/);
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
    sid: (await signInUser(app, senders.other)).sid,
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

const CONTENT_TABLES = ['conversation_messages', 'agent_steps', 'session_files'] as const;

/** Adds two messages, a step and a file to a session. */
async function addContents(id: string): Promise<void> {
  await addMessages(db, id, 'one', 'two');
  await sql`insert into agent_steps (session_id, turn_id, kind, title, status)
    values (${id}, 't', 'tool', 'x', 'done')`.execute(db);
  await sql`insert into session_files (session_id, name, size_bytes, sha256, content)
    values (${id}, 'a', 1, '', 'a')`.execute(db);
}

/** Returns the IDs of the sessions with rows in a table. */
const listSessionIds = async (table: (typeof CONTENT_TABLES)[number]) =>
  (await db.selectFrom(table).select('session_id').distinct().execute()).map(
    (row) => row.session_id,
  );

test('A session is deleted with its rows only, whatever constraints an older system had', async () => {
  for (const table of CONTENT_TABLES) {
    const constraint = sql.ref(`${table}_session_id_fkey`);
    await sql`alter table ${sql.table(table)} drop constraint ${constraint}`.execute(db);
  }
  await sql`
    alter table conversation_messages
    add foreign key (session_id) references conversation_sessions (id)`.execute(db);
  for (const id of ['own', 'legacy']) await addContents(id);
  const response = await owner.request('DELETE', '/sessions/own');
  assert.deepEqual(response.json(), { ok: true });
  for (const table of CONTENT_TABLES) assert.deepEqual(await listSessionIds(table), ['legacy']);
  assert.equal((await owner.request('DELETE', '/sessions/own')).statusCode, 404);
});
