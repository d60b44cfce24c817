import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import type { JobContext } from '../../src/pipeline/context.ts';
import { createStages, type PipelineDeps } from '../../src/pipeline/pipeline.ts';
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
  readEnrichments,
  readSnapshots,
  store,
  updateRawRecord,
  readAllRows,
  claimJob,
} from '../support/pipeline.ts';

const { db, openService } = await openImages();

/** Changes that lose a claim: the job is pending again, or another worker has claimed it. */
const CLAIM_LOSSES = [
  () => ({ status: 'pending' as const }),
  () => ({ attempt: sql<number>`attempt + 1` }),
];

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
    for (const interruptedCall of ['generateObject', 'processRemote', 'embed'] as const) {
      const rawId = await store(db, createPayload());
      let rowsBefore: Awaited<ReturnType<typeof readAllRows>> | undefined;
      const onCall = async (call: ModelCallName) => {
        if (call !== interruptedCall) return;
        await updateRawRecord(db, rawId, loss());
        rowsBefore = await readAllRows(db);
      };
      assert.equal(await createHarness(db, createInterruptedDeps(onCall)).runNext(), 'lost');
      assert.ok(rowsBefore);
      assert.deepEqual(await readAllRows(db), rowsBefore);
      await db.deleteFrom('raw_data').where('id', '=', rawId).execute();
    }
  }
});

for (const [interruptedCall, lastStage] of [
  ['generateObject', 'upsert'],
  ['processRemote', 'enrich'],
  ['embed', 'embed'],
] as const) {
  test(`A newer payload that completes during ${interruptedCall} keeps its listing`, async () => {
    const payload = createPayload({ title: 'Стара', price: 1000, currency: 'USD', area_total: 50 });
    const olderId = await store(db, payload);
    let rowsBefore: Awaited<ReturnType<typeof readAllRows>> | undefined;
    const onCall = async (call: ModelCallName) => {
      if (call !== interruptedCall) return;
      // The newer payload is committed first.
      await updateRawRecord(db, olderId, { status: 'failed' });
      const newerId = await store(db, { ...payload, title: 'Нова', price: 900 });
      await createHarness(db).runNext();
      await updateRawRecord(db, olderId, { status: 'processing' });
      assert.equal((await findListingPayloads(db, payload))?.raw_id, newerId);
      rowsBefore = await readAllRows(db);
    };
    const outcome = await createHarness(db, createInterruptedDeps(onCall)).runNext();
    assert.equal(outcome, 'completed');
    const rowsNow = await readAllRows(db);
    assert.ok(rowsBefore);
    assert.deepEqual({ ...rowsNow, raws: [] }, { ...rowsBefore, raws: [] });
    assert.equal(getOutcomes(await readRawRecord(db, olderId))[lastStage], 'superseded');
  });
}

test('A payload that a newer one overtakes before its snapshot adds no snapshot', async () => {
  const payload = createPayload({ price: 1000, currency: 'USD' });
  const first = await createHarness(db).process(payload);
  const olderId = await store(db, { ...payload, price: 950 });
  const job = await claimJob(db);
  const context: JobContext = { job, outputs: {} };
  const run = createStageRunner(db);
  for (const stage of ['load', 'validate', 'normalize', 'upsert'] as const) {
    assert.equal((await run(context, stage)).outcome, 'done');
  }
  await updateRawRecord(db, olderId, { status: 'failed' });
  const newerRecord = await createHarness(db).process({ ...payload, price: 900 });
  await updateRawRecord(db, olderId, { status: 'processing' });
  assert.equal((await run(context, 'snapshot')).outcome, 'superseded');
  assert.deepEqual(
    (await readSnapshots(db, first.listing_id)).map(({ raw_id, changes }) => [raw_id, changes]),
    [
      [first.id, {}],
      [newerRecord.id, { price: { from: 1000, to: 900 } }],
    ],
    'each snapshot has the changes since the previous one',
  );
});

const { model: visionModel, visionRequests } = createVisionModel();
const { images } = openService({ model: visionModel });
const harness = createHarness(db, { images });
const stages = createStages(10_000).map(({ name }) => name);

/** Runs the stages in order up to `last`. */
async function runStages(job: Job, last: string) {
  const context: JobContext = { job, outputs: {} };
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
  const snapshots = await readSnapshots(db, listing.id);
  const enrichments = await readEnrichments(db, listing.id);
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
      snapshots: snapshots.map(({ raw_id: _rawId, ...snapshot }) => snapshot),
      images: storedImages,
      fetchedCount: fetchedCount - countsBefore.fetchedCount,
      describedCount: visionRequests.length - countsBefore.describedCount,
      enrichments: { ...enrichments, provenance: { ...enrichments['provenance'], raw_id: 0 } },
    }),
  ) as unknown;
}

/** URL of an image host that sends a new image for each request. */
const host = await serve((_request, response) => {
  fetchedCount += 1;
  void createImage('png', { width: 20 + fetchedCount }).then((bytes) => response.end(bytes));
});
let fetchedCount = 0;
/** Counts of fetched and described images before the second payload. */
let countsBefore = { fetchedCount: 0, describedCount: 0 };

const olderFields = { price: 62_000, currency: 'USD', area_total: 54 };
const newerFields = { ...olderFields, price: 59_000 };

/** Processes a first payload, and claims a second one. */
async function claimSecondPayload(externalId: string): Promise<Job> {
  await harness.process(createPayload({ ...olderFields, external_id: externalId }));
  const image_urls = [`${host}/kitchen.png`];
  countsBefore = { fetchedCount, describedCount: visionRequests.length };
  await store(db, createPayload({ ...newerFields, external_id: externalId, image_urls }));
  return claimJob(db);
}

test('A job that is lost after any stage runs again from the start with the same result', async () => {
  await runStages(await claimSecondPayload('control'), 'embed');
  const control = await readListing('control');
  assert.deepEqual([fetchedCount, visionRequests.length], [1, 1]);
  for (const name of stages) {
    const job = await claimSecondPayload(`lost-${name}`);
    await runStages(job, name);
    await updateRawRecord(db, job.rawId, { status: 'pending' });
    assert.equal(await harness.runNext(), 'completed');
    assert.equal((await readRawRecord(db, job.rawId)).attempt, 2);
    assert.deepEqual(await readListing(`lost-${name}`), control, name);
  }
});
