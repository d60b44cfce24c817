import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { atEnd } from '@oselya/db/testing';
import { ModelError } from '@oselya/model';
import { Registry } from 'prom-client';
import type { Describer } from '../../src/images/describe.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createPipeline } from '../../src/pipeline/pipeline.ts';
import { claimAgain } from '../../src/queue/claim.ts';
import { createInlineJobs } from '../../src/queue/inline.ts';
import { expireLeases, rescueJobs } from '../../src/queue/jobs.ts';
import { keepCompleted } from '../../src/reprocess/again.ts';
import { createReprocessPictures } from '../../src/reprocess/images.ts';
import type { Choice } from '../../src/reprocess/repository.ts';
import { openImages, visionModel, openImageHost } from '../support/images.ts';
import {
  rawRecord,
  payloadOf,
  countedModel,
  createHarness,
  currentOf,
  listingOf,
  log,
} from '../support/pipeline.ts';
import { betterModel, openReprocess, readAll, readings } from './harness.ts';

const { db, open } = await openImages();
const host = await openImageHost();
const kitchen = await host.put('/kitchen', 'png', { colour: 'red' });
const hall = await host.put('/hall', 'png', { colour: 'green' });
const garden = await host.put('/garden', 'png', { colour: 'blue' });

beforeEach(async () => {
  for (const table of ['raw_data', 'property_listings', 'images'] as const) {
    await db.deleteFrom(table).execute();
  }
});

/** A vision model by another name, that sees bedrooms. */
function betterEyes(fail: () => void = () => undefined) {
  const { model, shown } = visionModel(fail);
  const generateObject: Describer['generateObject'] = async (request) => {
    const { value, ...answer } = await model.generateObject(request);
    return { ...answer, value: { ...value, room_type: 'bedroom' }, model: 'better-eyes-1' };
  };
  return { shown, vision: { visionModel: 'better-eyes', generateObject } };
}

/** What `oselya reprocess --pictures` works with. */
function openPictures(vision: Describer) {
  const metrics = createMetrics(new Registry());
  const model = countedModel();
  const { images } = open({ model: vision });
  const process = createPipeline({ db, images, model, metrics, log, modelTimeoutMs: 10_000 });
  const jobs = createInlineJobs({
    db,
    process: keepCompleted(db, process),
    metrics,
    log,
    leaseMs: 60_000,
  });
  atEnd(() => jobs.close({ timeoutMs: 1000 }));
  const pictures = createReprocessPictures({ db, images, jobs, leaseMs: 60_000, parallel: 2 });
  const describe = (choice: Choice = {}, signal = new AbortController().signal) =>
    Array.fromAsync(pictures.describe(choice, { limit: 1000, signal }));
  return { ...pictures, describe, model };
}

/** Takes in a listing with pictures, all of which are described. */
async function addListing(...image_urls: string[]) {
  const payload = payloadOf({ image_urls });
  const raw = await createHarness(db, { images: open().images }).process(payload);
  assert.equal(raw.status, 'completed');
  return { payload, raw, listingId: raw.listing_id ?? 0 };
}

const described = () =>
  db
    .selectFrom('images')
    .select(['sha256', 'room_type', 'described_by', 'requested_model', 'prompt_version'])
    .orderBy('sha256')
    .execute();

test('pictures of an older prompt are described again, once each, and nothing else is done', async () => {
  const first = await addListing(kitchen.url, hall.url);
  const second = await addListing(kitchen.url, garden.url);
  const third = await addListing(garden.url);
  const stale = [kitchen.sha256, hall.sha256];
  await db
    .updateTable('images')
    .set({ prompt_version: 'image-description.v0', room_type: 'plan' })
    .where('sha256', 'in', stale)
    .execute();
  const listings = () => db.selectFrom('property_listings').selectAll().orderBy('id').execute();
  const before = await listings();
  host.seen.length = 0;
  const { model, shown } = visionModel();
  const pictures = openPictures(model);
  assert.equal(await pictures.count({}), 2);
  assert.deepEqual(await pictures.describe(), [
    { listingId: first.listingId, outcome: 'described' },
    { listingId: second.listingId, outcome: 'described' },
  ]);
  assert.ok(
    shown.length >= 2 && shown.length <= 3,
    'one that two listings have may be met by both',
  );
  assert.deepEqual(pictures.model.calls, { chat: 0, embed: 0 });
  assert.deepEqual(host.seen, []);
  assert.deepEqual(await listings(), before);
  for (const image of await described()) {
    assert.deepEqual([image.prompt_version, image.room_type], ['image-description.v2', 'kitchen']);
  }

  // What follows from the pictures is worked out, and the payload is as complete as it was.
  const { value } = await db
    .selectFrom('listing_enrichments')
    .select('value')
    .where('listing_id', '=', first.listingId)
    .where('kind', '=', 'images')
    .executeTakeFirstOrThrow();
  assert.deepEqual(value, { stored: 2, failed: 0, room_types: { kitchen: 2 } });
  const again = await rawRecord(db, first.raw.id);
  assert.equal(again.status, 'completed');
  assert.ok((again.model_usage?.calls ?? 0) >= (first.raw.model_usage?.calls ?? 0));
  assert.equal((await currentOf(db, first.payload))?.completed_hash, again.content_hash);
  const unchanged = await createHarness(db, { images: open().images }).process(third.payload);
  assert.deepEqual(
    unchanged.stages.map(({ outcome }) => outcome),
    ['unchanged'],
  );
  assert.equal(await pictures.count({}), 0);
});

test('so are those that another model described, of the listings that are chosen', async () => {
  const { listingId } = await addListing(kitchen.url);
  const other = await addListing(hall.url);
  const { vision } = betterEyes();
  const pictures = openPictures(vision);
  assert.equal(await openPictures(visionModel().model).count({}), 0, 'they are of this model');
  assert.equal(await pictures.count({}), 2);
  assert.equal(await pictures.count({ source: 'nobody' }), 0);
  assert.deepEqual(await pictures.describe({ after: listingId }), [
    { listingId: other.listingId, outcome: 'described' },
  ]);
  assert.deepEqual(await pictures.describe(), [{ listingId, outcome: 'described' }]);
  for (const one of await described()) {
    assert.deepEqual([one.described_by, one.requested_model], ['better-eyes-1', 'better-eyes']);
  }
  // Before the name by which a model is asked for was kept, its server's own had to do.
  await db
    .updateTable('images')
    .set({ requested_model: null, described_by: 'better-eyes' })
    .execute();
  assert.equal(await pictures.count({}), 0);
});

test('one that is refused keeps what was said of it, and is not asked for again', async () => {
  const { listingId } = await addListing(kitchen.url);
  const refusing = betterEyes(() => {
    throw new ModelError('MODEL_REFUSED', 'not this one');
  });
  const pictures = openPictures(refusing.vision);
  assert.deepEqual(await pictures.describe(), [{ listingId, outcome: 'described' }]);
  assert.equal(refusing.shown.length, 1);
  assert.equal((await described())[0]?.described_by, 'eyes-1');
  const { describe_error: error } = await db
    .selectFrom('images')
    .select('describe_error')
    .executeTakeFirstOrThrow();
  assert.equal(error?.requested_model, 'better-eyes');
  assert.equal(await pictures.count({}), 0);
});

test('a process that is killed meanwhile leaves a payload to others that says nothing new', async () => {
  const { raw, listingId } = await addListing(kitchen.url);
  const claimant = { worker: 'killed', leaseMs: 60_000 };
  const target = { rawId: raw.id, listingId };
  assert.ok(await claimAgain(db, target, claimant, { onlyImages: true }));
  await expireLeases(db);
  await rescueJobs(db, 3);
  const model = countedModel();
  const worker = createHarness(db, { model, images: open().images });
  assert.equal(await worker.runNext(), 'completed');
  assert.deepEqual(model.calls, { chat: 0, embed: 0 });
});

test('reading a payload again: a key that vision refuses ends the run, another failure is told', async () => {
  const { listingId, payload, raw } = await addListing(kitchen.url);
  await db
    .updateTable('images')
    .set({ described_by: null, requested_model: null, prompt_version: null })
    .execute();
  const failsWith = (error: ModelError) => {
    const { vision } = betterEyes(() => {
      throw error;
    });
    return openReprocess(db, betterModel(), open({ model: vision }).images);
  };
  const refusedKey = new ModelError('MODEL_REJECTED', 'a wrong key', { status: 401 });
  const [reading] = readings(await readAll(failsWith(refusedKey), { listingId }));
  assert.ok(reading);
  await assert.rejects(failsWith(refusedKey).write(reading), refusedKey);
  const other = new ModelError('MODEL_REJECTED', 'a conflict', { status: 409 });
  assert.deepEqual(await failsWith(other).write(reading), { outcome: 'incomplete', error: other });
  assert.equal((await listingOf(db, payload))?.rooms, 9, 'it is written');
  assert.equal((await rawRecord(db, raw.id)).status, 'completed');
  const mended = openReprocess(db, betterModel(), open({ model: betterEyes().vision }).images);
  assert.deepEqual(await mended.write(reading), { outcome: 'written' });
  assert.equal((await described())[0]?.described_by, 'better-eyes-1');
});

test('what has no complete payload is left; a model that fails on all ends the run', async () => {
  const gone = await addListing(kitchen.url);
  await db.deleteFrom('raw_data').where('id', '=', gone.raw.id).execute();
  const failed = await addListing(kitchen.url);
  await db
    .updateTable('raw_data')
    .set({ status: 'failed' })
    .where('id', '=', failed.raw.id)
    .execute();
  await db
    .updateTable('listing_payloads')
    .set({ completed_hash: null })
    .where('raw_id', '=', failed.raw.id)
    .execute();
  // As a claim leaves it that lost its worker too often before it wrote anything.
  const given = await addListing(kitchen.url);
  const lost = { code: 'worker_lost', message: 'Its worker was lost.', stage: null };
  await db
    .updateTable('raw_data')
    .set({ status: 'failed', error: JSON.stringify(lost) })
    .where('id', '=', given.raw.id)
    .execute();
  const eyes = betterEyes();
  assert.deepEqual(
    (await openPictures(eyes.vision).describe()).map(({ outcome }) => outcome),
    ['left', 'left', 'left'],
  );
  const left = await rawRecord(db, given.raw.id);
  assert.deepEqual([left.status, left.error], ['failed', lost]);
  assert.equal(eyes.shown.length, 0);

  for (let nth = 0; nth < 20; nth += 1) await addListing(hall.url);
  const raws = () =>
    db
      .selectFrom('raw_data')
      .innerJoin('listing_payloads as current', 'current.raw_id', 'raw_data.id')
      .select(['raw_data.id', 'status', 'error', 'completed_hash'])
      .orderBy('raw_data.id')
      .execute();
  const before = await raws();
  for (const error of [
    new ModelError('MODEL_REJECTED', 'a wrong key', { status: 401 }),
    new ModelError('MODEL_UNREACHABLE', 'nobody is there'),
  ]) {
    const failing = betterEyes(() => {
      throw error;
    });
    await assert.rejects(openPictures(failing.vision).describe(), error);
    assert.ok(failing.shown.length <= 4, `${failing.shown.length} were asked for`);
    assert.deepEqual(await raws(), before, 'what was completed is so still');
  }
  // They are gone on with; who stops it lets end what has begun.
  const stopped = new AbortController();
  stopped.abort();
  assert.equal((await openPictures(betterEyes().vision).describe({}, stopped.signal)).length, 1);
});
