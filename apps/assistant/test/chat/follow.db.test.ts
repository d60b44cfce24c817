import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { openTestDatabase } from '@oselya/db/testing';
import { createAnnounce } from '../../src/chat/announce.ts';
import { createFollower } from '../../src/chat/follow.ts';
import { createHub } from '../../src/chat/hub.ts';
import { createChangeTeller } from '../../src/chat/tell-changes.ts';
import { insertEvents } from '../../src/chat/turn-events.sql.ts';
import { endTurn, insertTurn } from '../../src/chat/turns.sql.ts';
import type { Tables } from '../../src/tables.ts';
import { until } from '../helpers/until.ts';

const folder = fileURLToPath(new URL('../../migrations', import.meta.url));
const { db } = await openTestDatabase<Tables>([{ component: 'assistant', folder }]);
const announce = createAnnounce(db);
await db
  .insertInto('svc_users')
  .values({ id: 'u-olena', email: 'olena@a.test', display_name: 'Олена' })
  .execute();

/** A session with a turn that runs, and a process in which somebody listens to it. */
async function stage() {
  const session = { user_id: 'u-olena', profile_id: 'default', name: 'Пошук' };
  const { id: sessionId } = await db
    .insertInto('conversation_sessions')
    .values(session)
    .returning('id')
    .executeTakeFirstOrThrow();
  const question = { session_id: sessionId, role: 'user', content: 'Що є?' };
  const { id: questionId } = await db
    .insertInto('conversation_messages')
    .values(question)
    .returning('id')
    .executeTakeFirstOrThrow();
  const { id: turnId, position } = await db
    .transaction()
    .execute((trx) =>
      insertTurn(trx, { session_id: sessionId, user_id: 'u-olena', question_id: questionId }),
    );
  const key = { turnId, sessionId, position };
  const hub = createHub();
  const log = { info: () => undefined, warn: () => undefined };
  const follower = createFollower({ db, hub, sender: 'here', log }, () => undefined);
  const types: string[] = [];
  const listener = hub.listen(sessionId, ({ type }) => types.push(type));
  const message = { id: 'a', role: 'assistant', content: 'Є дві.', created_at: null };
  const end = { type: 'message.completed' as const, message };
  return {
    key,
    hub,
    follower,
    types,
    end,
    begin: () => listener.begin({ key, after: 1, knowsEnd: false, events: [] }),
    /** As the process does that runs the turn. */
    storeEnd: () =>
      db.transaction().execute(async (trx) => {
        await endTurn(trx, { ...key, status: 'completed' });
        await insertEvents(trx, { turnId, events: [{ ...end, seq: 2 }] });
      }),
    announce: () =>
      announce({ userId: 'u-olena', sessionId }, () =>
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
  const log = { info: () => undefined, warn: (told: unknown) => warned.push(told) };
  const teller = createChangeTeller({ db: failing, hub, log });
  // Nobody listens to it here.
  teller.hear('another');
  teller.hear('');
  begin();
  await until(() => types.length > 0);
  await teller.close();
  assert.deepEqual(types, ['session.updated']);
  assert.equal(warned.length, 1);
});
