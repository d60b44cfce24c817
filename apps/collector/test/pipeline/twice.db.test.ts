import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Context } from '../../src/pipeline/context.ts';
import { createStages } from '../../src/pipeline/pipeline.ts';
import type { StageName } from '../../src/pipeline/context.ts';
import { claimJobs } from '../../src/queue/claim.ts';
import type { Job } from '../../src/queue/job-types.ts';
import { openImages, visionModel, createImage, serve } from '../support/images.ts';
import {
  rawRecord,
  store,
  payloadOf,
  createHarness,
  createStageRunner,
  listingOf,
} from '../support/pipeline.ts';

const { db, open } = await openImages();
const { model: visionOnly, shown } = visionModel();
const { images } = open({ model: visionOnly });
const harness = createHarness(db, { images });
const stages = createStages(10_000).map(({ name }) => name);

async function claimNext(): Promise<Job> {
  const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
  assert.ok(job);
  return job;
}

/** Runs the stages in order up to `last`, and `twice` two times. */
async function runStages(job: Job, { twice, last }: { twice?: StageName; last?: StageName }) {
  const context: Context = { job, force: false, outputs: {} };
  const run = createStageRunner(db, images);
  for (const name of stages) {
    for (let times = name === twice ? 2 : 1; times > 0; times -= 1) await run(context, name);
    if (name === last) return;
  }
}

/** Reads a listing with its history and images, without ids and times. */
async function readListing(externalId: string) {
  const listing = await listingOf(db, payloadOf({ external_id: externalId }));
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
  const stored = await db
    .selectFrom('listing_images')
    .innerJoin('images', 'images.sha256', 'listing_images.sha256')
    .select(['position', 'error', 'media_type', 'description', 'room_type'])
    .where('listing_id', '=', listing.id)
    .orderBy('position')
    .execute();
  const own = { id: 0, external_id: '', created_at: null, updated_at: null };
  return JSON.parse(
    JSON.stringify({
      listing: { ...listing, ...own },
      snapshots,
      images: stored,
      fetched: fetched - before.fetched,
      described: shown.length - before.described,
      enrichments: enrichments.map(({ kind, value }) => ({ kind, value: { ...value, raw_id: 0 } })),
    }),
  ) as unknown;
}

/** Sends another image for each request, so none was described before. */
const host = await serve((_request, response) => {
  fetched += 1;
  void createImage('png', { width: 20 + fetched }).then((bytes) => response.end(bytes));
});
let fetched = 0;
/** Counts of fetched and described images before the payload of the test. */
let before = { fetched: 0, described: 0 };

const older = { price: 62_000, currency: 'USD', area_total: 54 };
const newer = { ...older, price: 59_000 };

/** Processes a first payload, and claims a second one. */
async function secondPayload(externalId: string): Promise<Job> {
  await harness.process(payloadOf({ ...older, external_id: externalId }));
  const image_urls = [`${host}/kitchen.png`];
  before = { fetched, described: shown.length };
  await store(db, payloadOf({ ...newer, external_id: externalId, image_urls }));
  return claimNext();
}

await runStages(await secondPayload('control'), {});
const control = await readListing('control');
assert.deepEqual([fetched, shown.length], [1, 1]);

for (const name of stages) {
  test(`The stage ${name} may run twice`, async () => {
    await runStages(await secondPayload(`again-${name}`), { twice: name });
    assert.deepEqual(await readListing(`again-${name}`), control);
  });

  test(`A job that was lost after ${name} may run from the start`, async () => {
    const job = await secondPayload(`lost-${name}`);
    await runStages(job, { last: name });
    await db
      .updateTable('raw_data')
      .set({ status: 'pending' })
      .where('id', '=', job.rawId)
      .execute();
    assert.equal(await harness.runNext(), 'completed');
    assert.equal((await rawRecord(db, job.rawId)).attempt, 2);
    assert.deepEqual(await readListing(`lost-${name}`), control);
  });
}
