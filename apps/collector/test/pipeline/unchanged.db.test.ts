import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModelError } from '@oselya/model';
import { sql } from 'kysely';
import { noteGone } from '../../src/operations/archive-check.ts';
import {
  openDatabase,
  rawRecord,
  store,
  untilLockWait,
  payloadOf,
  countedModel,
  createHarness,
  currentOf,
  listingOf,
  noImages,
  outcomesOf,
  snapshotsOf,
} from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;

test('an unchanged payload asks no model, and brings the listing back from the archive', async () => {
  const model = countedModel();
  const harness = createHarness(db, { model });
  const payload = payloadOf();
  const first = await harness.process(payload);
  await db
    .updateTable('property_listings')
    .set({ archived_at: new Date() })
    .where('id', '=', first.listing_id)
    .execute();
  model.calls.chat = 0;
  model.calls.embed = 0;

  const reordered = Object.fromEntries(Object.entries(payload).toReversed());
  const second = await harness.process({ ...payload, ...reordered });
  assert.equal(second.status, 'completed');
  assert.deepEqual(outcomesOf(second), { load: 'unchanged' });
  assert.deepEqual(model.calls, { chat: 0, embed: 0 });
  assert.equal(second.listing_id, first.listing_id);
  const listing = await listingOf(db, payload);
  assert.equal(listing?.archived_at, null);
  assert.equal((await currentOf(db, payload))?.raw_id, second.id);
  assert.equal((await snapshotsOf(db, first.listing_id)).length, 1);
});

/** The version of a listing's row: every update makes another, and an entry for it in each of its indexes. */
async function versionOf(listingId: number | null): Promise<unknown> {
  const { rows } = await sql`select xmin::text, ctid::text from property_listings
    where id = ${listingId}`.execute(db);
  return rows[0];
}

test('an unchanged payload leaves the row of its listing as it is, and its indexes', async () => {
  const harness = createHarness(db);
  const payload = payloadOf();
  const { listing_id: id } = await harness.process(payload);
  const version = await versionOf(id);
  const again = await harness.process(payload);
  assert.deepEqual(outcomesOf(again), { load: 'unchanged' });
  assert.ok(version);
  assert.deepEqual(await versionOf(id), version);
  assert.equal((await currentOf(db, payload))?.raw_id, again.id);
});

test('an attempt that makes the same of a listing again leaves its row as it is, and completes it', async () => {
  const payload = payloadOf({ price: 100, phones: ['+380501234567'], attributes: { lift: true } });
  let isAway = true;
  const away = new ModelError('MODEL_BREAKER_OPEN', 'The server is being left alone.');
  const images = {
    ...noImages,
    processRemote: () => (isAway ? Promise.reject(away) : Promise.resolve([])),
  };
  const harness = createHarness(db, { images });
  assert.equal((await harness.process(payload)).status, 'pending');
  const made = await listingOf(db, payload);
  const version = await versionOf(made?.id ?? null);
  assert.ok(version);
  for (let nth = 0; nth < 2; nth += 1) assert.equal(await harness.runNext(), 'postponed');
  assert.deepEqual(await versionOf(made?.id ?? null), version);
  isAway = false;
  assert.equal(await harness.runNext(), 'completed');
  const listing = await listingOf(db, payload);
  assert.deepEqual(listing?.updated_at, made?.updated_at);
  assert.ok(listing?.embedding, 'which is no change of what it says');
  assert.equal((await snapshotsOf(db, listing.id)).length, 1);
  // Another payload is another matter, even where only its pictures are others.
  await harness.process({ ...payload, image_urls: ['https://pictures.example/1.jpg'] });
  const later = await listingOf(db, payload);
  assert.ok(later && later.updated_at > listing.updated_at);
});

test('after an unchanged payload an older one changes nothing', async () => {
  const harness = createHarness(db);
  const payload = payloadOf({ price: 1000 });
  await harness.process(payload);
  const late = await store(db, { ...payload, price: 900 });
  await db.updateTable('raw_data').set({ status: 'failed' }).where('id', '=', late).execute();
  const again = await harness.process(payload);
  assert.deepEqual(outcomesOf(again), { load: 'unchanged' });
  await db.updateTable('raw_data').set({ status: 'pending' }).where('id', '=', late).execute();
  await harness.runNext();
  assert.deepEqual(outcomesOf(await rawRecord(db, late)), { load: 'superseded' });
  assert.equal((await listingOf(db, payload))?.price, 1000);
});

test('a payload that failed after its update does not let the one before pass as unchanged', async () => {
  const payload = payloadOf({ price: 100 });
  const harness = createHarness(db);
  await harness.process(payload);
  const broken = { ...noImages, processRemote: () => Promise.reject(new Error('broken')) };
  const failed = await createHarness(db, { images: broken }).process({ ...payload, price: 90 });
  assert.equal(failed.status, 'failed');
  assert.equal((await listingOf(db, payload))?.price, 90);
  const again = await harness.process(payload);
  assert.equal(outcomesOf(again)['upsert'], 'done');
  assert.equal((await listingOf(db, payload))?.price, 100);
});

if (!database.isExclusive) {
  test('a listing that is archived while its payload comes again is back with that', async () => {
    const harness = createHarness(db);
    const payload = payloadOf();
    const { id: rawId, listing_id: listingId } = await harness.process(payload);
    assert.ok(listingId);
    await sql`insert into listing_checks (listing_id, gone_since, gone_raw_id)
      values (${listingId}, now() - interval '1 day', ${rawId})`.execute(db);
    let processing: Promise<unknown> | undefined;
    await db.transaction().execute(async (trx) => {
      const claim = { listingId, rawId, url: '' };
      assert.ok(await noteGone(trx, claim, { status: 404, minIntervalSeconds: 60 }));
      processing = harness.process(payload);
      await untilLockWait(db);
    });
    await processing;
    assert.equal((await listingOf(db, payload))?.archived_at, null);
  });
}
