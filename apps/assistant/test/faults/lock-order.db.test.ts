import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chunk, streamed, toolCallChunk } from '@oselya/model/testing';
import { sql } from 'kysely';
import { storePage } from '../../src/digests/feed.sql.ts';
import { openStage, type Talker, talk } from '../chat/stage.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { whileLocked } from './locks.ts';

// The embedded database has one connection: nobody waits for a lock there.
if (process.env['TEST_DATABASE_URL'] !== undefined) {
  const stage = await openStage();
  const { app, db, url } = stage;

  const request = (
    method: 'DELETE' | 'POST' | 'PUT',
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

  /** How many wait for a lock of any kind. */
  async function blocked(): Promise<number> {
    const { rows } = await sql<{ count: number }>`
      select count(*)::int as count from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
    return rows[0]?.count ?? 0;
  }

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

  test('a page of the feed and the end of a search that it is about wait for each other in one order', async (t) => {
    const sid = await stage.signIn('u-feed');
    const who = await talk(t, { url, sid });
    const query = 'хата';
    const search = { name: 'Хата', search: { query }, session_id: await who.newSession() };
    const made = (await request('POST', '/saved-searches', sid, search)).json<{ id: string }>();
    const held = { holder: 'test', lease_until: sql<Date>`now() + interval '1 hour'` };
    await db
      .updateTable('collector_feed')
      .set({ ...held, cursor: null })
      .execute();
    const listing = { title: 'Хата', price: 1, currency: null, city: null, district: null };
    const facts = { ...listing, rooms: null, area_total: null, url: null };
    const found = (from: string | null, to: string, listingIds: number[]) => {
      const hits = listingIds.map((listingId) => ({
        listingId,
        kind: 'new' as const,
        oldPrice: null,
        listing: facts,
      }));
      return { from, to, isLast: false, found: [{ search: { query }, hits }] };
    };
    assert.partialDeepStrictEqual(await storePage(db, 'test', found(null, 'a', [1])), { new: 1 });
    const both: Promise<unknown>[] = [];
    const lock = sql`select from saved_searches where id = ${made.id} for update`;
    await whileLocked(db, lock, async () => {
      both.push(request('DELETE', `/saved-searches/${made.id}`, sid));
      await until(async () => (await blocked()) === 1);
      both.push(storePage(db, 'test', found('a', 'b', [1, 2])));
      await until(async () => (await blocked()) === 2);
    });
    const [deleted, stored] = await Promise.all(both);
    assert.partialDeepStrictEqual(deleted, { statusCode: 200 });
    assert.deepEqual(stored, { new: 0, cheaper: 0 });
  });

  test('a tool that waits for a lock does not hold up the end of its answer, and changes nothing later', async (t) => {
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
    const lockOwner = sql`select pg_advisory_xact_lock(1, hashtext('u-olena'))`;
    await whileLocked(db, lockOwner, async () => {
      ready.open();
      await until(async () => (await blocked()) === 1);
      olena.client.send({ type: 'message.cancel', session_id: id });
      const { message } = await olena.waitFor('message.completed');
      assert.partialDeepStrictEqual(message, { status: 'cancelled' });
    });
    // Who waited for the lock has had it by then.
    await whileLocked(db, lockOwner, () => Promise.resolve());
    assert.deepEqual(await db.selectFrom('memory_facts').selectAll().execute(), []);
    assert.partialDeepStrictEqual(await stage.steps(id), [{ status: 'failed', changes: null }]);
    assert.equal(olena.of('tool.finished').length, 0);
  });
}
