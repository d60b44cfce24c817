import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chunk, streamed, toolCallChunk } from '@oselya/model/testing';
import { sql } from 'kysely';
import { openStage, type Talker, talk } from '../chat/stage.ts';
import { endEveryOtherDeletion } from '../helpers/conflicts.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { countBlocked, whileLocked } from './locks.ts';

// The embedded database has one connection: nobody waits for a lock there.
if (process.env['TEST_DATABASE_URL'] !== undefined) {
  const stage = await openStage();
  const { app, db, url } = stage;

  const request = (
    method: 'DELETE' | 'PATCH' | 'POST',
    path: string,
    sid: string,
    payload?: object,
  ) =>
    app.inject({
      method,
      url: path,
      cookies: { svc_auth_session: sid },
      ...(payload !== undefined && { payload }),
    });

  type Case = { who: Talker; id: string; sid: string };

  /** What takes the lock of the owner and that of a session, and how it ends well. */
  const asked = {
    message: async ({ who, id }: Case) => (await who.say(id, 'Добрий день')).type,
    file: async ({ id, sid }: Case) => {
      const path = `/sessions/${id}/files/a.txt`;
      const headers = { 'content-type': 'application/octet-stream' };
      const cookies = { svc_auth_session: sid };
      return (await app.inject({ method: 'PUT', url: path, headers, cookies, payload: 'a' }))
        .statusCode;
    },
    deletion: async ({ sid }: Case) => (await request('DELETE', '/me/data', sid)).statusCode,
    search: async ({ id, sid }: Case) => {
      const search = { name: 'Дім', search: { query: 'дім' }, session_id: id };
      return (await request('POST', '/saved-searches', sid, search)).statusCode;
    },
  };

  const blocked = () => countBlocked(db);

  for (const [first, second, expected] of [
    ['message', 'deletion', ['message.started', 200]],
    ['message', 'search', ['message.started', 201]],
    ['file', 'deletion', [201, 200]],
    ['file', 'search', [201, 201]],
  ] as const) {
    test(`a ${first} and a ${second} of one session wait for each other in one order`, async (t) => {
      const sid = await stage.signIn(`u-${first}-${second}`);
      const who = await talk(t, { url, sid });
      const id = await who.newSession();
      const both: Promise<unknown>[] = [];
      await whileLocked(
        db,
        sql`select from conversation_sessions where id = ${id} for update`,
        async () => {
          for (const [index, name] of [first, second].entries()) {
            both.push(asked[name]({ who, id, sid }));
            await until(async () => (await blocked()) === index + 1);
          }
        },
      );
      assert.deepEqual(await Promise.all(both), expected);
    });
  }

  test('a deletion that the database ends for the sake of another is made again', async (t) => {
    const sid = await stage.signIn('u-ended');
    const who = await talk(t, { url, sid });
    const id = await who.newSession();
    await who.newSession();
    await endEveryOtherDeletion(t, db, 'conversation_sessions');
    assert.equal((await request('DELETE', `/sessions/${id}`, sid)).statusCode, 200);
    const rest = await request('DELETE', '/me/data', sid);
    assert.partialDeepStrictEqual(rest.json(), { deleted: { sessions: 1 } });
  });

  const locks = {
    owner: sql`select pg_advisory_xact_lock(1, hashtext('u-olena'))`,
    // As an adoption of legacy data does.
    memory: sql`lock table memory_facts, memory_summaries in share row exclusive mode`,
  };
  for (const [whose, lock] of Object.entries(locks)) {
    test(`a tool that waits for the lock of ${whose} does not hold up the end of its answer, and changes nothing later`, async (t) => {
      const sid = await stage.signIn('u-olena');
      const olena = await talk(t, { url, sid });
      const id = await olena.newSession();
      const ready = gate();
      t.after(ready.open);
      const fact = JSON.stringify({ category: 'wishes', key: 'city', value: 'Львів' });
      const call = toolCallChunk({ id: '1', name: 'remember_fact', arguments: fact });
      const last = chunk({}, { finishReason: 'tool_calls' });
      stage.model.scripts.push({ answer: streamed([() => ready.opened, call, last]) });
      await olena.say(id, 'Львів');
      await whileLocked(db, lock, async () => {
        ready.open();
        await until(async () => (await blocked()) === 1);
        olena.client.send({ type: 'message.cancel', session_id: id });
        const { message } = await olena.waitFor('message.completed');
        assert.partialDeepStrictEqual(message, { status: 'cancelled' });
      });
      // Who waited for the lock has had it by then.
      await whileLocked(db, lock, () => Promise.resolve());
      assert.deepEqual(await db.selectFrom('memory_facts').selectAll().execute(), []);
      assert.partialDeepStrictEqual(await stage.steps(id), [{ status: 'failed', changes: null }]);
      assert.equal(olena.of('tool.finished').length, 0);
    });
  }
}
