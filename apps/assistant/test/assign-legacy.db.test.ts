import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { beforeEach, test } from 'node:test';
import { openTestDatabase } from '@oselya/testing/database';
import { sql } from 'kysely';
import { assignLegacy, foundNothing, UnknownUserError } from '../src/assign-legacy.ts';
import { deleteFact } from '../src/memory/facts.ts';
import { createMemory } from '../src/memory/memory.ts';
import type { Tables } from '../src/tables.ts';
import { userOf } from './helpers/people.ts';

const folder = fileURLToPath(new URL('../migrations', import.meta.url));
const database = await openTestDatabase<Tables>([{ component: 'assistant', folder }]);
const { db } = database;
const USER = 'u-1';

type Fact = {
  user_id: string | null;
  category: string;
  key: string;
  value: string;
  created?: number | null;
  updated?: number | null;
};

await db
  .insertInto('svc_users')
  .values(['u-1', 'u-2'].map((id) => ({ id, email: `${id}@example.test`, display_name: null })))
  .execute();

beforeEach(async () => {
  await sql`truncate memory_facts, memory_summaries, audit_log, conversation_sessions cascade`.execute(
    db,
  );
});

/** Returns a time as microseconds, which a JavaScript date truncates. */
const time = (us: number | null | undefined) =>
  sql<Date>`'epoch'::timestamptz + ${us ?? null}::bigint * interval '1 microsecond'`;

const addFacts = (added: readonly Fact[]) =>
  db
    .insertInto('memory_facts')
    .values(
      added.map(({ created = 1, updated = 1, ...fact }) => ({
        ...fact,
        created_at: time(created),
        updated_at: time(updated),
      })),
    )
    .execute();

const addSummaries = (
  summaries: readonly { user_id: string | null; summary: string; updated: number | null }[],
) =>
  db
    .insertInto('memory_summaries')
    .values(summaries.map(({ updated, ...one }) => ({ ...one, updated_at: time(updated) })))
    .execute();

const addSessions = (...ids: string[]) =>
  db
    .insertInto('conversation_sessions')
    .values(ids.map((id) => ({ id, user_id: null, profile_id: null, name: null })))
    .execute();

const microseconds = (column: 'created_at' | 'updated_at') =>
  sql<number | null>`(extract(epoch from ${sql.ref(column)}) * 1000000)::bigint`;

/** Lists the facts as `owner key=value created updated`. */
async function facts(): Promise<string[]> {
  const rows = await db
    .selectFrom('memory_facts')
    .select([
      'user_id',
      'key',
      'value',
      microseconds('created_at').as('created'),
      microseconds('updated_at').as('updated'),
    ])
    .orderBy('key')
    .orderBy('user_id')
    .execute();
  return rows.map(
    ({ user_id, key, value, created, updated }) =>
      `${user_id} ${key}=${value} ${created} ${updated}`,
  );
}

/** Returns all rows that an assignment may change. */
async function everything(): Promise<unknown[]> {
  const tables = [
    'memory_facts',
    'memory_summaries',
    'conversation_sessions',
    'audit_log',
  ] as const;
  return Promise.all(
    tables.map(async (table) => (await sql`select * from ${sql.table(table)}`.execute(db)).rows),
  );
}

const home = (user_id: string | null, key: string, value: string, times = {}): Fact => ({
  user_id,
  category: 'home',
  key,
  value,
  ...times,
});

/** Adds a case of every kind for the user, and rows of another user. */
async function addEverything(): Promise<void> {
  await addFacts([
    home(null, 'a', 'newer legacy', { created: 10, updated: 1_000_050 }),
    home(USER, 'a', 'older own', { created: 5, updated: 1_000_040 }),
    home(null, 'b', 'older legacy', { created: 10, updated: 20 }),
    home(USER, 'b', 'newer own', { created: 15, updated: 30 }),
    home(null, 'c', 'alone'),
    home(null, 'd', 'newest', { created: 7, updated: 9 }),
    home(null, 'd', 'double', { created: null, updated: null }),
    home(null, 'e', 'legacy of equal age'),
    home(USER, 'e', 'own of equal age'),
    home('u-2', 'a', 'of another user'),
  ]);
  await addSummaries([
    { user_id: null, summary: 'Works in Lviv.', updated: 1 },
    { user_id: null, summary: 'Has a dog.', updated: 3 },
    { user_id: USER, summary: 'Two rooms.', updated: 2 },
    { user_id: 'u-2', summary: 'Likes parks.', updated: 4 },
  ]);
  await addSessions('s-1', 's-2');
}

test('Data without an owner is assigned to a user once, and reported and recorded', async () => {
  await addEverything();
  const before = await everything();
  const preview = await assignLegacy(database, { userId: USER, dryRun: true });
  assert.deepEqual(await everything(), before);

  const report = await assignLegacy(database, { userId: USER });
  assert.deepEqual(report, preview);
  assert.deepEqual(report, {
    sessions: 2,
    facts: {
      assigned: 3,
      replaced: [{ category: 'home', key: 'a' }],
      kept: [
        { category: 'home', key: 'b' },
        { category: 'home', key: 'e' },
      ],
      doubles: 1,
    },
    summaries: { outcome: 'merged', legacy: 2 },
  });
  assert.deepEqual(await facts(), [
    'u-1 a=newer legacy 5 1000050',
    'u-2 a=of another user 1 1',
    'u-1 b=newer own 10 30',
    'u-1 c=alone 1 1',
    'u-1 d=newest 7 9',
    'u-1 e=own of equal age 1 1',
  ]);
  const summaries = await db
    .selectFrom('memory_summaries')
    .select(['user_id', 'summary', microseconds('updated_at').as('updated')])
    .orderBy('user_id')
    .execute();
  assert.deepEqual(summaries, [
    { user_id: USER, summary: 'Works in Lviv.\n\nTwo rooms.\n\nHas a dog.', updated: 3 },
    { user_id: 'u-2', summary: 'Likes parks.', updated: 4 },
  ]);
  const sessions = await db.selectFrom('conversation_sessions').select('user_id').execute();
  assert.deepEqual(sessions, [{ user_id: USER }, { user_id: USER }]);
  const after = await everything();
  assert.ok(foundNothing(await assignLegacy(database, { userId: USER })));
  assert.deepEqual(await everything(), after);

  const audit = await db
    .selectFrom('audit_log')
    .select(['action', 'actor_id', 'user_id', 'details'])
    .execute();
  const details = {
    sessions: 2,
    facts_assigned: 3,
    facts_replaced: 1,
    facts_kept: 2,
    fact_doubles: 1,
    summaries: 2,
  };
  assert.deepEqual(audit, [{ action: 'legacy_assigned', actor_id: null, user_id: USER, details }]);
});

test('Summaries are merged oldest first, without those that another contains', async () => {
  for (const [texts, expected] of [
    [['Older.', 'Newer.'], 'Older.\n\nNewer.'],
    [[' Older.\n', '\n\nNewer. ', ' '], 'Older.\n\nNewer.'],
    [['Same.', 'Other.', 'Same.'], 'Same.\n\nOther.'],
    [['Two rooms. A balcony.', 'A balcony.'], 'Two rooms. A balcony.'],
    [['A balcony.', 'Own words.', 'Two rooms. A balcony.'], 'Own words.\n\nTwo rooms. A balcony.'],
  ] as const) {
    await db.deleteFrom('memory_summaries').execute();
    await addSummaries(texts.map((summary, index) => ({ user_id: null, summary, updated: index })));
    const { summaries } = await assignLegacy(database, { userId: USER });
    assert.deepEqual(summaries, { outcome: 'assigned', legacy: texts.length });
    const rows = await db.selectFrom('memory_summaries').select(['user_id', 'summary']).execute();
    assert.deepEqual(rows, [{ user_id: USER, summary: expected }]);
  }
});

test('A failed assignment changes nothing', async () => {
  await addEverything();
  const before = await everything();
  for (const userId of ['u-9', '', "u-1' or '1'='1"]) {
    await assert.rejects(assignLegacy(database, { userId }), UnknownUserError);
  }
  await sql`
    create function fail() returns trigger language plpgsql as
    'begin raise exception ''the disk is full''; end'`.execute(db);
  await sql`
    create trigger failing before insert on audit_log for each row execute function fail()`.execute(
    db,
  );
  await assert.rejects(assignLegacy(database, { userId: USER }), /the disk is full/);
  await sql`drop trigger failing on audit_log`.execute(db);
  assert.deepEqual(await everything(), before);
});

const legacyFacts = Array.from({ length: 300 }, (_, index) => home(null, `key-${index}`, 'old'));

test('Facts that are written or deleted during an assignment are not lost', async () => {
  const own = legacyFacts
    .filter((_, index) => index % 3 === 0)
    .map(({ key }) => home(USER, key, 'older', { updated: 0 }));
  await addFacts([...legacyFacts, ...own]);
  const memory = createMemory({ db });
  const written = Array.from({ length: 75 }, (_, index) => `key-${index * 4}`);
  const deleted = own
    .map(({ key }) => key)
    .filter((key, index) => index % 10 === 1 && !written.includes(key));
  await Promise.all([
    assignLegacy(database, { userId: USER }),
    ...written.map((key) => memory.putFact(userOf(USER), { category: 'home', key, value: 'new' })),
    ...deleted.map((key) => deleteFact(db, { userId: USER, category: 'home', key })),
  ]);
  const rows = await db.selectFrom('memory_facts').select(['user_id', 'key', 'value']).execute();
  assert.deepEqual([...new Set(rows.map(({ user_id }) => user_id))], [USER]);
  const values = new Map(rows.map(({ key, value }) => [key, value]));
  for (const { key } of legacyFacts) {
    const expected = written.includes(key) ? 'new' : 'old';
    // A deletion after the assignment leaves nothing.
    if (!deleted.includes(key) || values.has(key)) assert.equal(values.get(key), expected, key);
  }
});

test('One of two concurrent assignments assigns everything', async () => {
  await addFacts(legacyFacts);
  await addSummaries([{ user_id: null, summary: 'Has a dog.', updated: 1 }]);
  const reports = await Promise.all(
    ['u-1', 'u-2'].map((userId) => assignLegacy(database, { userId })),
  );
  assert.equal(reports.filter(foundNothing).length, 1);
  const owners = await db.selectFrom('memory_facts').select('user_id').distinct().execute();
  assert.equal(owners.length, 1);
  assert.notEqual(owners[0]?.user_id, null);
});
