import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { sql } from 'kysely';
import { assignLegacy, foundNothing, UnknownUserError } from '../../src/assign-legacy.ts';
import { someFacts, someSessions, someSummaries } from './generators.ts';
import { adoptFacts, adoptSummaries } from './model.ts';
import { openStore, type StoredFact, type StoredSummary } from './store.ts';

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
