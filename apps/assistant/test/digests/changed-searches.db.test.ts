import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { openDigestStage, sorted } from './stage.ts';

const stage = await openDigestStage();
const { add, db, feed, told } = stage;
const sid = await stage.signIn('u-olena');
const reader = stage.reader();
await reader.pass();

/** Changes a search as its owner does. */
async function change(searchId: string, payload: object): Promise<void> {
  const cookies = { svc_auth_session: sid };
  const path = `/saved-searches/${searchId}`;
  const answer = await stage.app.inject({ method: 'PATCH', url: path, cookies, payload });
  assert.equal(answer.statusCode, 200);
}

/** What a search finds up to a price. */
const upTo = (price_max: number) => ({ city: 'Львів', price_max });

/** Keeps searches that have told of one listing just now, so that what they find next has to wait. */
async function keep(...prices: number[]) {
  const kept = [];
  for (const price of prices) {
    kept.push({ price, ...(await stage.keep('u-olena', { search: upTo(price) })) });
  }
  const first = add({ price: 1000 });
  await reader.pass();
  for (const { sessionId } of kept) assert.deepEqual(await told(sessionId), [[first]]);
  feed.matched.length = 0;
  const inOrder = kept.toSorted((one, other) => (one.id < other.id ? -1 : 1));
  return { kept: inOrder, first };
}

/** Keeps one. */
async function keepOne(price: number) {
  const { kept, first } = await keep(price);
  const [saved] = kept;
  assert.ok(saved);
  return { ...saved, first };
}

/** What each of some was told, listings of one digest in the order of their ids. */
const toldOf = (kept: readonly { sessionId: string }[]) =>
  Promise.all(kept.map(async ({ sessionId }) => (await told(sessionId)).map(sorted)));

beforeEach(async () => {
  feed.faultOf = () => undefined;
  await db.deleteFrom('saved_searches').execute();
});

test('of what waits a search that is changed tells what it finds as it is now, however recent', async () => {
  const { id, sessionId, first } = await keepOne(15_000);
  const [cheap] = [add({ price: 8000 }), add({ price: 14_000 })];
  await reader.pass();
  // As a form is sent that was filled in for another name.
  await change(id, { name: 'Біля парку', search: upTo(15_000) });
  await change(id, { search: upTo(9000) });
  await stage.due();
  await reader.tell();
  assert.deepEqual(await told(sessionId), [[first], [cheap]]);
  const text = String((await stage.stored(sessionId)).at(-1)?.[1]);
  assert.match(text.replaceAll('\u00A0', ' '), /Біля парку.*: нових: 1\n/);
});

test('what a search found before it was changed waits while the collector does not say whether it finds that now', async () => {
  const { id, sessionId, first } = await keepOne(15_000);
  const [cheap] = [add({ price: 8000 }), add({ price: 14_000 })];
  await reader.pass();
  await change(id, { search: upTo(9000) });
  await stage.later();
  for (const status of [503, 422]) {
    feed.faultOf = () => ({ status });
    await reader.tell();
    assert.deepEqual(await told(sessionId), [[first]]);
  }
  // One more is found by the search as it is now, and then nothing is answered again.
  const again = add({ price: 8500 });
  let asked = 0;
  feed.faultOf = (path) => {
    if (path.endsWith('/matches')) asked += 1;
    return asked > 1 ? { status: 503 } : undefined;
  };
  await reader.pass();
  assert.equal(asked, 2);
  assert.deepEqual(await told(sessionId), [[first], [again]]);
  feed.faultOf = () => undefined;
  await stage.later();
  await reader.tell();
  assert.deepEqual(await told(sessionId), [[first], [again], [cheap]]);
});

test('a search that is sent as it was while its finds are looked at again has them looked at all the same', async () => {
  const { id, sessionId, first } = await keepOne(15_000);
  const [stays, gone] = [add({ price: 8000 }), add({ price: 9000 })];
  await reader.pass();
  feed.archive(gone);
  await stage.later();
  await stage.whileAsked(reader.tell, () =>
    change(id, { name: 'Біля парку', search: upTo(15_000) }),
  );
  assert.deepEqual(await told(sessionId), [[first], [stays]]);
});

test('a search that is changed while its finds are looked at again tells none that it does not find now', async () => {
  const { id, sessionId, first } = await keepOne(15_000);
  const [cheap] = [add({ price: 8000 }), add({ price: 14_000 })];
  await reader.pass();
  await stage.later();
  await stage.whileAsked(reader.tell, () => change(id, { search: upTo(9000) }));
  assert.deepEqual(await told(sessionId), [[first]]);
  await reader.tell();
  assert.deepEqual(await told(sessionId), [[first], [cheap]]);
});

test('searches that are changed while those before them are told tell what they find now, and lose nothing of it', async () => {
  const { kept, first } = await keep(15_000, 15_000, 15_000);
  const [, narrowed, widened] = kept;
  assert.ok(narrowed && widened);
  const [cheap, dear, risen] = [
    add({ price: 8000 }),
    add({ price: 14_000 }),
    add({ price: 14_500 }),
  ];
  await reader.pass();
  feed.price(risen, 16_000);
  await stage.later();
  await stage.whileAsked(reader.tell, async () => {
    await change(narrowed.id, { search: upTo(9000) });
    await change(widened.id, { search: upTo(17_000) });
  });
  assert.deepEqual(await toldOf(kept), [
    [[first], [cheap, dear]],
    [[first], [cheap]],
    [[first], [cheap, dear, risen]],
  ]);
});

test('what a search found in a page during which it was changed is told where it finds that now', async () => {
  const { kept, first } = await keep(15_000, 15_000);
  const [narrowed, widened] = kept;
  assert.ok(narrowed && widened);
  const [cheap, dear] = [add({ price: 8000 }), add({ price: 14_000 })];
  await stage.due();
  await stage.whileAsked(
    () => reader.pass(),
    async () => {
      await change(narrowed.id, { search: upTo(9000) });
      await change(widened.id, { search: upTo(16_000) });
    },
  );
  assert.deepEqual(await toldOf(kept), [
    [[first], [cheap]],
    [[first], [cheap, dear]],
  ]);
});

test('what is changed while many searches are asked about in parts misses nothing of the page', async () => {
  const { kept, first } = await keep(16_000, 17_000, 18_000);
  const id = add({ price: 14_000 });
  await stage.due();
  await stage.leaseEnds();
  const inParts = stage.reader({ searchesAtOnce: 1 });
  feed.faultOf = () => (feed.matched.length === 1 ? { status: 503 } : undefined);
  await inParts.read();
  feed.faultOf = () => undefined;
  const asked = feed.matched[0]?.price_max ?? assert.fail();
  const [one, other] = kept.filter(({ price }) => price !== asked);
  assert.ok(one && other);
  await change(one.id, { search: upTo(asked) });
  await stage.whileAsked(
    () => inParts.pass(),
    () => change(other.id, { search: upTo(15_000) }),
  );
  await inParts.close();
  assert.deepEqual(
    await toldOf(kept),
    kept.map(() => [[first], [id]]),
  );
  const equal = feed.matched.filter(({ price_max: most }) => most === asked);
  assert.equal(equal.length, 1, 'what two of them look for by then is asked about once');
});
