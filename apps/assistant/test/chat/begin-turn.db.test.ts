import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { beginTurn } from '../../src/chat/begin-turn.ts';
import { countBlocked, whileLocked } from '../faults/locks.ts';
import { until } from '../helpers/until.ts';
import { openTurns } from './turn-rows.ts';

const { db, hasLocks, user, newSession, startTurn } = await openTurns();

beforeEach(() => db.deleteFrom('conversation_sessions').execute());

/** Asks something in a session of its own: whether it is answered, or why not. */
async function ask(): Promise<string> {
  const sessionId = await newSession();
  try {
    await beginTurn(db, { userId: user.id, sessionId }, { text: 'Що є?' });
    return 'begun';
  } catch (error) {
    return (error as { code: string }).code;
  }
}

test('of six messages at once in as many sessions three are answered', async () => {
  const asking: Promise<string>[] = [];
  const begin = () => {
    for (let count = 0; count < 6; count += 1) asking.push(ask());
  };
  if (hasLocks) {
    // Each has counted what is being answered by the time that one of them begins, unless they wait for each other.
    await whileLocked(db, sql`lock table chat_turns in share mode`, async () => {
      begin();
      await until(async () => (await countBlocked(db)) === 6);
    });
  } else {
    begin();
  }
  const outcomes = await Promise.all(asking);
  assert.deepEqual(outcomes.toSorted(), [
    ...Array.from({ length: 3 }, () => 'begun'),
    ...Array.from({ length: 3 }, () => 'too_many_turns'),
  ]);
});

test('answers whose processes have gone do not count, whether they have been cut off yet or not', async () => {
  for (let count = 0; count < 3; count += 1) await startTurn(await newSession());
  assert.equal(await ask(), 'too_many_turns');
  await sql`update chat_turns set lease_until = now() - interval '1 second'`.execute(db);
  assert.equal(await ask(), 'begun');
});
