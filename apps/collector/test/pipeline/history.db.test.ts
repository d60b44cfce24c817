import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ModelClient } from '@oselya/model';
import {
  openDatabase,
  payloadOf,
  countedModel,
  createHarness,
  listingOf,
  outcomesOf,
  snapshotsOf,
} from '../support/pipeline.ts';

const { db } = await openDatabase();

test('a changed price is in the snapshot, and the text that stayed is not embedded again', async () => {
  const model = countedModel();
  const harness = createHarness(db, { model });
  const payload = payloadOf({ price: 62_000, currency: 'USD', city: 'Львів' });
  const first = await harness.process(payload);
  // The mock's summary names the price, and a changed summary is another text to embed.
  const summary = (await listingOf(db, payload))?.summary;
  const second = await harness.process({ ...payload, price: 59_000 });
  const third = await harness.process({ ...payload, price: 59_000, contact_name: 'Оксана' });
  assert.equal(second.listing_id, first.listing_id);
  const snapshots = await snapshotsOf(db, first.listing_id);
  assert.deepEqual(
    snapshots.map((one) => one.changes['price']),
    [undefined, { from: 62_000, to: 59_000 }, undefined],
  );
  assert.deepEqual(snapshots[2]?.changes, { contact_name: { from: null, to: 'Оксана' } });
  assert.equal((await listingOf(db, payload))?.price, 59_000);
  assert.notEqual((await listingOf(db, payload))?.summary, summary);
  assert.equal(outcomesOf(second)['embed'], 'done');
  assert.equal(outcomesOf(third)['embed'], 'skipped');
  assert.deepEqual(model.calls, { chat: 3, embed: 2 });
});

test('each field that a payload changes is in its snapshot', async () => {
  const harness = createHarness(db);
  const payload = payloadOf({
    attributes: { heating: 'gas', lift: true },
    published_at: '2025-03-01T10:00:00Z',
    image_urls: ['https://doshka.example/1.jpg', 'https://doshka.example/2.jpg'],
  });
  const { listing_id: id } = await harness.process(payload);
  await harness.process({
    ...payload,
    description: `${payload.description} Є балкон.`,
    attributes: { lift: true, heating: 'own' },
    published_at: '2025-03-02T10:00:00+02:00',
    image_urls: ['https://doshka.example/2.jpg'],
  });
  const changes = (await snapshotsOf(db, id))[1]?.changes ?? {};
  assert.deepEqual(Object.keys(changes).toSorted(), [
    'attributes',
    'description',
    'features',
    'pictures',
    'published_at',
  ]);
  assert.deepEqual(changes['attributes'], {
    from: { heating: 'gas', lift: true },
    to: { heating: 'own', lift: true },
  });
  assert.deepEqual(changes['published_at'], {
    from: '2025-03-01T10:00:00.000Z',
    to: '2025-03-02T08:00:00.000Z',
  });
  assert.deepEqual(changes['pictures'], {
    from: ['https://doshka.example/1.jpg', 'https://doshka.example/2.jpg'],
    to: ['https://doshka.example/2.jpg'],
  });
});

test('other words of the model alone make no snapshot, and are in the next one', async () => {
  const mock = countedModel();
  let calls = 0;
  const generateObject: ModelClient['generateObject'] = async (request) => {
    calls += 1;
    const answer = await mock.generateObject(request);
    const words = { title: `Flat ${calls}`, summary: `In words ${calls}`, features: [`f${calls}`] };
    Object.assign(answer.value, words);
    return answer;
  };
  const harness = createHarness(db, { model: { ...mock, generateObject } });
  const { title: _title, ...payload } = payloadOf({ price: 62_000, currency: 'USD' });
  const { listing_id: id } = await harness.process(payload);
  // Another payload, of which the source's own words are the same.
  const second = await harness.process({ ...payload, price: 62_000.001 });
  assert.equal(outcomesOf(second)['snapshot'], 'skipped');
  assert.equal((await listingOf(db, payload))?.title, 'Flat 2');
  await harness.process({ ...payload, price: 60_000 });
  assert.deepEqual(
    (await snapshotsOf(db, id)).map(({ changes }) => changes),
    [
      {},
      {
        price: { from: 62_000, to: 60_000 },
        title: { from: 'Flat 1', to: 'Flat 3' },
        features: { from: ['f1'], to: ['f3'] },
      },
    ],
  );
  await harness.process({ ...payload, price: 60_000, title: 'The source names it' });
  const named = 'The source names it';
  const titles = async () => (await snapshotsOf(db, id)).map(({ changes }) => changes['title']);
  assert.deepEqual((await titles())[2], { from: 'Flat 3', to: named });
  // What the source says no more is more than another wording, and the next wording is not.
  await harness.process({ ...payload, price: 60_000 });
  assert.deepEqual((await titles())[3], { from: named, to: 'Flat 5' });
  await harness.process({ ...payload, price: 60_000.001 });
  assert.equal((await titles()).length, 4);
});
