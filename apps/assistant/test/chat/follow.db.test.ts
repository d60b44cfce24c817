import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KyselyPlugin } from 'kysely';
import { createAnnounce } from '../../src/chat/announce.ts';
import { createFollower } from '../../src/chat/follow.ts';
import { createHub } from '../../src/chat/hub.ts';
import { createChangeTeller } from '../../src/chat/tell-changes.ts';
import { insertEvents } from '../../src/chat/turn-events.sql.ts';
import { endTurn } from '../../src/chat/turns.sql.ts';
import { until } from '../helpers/until.ts';
import { openTurns } from './turn-rows.ts';

const { db, user, newSession, startTurn } = await openTurns();
const announce = createAnnounce(db);
const log = { info: () => undefined, warn: () => undefined };

/** Waits with a bound, and keeps the process up meanwhile, which what is waited for may not. */
async function over(work: Promise<unknown>): Promise<void> {
  let isOver = false;
  void work.finally(() => {
    isOver = true;
  });
  await until(() => isOver);
}

/** The database, as seen by what is to be told of each question to it before it is asked. */
const watched = (onQuestion: () => void) => {
  const plugin: KyselyPlugin = {
    transformQuery({ node }) {
      onQuestion();
      return node;
    },
    transformResult: ({ result }) => Promise.resolve(result),
  };
  return db.withPlugin(plugin);
};

/**
 * A session with a turn that runs, and a process in which somebody listens to it.
 * @param seen The database as that process sees it.
 */
async function stage(seen = db) {
  const sessionId = await newSession();
  const key = await startTurn(sessionId);
  const hub = createHub();
  const follower = createFollower({ db: seen, hub, sender: 'here', log }, () => undefined);
  const types: string[] = [];
  const listener = hub.listen(sessionId, ({ type }) => types.push(type));
  const message = { id: 'a', role: 'assistant', content: 'Є дві.', created_at: null };
  const end = { type: 'message.completed' as const, message };
  const storeEnd = ({ turnId } = key) =>
    db.transaction().execute(async (trx) => {
      await endTurn(trx, { turnId, sessionId, status: 'completed' });
      await insertEvents(trx, { turnId, events: [{ ...end, seq: 2 }] });
    });
  return {
    key,
    hub,
    follower,
    types,
    end,
    begin: () => listener.begin({ key, after: 1, knowsEnd: false, events: [] }),
    /** As the process does that runs the turn. */
    storeEnd,
    /** A turn that this process runs, to its end. */
    answerHere: async () => {
      const turn = hub.start(await startTurn(sessionId));
      turn.add({ type: 'message.delta', text: 'Є дві.' });
      await storeEnd(turn);
      turn.add(end);
      hub.finish(turn);
      follower.goOn(sessionId);
    },
    announce: () =>
      announce({ userId: user.id, sessionId }, () =>
        Promise.resolve({ content: 'Нових: 1', kept: '{}' }),
      ),
  };
}

test('an announcement does not overtake the end of an answer that another process wrote', async () => {
  const { key, follower, types, begin, storeEnd, ...here } = await stage();
  begin();
  assert.equal(await here.announce(), 'busy');
  await storeEnd();
  // Made by this process, which has not heard of the end yet.
  assert.equal(await here.announce(), 'told');
  follower.hear(`there ${key.sessionId}`);
  follower.hear(`announcement ${key.sessionId}`);
  await until(() => types.length >= 2);
  await follower.close();
  assert.deepEqual(types, ['message.completed', 'message.arrived']);
});

test('nor the end of one that this process wrote, and has stored but not told', async () => {
  const { key, hub, follower, types, end, begin, storeEnd, ...here } = await stage();
  const turn = hub.start(key);
  begin();
  await storeEnd();
  assert.equal(await here.announce(), 'told');
  follower.hear(`announcement ${key.sessionId}`);
  await follower.close();
  assert.deepEqual(types, []);
  turn.add(end);
  hub.finish(turn);
  follower.goOn(key.sessionId);
  await until(() => types.length >= 2);
  await follower.close();
  assert.deepEqual(types, ['message.completed', 'message.arrived']);
});

test('turns that this process ran are not read again with what comes after them', async () => {
  let questions = 0;
  const seen = watched(() => {
    questions += 1;
  });
  const { key, follower, types, begin, storeEnd, answerHere, ...here } = await stage(seen);
  begin();
  await storeEnd();
  follower.hear(`there ${key.sessionId}`);
  await until(() => types.length === 1);
  await answerHere();
  await answerHere();
  await answerHere();
  assert.equal(await here.announce(), 'told');
  questions = 0;
  follower.hear(`announcement ${key.sessionId}`);
  await until(() => types.includes('message.arrived'));
  await follower.close();
  const answer = ['message.delta', 'message.completed'];
  assert.deepEqual(types, [
    'message.completed',
    ...answer,
    ...answer,
    ...answer,
    'message.arrived',
  ]);
  assert.equal(questions, 3, 'for the turns, for the last that was told, and for the new one');
});

test('a turn that begins waits a while for what was before it, and not without end', async () => {
  let isAway = true;
  let answered = 0;
  const seen = watched(() => {
    if (isAway) throw new Error('The database does not answer');
    answered += 1;
  });
  const { key, hub, follower, types, begin, storeEnd } = await stage(seen);
  begin();
  await storeEnd();
  await over(follower.catchUp(key));
  const turn = hub.start({ ...key, turnId: 'next', position: key.position + 1 });
  turn.add({ type: 'message.delta', text: 'Є' });
  isAway = false;
  await until(() => answered > 0);
  await over(follower.close());
  assert.deepEqual(types, ['message.delta'], 'what was before does not come after it');
});

test('what is heard while a reading ends is read after it', async () => {
  for (let steps = 0; steps < 10; steps += 1) {
    let readings = 0;
    const hub = {
      ...createHub(),
      heardSessions: () => ['s'],
      channelOf: () => {
        readings += 1;
        return undefined;
      },
    };
    const follower = createFollower({ db, hub, sender: 'here', log }, () => undefined);
    follower.hear('');
    for (let step = 0; step < steps; step += 1) await Promise.resolve();
    const before = readings;
    follower.hear('');
    await follower.close();
    assert.ok(readings > before, `heard after ${steps} steps`);
  }
});

test('an answer that nobody writes any more ends with its session, once, and nothing of it comes after that', async () => {
  const { key, hub, types, begin } = await stage();
  const teller = createChangeTeller({ db, hub, log });
  begin();
  hub.deliver(key, [{ type: 'message.delta', text: 'Є', seq: 2 }]);
  await db.deleteFrom('conversation_sessions').where('id', '=', key.sessionId).execute();
  teller.hear(key.sessionId);
  await until(() => types.length >= 2);
  // What was read before it was deleted, by somebody who was slower.
  hub.deliver(key, [{ type: 'message.delta', text: ' дві.', seq: 9 }]);
  teller.hear('');
  await teller.close();
  assert.deepEqual(types, ['message.delta', 'error']);
});

test('a change of a session whose notification was missed is told, and one that cannot be read is when it can', async () => {
  const { hub, types, begin } = await stage();
  let failures = 1;
  const warned: unknown[] = [];
  const failing = db.withPlugin({
    transformQuery({ node }) {
      failures -= 1;
      if (failures >= 0) throw new Error('The database does not answer');
      return node;
    },
    transformResult: ({ result }) => Promise.resolve(result),
  });
  const warn = (told: unknown) => warned.push(told);
  const teller = createChangeTeller({ db: failing, hub, log: { ...log, warn } });
  // Nobody listens to it here.
  teller.hear('another');
  teller.hear('');
  begin();
  await until(() => types.length > 0);
  await teller.close();
  assert.deepEqual(types, ['session.updated']);
  assert.equal(warned.length, 1);
});
