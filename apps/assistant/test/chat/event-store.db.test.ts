import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { DatabaseError } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import { createEventStore } from '../../src/chat/event-store.ts';
import { createHub } from '../../src/chat/hub.ts';
import { readEvents } from '../../src/chat/turn-events.sql.ts';
import { LEASE_SECONDS, requestCancel } from '../../src/chat/turns.sql.ts';
import type { Tables } from '../../src/tables.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { openTurns } from './turn-rows.ts';

const { db, newSession, startTurn } = await openTurns();
const log = { info: () => undefined, warn: () => undefined };

/**
 * A turn that a process runs, which stores what happens in it when the test says that time passes.
 * @param seen The database as that process sees it.
 */
async function stage(t: TestContext, seen: Kysely<Tables> = db) {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const key = await startTurn(await newSession());
  const hub = createHub();
  const store = createEventStore({ db: seen, hub, sender: 'here', log });
  t.after(() => store.close());
  return {
    key,
    store,
    turn: hub.start(key),
    /** Has the time for another look come again and again until something holds. */
    untilLooked: (condition: () => boolean | Promise<boolean>) =>
      until(() => {
        t.mock.timers.tick(1000);
        return condition();
      }),
  };
}

/** The database where what was asked is done, and its answer waits, or is lost. */
const answering = (answer: () => Promise<void>) =>
  db.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      await answer();
      return result;
    },
  });

test('a cancellation that comes while the turn is said to run is seen by the next look', async (t) => {
  const answers = gate();
  let questions = 0;
  const slow = answering(() => {
    questions += 1;
    return answers.opened;
  });
  const { key, store, turn, untilLooked } = await stage(t, slow);
  turn.add({ type: 'message.delta', text: 'Є' });
  store.renew();
  await until(() => questions === 1);
  await requestCancel(db, { ...key, sender: 'there' });
  store.renew();
  answers.open();
  await until(() => turn.unstored.length === 0);
  assert.equal(turn.stopReason, undefined);
  // Nothing happens in the turn any more.
  await untilLooked(() => turn.stopReason === 'cancelled');
});

test('what is stored again, as the word of the first time was lost, is read once', async (t) => {
  let lost = 0;
  const lossy = answering(() => {
    if (lost > 0) return Promise.resolve();
    lost += 1;
    return Promise.reject(new DatabaseError('DATABASE_UNREACHABLE', 'It hung up'));
  });
  const { store, turn, untilLooked } = await stage(t, lossy);
  const { turnId } = turn;
  turn.add({ type: 'message.delta', text: 'Раз ' });
  store.renew();
  await until(() => lost === 1);
  turn.add({ type: 'message.delta', text: 'два ' });
  await untilLooked(() => turn.unstored.length === 0);
  turn.add({ type: 'message.delta', text: 'три' });
  await untilLooked(() => turn.unstored.length === 0);
  const { rows } = await sql<{ seqs: number[] }>`
    select array(select (event ->> 'seq')::int from jsonb_array_elements(events) as event) as seqs
    from chat_turn_events where turn_id = ${turnId} order by last_seq`.execute(db);
  assert.deepEqual(
    rows.map(({ seqs }) => seqs),
    [[1], [1, 2], [3]],
  );
  for (const after of [0, 1, 2, 3]) {
    assert.deepEqual(await readEvents(db, { turnId, after }), turn.after(after));
  }
});

test('a turn in which nothing happens says that it runs, so often that it may fail to in between', async (t) => {
  let now = performance.now();
  t.mock.method(performance, 'now', () => now);
  const { turn, untilLooked } = await stage(t);
  const believedForLong = async () => {
    const { is_long: isLong } = await db
      .selectFrom('chat_turns')
      .select(sql<boolean>`lease_until > now() + interval '5 seconds'`.as('is_long'))
      .where('id', '=', turn.turnId)
      .executeTakeFirstOrThrow();
    return isLong;
  };
  for (let times = 0; times < 3; times += 1) {
    // What the lease had left of its time is over.
    await sql`update chat_turns set lease_until = now() where id = ${turn.turnId}`.execute(db);
    now += (LEASE_SECONDS * 1000) / 3;
    await untilLooked(believedForLong);
  }
  assert.equal(turn.stopReason, undefined);
});
