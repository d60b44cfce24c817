import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { startProcess } from '../faults/processes.ts';
import { untilBlocked, whileLocked } from '../faults/locks.ts';
import { openDigestStage, sorted } from './stage.ts';

const stage = await openDigestStage();
const { db, feed, told } = stage;
await stage.signIn('u-olena');

beforeEach(async () => {
  feed.faultOf = () => undefined;
  feed.gate = undefined;
  await db.deleteFrom('saved_searches').execute();
  await db.updateTable('collector_feed').set({ cursor: null, holder: null }).execute();
  await stage.leaseEnds();
  const first = stage.reader();
  await first.pass();
  await first.close();
});

/** Listings come, which every search for Lviv is to tell of once. */
function add(count: number): number[] {
  return Array.from({ length: count }, () => stage.add());
}

/** How far the feed has been read. */
const place = () => db.selectFrom('collector_feed').select('cursor').executeTakeFirst();

/** What of these a session was never told of, and what more than once. */
async function lostAndDoubled(sessionId: string, ids: readonly number[]) {
  const heard = (await told(sessionId)).flat();
  return {
    lost: ids.filter((id) => !heard.includes(id)),
    doubled: heard.filter((id, index) => heard.indexOf(id) !== index),
    others: heard.filter((id) => !ids.includes(id)),
  };
}

const NOTHING = { lost: [], doubled: [], others: [] };

test('through outages, cut answers, deaths and changes of the reading process each listing is told once', async () => {
  const searches = [
    await stage.keep('u-olena'),
    await stage.keep('u-olena', { search: { city: 'Львів', price_max: 20_000 } }),
  ];
  feed.pageSize = 3;
  const faults = [503, 429, 500, 'cut', 'die', 'lease', 'late'] as const;
  const ids: number[] = [];
  const readers = [];
  for (let round = 0; round < 42; round += 1) {
    const fault = faults[round % faults.length];
    ids.push(...add(2));
    // It goes wrong with every kind of request in turn, and in the middle of several.
    let requests = 0;
    feed.faultOf = (path) => {
      requests += 1;
      if (requests <= round % 4) return undefined;
      const isMeant = round % 2 === 0 || path.endsWith('/matches');
      if (!isMeant || fault === undefined) return undefined;
      if (fault === 'cut') return 'cut';
      return typeof fault === 'number' ? { status: fault, retryAfter: 3600 } : undefined;
    };
    const reader = stage.reader({ dies: () => fault === 'die' });
    readers.push(reader);
    await reader.pass();
    feed.faultOf = () => undefined;
    // One that dies lets nobody know, and the next one has to wait for the end of its lease.
    if (fault === 'lease') await stage.reader().pass();
    await stage.leaseEnds();
    if (fault !== 'late') await stage.later();
  }
  const bitten = await Promise.all(
    readers.map((reader) => reader.metric('assistant_feed_failures_total')),
  );
  assert.ok(bitten.filter((count) => count > 0).length >= 10, String(bitten));
  for (const reader of readers) await reader.close();
  const last = stage.reader();
  await last.pass();
  await stage.later();
  await last.pass();
  await last.close();
  feed.pageSize = 100;
  assert.equal(ids.length, 84);
  const hits = await db.selectFrom('saved_search_hits').selectAll().execute();
  assert.equal(hits.length, ids.length * searches.length);
  assert.ok(hits.every(({ told_at, listing }) => told_at !== null && listing === null));
  for (const { sessionId } of searches) {
    // A digest shows ten, and the rounds leave fewer for each.
    assert.deepEqual(await lostAndDoubled(sessionId, ids), NOTHING);
  }
});

test('two processes at once: one reads and tells, and nothing comes twice', async () => {
  const { sessionId } = await stage.keep('u-olena');
  const readers = [stage.reader(), stage.reader(), stage.reader()];
  const ids: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    ids.push(...add(2));
    feed.matched.length = 0;
    await Promise.all(readers.map((reader) => reader.pass()));
    assert.equal(feed.matched.length, 1);
    await stage.later();
  }
  assert.deepEqual(await lostAndDoubled(sessionId, ids), NOTHING);
  // Each one that ends leaves it to another at once.
  for (const reader of readers) {
    await reader.close();
    ids.push(...add(1));
    await stage.later();
    for (const other of readers)
      if (readers.indexOf(other) > readers.indexOf(reader)) await other.pass();
  }
  const last = stage.reader();
  await last.pass();
  await last.close();
  assert.deepEqual(await lostAndDoubled(sessionId, ids), NOTHING);
});

test('a process that was slower than its lease changes nothing', async () => {
  const { sessionId } = await stage.keep('u-olena');
  // One of the two is asked about after the other one, when the slow process claims the feed again.
  await stage.keep('u-olena', { search: { price_max: 1 } });
  const ids = add(2);
  const waiting = gate();
  feed.gate = waiting.opened;
  feed.waiting = 0;
  const slow = stage.reader();
  const reading = slow.pass();
  await until(() => feed.waiting === 1);
  feed.gate = undefined;
  await stage.leaseEnds();
  const quick = stage.reader();
  await quick.pass();
  assert.deepEqual(sorted((await told(sessionId)).flat()), ids);
  ids.push(...add(1));
  await stage.later();
  await quick.pass();
  await quick.close();
  const reached = await place();
  await stage.later();
  waiting.open();
  await slow.read();
  await reading;
  assert.deepEqual(sorted((await told(sessionId)).flat()), ids);
  assert.deepEqual(await place(), reached, 'the feed does not go back');
  assert.equal(await slow.metric('assistant_saved_search_hits_total'), 0);
  assert.equal(await quick.metric('assistant_saved_search_hits_total'), 3);
  await slow.close();
});

test('an outage of the collector is told in the log once, and counted; digests that are due come all the same', async () => {
  const { sessionId } = await stage.keep('u-olena');
  const reader = stage.reader();
  const [first = 0] = add(1);
  await reader.pass();
  const [second = 0] = add(1);
  await reader.pass();
  feed.faultOf = () => ({ status: 503 });
  await stage.later();
  for (let times = 0; times < 3; times += 1) await reader.pass();
  assert.deepEqual(await told(sessionId), [[first], [second]]);
  feed.faultOf = () => undefined;
  await reader.pass();
  feed.faultOf = () => 'cut';
  await reader.pass();
  const messages = reader.lines.map((line) => JSON.parse(line).msg as string);
  assert.deepEqual(
    messages.map((text) => (/cannot be read/.test(text) ? 'down' : 'up')),
    ['down', 'up', 'down'],
  );
  assert.equal(await reader.metric('assistant_feed_failures_total'), 4);
  assert.equal(await reader.metric('assistant_digests_total'), 2);
  assert.equal(await reader.metric('assistant_digest_listings_total'), 2);
  assert.equal(await reader.metric('assistant_saved_searches'), 1);
  await db
    .updateTable('collector_feed')
    .set({ caught_up_at: sql<Date>`now() - interval '1 hour'` })
    .execute();
  await reader.pass();
  const lag = await reader.metric('assistant_feed_lag_seconds');
  assert.ok(lag > 3590 && lag < 3700, String(lag));
  await reader.close();
});

test('a cursor that the collector does not know is given up for that of now', async () => {
  const { sessionId } = await stage.keep('u-olena');
  const reader = stage.reader();
  add(3);
  await reader.pass();
  await stage.later();
  feed.restore();
  await reader.pass();
  const ids = add(2);
  await reader.pass();
  assert.deepEqual(sorted((await told(sessionId)).at(-1) ?? []), ids);
  assert.equal(reader.lines.length, 1);
  assert.match(reader.lines[0] ?? '', /older copy of its database/);
  await reader.close();
});

test('a collector that is asked too often is waited for in the middle of a page', async () => {
  const searches = [
    await stage.keep('u-olena'),
    await stage.keep('u-olena', { search: { price_max: 1e6 } }),
  ];
  const ids = add(2);
  let refusals = 0;
  feed.faultOf = () => {
    if (refusals >= 4) return undefined;
    refusals += 1;
    return { status: 429, retryAfter: 0 };
  };
  const reader = stage.reader();
  await reader.pass();
  for (const { sessionId } of searches) {
    assert.deepEqual(await lostAndDoubled(sessionId, ids), NOTHING);
  }
  assert.equal(await reader.metric('assistant_feed_failures_total'), 0);
  await reader.close();
});

test('what was asked before a page failed is not asked again', async () => {
  const kept = [];
  for (const price_max of [1e6, 2e6, 3e6]) {
    kept.push(await stage.keep('u-olena', { search: { price_max } }));
  }
  const ids = add(2);
  feed.matched.length = 0;
  const reader = stage.reader();
  // The first request of each attempt is answered, and no other.
  for (let attempt = 0; attempt < 2; attempt += 1) {
    let requests = 0;
    feed.faultOf = (path) => {
      if (!path.endsWith('/matches')) return undefined;
      requests += 1;
      return requests === 1 ? undefined : { status: 503 };
    };
    await reader.pass();
  }
  feed.faultOf = () => undefined;
  await reader.pass();
  assert.equal(new Set(feed.matched.map(({ price_max: most }) => most)).size, 3);
  assert.equal(feed.matched.length, 3);
  for (const { sessionId } of kept) {
    assert.deepEqual(await lostAndDoubled(sessionId, ids), NOTHING);
  }
  await reader.close();
});

test('many searches are asked about in parts, and what a part found is not asked for again', async () => {
  const kept = [];
  for (const most of [1, 2, 3, 4, 5]) {
    kept.push(await stage.keep('u-olena', { search: { price_max: most * 1e6 } }));
  }
  const before = await place();
  const ids = add(2);
  feed.matched.length = 0;
  const reader = stage.reader({ searchesAtOnce: 2 });
  feed.faultOf = (path) =>
    path.endsWith('/matches') && feed.matched.length === 4 ? { status: 503 } : undefined;
  await reader.pass();
  const stored = await db.selectFrom('saved_search_hits').selectAll().execute();
  assert.equal(stored.length, 8, 'two parts of two searches');
  assert.deepEqual(await place(), before, 'the page is not read to its end');
  feed.faultOf = () => undefined;
  await reader.pass();
  assert.equal(feed.matched.length, 5);
  assert.equal(new Set(feed.matched.map(({ price_max: most }) => most)).size, 5);
  assert.equal(await reader.metric('assistant_saved_search_hits_total'), 10);
  for (const { sessionId } of kept) {
    assert.deepEqual(await lostAndDoubled(sessionId, ids), NOTHING);
  }
  await reader.close();
});

test('a search that the collector refuses holds up no other', async () => {
  const refused = await stage.keep('u-olena', { search: { city: 'Львів', garage: true } });
  const { sessionId } = await stage.keep('u-olena');
  const ids = add(1);
  let times = 0;
  feed.faultOf = (path) => {
    if (!path.endsWith('/matches')) return undefined;
    times += 1;
    return times === 1 ? { status: 422 } : undefined;
  };
  const reader = stage.reader();
  await reader.pass();
  const heard = [...(await told(sessionId)), ...(await told(refused.sessionId))];
  assert.deepEqual(heard, [ids]);
  feed.faultOf = (path) => (path.endsWith('/matches') ? { status: 422 } : undefined);
  for (let pages = 0; pages < 3; pages += 1) {
    add(1);
    await reader.pass();
  }
  assert.equal(reader.lines.length, 2, 'once for each search');
  await reader.close();
});

// Killing takes a process, and a process takes a database that it can reach.
if (stage.engine === 'postgres') {
  test('a process is killed between what it found and what it tells: another one tells it once', async () => {
    const { sessionId } = await stage.keep('u-olena');
    const victim = await startProcess(stage, {
      COLLECTOR_URL: feed.url,
      SAVED_SEARCH_POLL_SECONDS: '1',
    });
    let ids: number[] = [];
    await whileLocked(
      db,
      sql`lock table conversation_messages in share row exclusive mode`,
      async () => {
        // Not before: a process that looked just then would have told of them already.
        ids = add(3);
        await untilBlocked(db);
        const hits = await db.selectFrom('saved_search_hits').selectAll().execute();
        assert.deepEqual(sorted(hits.map(({ listing_id }) => listing_id)), ids);
        await victim.kill();
      },
    );
    assert.deepEqual(await told(sessionId), []);
    const heir = stage.reader();
    await heir.pass();
    assert.deepEqual(await told(sessionId), [], 'until the lease has run out');
    await stage.leaseEnds();
    await heir.pass();
    assert.deepEqual(await lostAndDoubled(sessionId, ids), NOTHING);
    assert.equal((await told(sessionId)).length, 1);
    await heir.close();
  });
}
