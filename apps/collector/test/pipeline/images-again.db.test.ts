import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { ModelError } from '@oselya/model';
import type { Payload } from '../../src/ingest/payload.ts';
import { requeuePayload } from '../../src/queue/retry.ts';
import { openImages, createVisionModel, createImage, serve } from '../support/images.ts';
import {
  readRawRecord,
  createPayload,
  createCountingModel,
  createHarness,
} from '../support/pipeline.ts';

const { db, open, readRows } = await openImages();

/** Responses of the host by path: a status, or bytes. */
const answers = new Map<string, number | Buffer>();
let requests: string[] = [];
const host = await serve((request, response) => {
  const path = request.url ?? '';
  requests.push(path);
  const answer = answers.get(path) ?? 404;
  if (typeof answer === 'number') response.writeHead(answer).end();
  else response.end(answer);
});
beforeEach(() => {
  requests = [];
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

type Raw = Awaited<ReturnType<typeof readRawRecord>>;
const getOutcomes = ({ stages }: Raw) => stages.map(({ stage, outcome }) => [stage, outcome]);

/** Processes a listing with images of these paths. */
async function processListing(
  paths: readonly string[],
  { vision = createVisionModel() }: { vision?: ReturnType<typeof createVisionModel> } = {},
) {
  const model = createCountingModel();
  const harness = createHarness(db, { model, images: open({ model: vision.model }).images });
  const payload: Payload = createPayload({ image_urls: paths.map((path) => host + path) });
  const raw = await harness.process(payload);
  assert.deepEqual([raw.status, model.calls], ['completed', { chat: 1, embed: 1 }]);
  const listingId = raw.listing_id ?? 0;
  return {
    ...harness,
    model,
    vision,
    payload,
    listingId,
    /** Makes failed downloads due. */
    nextDay: () =>
      db
        .updateTable('listing_images')
        .set({ retry_at: new Date(0) })
        .where('listing_id', '=', listingId)
        .where('retry_at', 'is not', null)
        .execute(),
  };
}

async function readEnrichments(listingId: number) {
  const rows = await db
    .selectFrom('listing_enrichments')
    .select(['kind', 'value'])
    .where('listing_id', '=', listingId)
    .execute();
  return Object.fromEntries(rows.map(({ kind, value }) => [kind, value]));
}

test('An image of a temporarily failed host is fetched by a later unchanged payload', async () => {
  answers.set('/a.png', await createImage('png', { colour: 'red' })).set('/b.png', 503);
  const listing = await processListing(['/a.png', '/b.png', '/never.png']);
  const enrichmentsBefore = await readEnrichments(listing.listingId);
  assert.deepEqual(enrichmentsBefore['images'], {
    stored: 1,
    failed: 2,
    room_types: { kitchen: 1 },
  });
  answers.set('/b.png', await createImage('png', { colour: 'blue' }));
  requests = [];

  // Payloads must not repeatedly wait for the timeouts of a dead host.
  assert.deepEqual(getOutcomes(await listing.process(listing.payload)), UNCHANGED_OUTCOMES);
  assert.deepEqual(requests, []);

  await listing.nextDay();
  const repeatedRaw = await listing.process(listing.payload);
  assert.deepEqual([repeatedRaw.status, getOutcomes(repeatedRaw)], ['completed', IMAGE_OUTCOMES]);
  assert.equal(repeatedRaw.listing_id, listing.listingId);
  assert.deepEqual(requests, ['/b.png'], 'stored and missing images are left alone');
  const rows = await readRows(listing.listingId);
  assert.deepEqual(
    rows.map(({ url, error }) => [url, error]),
    [
      [`${host}/a.png`, null],
      [`${host}/b.png`, null],
      [`${host}/never.png`, 'The address answered with status 404'],
    ],
  );
  assert.equal(listing.vision.shown.length, 2);
  assert.deepEqual(listing.model.calls, { chat: 1, embed: 1 }, 'the text is not read again');
  const images = { stored: 2, failed: 1, room_types: { kitchen: 2 } };
  assert.deepEqual(await readEnrichments(listing.listingId), { ...enrichmentsBefore, images });
  assert.ok(enrichmentsBefore['provenance']);

  await listing.nextDay();
  assert.deepEqual(getOutcomes(await listing.process(listing.payload)), UNCHANGED_OUTCOMES);
  assert.deepEqual(requests, ['/b.png']);
});

test('A dead host is requested by one unchanged payload a day and by each changed payload', async () => {
  answers.set('/dead.png', 500);
  const listing = await processListing(['/dead.png']);
  await listing.nextDay();
  requests = [];
  assert.deepEqual(getOutcomes(await listing.process(listing.payload)), IMAGE_OUTCOMES);
  assert.deepEqual(requests, Array(3).fill('/dead.png'), 'with the attempts of any download');
  for (let n = 0; n < 3; n += 1) {
    assert.deepEqual(getOutcomes(await listing.process(listing.payload)), UNCHANGED_OUTCOMES);
  }
  assert.equal(requests.length, 3);
  const changedRaw = await listing.process({ ...listing.payload, price: 61_000 });
  assert.equal(changedRaw.status, 'completed');
  assert.equal(requests.length, 6);
});

test('A late image whose description failed is described by the retry', async () => {
  answers.set('/late.png', 503);
  let isBroken = true;
  const vision = createVisionModel(() => {
    if (isBroken) throw new ModelError('MODEL_REJECTED', 'A wrong key.', { status: 401 });
  });
  const listing = await processListing(['/late.png'], { vision });
  await listing.nextDay();
  answers.set('/late.png', await createImage('png', { colour: 'orchid' }));
  const { id, status, error } = await listing.process(listing.payload);
  assert.deepEqual([status, error?.stage], ['failed', 'images']);
  isBroken = false;
  requests = [];
  assert.ok(await requeuePayload(db, id));
  assert.equal(await listing.runNext(), 'completed');
  assert.deepEqual(getOutcomes(await readRawRecord(db, id)), IMAGE_OUTCOMES);
  assert.deepEqual([requests, vision.shown.length], [[], 2], 'the stored image is not fetched');
  assert.deepEqual(getOutcomes(await listing.process(listing.payload)), UNCHANGED_OUTCOMES);
});
