import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cutTurn, finishTurn } from '../../src/chat/finish-turn.ts';
import { createHub } from '../../src/chat/hub.ts';
import { readEvents } from '../../src/chat/turn-events.sql.ts';
import { unheardOnce } from '../helpers/unheard-once.ts';
import { openTurns } from './turn-rows.ts';

const { db, newSession, startTurn } = await openTurns();

const ending = {
  outcome: { status: 'completed' },
  answer: { content: 'Є дві.', used: [] },
  sender: 'here',
  requestId: 'r',
} as const;

/** An answer that has been said. */
async function said() {
  const turn = createHub().start(await startTurn(await newSession()));
  turn.add({ type: 'message.delta', text: 'Є дві.' });
  return turn;
}

test('an end that was stored without an answer is told as it was stored, once, and is this turn’s', async () => {
  const turn = await said();
  assert.equal(await finishTurn(unheardOnce(db), turn, ending), true);
  assert.deepEqual(
    turn.after(0).map(({ seq, type }) => [seq, type]),
    [
      [1, 'message.delta'],
      [2, 'message.completed'],
    ],
  );
  const stored = await readEvents(db, { turnId: turn.turnId, after: 0 });
  assert.deepEqual(JSON.parse(JSON.stringify(turn.after(0))), stored);
  const answers = db
    .selectFrom('conversation_messages')
    .select(['content', 'status'])
    .where('session_id', '=', turn.sessionId)
    .where('role', '=', 'assistant');
  assert.deepEqual(await answers.execute(), [{ content: 'Є дві.', status: null }]);
});

test('one that another process has taken for dead has no end of its own', async () => {
  const turn = await said();
  await db
    .transaction()
    .execute((trx) => cutTurn(trx, turn, { sender: 'there', onlyStale: false }));
  assert.equal(await finishTurn(db, turn, ending), false);
  assert.equal(turn.lastSeq, 1);
});
