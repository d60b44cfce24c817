import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import type { JobContext } from '../../src/pipeline/context.ts';
import { createStages, type PipelineDeps } from '../../src/pipeline/pipeline.ts';
import { claimJobs } from '../../src/queue/claim.ts';
import type { Job } from '../../src/queue/job-types.ts';
import { createImage, openImages, serve, createVisionModel } from '../support/images.ts';
import {
  createCountingModel,
  createHarness,
  createStageRunner,
  findListingPayloads,
  findListing,
  emptyImageService,
  getOutcomes,
  createPayload,
  readRawRecord,
  readSnapshots,
  store,
} from '../support/pipeline.ts';

const { db, open } = await openImages();

/** Changes that lose a claim: the job is pending again, or another worker has claimed it. */
const CLAIM_LOSSES = [
  () => ({ status: 'pending' as const }),
  () => ({ attempt: sql<number>`attempt + 1` }),
];

/** Reads all rows that stages write. */
async function readRows() {
  return {
    raws: await db.selectFrom('raw_data').selectAll().orderBy('id').execute(),
    listings: await db.selectFrom('property_listings').selectAll().orderBy('id').execute(),
    currents: await db.selectFrom('listing_payloads').selectAll().orderBy('raw_id').execute(),
    snapshots: await db.selectFrom('listing_snapshots').selectAll().orderBy('id').execute(),
    enrichments: await db.selectFrom('listing_enrichments').selectAll().execute(),
  };
}

type ModelCallName = 'generateObject' | 'processRemote' | 'embed';

/** Creates a model and an image service that call `onCall` before they respond. */
function createInterruptedDeps(
  onCall: (call: ModelCallName) => Promise<void>,
): Partial<PipelineDeps> {
  const model = createCountingModel();
  return {
    model: {
      chatModel: model.chatModel,
      embeddingModel: model.embeddingModel,
      async generateObject(request) {
        const answer = await model.generateObject(request);
        await onCall('generateObject');
        return answer;
      },
      async embed(texts, options) {
        const answer = await model.embed(texts, options);
        await onCall('embed');
        return answer;
      },
    },
    images: {
      ...emptyImageService,
      async processRemote() {
        await onCall('processRemote');
        return [];
      },
    },
  };
}

test('A lost claim writes nothing more', async () => {
  for (const loss of CLAIM_LOSSES) {
    for (const moment of ['generateObject', 'processRemote', 'embed'] as const) {
      const rawId = await store(db, createPayload());
      let rowsBefore: Awaited<ReturnType<typeof readRows>> | undefined;
      const onCall = async (call: ModelCallName) => {
        if (call !== moment) return;
        await db.updateTable('raw_data').set(loss()).where('id', '=', rawId).execute();
        rowsBefore = await readRows();
      };
      assert.equal(await createHarness(db, createInterruptedDeps(onCall)).runNext(), 'lost');
      assert.ok(rowsBefore);
      assert.deepEqual(await readRows(), rowsBefore);
      await db.deleteFrom('raw_data').where('id', '=', rawId).execute();
    }
  }
});

test('An older payload never overwrites a newer one', async () => {
  const harness = createHarness(db);
  const payload = createPayload({ price: 1000 });
  const olderId = await store(db, payload);
  await db.updateTable('raw_data').set({ status: 'failed' }).where('id', '=', olderId).execute();
  await harness.process({ ...payload, price: 900 });
  await db.updateTable('raw_data').set({ status: 'pending' }).where('id', '=', olderId).execute();
  await harness.runNext();
  const raw = await readRawRecord(db, olderId);
  assert.equal(raw.status, 'completed');
  assert.deepEqual(getOutcomes(raw), { load: 'superseded' });
  assert.equal((await findListing(db, payload))?.price, 900);
});

for (const [moment, lastStage] of [
  ['generateObject', 'upsert'],
  ['processRemote', 'enrich'],
  ['embed', 'embed'],
] as const) {
  test(`A newer payload that completes during ${moment} keeps its listing`, async () => {
    const payload = createPayload({ title: 'Стара', price: 1000, currency: 'USD', area_total: 50 });
    const older = await store(db, payload);
    let rowsBefore: Awaited<ReturnType<typeof readRows>> | undefined;
    const onCall = async (call: ModelCallName) => {
      if (call !== moment) return;
      // The newer payload is committed first.
      await db.updateTable('raw_data').set({ status: 'failed' }).where('id', '=', older).execute();
      const newer = await store(db, { ...payload, title: 'Нова', price: 900 });
      await createHarness(db).runNext();
      await db
        .updateTable('raw_data')
        .set({ status: 'processing' })
        .where('id', '=', older)
        .execute();
      assert.equal((await findListingPayloads(db, payload))?.raw_id, newer);
      rowsBefore = await readRows();
    };
    const outcome = await createHarness(db, createInterruptedDeps(onCall)).runNext();
    assert.equal(outcome, 'completed');
    const rowsNow = await readRows();
    assert.ok(rowsBefore);
    assert.deepEqual({ ...rowsNow, raws: [] }, { ...rowsBefore, raws: [] });
    assert.equal(getOutcomes(await readRawRecord(db, older))[lastStage], 'superseded');
  });
}

test('A payload that a newer one overtakes before its snapshot adds no snapshot', async () => {
  const payload = createPayload({ price: 1000, currency: 'USD' });
  const first = await createHarness(db).process(payload);
  const older = await store(db, { ...payload, price: 950 });
  const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
  assert.ok(job);
  const context: JobContext = { job, outputs: {} };
  const run = createStageRunner(db);
  for (const stage of ['load', 'validate', 'normalize', 'upsert'] as const) {
    assert.equal((await run(context, stage)).outcome, 'done');
  }
  const setStatus = (status: 'failed' | 'processing') =>
    db.updateTable('raw_data').set({ status }).where('id', '=', older).execute();
  await setStatus('failed');
  const newer = await createHarness(db).process({ ...payload, price: 900 });
  await setStatus('processing');
  assert.equal((await run(context, 'snapshot')).outcome, 'superseded');
  assert.deepEqual(
    (await readSnapshots(db, first.listing_id)).map(({ raw_id, changes }) => [raw_id, changes]),
    [
      [first.id, {}],
      [newer.id, { price: { from: 1000, to: 900 } }],
    ],
    'each snapshot has the changes since the previous one',
  );
});

const { model: visionModel, shown: shownImages } = createVisionModel();
const { images } = open({ model: visionModel });
const harness = createHarness(db, { images });
const stages = createStages(10_000).map(({ name }) => name);

async function claimNext(): Promise<Job> {
  const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
  assert.ok(job);
  return job;
}

/** Runs the stages in order up to `last`. */
async function runStages(job: Job, last: string) {
  const context: JobContext = { job, force: false, outputs: {} };
  const run = createStageRunner(db, images);
  for (const name of stages) {
    await run(context, name);
    if (name === last) return;
  }
}

/** Reads a listing with its history and images, without IDs and times. */
async function readListing(externalId: string) {
  const listing = await findListing(db, createPayload({ external_id: externalId }));
  assert.ok(listing);
  const snapshots = await db
    .selectFrom('listing_snapshots')
    .select(['changes', 'listing', 'model', 'prompt_version'])
    .where('listing_id', '=', listing.id)
    .orderBy('raw_id')
    .execute();
  const enrichments = await db
    .selectFrom('listing_enrichments')
    .select(['kind', 'value'])
    .where('listing_id', '=', listing.id)
    .orderBy('kind')
    .execute();
  const storedImages = await db
    .selectFrom('listing_images')
    .innerJoin('images', 'images.sha256', 'listing_images.sha256')
    .select(['position', 'error', 'media_type', 'description', 'room_type'])
    .where('listing_id', '=', listing.id)
    .orderBy('position')
    .execute();
  const resetColumns = { id: 0, external_id: '', created_at: null, updated_at: null };
  return JSON.parse(
    JSON.stringify({
      listing: { ...listing, ...resetColumns },
      snapshots,
      images: storedImages,
      fetched: fetchedCount - countsBefore.fetched,
      described: shownImages.length - countsBefore.described,
      enrichments: enrichments.map(({ kind, value }) => ({ kind, value: { ...value, raw_id: 0 } })),
    }),
  ) as unknown;
}

/** Sends a new image for each request. */
const host = await serve((_request, response) => {
  fetchedCount += 1;
  void createImage('png', { width: 20 + fetchedCount }).then((bytes) => response.end(bytes));
});
let fetchedCount = 0;
/** Counts of fetched and described images before a payload. */
let countsBefore = { fetched: 0, described: 0 };

const older = { price: 62_000, currency: 'USD', area_total: 54 };
const newer = { ...older, price: 59_000 };

/** Processes a first payload, and claims a second one. */
async function claimSecondPayload(externalId: string): Promise<Job> {
  await harness.process(createPayload({ ...older, external_id: externalId }));
  const image_urls = [`${host}/kitchen.png`];
  countsBefore = { fetched: fetchedCount, described: shownImages.length };
  await store(db, createPayload({ ...newer, external_id: externalId, image_urls }));
  return claimNext();
}

test('A job that is lost after any stage runs again from the start with the same result', async () => {
  await runStages(await claimSecondPayload('control'), 'embed');
  const control = await readListing('control');
  assert.deepEqual([fetchedCount, shownImages.length], [1, 1]);
  for (const name of stages) {
    const job = await claimSecondPayload(`lost-${name}`);
    await runStages(job, name);
    await db
      .updateTable('raw_data')
      .set({ status: 'pending' })
      .where('id', '=', job.rawId)
      .execute();
    assert.equal(await harness.runNext(), 'completed');
    assert.equal((await readRawRecord(db, job.rawId)).attempt, 2);
    assert.deepEqual(await readListing(`lost-${name}`), control, name);
  }
});
