import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chunk, streamed, toolCallChunk } from '@oselya/model/testing';
import { sql } from 'kysely';
import { storePage } from '../../src/digests/feed.sql.ts';
import { listWaiting, renewWaiting } from '../../src/digests/waiting.sql.ts';
import type { Tables } from '../../src/tables.ts';
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

  /** How many wait for a row of a table: who does holds its place in the queue for it. */
  async function waitingFor(table: keyof Tables): Promise<number> {
    const { rows } = await sql<{ count: number }>`
      select count(*)::int as count from pg_locks
      where database = (select oid from pg_database where datname = current_database())
        and locktype = 'tuple' and relation = ${table}::regclass`.execute(db);
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

  const listing = { title: 'Хата', price: 1, currency: null, city: null, district: null };
  const facts = { ...listing, rooms: null, area_total: null, url: null };
  const hit = (listingId: number) => ({
    listingId,
    kind: 'new' as const,
    oldPrice: null,
    listing: facts,
  });

  /** Keeps a search, which a page of the feed, read by `test`, has found a listing for. */
  async function keepSearch(query: string) {
    const sid = await stage.signIn(`u-${query}`);
    const search = { name: 'Хата', search: { query } };
    const { id } = (await request('POST', '/saved-searches', sid, search)).json<{ id: string }>();
    await db
      .updateTable('collector_feed')
      .set({ holder: 'test', lease_until: sql<Date>`now() + interval '1 hour'`, cursor: null })
      .execute();
    const page = (from: string | null, to: string, ids: number[]) =>
      storePage(db, 'test', {
        from,
        to,
        isLast: false,
        found: [
          { search: { query }, ids: [id], hits: ids.map(hit), answeredAt: performance.now() },
        ],
      });
    assert.partialDeepStrictEqual(await page(null, 'a', [1]), { new: 1 });
    const found = async () => {
      const hits = await db
        .selectFrom('saved_search_hits')
        .select(['listing_id', 'search_changed'])
        .where('search_id', '=', id)
        .orderBy('listing_id')
        .execute();
      return hits.map(({ listing_id, search_changed }) => [listing_id, search_changed]);
    };
    return { id, sid, page, found };
  }

  // What is found for one that is changed has to be found by it as it is then.
  for (const [what, method, body, left] of [
    ['end', 'DELETE', undefined, []],
    ['change', 'PATCH', { search: { query: 'дім' } }, [1, 2]],
    ['pause', 'PATCH', { search: { query: 'дача' }, paused: true }, [1]],
  ] as const) {
    test(`a page of the feed waits for the ${what} of a search, and then goes by that`, async () => {
      const { id, sid, page, found } = await keepSearch(`хата-${what}`);
      const both: Promise<unknown>[] = [];
      // The search itself is locked by then, and what it has found comes after.
      const lock = sql`select from saved_search_hits where search_id = ${id} for update`;
      await whileLocked(db, lock, async () => {
        both.push(request(method, `/saved-searches/${id}`, sid, body));
        await until(async () => (await blocked()) === 1);
        both.push(page('a', 'b', [1, 2]));
        await until(async () => (await blocked()) === 2);
      });
      const [changed, stored] = await Promise.all(both);
      assert.partialDeepStrictEqual(changed, { statusCode: 200 });
      assert.deepEqual(stored, { new: left.length > 1 ? 1 : 0, cheaper: 0 });
      assert.deepEqual(
        await found(),
        left.map((listingId) => [listingId, true]),
      );
    });
  }

  test('a look at what waits by a search that is being changed takes nothing from what it is changed to', async () => {
    const { id, sid, found } = await keepSearch('хата-again');
    await sql`update saved_search_hits set found_at = now() - interval '1 hour'`.execute(db);
    const waiting = await listWaiting(db, { searchId: id, limit: 10 });
    const version = waiting?.finds[0]?.version ?? assert.fail();
    const both: Promise<unknown>[] = [];
    const lock = sql`select from saved_search_hits where search_id = ${id} for update`;
    await whileLocked(db, lock, async () => {
      const body = { search: { query: 'дім' } };
      both.push(request('PATCH', `/saved-searches/${id}`, sid, body));
      await until(async () => (await blocked()) === 1);
      // The search as it was finds it no more.
      const looked = [{ listingId: 1, version, now: undefined }];
      both.push(renewWaiting(db, { searchId: id, looked }));
      await until(async () => (await waitingFor('saved_searches')) === 1);
    });
    assert.partialDeepStrictEqual((await Promise.all(both))[0], { statusCode: 200 });
    assert.deepEqual(await found(), [[1, true]]);
  });

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
