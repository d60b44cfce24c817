import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { sql } from 'kysely';
import {
  assignLegacy,
  foundNothing,
  UnknownUserError,
  mergeSummaries,
} from '../../src/assign-legacy.ts';
import { deleteFact } from '../../src/memory/facts.ts';
import { createMemory } from '../../src/memory/memory.ts';
import { userOf } from '../helpers/people.ts';
import {
  someFacts,
  someSessions,
  someSummaries,
  adoptFacts,
  adoptSummaries,
  openStore,
  type StoredFact,
  type StoredSummary,
} from './store.ts';

const store = await openStore();
const { db } = store;
const USER = 'u-1';

const audited = () =>
  db
    .selectFrom('audit_log')
    .select(['action', 'actor_id', 'user_id', 'details'])
    .where('action', '=', 'legacy_assigned')
    .execute();

const fact = (id: string, values: Partial<StoredFact> = {}): StoredFact => ({
  id,
  user_id: null,
  category: 'home',
  key: id,
  value: `value of ${id}`,
  source_session_id: null,
  created_us: 1000,
  updated_us: 2000,
  ...values,
});

test('adoption does what its model does, a dry run nothing but tell of it, a second run nothing', async () => {
  await fc.assert(
    fc.asyncProperty(someFacts, someSummaries, someSessions, async (facts, summaries, sessions) => {
      await store.reset({ facts, summaries, sessions });
      const expected = {
        facts: adoptFacts(facts, USER),
        summaries: adoptSummaries(summaries, USER),
      };
      const before = await store.everything();
      const foretold = await assignLegacy(store, { userId: USER, dryRun: true });
      assert.deepEqual(await store.everything(), before);

      const report = await assignLegacy(store, { userId: USER });
      assert.deepEqual(report, foretold);
      assert.deepEqual(await store.facts(), expected.facts.facts);
      assert.deepEqual(await store.summaries(), expected.summaries.summaries);
      const { replaced, kept, ...counts } = report.facts;
      const { replaced: wouldReplace, kept: wouldKeep, ...wouldCount } = expected.facts.report;
      assert.deepEqual(counts, wouldCount);
      assert.deepEqual(sorted(replaced), sorted(wouldReplace));
      assert.deepEqual(sorted(kept), sorted(wouldKeep));
      assert.deepEqual(report.summaries, expected.summaries.report);
      assert.equal(report.sessions, sessions.filter(({ user_id }) => user_id === null).length);
      assert.equal((await audited()).length, foundNothing(report) ? 0 : 1);

      const after = await store.everything();
      assert.ok(!after.some((row) => row.includes('u-2') && !before.includes(row)));
      assert.ok(foundNothing(await assignLegacy(store, { userId: USER })));
      assert.deepEqual(await store.everything(), after);
    }),
    { numRuns: 100 },
  );
});

/** The names of a report are in the database's order of letters. */
const sorted = (names: { category: string; key: string }[]) =>
  names.map(({ category, key }) => `${category} ${key}`).toSorted();

test('the newer value wins, and is as old as the older one', async () => {
  const own = { user_id: USER, category: 'home' };
  await store.reset({
    facts: [
      fact('legacy-newer', { key: 'a', created_us: 10, updated_us: 50 }),
      fact('own-older', { ...own, key: 'a', created_us: 5, updated_us: 40 }),
      fact('legacy-older', { key: 'b', created_us: 10, updated_us: 20 }),
      fact('own-newer', { ...own, key: 'b', created_us: 15, updated_us: 30 }),
      fact('alone', { key: 'c' }),
    ],
  });
  const { facts } = await assignLegacy(store, { userId: USER });
  assert.deepEqual(facts, {
    assigned: 2,
    replaced: [{ category: 'home', key: 'a' }],
    kept: [{ category: 'home', key: 'b' }],
    doubles: 0,
  });
  assert.deepEqual(
    (await store.facts()).map(({ id, user_id, created_us, updated_us }) => [
      id,
      user_id,
      created_us,
      updated_us,
    ]),
    [
      ['alone', USER, 1000, 2000],
      ['legacy-newer', USER, 5, 50],
      ['own-newer', USER, 10, 30],
    ],
  );
});

test('messages and files follow their session', async () => {
  await store.reset({ sessions: [{ id: 's-1', user_id: null }] });
  await db
    .insertInto('conversation_messages')
    .values({ session_id: 's-1', role: 'user', content: 'Добрий день' })
    .execute();
  await db
    .insertInto('session_files')
    .values({
      session_id: 's-1',
      name: 'plan.txt',
      size_bytes: 1,
      sha256: '0'.repeat(64),
      content: Buffer.of(1),
    })
    .execute();
  assert.equal((await assignLegacy(store, { userId: USER })).sessions, 1);
  for (const table of ['conversation_messages', 'session_files'] as const) {
    const owners = await db
      .selectFrom(table)
      .innerJoin('conversation_sessions as s', 's.id', 'session_id')
      .select('s.user_id')
      .execute();
    assert.deepEqual(owners, [{ user_id: USER }], table);
  }
});

test('the trail tells what was assigned, with counts', async () => {
  const summaries: StoredSummary[] = [
    { id: 'm-1', user_id: null, summary: 'Has a dog.', updated_us: 1 },
  ];
  await store.reset({
    facts: [fact('f-1'), fact('f-2', { key: 'x' }), fact('f-3', { key: 'x' })],
    summaries,
    sessions: [{ id: 's-1', user_id: null }],
  });
  await assignLegacy(store, { userId: USER });
  assert.deepEqual(await audited(), [
    {
      action: 'legacy_assigned',
      actor_id: null,
      user_id: USER,
      details: {
        sessions: 1,
        facts_assigned: 2,
        facts_replaced: 0,
        facts_kept: 0,
        fact_doubles: 1,
        summaries: 1,
      },
    },
  ]);
});

for (const userId of ['u-9', '', "u-1' or '1'='1"]) {
  test(`${JSON.stringify(userId)} is nobody: nothing is assigned`, async () => {
    await store.reset({ facts: [fact('f-1')] });
    const before = await store.everything();
    await assert.rejects(assignLegacy(store, { userId }), UnknownUserError);
    assert.deepEqual(await store.everything(), before);
  });
}

test('what fails at the last step leaves everything as it was', async () => {
  await store.reset({
    facts: [fact('f-1'), fact('f-2', { user_id: USER, key: 'f-1' })],
    summaries: [{ id: 'm-1', user_id: null, summary: 'Has a dog.', updated_us: null }],
    sessions: [{ id: 's-1', user_id: null }],
  });
  const before = await store.everything();
  await sql`
    create function refuse() returns trigger language plpgsql as
    'begin raise exception ''the trail is torn''; end'`.execute(db);
  await sql`
    create trigger torn before insert on audit_log for each row execute function refuse()`.execute(
    db,
  );
  await assert.rejects(assignLegacy(store, { userId: USER }), /the trail is torn/);
  assert.deepEqual(await store.everything(), before);
  await sql`drop trigger torn on audit_log`.execute(db);
  assert.equal((await assignLegacy(store, { userId: USER })).sessions, 1);
});

const memory = createMemory(store);
const user = userOf('u-1');
const ROUNDS = 8;
const LEGACY = 300;

const legacyFacts = Array.from({ length: LEGACY }, (_, index): StoredFact => ({
  id: `legacy-${index}`,
  user_id: null,
  category: 'home',
  key: `key-${index}`,
  value: 'old',
  source_session_id: null,
  created_us: 1,
  updated_us: 1,
}));
const ownFacts = legacyFacts
  .filter((_, index) => index % 3 === 0)
  .map((legacy) => ({
    ...legacy,
    id: `own-${legacy.id}`,
    user_id: 'u-1',
    updated_us: 0,
    value: 'older',
  }));

const values = async () =>
  new Map((await store.facts()).map(({ key, value }) => [key, value ?? '']));

test('what is written or deleted during an adoption is neither lost nor in its way', async () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    await store.reset({ facts: [...legacyFacts, ...ownFacts] });
    const written = Array.from({ length: 90 }, (_, index) => `key-${index * 4}`);
    const deleted = ownFacts.filter((_, index) => index % 10 === 1).map(({ key }) => key);
    const adoption = assignLegacy(store, { userId: 'u-1' });
    const writers = written.map((key) =>
      memory.putFact(user, { category: 'home', key, value: 'new' }),
    );
    const deleters = deleted
      .filter((key) => !written.includes(key))
      .map((key) => deleteFact(store.db, { userId: 'u-1', category: 'home', key }));
    await Promise.all([adoption, ...writers, ...deleters]);

    const found = await values();
    for (const key of written) assert.equal(found.get(key), 'new', key);
    for (const { key } of legacyFacts) {
      if (written.includes(key)) continue;
      // Deleted before the adoption, it was only the user's own; after it, nothing is left.
      if (deleted.includes(key)) assert.ok([undefined, 'old'].includes(found.get(key)), key);
      else assert.equal(found.get(key), 'old', key);
    }
    assert.ok((await store.facts()).every(({ user_id }) => user_id === 'u-1'));
  }
});

const stores = {
  sessions: { sessions: legacyFacts.map(({ id }) => ({ id, user_id: null })) },
  facts: { facts: legacyFacts },
  summaries: { summaries: [{ id: 'm-1', user_id: null, summary: 'Has a dog.', updated_us: 1 }] },
};
for (const [what, rows] of Object.entries(stores)) {
  test(`of two adoptions of ${what} at once one gets everything, and both succeed`, async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      await store.reset(rows);
      const adoptions = await Promise.all(
        ['u-1', 'u-2'].map(async (userId) => ({
          userId,
          report: await assignLegacy(store, { userId }),
        })),
      );
      const [winner, ...others] = adoptions.filter(({ report }) => !foundNothing(report));
      assert.ok(winner);
      assert.deepEqual(others, []);
      const owned = (await store.everything()).filter((row) => /^(memory|conversation)/.test(row));
      assert.ok(owned.length > 0);
      for (const row of owned) assert.match(row, new RegExp(`,${winner.userId}[,)]`));
    }
  });
}

const cases: [string, string[], string][] = [
  ['nothing is an empty text', [], ''],
  ['one text stays', ['Шукає дім.'], 'Шукає дім.'],
  ['the older text comes first, a blank line between', ['Older.', 'Newer.'], 'Older.\n\nNewer.'],
  ['white space around a text goes', [' Older.\n', '\n\nNewer. '], 'Older.\n\nNewer.'],
  ['empty texts leave no trace', ['', ' \n', 'Text.', ''], 'Text.'],
  ['only empty texts are an empty text', ['', ' '], ''],
  ['the same text is told once', ['Same.', 'Other.', 'Same.'], 'Same.\n\nOther.'],
  [
    'a text within an older one is not told again',
    ['Two rooms. A balcony.', 'A balcony.'],
    'Two rooms. A balcony.',
  ],
  [
    'nor one within a newer one',
    ['A balcony.', 'Own words.', 'Two rooms. A balcony.'],
    'Own words.\n\nTwo rooms. A balcony.',
  ],
];
for (const [name, texts, expected] of cases) {
  test(name, () => assert.equal(mergeSummaries(texts), expected));
}

test('every text is told, and merging what was merged changes nothing', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 6 })), (texts) => {
      const merged = mergeSummaries(texts);
      for (const text of texts) assert.ok(merged.includes(text.trim()));
      assert.equal(mergeSummaries([merged, ...texts]), merged);
    }),
  );
});
