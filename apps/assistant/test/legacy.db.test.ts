import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { after, beforeEach, suite, test } from 'node:test';
import { until } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { sql } from 'kysely';
import { assignLegacy, isEmptyReport, UnknownUserError } from '../src/assign-legacy.ts';
import { deleteFact } from '../src/memory/facts.ts';
import { createMemoryService } from '../src/memory/memory.ts';
import type { Tables } from '../src/tables.ts';
import { listen } from './conversations/stage.ts';
import { openAssistant } from './helpers/assistant.ts';
import { createPerson, SEVERAL_PEOPLE, createUser } from './helpers/people.ts';
import { SocketClient } from './helpers/socket-client.ts';

suite('assignment of data without an owner', async () => {
  const folder = fileURLToPath(new URL('../migrations', import.meta.url));
  const database = await openTestDatabase<Tables>([{ component: 'assistant', folder }]);
  const { db } = database;
  const USER = 'u-1';

  await sql`insert into svc_users (id, email)
    values ('u-1', '1@example.test'), ('u-2', '2@example.test')`.execute(db);

  beforeEach(async () => {
    const tables = sql`memory_facts, memory_summaries, audit_log, conversation_sessions`;
    await sql`truncate ${tables} cascade`.execute(db);
  });

  /** Builds an SQL timestamp from microseconds, which a JavaScript date would truncate. */
  const buildTimestamp = (us: number | null) =>
    sql<Date>`'epoch'::timestamptz + ${us}::bigint * interval '1 microsecond'`;
  const selectMicroseconds = (column: 'created_at' | 'updated_at') =>
    sql<number | null>`(extract(epoch from ${sql.ref(column)}) * 1000000)::bigint`;

  type Fact = [user_id: string | null, key: string, value: string, us?: (number | null)[]];

  const addFacts = (facts: readonly Fact[]) =>
    db
      .insertInto('memory_facts')
      .values(
        facts.map(([user_id, key, value, [created = 1, updated = 1] = []]) => ({
          user_id,
          category: 'home',
          key,
          value,
          created_at: buildTimestamp(created),
          updated_at: buildTimestamp(updated),
        })),
      )
      .execute();

  const addSummaries = (summaries: readonly [string | null, summary: string, us: number][]) =>
    db
      .insertInto('memory_summaries')
      .values(
        summaries.map(([user_id, summary, us]) => ({
          user_id,
          summary,
          updated_at: buildTimestamp(us),
        })),
      )
      .execute();

  /** Returns all rows that an assignment may change. */
  async function listAllRows(): Promise<unknown> {
    const { rows } = await sql`select
      (select json_agg(row order by row.id) from memory_facts as row) as facts,
      (select json_agg(row order by row.id) from memory_summaries as row) as summaries,
      (select json_agg(row order by row.id) from conversation_sessions as row) as sessions,
      (select json_agg(row order by row.id) from audit_log as row) as audit`.execute(db);
    return rows;
  }

  /** Adds rows of every kind with and without an owner, and rows of another user. */
  async function addAllRows(): Promise<void> {
    await addFacts([
      [null, 'a', 'newer legacy', [10, 1_000_050]],
      [USER, 'a', 'older own', [5, 1_000_040]],
      [null, 'b', 'older legacy', [10, 20]],
      [USER, 'b', 'newer own', [15, 30]],
      [null, 'c', 'alone'],
      [null, 'd', 'newest', [7, 9]],
      [null, 'd', 'duplicate', [null, null]],
      [null, 'e', 'legacy of equal age'],
      [USER, 'e', 'own of equal age'],
      ['u-2', 'a', 'of another user'],
    ]);
    await addSummaries([
      [null, 'Works in Lviv.', 1],
      [null, 'Has a dog.', 3],
      [USER, 'Two rooms.', 2],
      ['u-2', 'Likes parks.', 4],
    ]);
    await sql`insert into conversation_sessions (id) values ('s-1'), ('s-2')`.execute(db);
  }

  test('Data without an owner is assigned to a user once, and reported and recorded', async () => {
    await addAllRows();
    const earlierRows = await listAllRows();
    const preview = await assignLegacy(database, { userId: USER, dryRun: true });
    assert.deepEqual(await listAllRows(), earlierRows);

    const report = await assignLegacy(database, { userId: USER });
    assert.deepEqual(report, preview);
    assert.deepEqual(report, {
      sessions: 2,
      facts: {
        assigned: 3,
        replaced: [{ category: 'home', key: 'a' }],
        kept: ['b', 'e'].map((key) => ({ category: 'home', key })),
        duplicates: 1,
      },
      summaries: { outcome: 'merged', legacy: 2 },
    });
    const facts = await db
      .selectFrom('memory_facts')
      .select(['user_id', 'key', 'value'])
      .select([
        selectMicroseconds('created_at').as('created'),
        selectMicroseconds('updated_at').as('updated'),
      ])
      .orderBy('key')
      .orderBy('user_id')
      .execute();
    assert.deepEqual(
      facts.map((fact) => Object.values(fact).join(' ')),
      [
        'u-1 a newer legacy 5 1000050',
        'u-2 a of another user 1 1',
        'u-1 b newer own 10 30',
        'u-1 c alone 1 1',
        'u-1 d newest 7 9',
        'u-1 e own of equal age 1 1',
      ],
    );
    const summaries = await db
      .selectFrom('memory_summaries')
      .select(['user_id', 'summary', selectMicroseconds('updated_at').as('updated')])
      .orderBy('user_id')
      .execute();
    assert.deepEqual(summaries, [
      { user_id: USER, summary: 'Works in Lviv.\n\nTwo rooms.\n\nHas a dog.', updated: 3 },
      { user_id: 'u-2', summary: 'Likes parks.', updated: 4 },
    ]);
    const sessions = await db.selectFrom('conversation_sessions').select('user_id').execute();
    assert.deepEqual(sessions, [{ user_id: USER }, { user_id: USER }]);
    const assignedRows = await listAllRows();
    assert.ok(isEmptyReport(await assignLegacy(database, { userId: USER })));
    assert.deepEqual(await listAllRows(), assignedRows);
    const auditEntries = await db.selectFrom('audit_log').selectAll().execute();
    assert.partialDeepStrictEqual(auditEntries[0], {
      action: 'legacy_assigned',
      actor_id: null,
      user_id: USER,
      details: {
        sessions: 2,
        facts_assigned: 3,
        facts_replaced: 1,
        facts_kept: 2,
        fact_doubles: 1,
        summaries: 2,
      },
    });
  });

  test('Summaries are merged oldest first, without those that another contains', async () => {
    for (const [texts, expected] of [
      [['Older.', 'Newer.'], 'Older.\n\nNewer.'],
      [[' Older.\n', '\n\nNewer. ', ' '], 'Older.\n\nNewer.'],
      [['Same.', 'Other.', 'Same.'], 'Same.\n\nOther.'],
      [['Two rooms. A balcony.', 'A balcony.'], 'Two rooms. A balcony.'],
      [
        ['A balcony.', 'Own words.', 'Two rooms. A balcony.'],
        'Own words.\n\nTwo rooms. A balcony.',
      ],
    ] as const) {
      await db.deleteFrom('memory_summaries').execute();
      await addSummaries(texts.map((summary, index) => [null, summary, index]));
      const { summaries } = await assignLegacy(database, { userId: USER });
      assert.deepEqual(summaries, { outcome: 'assigned', legacy: texts.length });
      const rows = await db.selectFrom('memory_summaries').select(['user_id', 'summary']).execute();
      assert.deepEqual(rows, [{ user_id: USER, summary: expected }]);
    }
  });

  test('A failed assignment changes nothing', async () => {
    await addAllRows();
    const earlierRows = await listAllRows();
    for (const userId of ['u-9', '', "u-1' or '1'='1"]) {
      await assert.rejects(assignLegacy(database, { userId }), UnknownUserError);
    }
    await sql`
      create function fail() returns trigger language plpgsql as
      'begin raise exception ''the disk is full''; end'`.execute(db);
    await sql`create trigger failing before insert on audit_log
      for each row execute function fail()`.execute(db);
    await assert.rejects(assignLegacy(database, { userId: USER }), /the disk is full/);
    await sql`drop trigger failing on audit_log`.execute(db);
    assert.deepEqual(await listAllRows(), earlierRows);
  });

  const legacyFacts = Array.from({ length: 300 }, (_, n): Fact => [null, `key-${n}`, 'old']);

  test('Facts that are written or deleted during an assignment are not lost', async () => {
    const ownerFacts = legacyFacts
      .filter((_, index) => index % 3 === 0)
      .map(([, key]): Fact => [USER, key, 'older', [1, 0]]);
    await addFacts([...legacyFacts, ...ownerFacts]);
    const memory = createMemoryService({ db });
    const writtenKeys = Array.from({ length: 75 }, (_, index) => `key-${index * 4}`);
    const deletedKeys = ownerFacts
      .map(([, key]) => key)
      .filter((key, index) => index % 10 === 1 && !writtenKeys.includes(key));
    await Promise.all([
      assignLegacy(database, { userId: USER }),
      ...writtenKeys.map((key) =>
        memory.putFact(createUser(USER), { category: 'home', key, value: 'new' }),
      ),
      ...deletedKeys.map((key) => deleteFact(db, { userId: USER, category: 'home', key })),
    ]);
    const rows = await db.selectFrom('memory_facts').select(['user_id', 'key', 'value']).execute();
    assert.deepEqual([...new Set(rows.map(({ user_id }) => user_id))], [USER]);
    const values = new Map(rows.map(({ key, value }) => [key, value]));
    for (const [, key] of legacyFacts) {
      const expected = writtenKeys.includes(key) ? 'new' : 'old';
      // A deletion after the assignment leaves no fact.
      if (!deletedKeys.includes(key) || values.has(key))
        assert.equal(values.get(key), expected, key);
    }
  });

  test('One of two concurrent assignments assigns everything', async () => {
    await addFacts(legacyFacts);
    await addSummaries([[null, 'Has a dog.', 1]]);
    const reports = await Promise.all(
      ['u-1', 'u-2'].map((userId) => assignLegacy(database, { userId })),
    );
    assert.equal(reports.filter(isEmptyReport).length, 1);
    const owners = await db.selectFrom('memory_facts').select('user_id').distinct().execute();
    assert.equal(owners.length, 1);
    assert.notEqual(owners[0]?.user_id, null);
  });
});

suite('tables of an older system', async () => {
  /** The tables of the specification. */
  const SPECIFIED_TABLES = `
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

  /** The tables of the specification with nullable columns and without keys. */
  const KEYLESS_TABLES = SPECIFIED_TABLES.replaceAll(' primary key', '')
    .replaceAll(' not null', '')
    .replaceAll(/ references \w+ \(id\)/g, '')
    .replace("'user', '[]', null, null", 'null, null, null, null')
    .replace("'Own', false, '2025-01-01', '2025-01-02'", "null, null, null, '2025-01-02'")
    .replace("('f-4', null, 'home', 'city'", "(null, null, 'home', null");

  /** Tables with different ID types and keys. */
  const OTHER_TYPE_TABLES = `
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

  const legacyDatabases = [
    await openLegacyDatabase('the tables of the specification', 'u-1', SPECIFIED_TABLES),
    await openLegacyDatabase('tables without keys, with nulls', 'u-1', KEYLESS_TABLES),
    await openLegacyDatabase('tables with IDs of other types', '1', OTHER_TYPE_TABLES),
  ];

  async function openLegacyDatabase(kind: string, userId: string, legacySchema: string) {
    const assistant = await openAssistant(SEVERAL_PEOPLE, legacySchema);
    const app = await assistant.createInstance();
    const user = createPerson(userId, { permissions: ['svc.profiles.use', 'svc.memory.read_own'] });
    const olena = await assistant.signInUser(app, user);
    const admin = await assistant.signInUser(app, createPerson('u-admin', { isAdmin: true }));
    const client = await SocketClient.open(await listen(app), { sid: olena.sid });
    after(() => client.socket.terminate());
    return { ...assistant, kind, userId, olena, admin, client };
  }

  for (const { kind, userId, db, olena, admin, client } of legacyDatabases) {
    test(`Data is read and written in ${kind}`, async () => {
      assert.equal((await olena.get('/auth/me')).json().id, userId);
      type UserItem = { id: string; role: string; created_at: string; updated_at: string };
      const users: UserItem[] = (await admin.get('/admin/users')).json();
      const roles = Object.fromEntries(users.map(({ id, role }) => [id, role]));
      assert.deepEqual(roles, { [userId]: 'user', 'u-admin': 'admin' });
      for (const { created_at, updated_at } of users) {
        for (const timestamp of [created_at, updated_at]) {
          assert.ok(Date.parse(timestamp) > 0, timestamp);
        }
      }
      const signIns = (await olena.get('/auth/sessions')).json();
      assert.equal(signIns.length, 2, 'the copied row and the new one');

      const frame = await client.ask({ type: 'session.create' });
      assert.equal(frame.type, 'session.created', JSON.stringify(frame));
      const id = String(frame['session_id']);
      client.send({ type: 'message.send', id: 'q', session_id: id, text: 'Добрий день' });
      await until(() => client.frames.some(({ type }) => type === 'message.completed'));
      const sessions = (await olena.get('/sessions')).json();
      assert.equal(sessions.length, 2);
      assert.partialDeepStrictEqual(sessions, [
        { session_id: id, message_count: 2, pinned: false },
        { session_id: '1', user_id: userId, message_count: 1 },
      ]);
      const { created_at, last_active } = sessions[1];
      assert.ok(Date.parse(created_at) >= 0 && Date.parse(last_active) >= 0);
      const { messages } = (await olena.get('/sessions/1')).json();
      assert.equal(messages[0].content, 'Hello');
      for (const sessionId of [id, '1']) {
        assert.equal((await olena.request('DELETE', `/sessions/${sessionId}`)).statusCode, 200);
      }
      assert.deepEqual((await olena.get('/sessions')).json(), []);

      const listFacts = async () =>
        (await olena.get('/memory/facts'))
          .json()
          .map(({ key, value }: { key: string; value: string }) => `${key}=${value}`)
          .toSorted();
      assert.deepEqual(await listFacts(), ['rooms=3'], 'the newest of duplicates');
      for (const [name, value, status] of [
        ['home/rooms', '4', 200],
        ['home/floor', '5', 201],
      ] as const) {
        const response = await olena.request('PUT', `/memory/facts/${name}`, {
          payload: { value },
        });
        assert.equal(response.statusCode, status, response.body);
        assert.ok(Date.parse(response.json().updated_at) > Date.parse('2025-06-01'), response.body);
      }
      assert.deepEqual(await listFacts(), ['floor=5', 'rooms=4']);
      assert.equal((await olena.get('/memory/summary')).json().summary, 'Has a dog.');
    });

    test(`Data without an owner is assigned in ${kind}`, async () => {
      const sessions = (await admin.get('/admin/sessions')).json();
      const { facts } = (await admin.get('/admin/memory')).json();
      for (const rows of [sessions, facts]) {
        assert.ok(rows.some(({ user_id }: { user_id: string | null }) => user_id === null));
      }
      const report = await assignLegacy({ db }, { userId });
      assert.deepEqual([report.sessions, report.summaries], [1, { outcome: 'merged', legacy: 1 }]);
      assert.equal(report.facts.assigned, 1);
      const [session] = (await olena.get('/sessions')).json();
      assert.equal(session.name, 'Legacy');
      const { summary } = (await olena.get('/memory/summary')).json();
      assert.match(summary, /Works in Lviv\.\n\nHas a dog\.|Has a dog\.\n\nWorks in Lviv\./);
      assert.equal((await olena.get('/memory/facts')).json().length, 3);
    });
  }
});
