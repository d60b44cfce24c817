import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { ModelError } from '@oselya/model';
import type { Payload } from '../../src/ingest/payload.ts';
import { retryPayload } from '../../src/queue/retry.ts';
import { openImages, createVisionModel, createImage, serve } from '../support/images.ts';
import {
  readRawRecord,
  createPayload,
  createCountingModel,
  createHarness,
  readEnrichments,
} from '../support/pipeline.ts';

const { db, openService, readRows } = await openImages();

/** Responses of the host by path: a status, or bytes. */
const answers = new Map<string, number | Buffer>();
let requestedPaths: string[] = [];
const host = await serve((request, response) => {
  const path = request.url ?? '';
  requestedPaths.push(path);
  const answer = answers.get(path) ?? 404;
  if (typeof answer === 'number') response.writeHead(answer).end();
  else response.end(answer);
});
beforeEach(() => {
  requestedPaths = [];
});

const UNCHANGED_OUTCOMES = [['load', 'unchanged']];
const IMAGE_OUTCOMES = [
  ['load', 'unchanged'],
  ['validate', 'skipped'],
  ['normalize', 'skipped'],
  ['upsert', 'skipped'],
  ['snapshot', 'skipped'],
  ['images', 'done'],
  ['enrich', 'done'],
  ['embed', 'skipped'],
];

type RawRecord = Awaited<ReturnType<typeof readRawRecord>>;
const listOutcomes = ({ stages }: RawRecord) =>
  stages.map(({ stage, outcome }) => [stage, outcome]);

/** Processes a listing with images at the given paths. */
async function processListing(
  paths: readonly string[],
  { vision = createVisionModel() }: { vision?: ReturnType<typeof createVisionModel> } = {},
) {
  const model = createCountingModel();
  const harness = createHarness(db, { model, images: openService({ model: vision.model }).images });
  const payload: Payload = createPayload({ image_urls: paths.map((path) => host + path) });
  const rawRecord = await harness.process(payload);
  assert.deepEqual([rawRecord.status, model.calls], ['completed', { chat: 1, embed: 1 }]);
  const listingId = rawRecord.listing_id ?? 0;
  return {
    ...harness,
    model,
    vision,
    payload,
    listingId,
    makeDownloadsDue: () =>
      db
        .updateTable('listing_images')
        .set({ retry_at: new Date(0) })
        .where('listing_id', '=', listingId)
        .where('retry_at', 'is not', null)
        .execute(),
  };
}

test('An image of a temporarily failed host is fetched by a later unchanged payload', async () => {
  answers.set('/a.png', await createImage('png', { colour: 'red' })).set('/b.png', 503);
  const listing = await processListing(['/a.png', '/b.png', '/never.png']);
  const enrichmentsBefore = await readEnrichments(db, listing.listingId);
  assert.deepEqual(enrichmentsBefore['images'], {
    stored: 1,
    failed: 2,
    room_types: { kitchen: 1 },
  });
  answers.set('/b.png', await createImage('png', { colour: 'blue' }));
  requestedPaths = [];

  // Payloads must not repeatedly wait for the timeouts of a dead host.
  assert.deepEqual(listOutcomes(await listing.process(listing.payload)), UNCHANGED_OUTCOMES);
  assert.deepEqual(requestedPaths, []);

  await listing.makeDownloadsDue();
  const repeatedRecord = await listing.process(listing.payload);
  assert.deepEqual(
    [repeatedRecord.status, listOutcomes(repeatedRecord)],
    ['completed', IMAGE_OUTCOMES],
  );
  assert.equal(repeatedRecord.listing_id, listing.listingId);
  assert.deepEqual(requestedPaths, ['/b.png'], 'stored and missing images are left alone');
  const rows = await readRows(listing.listingId);
  assert.deepEqual(
    rows.map(({ url, error }) => [url, error]),
    [
      [`${host}/a.png`, null],
      [`${host}/b.png`, null],
      [`${host}/never.png`, 'The address responded with status 404'],
    ],
  );
  assert.equal(listing.vision.visionRequests.length, 2);
  assert.deepEqual(listing.model.calls, { chat: 1, embed: 1 }, 'the text is not read again');
  const images = { stored: 2, failed: 1, room_types: { kitchen: 2 } };
  assert.deepEqual(await readEnrichments(db, listing.listingId), { ...enrichmentsBefore, images });
  assert.ok(enrichmentsBefore['provenance']);

  await listing.makeDownloadsDue();
  assert.deepEqual(listOutcomes(await listing.process(listing.payload)), UNCHANGED_OUTCOMES);
  assert.deepEqual(requestedPaths, ['/b.png']);
});

test('A dead host is requested by one unchanged payload a day and by each changed payload', async () => {
  answers.set('/dead.png', 500);
  const listing = await processListing(['/dead.png']);
  await listing.makeDownloadsDue();
  requestedPaths = [];
  assert.deepEqual(listOutcomes(await listing.process(listing.payload)), IMAGE_OUTCOMES);
  assert.deepEqual(requestedPaths, Array(3).fill('/dead.png'), 'with the attempts of any download');
  for (let n = 0; n < 3; n += 1) {
    assert.deepEqual(listOutcomes(await listing.process(listing.payload)), UNCHANGED_OUTCOMES);
  }
  assert.equal(requestedPaths.length, 3);
  const changedRecord = await listing.process({ ...listing.payload, price: 61_000 });
  assert.equal(changedRecord.status, 'completed');
  assert.equal(requestedPaths.length, 6);
});

test('A late image whose description failed is described by the retry', async () => {
  answers.set('/late.png', 503);
  let isBroken = true;
  const vision = createVisionModel(() => {
    if (isBroken) throw new ModelError('MODEL_REJECTED', 'A wrong key.', { status: 401 });
  });
  const listing = await processListing(['/late.png'], { vision });
  await listing.makeDownloadsDue();
  answers.set('/late.png', await createImage('png', { colour: 'orchid' }));
  const { id, status, error } = await listing.process(listing.payload);
  assert.deepEqual([status, error?.stage], ['failed', 'images']);
  isBroken = false;
  requestedPaths = [];
  await retryPayload(db, id);
  assert.equal(await listing.runNext(), 'completed');
  assert.deepEqual(listOutcomes(await readRawRecord(db, id)), IMAGE_OUTCOMES);
  assert.deepEqual(
    [requestedPaths, vision.visionRequests.length],
    [[], 2],
    'the stored image is not fetched',
  );
  assert.deepEqual(listOutcomes(await listing.process(listing.payload)), UNCHANGED_OUTCOMES);
});
