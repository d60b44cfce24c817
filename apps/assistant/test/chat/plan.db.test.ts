import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { cutTurn } from '../../src/chat/finish-turn.ts';
import { createHub } from '../../src/chat/hub.ts';
import { createPlan } from '../../src/chat/plan.ts';
import { readEvents } from '../../src/chat/turn-events.sql.ts';
import { createMemory } from '../../src/memory/memory.ts';
import { openTurns } from './turn-rows.ts';

const { db, user, newSession, startTurn } = await openTurns();
const memory = createMemory({ db });
const FACT = { category: 'wishes', key: 'city', value: 'Львів' };

const facts = () => db.selectFrom('memory_facts').select(['category', 'key', 'value']).execute();

beforeEach(() => db.deleteFrom('memory_facts').execute());

/** An answer that has said a word and begins to remember something, in a process that stores nothing by itself. */
async function remembering() {
  const key = await startTurn(await newSession());
  const turn = createHub().start(key);
  const plan = createPlan({ db, sender: 'here' }, turn, turn.signal);
  const call = { id: '1', name: 'remember_fact', input: FACT };
  turn.add({ type: 'message.delta', text: 'Так. ' });
  await plan.startTool(call, 'Remembering');
  return {
    turn,
    remember: () =>
      memory.putFact(user, FACT, { note: (trx, change) => plan.noteChange(trx, call, change) }),
    /** Another process takes this one for dead. */
    cut: () =>
      db.transaction().execute((trx) => cutTurn(trx, key, { sender: 'there', onlyStale: false })),
  };
}

test('what was told before a change is stored with it: its end tells of the change by a number that nobody has seen', async () => {
  const { turn, remember, cut } = await remembering();
  const { turnId, lastSeq } = turn;
  assert.deepEqual(await readEvents(db, { turnId, after: 0 }), []);
  await remember();
  assert.deepEqual(await readEvents(db, { turnId, after: 0 }), turn.after(0));
  const [finished, end] = await cut();
  assert.partialDeepStrictEqual(finished, {
    type: 'tool.finished',
    seq: lastSeq + 1,
    tool: { status: 'done', changes: [{ ...FACT, previous: null }] },
  });
  assert.partialDeepStrictEqual(end, {
    type: 'message.completed',
    seq: lastSeq + 2,
    message: { content: 'Так. ', status: 'cut' },
  });
});

test('an answer that another process has ended changes nothing any more', async () => {
  const { remember, cut } = await remembering();
  const last = await cut();
  assert.deepEqual(
    last.map(({ type }) => type),
    ['message.completed'],
  );
  await assert.rejects(remember(), { code: 'no_turn_running' });
  assert.deepEqual(await facts(), []);
});

test('nor one whose session is gone', async () => {
  const { turn, remember } = await remembering();
  await db.deleteFrom('conversation_sessions').where('id', '=', turn.sessionId).execute();
  await assert.rejects(remember(), { code: 'session_not_found' });
  assert.deepEqual(await facts(), []);
});
