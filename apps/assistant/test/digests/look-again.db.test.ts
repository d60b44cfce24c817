import assert from 'node:assert/strict';
import { beforeEach, test, type TestContext } from 'node:test';
import { sql } from 'kysely';
import { TURN_CHANNEL, TURN_END_CHANNEL } from '../../src/chat/turns.sql.ts';
import { listWaiting, renewWaiting } from '../../src/digests/waiting.sql.ts';
import { converse } from '../chat/stage.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { openDigestStage, sorted } from './stage.ts';

const stage = await openDigestStage();
const { add, db, feed, model, told } = stage;
const olena = { url: stage.url, sid: await stage.signIn('u-olena') };
const reader = stage.reader();
await reader.pass();

/** Keeps a search that has told of one listing just now, so that what it finds next has to wait. */
async function keep(search: object) {
  const saved = await stage.keep('u-olena', { search });
  const first = add({ price: 1000 });
  await reader.pass();
  assert.deepEqual(await told(saved.sessionId), [[first]]);
  feed.matched.length = 0;
  return { ...saved, first };
}

async function lastText(sessionId: string): Promise<string> {
  return String((await stage.stored(sessionId)).at(-1)?.[1]).replaceAll('\u00A0', ' ');
}

beforeEach(async () => {
  feed.faultOf = () => undefined;
  await db.deleteFrom('saved_searches').execute();
});

test('what no longer matches when the digest is made is not told, and comes once when it matches again', async () => {
  const { sessionId, first } = await keep({ city: 'Львів', price_max: 15_000 });
  const [risen, archived, stays] = [add(), add(), add()];
  await reader.pass();
  feed.price(risen, 20_000);
  feed.archive(archived);
  await stage.later();
  await reader.pass();
  assert.deepEqual(await told(sessionId), [[first], [stays]]);
  assert.match(await lastText(sessionId), /: нових: 1\n/);

  feed.price(risen, 14_500);
  await stage.later();
  await reader.pass();
  assert.match(await lastText(sessionId), /14 500 UAH \(було 20 000 UAH\)/);
  // It is back.
  feed.add(archived);
  feed.price(risen, 14_000);
  await stage.later();
  await reader.pass();
  assert.deepEqual(await told(sessionId), [[first], [stays], [risen], [archived]]);
});

test('where nothing of what was found matches any more there is no digest', async () => {
  const { sessionId, first } = await keep({ city: 'Львів' });
  feed.archive(add());
  await reader.pass();
  await stage.later();
  await reader.pass();
  assert.deepEqual(await told(sessionId), [[first]]);
  const waiting = await db
    .selectFrom('saved_search_hits')
    .selectAll()
    .where('told_at', 'is', null)
    .execute();
  assert.deepEqual(waiting, []);
});

test('what still matches is told as it is by now, and what is not cheaper any more as nothing', async () => {
  const { sessionId, first } = await keep({ city: 'Львів' });
  const known = [add({ price: 14_000 }), add({ price: 14_000 })];
  const [back = 0, still = 0] = known;
  await stage.later();
  await reader.pass();
  const changed = await stage.keep('u-olena', { search: { city: 'Львів', price_max: 50_000 } });
  const before = add({ price: 1000 });
  await reader.pass();
  for (const id of known) feed.price(id, 12_000);
  const fresh = add({ price: 20_000 });
  await reader.pass();
  feed.price(back, 14_000);
  feed.price(still, 13_000);
  feed.price(fresh, 21_000);
  await stage.later();
  await reader.pass();
  assert.deepEqual((await told(changed.sessionId)).map(sorted), [[before], [still, fresh]]);
  const text = await lastText(changed.sessionId);
  assert.match(text, /нових: 1, подешевшало: 1\n/);
  assert.match(text, /\n {3}13 000 UAH \(було 14 000 UAH\) /);
  assert.match(text, /\n {3}21 000 UAH · /);
  // What was told is not looked at.
  assert.deepEqual((await told(sessionId)).map(sorted).slice(0, 2), [[first], known]);
});

test('what was found just now is not asked about again, and more than the collector takes at once in parts', async () => {
  const { sessionId } = await keep({ city: 'Львів' });
  const recent = add();
  await reader.pass();
  feed.matched.length = 0;
  await stage.due();
  await reader.tell();
  assert.deepEqual((await told(sessionId)).at(-1), [recent]);
  assert.equal(feed.matched.length, 0);

  const ids = Array.from({ length: 130 }, () => add());
  await reader.pass();
  feed.matched.length = 0;
  await stage.later();
  await reader.tell();
  assert.deepEqual(
    feed.matched.map(({ ids: asked }) => asked.length),
    [100, 30],
  );
  assert.deepEqual(sorted(feed.matched.flatMap(({ ids: asked }) => asked)), ids);
  assert.match(await lastText(sessionId), /: нових: 130\n/);
});

test('a collector that does not say what became of it has it told as it was found, and is asked once', async () => {
  const kept = [await keep({ city: 'Львів' }), await keep({ price_max: 50_000 })];
  const id = add({ price: 14_000 });
  await reader.pass();
  feed.price(id, 20_000);
  let asked = 0;
  feed.faultOf = () => {
    asked += 1;
    return { status: 503 };
  };
  await stage.later();
  await reader.tell();
  assert.equal(asked, 1);
  for (const { sessionId } of kept) {
    assert.deepEqual((await told(sessionId)).at(-1)?.includes(id), true);
    assert.match(await lastText(sessionId), /14 000 UAH/);
  }
});

test('a find that was found anew while it was looked at stays', async () => {
  const { id: searchId } = await keep({ city: 'Львів', price_max: 15_000 });
  const [again, gone] = [add({ price: 14_000 }), add({ price: 14_000 })];
  await reader.pass();
  await sql`update saved_search_hits set found_at = now() - interval '1 hour'`.execute(db);
  const waiting = (await listWaiting(db, { searchId, limit: 10 }))?.finds ?? [];
  assert.deepEqual(sorted(waiting.map(({ hit }) => hit.listingId)), [again, gone]);
  feed.price(again, 13_000);
  await reader.pass();
  const looked = waiting.map(({ hit: { listingId }, version }) => ({
    listingId,
    version,
    now: undefined,
  }));
  await renewWaiting(db, { searchId, looked });
  const left = await listWaiting(db, { searchId, limit: 10 });
  assert.deepEqual(
    left?.finds.map(({ hit }) => [hit.listingId, hit.listing.price]),
    [[again, 13_000]],
  );
});

test('while an answer is written the collector is asked nothing about what waits for its end, and once after it', async (t) => {
  t.after(await stage.listen(TURN_END_CHANNEL, (payload) => reader.hear(payload)));
  let heard = 0;
  t.after(await stage.listen(TURN_CHANNEL, () => (heard += 1)));
  const { sessionId, first } = await keep({ city: 'Львів' });
  const id = add();
  await reader.pass();
  feed.matched.length = 0;
  const here = await converse(t, olena);
  const gates = [gate(), gate(), gate()];
  t.after(() => gates.forEach(({ open }) => open()));
  model.scripts.push({
    words: ['0 ', ...gates.flatMap(({ opened }, at) => [opened, `${at + 1} `])],
  });
  const answer = here.say(sessionId, 'Пиши');
  await answer.hear('0 ');
  await stage.later();
  await reader.tell();
  for (const [at, { open }] of gates.slice(0, -1).entries()) {
    const before = heard;
    open();
    await answer.hear(`${at + 1} `);
    await until(() => heard > before);
    await reader.tell();
  }
  assert.equal(feed.matched.length, 0);
  gates.at(-1)?.open();
  await until(() => here.arrived.length > 0);
  assert.deepEqual(await told(sessionId), [[first], [id]]);
  assert.deepEqual(
    feed.matched.map(({ ids }) => ids),
    [[id]],
  );
});

test('an answer whose end may have been missed is followed by the digest', async (t) => {
  const { sessionId, first } = await keep({ city: 'Львів' });
  const id = add();
  await reader.pass();
  const here = await converse(t, olena);
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Пишу ', rest.opened, 'далі.'] });
  const answer = here.say(sessionId, 'Пиши');
  await answer.hear('Пишу ');
  await stage.later();
  await reader.tell();
  rest.open();
  await answer.waitFor('message.completed');
  assert.deepEqual(await told(sessionId), [[first]]);
  // As when the connection for notifications was renewed.
  reader.hear('');
  await until(() => here.arrived.length > 0);
  assert.deepEqual(await told(sessionId), [[first], [id]]);
});

/** Lets a reader be answered about one search in a page that then stays as it is, and an hour pass. */
async function readHalf(t: TestContext) {
  t.after(() => {
    feed.pageSize = 100;
  });
  await reader.pass();
  const kept = [
    await stage.keep('u-olena', { search: { price_max: 15_000 } }),
    await stage.keep('u-olena', { search: { price_max: 16_000 } }),
  ];
  const found = add({ price: 14_000 });
  feed.pageSize = 1;
  const later = add({ price: 14_000 });
  feed.faultOf = (path) =>
    path.endsWith('/matches') && feed.matched.length === 1 ? { status: 503 } : undefined;
  feed.matched.length = 0;
  await reader.read();
  assert.equal(feed.matched.length, 1);
  const now = performance.now.bind(performance);
  t.mock.method(performance, 'now', () => now() + 3_600_000);
  return { kept, found, later };
}

test('what the collector was asked long before it is stored is looked at again, however late that is', async (t) => {
  const { kept, found, later } = await readHalf(t);
  feed.faultOf = () => undefined;
  feed.archive(found);
  await reader.pass();
  for (const { sessionId } of kept) assert.deepEqual(await told(sessionId), [[later]]);
});

test('what a process was asked long ago is looked at again where another one has stored it since', async (t) => {
  const { kept, found } = await readHalf(t);
  feed.price(found, 14_500);
  feed.matched.length = 0;
  await stage.leaseEnds();
  const other = stage.reader({ searchesAtOnce: 1 });
  await other.read();
  await other.close();
  const stored = await db.selectFrom('saved_search_hits').select('listing_id').execute();
  assert.deepEqual(stored, [{ listing_id: found }]);
  feed.faultOf = () => undefined;
  await reader.pass();
  for (const { sessionId } of kept) {
    const text = await lastText(sessionId);
    assert.match(text, /14 500 UAH/);
    assert.equal(text.match(/#/g)?.length, 2);
  }
});

test('a collector that is asked too often is waited for a bounded time by all digests together', async () => {
  const kept = [await keep({ city: 'Львів' }), await keep({ price_max: 50_000 })];
  const id = add({ price: 14_000 });
  await reader.pass();
  await reader.close();
  const hasty = stage.reader({ mostWaitedSeconds: 1 });
  let asked = 0;
  feed.faultOf = () => {
    asked += 1;
    return { status: 429, retryAfter: 1 };
  };
  await stage.later();
  await hasty.tell();
  await hasty.close();
  assert.equal(asked, 2, 'again after the one second, and then for no search');
  for (const { sessionId } of kept) {
    assert.equal((await told(sessionId)).at(-1)?.includes(id), true);
  }
});
