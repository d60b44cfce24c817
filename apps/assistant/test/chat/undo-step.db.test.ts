import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { openTestDatabase } from '@oselya/db/testing';
import { sql } from 'kysely';
import { createMemory } from '../../src/memory/memory.ts';
import type { NoteChange } from '../../src/memory/facts.ts';
import { changedSteps, startStep, storeChange, undoStep } from '../../src/conversations/steps.ts';
import type { Tables } from '../../src/tables.ts';
import { account } from '../helpers/sockets.ts';

const folder = fileURLToPath(new URL('../../migrations', import.meta.url));
const { db } = await openTestDatabase<Tables>([{ component: 'assistant', folder }]);
const memory = createMemory({ db });
const olena = account('u-olena');
const fact = { category: 'home', key: 'city' };

await db
  .insertInto('svc_users')
  .values({ id: olena.id, email: olena.email, display_name: 'Олена' })
  .execute();
const { id: sessionId } = await db
  .insertInto('conversation_sessions')
  .values({ user_id: olena.id, profile_id: 'default', name: '' })
  .returning('id')
  .executeTakeFirstOrThrow();

/** A fact of long ago that the person wrote, with a time that a `Date` cannot hold. */
async function writeEarlier() {
  await memory.putFact(olena, { ...fact, value: 'Львів' });
  await sql`update memory_facts
    set created_at = '2026-01-01T00:00:00.000001Z', updated_at = '2026-01-02T03:04:05.678901Z'`.execute(
    db,
  );
}

/** The facts, with their times as the database has them. */
const stored = async () => {
  const columns = sql`category, key, value, source_session_id, created_at::text, updated_at::text`;
  return (await sql`select ${columns} from memory_facts`.execute(db)).rows;
};

/** A step that has begun, and notes what is changed in it. */
async function begunStep() {
  const step = { session_id: sessionId, turn_id: 't-1', kind: 'tool' as const };
  const stepId = await startStep(db, { ...step, title: 'A tool', detail: '{}' });
  const note: NoteChange = (trx, change) => storeChange(trx, stepId, change);
  return { stepId, note };
}

const works = {
  'written over': (note: NoteChange) =>
    memory.putFact(olena, { ...fact, value: 'Київ', sourceSessionId: sessionId }, { note }),
  forgotten: (note: NoteChange) => memory.deleteFact(olena, fact, { note }),
};

for (const [what, work] of Object.entries(works)) {
  test(`a fact that was ${what} comes back with where and when it came about`, async () => {
    await writeEarlier();
    const before = await stored();
    const { stepId, note } = await begunStep();
    await work(note);
    assert.notDeepEqual(await stored(), before);
    const told = (await changedSteps(db, { turnId: 't-1', sessionId })).map(({ changes }) =>
      changes.map((change) => Object.keys(change).toSorted()),
    );
    assert.deepEqual(told, [[['category', 'key', 'previous', 'value']]]);
    await undoStep(db, { userId: olena.id, sessionId, stepId });
    assert.deepEqual(await stored(), before);
  });
}

test('one of a step that did not keep this comes back as learnt in its session', async () => {
  await writeEarlier();
  const { stepId, note } = await begunStep();
  await memory.deleteFact(olena, fact, {
    note: (trx, { category, key, value, previous }) =>
      note(trx, { category, key, value, previous }),
  });
  await undoStep(db, { userId: olena.id, sessionId, stepId });
  assert.partialDeepStrictEqual(await stored(), [{ value: 'Львів', source_session_id: sessionId }]);
});

test('a fact does not come back where there is no room for it, and nothing is lost by asking', async () => {
  await writeEarlier();
  const { stepId, note } = await begunStep();
  await memory.deleteFact(olena, fact, { note });
  await sql`insert into memory_facts (user_id, category, key, value)
    select ${olena.id}, 'many', 'k-' || n, 'v' from generate_series(1, 2000) as n`.execute(db);
  const undo = () => undoStep(db, { userId: olena.id, sessionId, stepId });
  await assert.rejects(undo, {
    code: 'memory_full',
    detail: /2000 facts.*Delete one .*then undo this again/,
  });
  assert.equal((await stored()).length, 2000);
  await memory.deleteFact(olena, { category: 'many', key: 'k-1' });
  await undo();
  assert.equal((await stored()).length, 2000);

  // What takes nothing more room is undone however many there are, as adoption may leave more.
  const over = await begunStep();
  await memory.putFact(olena, { ...fact, value: 'Київ' }, { note: over.note });
  await sql`insert into memory_facts (user_id, category, key, value)
    values (${olena.id}, 'many', 'adopted', 'v')`.execute(db);
  await undoStep(db, { userId: olena.id, sessionId, stepId: over.stepId });
});
