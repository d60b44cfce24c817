import assert from 'node:assert/strict';
import { test } from 'node:test';
import { replaceImages } from '../../src/images/repository.ts';
import { claimJobs } from '../../src/queue/claim.ts';
import { SupersededError } from '../../src/queue/job.ts';
import { openDatabase, store, payloadOf, createHarness } from '../support/pipeline.ts';

const { db } = await openDatabase();

test('the pictures of an older payload do not replace those of a newer one', async () => {
  const payload = payloadOf();
  const older = await store(db, payload);
  const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
  assert.equal(job?.rawId, older);
  await db.updateTable('raw_data').set({ status: 'failed' }).where('id', '=', older).execute();
  const { listing_id: listingId } = await createHarness(db).process({ ...payload, price: 900 });
  assert.ok(listingId);
  await db.updateTable('raw_data').set({ status: 'processing' }).where('id', '=', older).execute();

  const outcomes = [{ position: 0, url: 'http://old.example/1.jpg', error: 'gone' }];
  const fence = { rawId: older, attempt: 1 };
  const change = { listingId, outcomes, stored: [], fence, cameAlong: false };
  await assert.rejects(replaceImages(db, change), SupersededError);
  assert.deepEqual(await db.selectFrom('listing_images').select('id').execute(), []);
});
