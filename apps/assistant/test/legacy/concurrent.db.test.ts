import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assignLegacy, foundNothing } from '../../src/assign-legacy.ts';
import { deleteFact } from '../../src/memory/facts.ts';
import { createMemory } from '../../src/memory/memory.ts';
import { userOf } from '../helpers/people.ts';
import { openStore, type StoredFact } from './store.ts';

const store = await openStore();
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
  .map((fact) => ({
    ...fact,
    id: `own-${fact.id}`,
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
