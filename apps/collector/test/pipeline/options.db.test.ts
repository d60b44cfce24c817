import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type UploadedFile } from '../../src/images/temporary.ts';
import { extractListing } from '../../src/pipeline/extraction.ts';
import {
  openDatabase,
  rawRecord,
  store,
  payloadOf,
  countedModel,
  createHarness,
  listingOf,
  noImages,
} from '../support/pipeline.ts';

const { db } = await openDatabase();

const outcomes = (raw: { stages: { stage: string; outcome: string }[] }) =>
  Object.fromEntries(raw.stages.map(({ stage, outcome }) => [stage, outcome]));

test('pictures that came along take the place of the addresses', async () => {
  const files: UploadedFile[] = [
    { path: '/none', sha256: 'a'.repeat(64), bytes: 1, name: 'a.jpg' },
  ];
  const seen: unknown[] = [];
  const harness = createHarness(db, {
    images: {
      ...noImages,
      processRemote: () => Promise.reject(new Error('No address is to be fetched')),
      processUploaded: (job) => {
        seen.push(job.files);
        return Promise.resolve([]);
      },
    },
  });
  const rawId = await store(db, payloadOf({ image_urls: ['http://images.example/1.jpg'] }));
  assert.equal(await harness.runNext({ uploads: files }), 'completed');
  assert.equal(outcomes(await rawRecord(db, rawId))['images'], 'done');
  assert.deepEqual(seen, [files]);

  const none = await store(db, payloadOf({ image_urls: ['http://images.example/1.jpg'] }));
  assert.equal(await harness.runNext({ uploads: [] }), 'completed');
  assert.equal(outcomes(await rawRecord(db, none))['images'], 'skipped');
  assert.equal(seen.length, 2, 'a listing whose last pictures were taken away has none');
});

test('a payload whose pictures came along before does not ask for the addresses that it names', async () => {
  const { processRemote } = { processRemote: () => Promise.reject(new Error('not to be touched')) };
  const harness = createHarness(db, { images: { ...noImages, processRemote } });
  const rawId = await store(db, payloadOf({ image_urls: ['http://images.example/1.jpg'] }));
  await db.updateTable('raw_data').set({ uploads: '[]' }).where('id', '=', rawId).execute();
  assert.equal(await harness.runNext(), 'completed');
  assert.equal(outcomes(await rawRecord(db, rawId))['images'], 'skipped');
});

test('an unchanged payload is processed all the same when it is forced', async () => {
  const model = countedModel();
  const harness = createHarness(db, { model });
  const payload = payloadOf();
  await harness.process(payload);
  const rawId = await store(db, payload);
  assert.equal(await harness.runNext({ force: true }), 'completed');
  assert.equal(outcomes(await rawRecord(db, rawId))['upsert'], 'done');
  assert.deepEqual(model.calls, { chat: 2, embed: 1 });
});

test('what was read before is not read again, and the pictures stay', async () => {
  const model = countedModel();
  const harness = createHarness(db, {
    model,
    images: { ...noImages, processRemote: () => Promise.reject(new Error('not to be touched')) },
  });
  const payload = payloadOf({ image_urls: ['http://images.example/1.jpg'] });
  const extracted = await extractListing(model, payload, {
    signal: new AbortController().signal,
  });
  extracted.extraction.rooms = 7;
  const rawId = await store(db, payload);
  assert.equal(await harness.runNext({ extracted }), 'completed');
  const raw = await rawRecord(db, rawId);
  assert.deepEqual(
    [outcomes(raw)['validate'], outcomes(raw)['images'], model.calls.chat],
    ['skipped', 'skipped', 1],
  );
  assert.equal((await listingOf(db, payload))?.rooms, 7);
});

test('a payload that is processed again leaves its listing in the archive; a new one does not', async () => {
  const harness = createHarness(db);
  const payload = payloadOf({ price: 100 });
  const { id } = await harness.process(payload);
  const archived_at = new Date('2026-01-02T03:04:05Z');
  await db
    .updateTable('property_listings')
    .set({ archived_at })
    .where('external_id', '=', payload.external_id)
    .execute();
  for (const force of [true, false]) {
    await db.updateTable('raw_data').set({ status: 'pending' }).where('id', '=', id).execute();
    assert.equal(await harness.runNext({ force }), 'completed');
    assert.deepEqual((await listingOf(db, payload))?.archived_at, archived_at);
  }
  await harness.process({ ...payload, price: 90 });
  assert.equal((await listingOf(db, payload))?.archived_at, null);
});
