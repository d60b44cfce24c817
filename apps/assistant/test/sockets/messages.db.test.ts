import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { clientMessages } from '@oselya/protocol';
import { openAssistant } from '../helpers/assistant.ts';
import { type Frame, SocketClient } from '../helpers/socket-client.ts';
import { listening, person } from './people.ts';

const { db, instance, signedIn } = await openAssistant({ IDP_USER_MAX_AGE_SECONDS: '3600' });
const app = await instance();
const url = await listening(app);

const USE = 'svc.profiles.use';

/** Who can be at the other end, each with the permission that opening a session needs, and without. */
const people = {
  nobody: undefined,
  owner: person('u-owner', [USE]),
  stranger: person('u-stranger', [USE]),
  reader: person('u-reader', [USE, 'svc.sessions.read_all']),
  admin: person('u-admin', [], ['svc_admin']),
  'owner without permission': person('u-owner-2'),
  'reader without permission': person('u-reader-2', ['svc.sessions.read_all']),
};
type Person = keyof typeof people;

const clients = new Map<Person, SocketClient>();
for (const [name, user] of Object.entries(people) as [Person, object | undefined][]) {
  const sid = user === undefined ? {} : { sid: (await signedIn(app, user)).sid };
  clients.set(name, await SocketClient.open(url, sid));
}
after(() => clients.forEach(({ socket }) => socket.terminate()));

const NAMES: readonly Person[] = [...clients.keys()];

async function ask(name: Person, frame: object): Promise<Frame> {
  const client = clients.get(name);
  if (client === undefined) throw new Error(`${name} is not connected`);
  return client.ask(frame);
}

const outcome = ({ problem }: Frame) => problem?.code ?? 'ok';

/** Adds a session with two messages, and gives its id. */
async function addSession(userId: string | null): Promise<string> {
  const { id } = await db
    .insertInto('conversation_sessions')
    .values({ user_id: userId, profile_id: 'default', name: 'Пошук' })
    .returning('id')
    .executeTakeFirstOrThrow();
  for (const [role, content] of [
    ['user', 'Дві кімнати?'],
    ['assistant', 'Ось три.'],
  ] as const) {
    await db
      .insertInto('conversation_messages')
      .values({ session_id: id, role, content })
      .execute();
  }
  return id;
}

const owned = await addSession('u-owner');
const quiet = await addSession('u-owner');
const ownedWithoutPermission = await addSession('u-owner-2');
const legacy = await addSession(null);

const needsPermission = {
  nobody: 'not_signed_in',
  'owner without permission': 'permission_missing',
  'reader without permission': 'permission_missing',
};

/** Only the owner speaks in a session, whoever may read it. */
const ownerOnly = {
  stranger: 'session_not_yours',
  reader: 'session_not_yours',
  admin: 'session_not_yours',
};

function everybodySignedIn(code: string): Record<Person, string> {
  return {
    nobody: code,
    owner: code,
    stranger: code,
    reader: code,
    admin: code,
    'owner without permission': code,
    'reader without permission': code,
  };
}

/** What comes of each message of a client, by who sends it. Every type of message stands here. */
const walk: Record<string, readonly { frame: object; outcomes: Record<Person, string> }[]> = {
  ping: [
    {
      frame: {},
      outcomes: {
        nobody: 'ok',
        owner: 'ok',
        stranger: 'ok',
        reader: 'ok',
        admin: 'ok',
        'owner without permission': 'ok',
        'reader without permission': 'ok',
      },
    },
  ],
  'session.create': [
    {
      frame: {},
      outcomes: {
        ...needsPermission,
        owner: 'ok',
        stranger: 'ok',
        reader: 'ok',
        admin: 'ok',
      },
    },
    {
      frame: { profile_id: 'diagnostics' },
      outcomes: {
        ...needsPermission,
        owner: 'admin_only',
        stranger: 'admin_only',
        reader: 'admin_only',
        admin: 'ok',
      },
    },
    {
      frame: { profile_id: 'none' },
      outcomes: {
        ...needsPermission,
        owner: 'profile_not_found',
        stranger: 'profile_not_found',
        reader: 'profile_not_found',
        admin: 'profile_not_found',
      },
    },
  ],
  'session.open': [
    {
      frame: { session_id: owned },
      outcomes: {
        ...needsPermission,
        owner: 'ok',
        stranger: 'session_not_yours',
        reader: 'ok',
        admin: 'ok',
      },
    },
    {
      frame: { session_id: ownedWithoutPermission },
      outcomes: {
        ...needsPermission,
        owner: 'session_not_yours',
        stranger: 'session_not_yours',
        reader: 'ok',
        admin: 'ok',
      },
    },
    {
      frame: { session_id: legacy },
      outcomes: {
        ...needsPermission,
        owner: 'session_not_yours',
        stranger: 'session_not_yours',
        reader: 'session_not_yours',
        admin: 'ok',
      },
    },
    {
      frame: { session_id: 'none' },
      outcomes: {
        ...needsPermission,
        owner: 'session_not_found',
        stranger: 'session_not_found',
        reader: 'session_not_found',
        admin: 'session_not_found',
      },
    },
  ],
  'session.close': [
    {
      frame: { session_id: owned },
      outcomes: { ...everybodySignedIn('ok'), nobody: 'not_signed_in' },
    },
  ],
  'message.send': [
    {
      frame: { session_id: owned, text: 'Дві кімнати?' },
      outcomes: { ...needsPermission, ...ownerOnly, owner: 'ok' },
    },
    {
      frame: { session_id: 'none', text: 'Дві кімнати?' },
      outcomes: { ...everybodySignedIn('session_not_found'), ...needsPermission },
    },
    {
      frame: { session_id: owned, text: ' \n ' },
      outcomes: { ...everybodySignedIn('validation_failed'), ...needsPermission },
    },
  ],
  'message.retry': [
    {
      frame: { session_id: quiet },
      outcomes: { ...needsPermission, ...ownerOnly, owner: 'nothing_to_retry' },
    },
  ],
  'message.cancel': [
    {
      frame: { session_id: quiet },
      outcomes: {
        ...everybodySignedIn('session_not_yours'),
        nobody: 'not_signed_in',
        owner: 'no_turn_running',
      },
    },
  ],
  'memory.undo': [
    {
      frame: { session_id: quiet, step_id: 'none' },
      outcomes: {
        ...everybodySignedIn('permission_missing'),
        nobody: 'not_signed_in',
        admin: 'session_not_yours',
      },
    },
  ],
};

test('every type of message stands in the table, and no other', () => {
  const types = clientMessages;
  assert.deepEqual(Object.keys(walk).toSorted(), Object.keys(types).toSorted());
});

for (const [type, cases] of Object.entries(walk)) {
  for (const { frame, outcomes } of cases) {
    for (const name of NAMES) {
      test(`${type} ${JSON.stringify(frame)} of ${name} is ${outcomes[name]}`, async () => {
        const before = await db.selectFrom('conversation_sessions').select('id').execute();
        const answer = await ask(name, { ...frame, type });
        assert.equal(outcome(answer), outcomes[name]);
        const rows = await db.selectFrom('conversation_sessions').select('id').execute();
        const isCreated = type === 'session.create' && outcomes[name] === 'ok';
        assert.equal(rows.length, before.length + (isCreated ? 1 : 0));
      });
    }
  }
}

test('a created session belongs to who created it, whatever else they say', async () => {
  const created = await ask('owner', { type: 'session.create', name: 'Біля парку' });
  assert.equal(created.type, 'session.created');
  const session = created['session'] as Record<string, unknown>;
  assert.equal(created['session_id'], session['session_id']);
  const row = await db
    .selectFrom('conversation_sessions')
    .selectAll()
    .where('id', '=', String(session['session_id']))
    .executeTakeFirstOrThrow();
  assert.deepEqual([row.user_id, row.profile_id, row.name], ['u-owner', 'default', 'Біля парку']);
  assert.deepEqual(session, {
    session_id: row.id,
    profile_id: 'default',
    user_id: 'u-owner',
    name: 'Біля парку',
    message_count: 0,
    pinned: false,
    created_at: row.created_at?.toISOString(),
    last_active: row.last_active?.toISOString(),
  });
  const claim = { type: 'session.create', user_id: 'u-admin' };
  assert.equal(outcome(await ask('stranger', claim)), 'validation_failed');
});

test('members of a new session that are null are left out', async () => {
  const created = await ask('owner', { type: 'session.create', profile_id: null, name: null });
  const session = created['session'] as Record<string, unknown>;
  assert.deepEqual([session['profile_id'], session['name']], ['default', '']);
});

test('a user with five thousand sessions gets no more', async () => {
  await sql`
    insert into conversation_sessions (user_id)
    select 'u-stranger' from generate_series(1, 5000)`.execute(db);
  const answer = await ask('stranger', { type: 'session.create' });
  assert.deepEqual([answer.problem?.status, outcome(answer)], [409, 'too_many_sessions']);
  assert.equal(outcome(await ask('owner', { type: 'session.create' })), 'ok');
});

test('an opened session comes as GET /sessions/{id} gives it', async () => {
  const opened = await ask('owner', { type: 'session.open', session_id: quiet });
  assert.equal(opened.type, 'session.opened');
  const browser = await signedIn(app, people.owner);
  const { messages, ...session } = (await browser.get(`/sessions/${quiet}`)).json();
  assert.deepEqual(opened['session'], session);
  assert.equal(opened['session_id'], quiet);
  assert.deepEqual(opened['messages'], messages);
  assert.deepEqual(
    messages.map(({ content }: { content: string }) => content),
    ['Дві кімнати?', 'Ось три.'],
  );
});

test('that somebody opens what is not theirs is recorded', async () => {
  const before = await trail();
  await ask('owner', { type: 'session.open', session_id: owned });
  assert.equal((await trail()).length, before.length);
  await ask('admin', { type: 'session.open', session_id: owned });
  const [entry] = (await trail()).slice(before.length);
  assert.deepEqual([entry?.actor_id, entry?.user_id], ['u-admin', 'u-owner']);
});

const trail = () =>
  db
    .selectFrom('audit_log')
    .selectAll()
    .where('action', '=', 'others_data_read')
    .orderBy('id')
    .execute();

for (const frame of [
  { type: 'session.open' },
  { type: 'session.open', session_id: '' },
  { type: 'session.open', session_id: 'a\u0000' },
  { type: 'session.open', session_id: 1 },
  { type: 'session.open', session_id: [owned] },
  { type: 'session.create', name: 'x'.repeat(201) },
  { type: 'session.create', name: 'a\u0000' },
  { type: 'session.create', profile_id: 1 },
  { type: 'ping', session_id: owned },
]) {
  test(`${JSON.stringify(frame).slice(0, 60)} breaks a rule`, async () => {
    assert.equal(outcome(await ask('admin', frame)), 'validation_failed');
  });
}
