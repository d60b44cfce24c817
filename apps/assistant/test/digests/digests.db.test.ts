import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { converse, type Heard, talk } from '../chat/stage.ts';
import { openDigestStage, sorted } from './stage.ts';

const stage = await openDigestStage();
const { db, feed, model, told } = stage;
const sid = await stage.signIn('u-olena');
const olena = { url: stage.url, sid };
const reader = stage.reader();
// The cursor of now: what is there already is in no digest.
feed.add(1);
await reader.pass();

const countHits = async () =>
  (await db.selectFrom('saved_search_hits').selectAll().execute()).length;

beforeEach(async () => {
  await reader.pass();
  await db.deleteFrom('saved_searches').execute();
  feed.matched.length = 0;
});

test('what is new or cheaper comes once for each search, to whoever has the session open', async (t) => {
  const cheap = await stage.keep('u-olena', { search: { city: 'Львів', price_max: 10_000 } });
  const all = await stage.keep('u-olena');
  const open = await converse(t, olena);
  await open.open(all.sessionId);
  feed.add(11, { title: 'Біля парку', url: 'https://a.test/11' });
  feed.add(12, { city: 'Київ' });
  feed.add(13, { price: 9000 });
  await reader.pass();
  await until(() => open.arrived.length > 0);
  const [{ sessionId, message } = assert.fail()] = open.arrived;
  assert.equal(sessionId, all.sessionId);
  assert.equal(message.role, 'assistant');
  assert.match(message.content, /нових: 2[^]*Біля парку[^]*https:\/\/a\.test\/11/);
  assert.deepEqual((await told(all.sessionId)).map(sorted), [[11, 13]]);
  assert.deepEqual(await told(cheap.sessionId), [[13]]);

  // Cheaper: new to the one search, known to the other.
  await stage.later();
  feed.price(11, 9500);
  await reader.pass();
  assert.deepEqual(await told(cheap.sessionId), [[13], [11]]);
  assert.equal((await told(all.sessionId)).length, 1);
  const [row] = await db
    .selectFrom('conversation_messages')
    .select('content')
    .where('session_id', '=', cheap.sessionId)
    .orderBy('position', 'desc')
    .execute();
  assert.match(
    String(row?.content).replaceAll('\u00A0', ' '),
    /подешевшало: 1[^]*9 500 UAH \(було 14 000 UAH\)/,
  );

  // Again and again: nothing more.
  feed.price(11, 9000);
  feed.add(11);
  feed.add(13, { price: 8000 });
  await stage.later();
  await reader.pass();
  assert.deepEqual(await told(cheap.sessionId), [[13], [11]]);
  assert.equal(open.arrived.length, 1);
  // What has been told is kept by its id alone.
  const hits = await db.selectFrom('saved_search_hits').selectAll().execute();
  assert.equal(hits.length, 4);
  assert.ok(hits.every(({ told_at: toldAt, listing }) => toldAt !== null && listing === null));
});

test('digests are at least so far apart, and what comes meanwhile is in the next, as it is by then', async () => {
  const { sessionId } = await stage.keep('u-olena', { every: 30 });
  feed.add(21);
  await reader.pass();
  feed.add(22, { price: 20_000 });
  await reader.pass();
  feed.price(22, 18_000);
  feed.add(23);
  await reader.pass();
  assert.deepEqual(await told(sessionId), [[21]]);
  await stage.later();
  await reader.pass();
  assert.deepEqual(await told(sessionId), [[21], [23, 22]]);
  const messages = await stage.stored(sessionId);
  const text = String(messages.at(-1)?.[1]).replaceAll('\u00A0', ' ');
  assert.match(text, /18 000 UAH \(було 20 000 UAH\)/);
});

test('each search waits for the minutes that it asked for, and for no more', async () => {
  const often = await stage.keep('u-olena', { every: 30 });
  const daily = await stage.keep('u-olena', { every: 24 * 60 });
  feed.add(26);
  await reader.pass();
  feed.add(27);
  const both = async () => [await told(often.sessionId), await told(daily.sessionId)];
  await stage.later('29 minutes');
  await reader.pass();
  assert.deepEqual(await both(), [[[26]], [[26]]]);
  await stage.later('1 minute');
  await reader.pass();
  assert.deepEqual(await both(), [[[26], [27]], [[26]]]);
  await stage.later('23 hours 29 minutes');
  await reader.pass();
  assert.deepEqual(await both(), [[[26], [27]], [[26]]]);
  await stage.later('1 minute');
  await reader.pass();
  assert.deepEqual(await both(), [
    [[26], [27]],
    [[26], [27]],
  ]);
});

test('ten listings are shown, the others counted, and none of them comes again', async () => {
  const { sessionId } = await stage.keep('u-olena');
  for (let id = 1000; id < 1250; id += 1) feed.add(id);
  await reader.pass();
  const [ids = []] = await told(sessionId);
  assert.equal(ids.length, 10);
  const [message] = await stage.stored(sessionId);
  assert.match(String(message?.[1]), /нових: 250[^]*і ще 240$/);
  await stage.later();
  await reader.pass();
  assert.equal((await told(sessionId)).length, 1);
});

test('equal searches are asked about once, whoever keeps them', async () => {
  await stage.signIn('u-taras');
  const kept = [
    await stage.keep('u-olena', { search: { city: 'Львів', price_max: 5e4 } }),
    await stage.keep('u-taras', { search: { price_max: 50_000, city: 'Львів' } }),
    await stage.keep('u-taras', { search: { city: 'Київ' } }),
  ];
  feed.add(31);
  feed.add(32);
  await reader.pass();
  assert.equal(feed.matched.length, 2);
  assert.deepEqual(
    feed.matched.map(({ ids }) => ids),
    [
      [31, 32],
      [31, 32],
    ],
  );
  const counts = await Promise.all(
    kept.map(async (saved) => (await told(saved.sessionId)).flat().length),
  );
  assert.deepEqual(counts, [2, 2, 0]);
});

test('a paused search, and one whose session was deleted, finds and tells nothing', async () => {
  const paused = await stage.keep('u-olena', { name: 'paused' });
  const gone = await stage.keep('u-olena', { name: 'gone' });
  await db
    .updateTable('saved_searches')
    .set({ paused: true })
    .where('id', '=', paused.id)
    .execute();
  await db.deleteFrom('conversation_sessions').where('id', '=', gone.sessionId).execute();
  feed.add(41);
  await reader.pass();
  assert.equal(feed.matched.length, 0);
  await db.updateTable('saved_searches').set({ paused: false }).execute();
  feed.add(42);
  await reader.pass();
  assert.deepEqual(await told(paused.sessionId), [[42]]);
});

test('a search that is changed while it is asked about does not get what it did not ask for', async () => {
  const changed = await stage.keep('u-olena', { search: { city: 'Львів' } });
  const deleted = await stage.keep('u-olena', { search: { city: 'Львів' } });
  const waiting = gate();
  feed.add(51);
  feed.gate = waiting.opened;
  const pass = reader.pass();
  await until(() => feed.waiting === 1);
  await db
    .updateTable('saved_searches')
    .set({ search: JSON.stringify({ city: 'Київ' }) })
    .where('id', '=', changed.id)
    .execute();
  await db.deleteFrom('saved_searches').where('id', '=', deleted.id).execute();
  waiting.open();
  feed.gate = undefined;
  await pass;
  assert.deepEqual(await told(changed.sessionId), []);
  assert.deepEqual(await told(deleted.sessionId), []);
});

test('no digest comes into an answer: it comes right after it, on every process', async (t) => {
  const { sessionId } = await stage.keep('u-olena');
  feed.add(61);
  const [reading, rest] = [gate(), gate()];
  t.after(() => {
    reading.open();
    rest.open();
    feed.gate = undefined;
  });
  feed.gate = reading.opened;
  feed.waiting = 0;
  await stage.leaseEnds();
  // It looks once, as it starts: then what is heard of the session has to be enough.
  const url = await stage.another({ SAVED_SEARCH_POLL_SECONDS: '3600' });
  await until(() => feed.waiting === 1);
  // Where it stands among the events of an answer is what frames tell.
  const here = await talk(t, { url, sid });
  const there = await talk(t, olena);
  await there.client.ask({ type: 'session.open', session_id: sessionId });
  model.scripts.push({ words: ['Пишу ', rest.opened, 'далі.'] });
  await here.say(sessionId, 'Пиши');
  await here.hear('Пишу ');
  reading.open();
  await until(async () => (await countHits()) > 0);
  assert.deepEqual(await told(sessionId), []);
  rest.open();
  for (const talker of [here, there]) {
    assert.equal((await talker.waitFor('message.arrived'))['seq'], 1);
    const types = talker.client.frames
      .map(({ type }) => type)
      .filter((type) => type === 'message.completed' || type === 'message.arrived');
    assert.deepEqual(types, ['message.completed', 'message.arrived']);
  }
  assert.deepEqual(
    (await stage.stored(sessionId)).map(([role]) => role),
    ['user', 'assistant', 'assistant'],
  );
  await stage.leaseEnds();
});

for (const isMissed of [false, true]) {
  const how = isMissed ? 'with its notification missed' : 'with its notification heard';
  test(`an answer that ends before it is known that a digest waits for it is followed by the digest, ${how}`, async (t) => {
    const here = await converse(t, olena);
    let answer: Heard | undefined;
    const { sessionId } = await stage.keep('u-olena');
    const rest = gate();
    t.after(rest.open);
    const outcomes: string[] = [];
    const late = stage.reader({
      onOutcome: async (outcome) => {
        outcomes.push(outcome);
        if (outcome !== 'busy') return;
        rest.open();
        await answer?.waitFor('message.completed');
        late.hear(isMissed ? '' : sessionId);
      },
    });
    t.after(() => late.close());
    await stage.leaseEnds();
    feed.add(isMissed ? 72 : 71);
    await late.read();
    feed.add(isMissed ? 74 : 73);
    await late.read();
    await stage.later();
    const looking = gate();
    t.after(looking.open);
    feed.gate = looking.opened;
    feed.waiting = 0;
    const telling = late.tell();
    await until(() => feed.waiting === 1);
    // The answer begins while what waits is looked at again.
    model.scripts.push({ words: ['Пишу ', rest.opened, 'далі.'] });
    answer = here.say(sessionId, 'Пиши');
    await answer.hear('Пишу ');
    feed.gate = undefined;
    looking.open();
    await telling;
    // What is told may be heard before the one that tells it knows.
    await until(() => here.arrived.length > 0 && outcomes.at(-1) === 'told');
    assert.deepEqual(outcomes, ['told', 'busy', 'told']);
    await late.close();
    await stage.leaseEnds();
  });
}

test('what is asked for while the feed is being read is not lost', async () => {
  const { id } = await stage.keep('u-olena');
  const waiting = gate();
  feed.add(81);
  feed.gate = waiting.opened;
  feed.waiting = 0;
  const first = reader.read();
  await until(() => feed.waiting === 1);
  // After the page that is being looked at.
  feed.add(82);
  const second = reader.read();
  waiting.open();
  feed.gate = undefined;
  await Promise.all([first, second]);
  const hits = await db
    .selectFrom('saved_search_hits')
    .select('listing_id')
    .where('search_id', '=', id)
    .execute();
  assert.deepEqual(sorted(hits.map(({ listing_id }) => listing_id)), [81, 82]);
});
