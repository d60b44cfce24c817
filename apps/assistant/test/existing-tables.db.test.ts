import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { assignLegacy } from '../src/assign-legacy.ts';
import { openAssistant } from './helpers/assistant.ts';
import { person, SEVERAL_PEOPLE } from './helpers/people.ts';
import { SocketClient } from './helpers/socket-client.ts';
import { until } from './helpers/until.ts';
import { listening } from './conversations/stage.ts';

/** The tables of the specification. */
const AS_LISTED = `
  create table svc_users (
    id text primary key, email text not null, display_name text, role text not null,
    permissions text not null, created_at timestamptz, updated_at timestamptz);
  create table user_auth_sessions (
    id text primary key, user_id text not null references svc_users (id), access_token_enc text not null,
    refresh_token_enc text not null, expires_at timestamptz, created_at timestamptz, last_used_at timestamptz);
  create table conversation_sessions (
    id text primary key, user_id text, profile_id text not null, name text not null, pinned boolean not null,
    created_at timestamptz not null, last_active timestamptz not null);
  create table conversation_messages (
    id text primary key, session_id text not null references conversation_sessions (id), role text not null,
    content text not null, created_at timestamptz not null);
  create table memory_facts (
    id text primary key, user_id text, category text not null, key text not null, value text not null,
    created_at timestamptz not null, updated_at timestamptz not null);
  create table memory_summaries (
    id text primary key, user_id text, summary text not null, updated_at timestamptz not null);

  insert into svc_users values ('u-1', 'old@example.test', null, 'user', '[]', null, null);
  insert into user_auth_sessions values ('copied', 'u-1', 'x', 'y', null, null, null);
  insert into conversation_sessions values
    ('1', 'u-1', 'default', 'Own', false, '2025-01-01', '2025-01-02'),
    ('2', null, 'default', 'Legacy', false, '2025-01-01', '2025-01-02');
  insert into conversation_messages values ('m-1', '1', 'user', 'Hello', '2025-01-01');
  insert into memory_facts values
    ('f-1', 'u-1', 'home', 'rooms', '2', '2025-01-01', '2025-01-01'),
    ('f-2', 'u-1', 'home', 'rooms', '3', '2025-01-01', '2025-01-02'),
    ('f-3', null, 'home', 'rooms', '1', '2024-01-01', '2024-01-01'),
    ('f-4', null, 'home', 'city', 'Lviv', '2025-01-01', '2025-01-01');
  insert into memory_summaries values
    ('s-1', 'u-1', 'Has a dog.', '2025-01-01'), ('s-2', null, 'Works in Lviv.', '2024-01-01');`;

/** The same columns, nullable and without keys. */
const WITHOUT_KEYS = AS_LISTED.replaceAll(' primary key', '')
  .replaceAll(' not null', '')
  .replaceAll(/ references \w+ \(id\)/g, '')
  .replace("'user', '[]', null, null", 'null, null, null, null')
  .replace("'Own', false, '2025-01-01', '2025-01-02'", "null, null, null, '2025-01-02'")
  .replace("('f-4', null, 'home', 'city'", "(null, null, 'home', null");

/** Tables with ids of other types and other keys. */
const OTHER_TYPES = `
  create table svc_users (
    id integer primary key, email text not null, display_name text, role text, permissions jsonb,
    created_at timestamptz, updated_at timestamptz);
  create table user_auth_sessions (
    id text primary key, user_id integer not null references svc_users, access_token_enc text not null,
    refresh_token_enc text not null, expires_at timestamptz, created_at timestamptz, last_used_at timestamptz);
  create table conversation_sessions (
    id bigserial primary key, user_id integer references svc_users, profile_id text, name text, pinned boolean,
    created_at timestamptz, last_active timestamptz);
  create table conversation_messages (
    id bigint generated always as identity primary key, session_id bigint references conversation_sessions,
    role text not null, content text, created_at timestamptz);
  create table memory_facts (
    user_id integer, category text, key text, value text, created_at timestamptz, updated_at timestamptz,
    primary key (category, key));
  create table memory_summaries (user_id integer unique, summary text, updated_at timestamptz);

  insert into svc_users values (1, 'old@example.test', null, 'user', '[]', null, null);
  insert into user_auth_sessions values ('copied', 1, 'x', 'y', null, null, null);
  insert into conversation_sessions (user_id, name) values (1, 'Own'), (null, 'Legacy');
  insert into conversation_messages (session_id, role, content) values (1, 'user', 'Hello');
  insert into memory_facts values (1, 'home', 'rooms', '3', now(), null), (null, 'home', 'city', 'Lviv', null, null);
  insert into memory_summaries values (1, 'Has a dog.', null), (null, 'Works in Lviv.', null);`;

const kinds = [
  await open('the tables of the specification', 'u-1', AS_LISTED),
  await open('tables without keys, with nulls', 'u-1', WITHOUT_KEYS),
  await open('tables with ids of other types', '1', OTHER_TYPES),
];

async function open(kind: string, userId: string, existing: string) {
  const assistant = await openAssistant(SEVERAL_PEOPLE, existing);
  const app = await assistant.instance();
  const olena = await assistant.signedIn(
    app,
    person(userId, { permissions: ['svc.profiles.use', 'svc.memory.read_own'] }),
  );
  const admin = await assistant.signedIn(app, person('u-admin', { isAdmin: true }));
  const client = await SocketClient.open(await listening(app), { sid: olena.sid });
  after(() => client.socket.terminate());
  return { ...assistant, kind, userId, olena, admin, client };
}

for (const { kind, userId, db, provider, olena, admin, client } of kinds) {
  test(`Users sign in with ${kind}`, async () => {
    assert.equal((await olena.get('/auth/me')).json().id, userId);
    const users = (await admin.get('/admin/users')).json();
    assert.deepEqual(
      users.map(({ id, role }: { id: string; role: string }) => [id, role]),
      [
        [userId, 'user'],
        ['u-admin', 'admin'],
      ],
    );
    for (const { created_at, updated_at } of users) {
      for (const time of [created_at, updated_at]) assert.ok(Date.parse(time) > 0, String(time));
    }
    const signIns = (await olena.get('/auth/sessions')).json();
    assert.equal(signIns.length, 2, 'the copied row and the new one');
    assert.equal((await admin.post(`/admin/users/u-admin/sign-out`)).statusCode, 200);
    assert.equal((await admin.get('/auth/me')).statusCode, 401);
    await admin.signIn(provider);
  });

  test(`Sessions and messages are read and written in ${kind}`, async () => {
    const created = await client.ask({ type: 'session.create' });
    assert.equal(created.type, 'session.created', JSON.stringify(created));
    const id = String(created['session_id']);
    client.send({ type: 'message.send', id: 'q', session_id: id, text: 'Добрий день' });
    await until(() => client.frames.some(({ type }) => type === 'message.completed'));
    const [newest, own] = (await olena.get('/sessions')).json();
    assert.deepEqual([newest.session_id, newest.message_count, newest.pinned], [id, 2, false]);
    assert.deepEqual([own.session_id, own.user_id, own.message_count], ['1', userId, 1]);
    assert.ok(Date.parse(own.created_at) >= 0 && Date.parse(own.last_active) >= 0);
    const { messages } = (await olena.get('/sessions/1')).json();
    assert.equal(messages[0].content, 'Hello');
    const all = (await admin.get('/admin/sessions')).json();
    assert.ok(all.some((one: { user_id: unknown }) => one.user_id === null));
    for (const gone of [id, '1']) {
      assert.equal((await olena.request('DELETE', `/sessions/${gone}`)).statusCode, 200);
    }
    assert.deepEqual((await olena.get('/sessions')).json(), []);
  });

  test(`Memory is read and written in ${kind}`, async () => {
    const facts = async () =>
      (await olena.get('/memory/facts'))
        .json()
        .map(({ key, value }: { key: string; value: string }) => `${key}=${value}`)
        .toSorted();
    assert.deepEqual(await facts(), ['rooms=3'], 'the newest of duplicates');
    for (const [name, value, status] of [
      ['home/rooms', '4', 200],
      ['home/floor', '5', 201],
    ] as const) {
      const answer = await olena.request('PUT', `/memory/facts/${name}`, { payload: { value } });
      assert.equal(answer.statusCode, status, answer.body);
      assert.ok(Date.parse(answer.json().updated_at) > Date.parse('2025-06-01'), answer.body);
    }
    assert.deepEqual(await facts(), ['floor=5', 'rooms=4']);
    const { facts: all, count } = (await admin.get('/admin/memory')).json();
    assert.equal(all.length, count);
    assert.ok(all.some((fact: { user_id: unknown }) => fact.user_id === null));
    assert.equal((await olena.get('/memory/summary')).json().summary, 'Has a dog.');
  });

  test(`Data without an owner is assigned in ${kind}`, async () => {
    const report = await assignLegacy({ db }, { userId });
    assert.deepEqual([report.sessions, report.summaries], [1, { outcome: 'merged', legacy: 1 }]);
    assert.equal(report.facts.assigned, 1);
    const sessions = (await olena.get('/sessions')).json();
    assert.deepEqual(
      sessions.map((one: { name: string }) => one.name),
      ['Legacy'],
    );
    const { summary } = (await olena.get('/memory/summary')).json();
    assert.match(summary, /Works in Lviv\.\n\nHas a dog\.|Has a dog\.\n\nWorks in Lviv\./);
    assert.equal((await olena.get('/memory/facts')).json().length, 3);
  });

  test(`Later rows of the older system are read in ${kind}`, async () => {
    await db
      .insertInto('svc_users')
      .values({ id: 'u-new', email: 'new@example.test', display_name: null })
      .execute();
    const {
      role,
      permissions: slugs,
      created_at,
      updated_at,
    } = await db
      .selectFrom('svc_users')
      .selectAll()
      .where('id', '=', 'u-new')
      .executeTakeFirstOrThrow();
    assert.deepEqual([role, slugs], ['user', '[]']);
    assert.ok(created_at instanceof Date && updated_at instanceof Date);
    await db
      .insertInto('conversation_sessions')
      .values({ user_id: userId, profile_id: 'default', name: 'Late' })
      .execute();
    const [{ name, pinned, last_active }] = (await olena.get('/sessions')).json();
    assert.deepEqual([name, pinned], ['Late', false]);
    assert.ok(Date.parse(last_active) > Date.parse('2025-06-01'));
  });
}
