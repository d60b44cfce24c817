import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { ModelError } from '@oselya/model';
import { sql } from 'kysely';
import type { VisionClient } from '../../src/images/describe.ts';
import { createImageReprocessService } from '../../src/reprocess/reprocess.ts';
import type { ListingSelection } from '../../src/reprocess/repository.ts';
import { openImages, createVisionModel, openImageHost } from '../support/images.ts';
import {
  readRawRecord,
  createPayload,
  createCountingModel,
  createHarness,
  findListingPayloads,
  updateRawRecord,
  readEnrichments,
} from '../support/pipeline.ts';
import { openInlineJobs } from './harness.ts';

const { db, openService } = await openImages();
const host = await openImageHost();
const kitchenImage = await host.putImage('/kitchen', 'png', { colour: 'red' });
const hallImage = await host.putImage('/hall', 'png', { colour: 'green' });
const gardenImage = await host.putImage('/garden', 'png', { colour: 'blue' });

beforeEach(async () => {
  await sql`truncate raw_data, property_listings, images cascade`.execute(db);
});

/** Creates a vision model with a different name, which classifies every room as a bedroom. */
function createBetterVision(fail: () => void = () => undefined) {
  const { model, visionRequests } = createVisionModel(fail);
  const generateObject: VisionClient['generateObject'] = async (request) => {
    const { value, ...answer } = await model.generateObject(request);
    return { ...answer, value: { ...value, room_type: 'bedroom' }, model: 'better-vision-1' };
  };
  return { visionRequests, vision: { visionModel: 'better-vision', generateObject } };
}

/** Opens the service of `oselya reprocess --pictures`. */
function openReprocessImages(vision: VisionClient) {
  const model = createCountingModel();
  const { images } = openService({ model: vision });
  const jobs = openInlineJobs(db, model, images);
  const reprocess = createImageReprocessService({
    db,
    images,
    ...jobs,
    leaseMs: 60_000,
    parallel: 2,
  });
  const describe = (selection: ListingSelection = {}, signal = new AbortController().signal) =>
    Array.fromAsync(reprocess.describe(selection, { limit: 1000, signal }));
  return { ...reprocess, describe, model };
}

/** Processes a payload with images, and describes all of them. */
async function addListing(...image_urls: string[]) {
  const payload = createPayload({ image_urls });
  const rawRecord = await createHarness(db, { images: openService().images }).process(payload);
  assert.equal(rawRecord.status, 'completed');
  return { payload, raw: rawRecord, listingId: rawRecord.listing_id ?? 0 };
}

const readDescriptions = () =>
  db
    .selectFrom('images')
    .select(['sha256', 'room_type', 'described_by', 'requested_model', 'prompt_version'])
    .orderBy('sha256')
    .execute();

test('Outdated images are described again once, and nothing else changes', async () => {
  const first = await addListing(kitchenImage.url, hallImage.url);
  const second = await addListing(kitchenImage.url, gardenImage.url);
  const third = await addListing(gardenImage.url);
  const staleHashes = [kitchenImage.sha256, hallImage.sha256];
  await sql`update images set prompt_version = 'image-description.v0', room_type = 'plan'
    where sha256 = any(${staleHashes})`.execute(db);
  const listings = () => db.selectFrom('property_listings').selectAll().orderBy('id').execute();
  const listingsBefore = await listings();
  host.requestedPaths.length = 0;
  const { model, visionRequests } = createVisionModel();
  const reprocess = openReprocessImages(model);
  assert.equal(await reprocess.count({}), 2);
  assert.deepEqual(await reprocess.describe(), [
    { listingId: first.listingId, outcome: 'described' },
    { listingId: second.listingId, outcome: 'described' },
  ]);
  assert.ok(
    visionRequests.length >= 2 && visionRequests.length <= 3,
    'both listings of an image may describe it',
  );
  assert.deepEqual(reprocess.model.calls, { chat: 0, embed: 0 });
  assert.deepEqual(host.requestedPaths, []);
  assert.deepEqual(await listings(), listingsBefore);
  for (const image of await readDescriptions()) {
    assert.deepEqual([image.prompt_version, image.room_type], ['image-description.v2', 'kitchen']);
  }

  // The room types are updated, and the payload stays complete.
  assert.deepEqual((await readEnrichments(db, first.listingId))['images'], {
    stored: 2,
    failed: 0,
    room_types: { kitchen: 2 },
  });
  const rawAfter = await readRawRecord(db, first.raw.id);
  assert.equal(rawAfter.status, 'completed');
  assert.ok((rawAfter.model_usage?.calls ?? 0) >= (first.raw.model_usage?.calls ?? 0));
  assert.equal(
    (await findListingPayloads(db, first.payload))?.completed_hash,
    rawAfter.content_hash,
  );
  const unchanged = await createHarness(db, { images: openService().images }).process(
    third.payload,
  );
  assert.deepEqual(
    unchanged.stages.map(({ outcome }) => outcome),
    ['unchanged'],
  );
  assert.equal(await reprocess.count({}), 0);
});

test('Images that another model described are described again for the selected listings', async () => {
  const { listingId } = await addListing(kitchenImage.url);
  const otherListing = await addListing(hallImage.url);
  const { vision } = createBetterVision();
  const reprocess = openReprocessImages(vision);
  assert.equal(await openReprocessImages(createVisionModel().model).count({}), 0);
  assert.equal(await reprocess.count({}), 2);
  assert.equal(await reprocess.count({ source: 'unknown' }), 0);
  assert.deepEqual(await reprocess.describe({ after: listingId }), [
    { listingId: otherListing.listingId, outcome: 'described' },
  ]);
  assert.deepEqual(await reprocess.describe(), [{ listingId, outcome: 'described' }]);
  for (const image of await readDescriptions()) {
    assert.deepEqual(
      [image.described_by, image.requested_model],
      ['better-vision-1', 'better-vision'],
    );
  }
  // Older rows have only the model name that the server reported.
  await sql`update images set requested_model = null, described_by = 'better-vision'`.execute(db);
  assert.equal(await reprocess.count({}), 0);
});

test('A rejected image keeps its description and is not described again', async () => {
  const { listingId } = await addListing(kitchenImage.url);
  const rejectingVision = createBetterVision(() => {
    throw new ModelError('MODEL_REFUSED', 'not this one');
  });
  const reprocess = openReprocessImages(rejectingVision.vision);
  assert.deepEqual(await reprocess.describe(), [{ listingId, outcome: 'described' }]);
  assert.equal(rejectingVision.visionRequests.length, 1);
  assert.equal((await readDescriptions())[0]?.described_by, 'eyes-1');
  const errors = await db.selectFrom('images').select('describe_error').execute();
  assert.deepEqual(
    errors.map(({ describe_error: error }) => error?.requested_model),
    ['better-vision'],
  );
  assert.equal(await reprocess.count({}), 0);
});

test('Listings without a complete payload are left, and a systemic failure ends the run', async () => {
  const goneListing = await addListing(kitchenImage.url);
  await db.deleteFrom('raw_data').where('id', '=', goneListing.raw.id).execute();
  const failedListing = await addListing(kitchenImage.url);
  await updateRawRecord(db, failedListing.raw.id, { status: 'failed' });
  await sql`update listing_payloads set completed_hash = null
    where raw_id = ${failedListing.raw.id}`.execute(db);
  // This job has failed because its workers were lost too often.
  const lostListing = await addListing(kitchenImage.url);
  const lostError = { code: 'worker_lost', message: 'Its worker was lost.', stage: null };
  await updateRawRecord(db, lostListing.raw.id, {
    status: 'failed',
    error: JSON.stringify(lostError),
  });
  const vision = createBetterVision();
  assert.deepEqual(
    (await openReprocessImages(vision.vision).describe()).map(({ outcome }) => outcome),
    ['left', 'left', 'left'],
  );
  const lostRawAfter = await readRawRecord(db, lostListing.raw.id);
  assert.deepEqual([lostRawAfter.status, lostRawAfter.error], ['failed', lostError]);
  assert.equal(vision.visionRequests.length, 0);

  for (let index = 0; index < 20; index += 1) await addListing(hallImage.url);
  const rawRecords = () =>
    db
      .selectFrom('raw_data')
      .innerJoin('listing_payloads as current', 'current.raw_id', 'raw_data.id')
      .select(['raw_data.id', 'status', 'error', 'completed_hash'])
      .orderBy('raw_data.id')
      .execute();
  const rawsBefore = await rawRecords();
  for (const error of [
    new ModelError('MODEL_REJECTED', 'a wrong key', { status: 401 }),
    new ModelError('MODEL_UNREACHABLE', 'no server'),
  ]) {
    const failingVision = createBetterVision(() => {
      throw error;
    });
    await assert.rejects(openReprocessImages(failingVision.vision).describe(), error);
    assert.ok(
      failingVision.visionRequests.length <= 4,
      `${failingVision.visionRequests.length} requests`,
    );
    assert.deepEqual(await rawRecords(), rawsBefore);
  }
  // A stopped run completes the listing in progress.
  const stopController = new AbortController();
  stopController.abort();
  assert.equal(
    (await openReprocessImages(createBetterVision().vision).describe({}, stopController.signal))
      .length,
    1,
  );
});
