import assert from 'node:assert/strict';
import { rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ModelError } from '@oselya/model';
import { sql } from 'kysely';
import { CONTROL_SIZE } from '../../src/images/decode.ts';
import { descriptionPrompt } from '../../src/images/describe.ts';
import { openReprocess, readAll, filterExtracted } from '../reprocess/harness.ts';
import {
  openImageHost,
  openImages,
  type VisionRequest,
  createVisionModel,
} from '../support/images.ts';
import {
  createPayload,
  createCountingModel,
  createHarness,
  findListing,
  readEnrichments,
} from '../support/pipeline.ts';

const { db, openService, addListing, readRows, folder, getPath, ...database } = await openImages();
const { putImage, requestedPaths } = await openImageHost();

/** Creates a model that throws the error that `getError` returns, or describes the image if it returns none. */
function createFailingModel(
  getError: (request: VisionRequest) => ModelError | undefined,
  visionModelName = 'eyes',
) {
  const { model, visionRequests } = createVisionModel((request) => {
    const error = getError(request);
    if (error !== undefined) throw error;
  });
  return { model: { ...model, visionModel: visionModelName }, visionRequests };
}

const rejection = new ModelError('MODEL_REFUSED', 'The content\0 filter rejected.');
const getRejection = () => rejection;
const describedImage = { described_by: 'eyes-1', describe_error: null };

async function findImage(sha256: string) {
  const image = await database.findImage(sha256);
  assert.ok(image);
  return { described_by: image.described_by, describe_error: image.describe_error };
}

test('An error about one image is recorded with it, and the others are described', async () => {
  const errors = [
    rejection,
    new ModelError('MODEL_INVALID_OUTPUT', 'The answer fails its schema.'),
    new ModelError('MODEL_TRUNCATED', 'The answer was cut off.'),
    ...[400, 413, 415, 422].map(
      (status) =>
        new ModelError('MODEL_REJECTED', `The server responded with status ${status}.`, { status }),
    ),
  ];
  for (const [index, error] of errors.entries()) {
    const badImage = await putImage(`/bad-${index}.png`, 'png', { width: 20 + index });
    const goodImage = await putImage(`/good-${index}.png`, 'png', { width: 40 + index });
    const { model } = createFailingModel(({ data }) =>
      JSON.stringify(data).includes('/bad-') ? error : undefined,
    );
    const { images, events, warnings } = openService({ model });
    const listing = await addListing();
    await images.processRemote({ ...listing, urls: [badImage.url, goodImage.url] });
    assert.ok((await readRows(listing.listingId)).every((row) => row.error === null));
    const { describe_error: recordedError } = await findImage(badImage.sha256);
    assert.partialDeepStrictEqual(recordedError, {
      code: error.code,
      message: error.message.replace('\0', ''),
      requested_model: 'eyes',
      prompt_version: descriptionPrompt.version,
    });
    assert.ok(!Number.isNaN(Date.parse(recordedError?.failed_at ?? '')));
    assert.deepEqual(await findImage(goodImage.sha256), describedImage);
    assert.deepEqual(events.toSorted(), ['stored', 'stored', 'undescribed']);
    const { listingId, fence } = listing;
    const { sha256 } = badImage;
    assert.deepEqual(warnings, [
      { err: error, raw_id: fence.rawId, listing_id: listingId, sha256 },
    ]);
  }
});

test('Every other failure of the model propagates, and the next attempt continues without a download', async () => {
  const failures = [
    new ModelError('MODEL_UNAVAILABLE', 'The model failed.', { status: 500 }),
    new ModelError('MODEL_BREAKER_OPEN', 'The breaker is open.'),
    ...[undefined, 401, 403, 404].map(
      (status) => new ModelError('MODEL_REJECTED', 'No.', status === undefined ? {} : { status }),
    ),
  ];
  for (const [index, error] of failures.entries()) {
    const { url, sha256 } = await putImage(`/failure-${index}.png`, 'png', { width: 50 + index });
    const job = { ...(await addListing()), urls: [url] };
    const { model } = createFailingModel(() => error);
    await assert.rejects(openService({ model }).images.processRemote(job), error);
    assert.equal((await readRows(job.listingId)).length, 1);
    await openService().images.processRemote(job);
    assert.deepEqual(await findImage(sha256), describedImage);
    assert.equal(requestedPaths.filter((path) => path === `/failure-${index}.png`).length, 1);
  }
});

test('A failed image is described again only with a different model or prompt', async () => {
  const { url, sha256 } = await putImage('/logo.png', 'png', { width: 90 });
  for (const [visionModelName, requestCount] of [
    ['eyes', 1],
    ['eyes', 0],
    ['other', 1],
  ] as const) {
    const vision = createFailingModel(getRejection, visionModelName);
    await openService(vision).images.processRemote({ ...(await addListing()), urls: [url] });
    assert.equal(vision.visionRequests.length, requestCount);
  }
  assert.equal((await findImage(sha256)).describe_error?.requested_model, 'other');
  const error = JSON.stringify({ requested_model: 'eyes', prompt_version: 'earlier' });
  await db.updateTable('images').set({ describe_error: error }).execute();
  await openService().images.processRemote({ ...(await addListing()), urls: [url] });
  assert.deepEqual(await findImage(sha256), describedImage);
});

test('Only a temporary error leaves an image outdated', async () => {
  for (const [index, code] of ['MODEL_RATE_LIMITED', 'MODEL_REFUSED'].entries()) {
    const { url, sha256 } = await putImage(`/limited-${index}.png`, 'png', { width: 98 + index });
    const listing = await addListing();
    const job = { ...listing, urls: [url] };
    await openService(createFailingModel(getRejection)).images.processRemote(job);
    await sql`update images set describe_error = describe_error || ${JSON.stringify({ code })}
      where sha256 = ${sha256}`.execute(db);
    const { model, visionRequests } = createVisionModel();
    const { images } = openService({ model });
    await images.processRemote({ ...(await addListing()), urls: [url] });
    assert.equal(visionRequests.length, 0, 'no payload repeats the request');
    const count = code === 'MODEL_RATE_LIMITED' ? 1 : 0;
    assert.equal(await images.describeAll(listing, { outdated: true }), count);
    assert.equal(visionRequests.length, count);
  }
});

test('A failure does not replace a description that another listing has stored in the meantime', async () => {
  const { url, sha256 } = await putImage('/raced.png', 'png', { width: 91 });
  const { model } = createVisionModel(async () => {
    await openService().images.processRemote({ ...(await addListing()), urls: [url] });
    throw rejection;
  });
  await openService({ model }).images.processRemote({ ...(await addListing()), urls: [url] });
  assert.deepEqual(await findImage(sha256), describedImage);
});

for (const [damage, message, width] of [
  ['corrupt', /image store is corrupt/, 94],
  ['gone', /not in the image store/, 111],
] as const) {
  test(`A stored image that is ${damage} is recorded as unreadable, and the others are described`, async () => {
    const badImage = await putImage(`/${damage}.png`, 'png', { width });
    const goodImage = await putImage(`/beside-${damage}.png`, 'png', { width: width + 1 });
    const job = { ...(await addListing()), urls: [badImage.url, goodImage.url] };
    const breakerError = new ModelError('MODEL_BREAKER_OPEN', 'The breaker is open.');
    const unavailableService = openService(createFailingModel(() => breakerError));
    await assert.rejects(unavailableService.images.processRemote(job), breakerError);
    await rm(join(folder, 'thumbnails'), { recursive: true });
    if (damage === 'gone') await rm(getPath(badImage.sha256));
    else await truncate(getPath(badImage.sha256), badImage.bytes.length - 30);

    const { images, events } = openService();
    assert.equal(await images.describeAll(job), 2);
    const { describe_error: error } = await findImage(badImage.sha256);
    assert.equal(error?.code, 'IMAGE_UNREADABLE');
    assert.match(error?.message ?? '', message);
    assert.deepEqual(await findImage(goodImage.sha256), describedImage);
    assert.deepEqual(events, ['undescribed']);
    assert.equal(await images.describeAll(job, { outdated: true }), 1);
    if (damage === 'corrupt') return;
    await images.processRemote(job);
    assert.deepEqual(await findImage(badImage.sha256), describedImage, 'the image is stored again');
  });
}

/** Creates the error of a request that timed out in an outage. */
const createTimeoutError = () =>
  Object.assign(new ModelError('MODEL_TIMEOUT', 'No answer.'), { outage: { since: new Date() } });

test('An image that times out in three outages, each after the control image, is recorded', async () => {
  const { url, sha256 } = await putImage('/outages.png', 'png', { width: 193 });
  const requestKinds: string[] = [];
  const { images } = openService(
    createFailingModel(({ data }) => {
      const isControl = data === CONTROL_SIZE;
      requestKinds.push(isControl ? 'control' : 'image');
      return isControl ? undefined : createTimeoutError();
    }),
  );
  const job = { ...(await addListing()), urls: [url] };
  for (let run = 1; run < 3; run += 1) {
    await assert.rejects(images.processRemote(job), { code: 'MODEL_TIMEOUT' });
    assert.equal((await findImage(sha256)).describe_error, null);
  }
  await images.processRemote(job);
  assert.equal((await findImage(sha256)).describe_error?.code, 'MODEL_TIMEOUT');
  assert.deepEqual(requestKinds, ['image', 'control', 'image', 'control', 'image']);
});

test('No error of an image is recorded while the control image fails too', async () => {
  const { url, sha256 } = await putImage('/outage-ends.png', 'png', { width: 88 });
  let isModelDown = true;
  const { model, visionRequests } = createFailingModel(() =>
    isModelDown ? createTimeoutError() : undefined,
  );
  const { images } = openService({ model });
  const job = { ...(await addListing()), urls: [url] };
  for (let run = 0; run < 8; run += 1) {
    await assert.rejects(images.processRemote(job), { code: 'MODEL_TIMEOUT' });
  }
  assert.equal(visionRequests.filter(({ data }) => data !== CONTROL_SIZE).length, 1);
  isModelDown = false;
  await images.processRemote(job);
  assert.deepEqual(await findImage(sha256), describedImage);
});

test('A listing with a rejected image is complete and calls the model again only when reprocessed', async () => {
  const badImage = await putImage('/rejected.png', 'png', { width: 92 });
  const goodImage = await putImage('/kept.png', 'png', { width: 93 });
  const vision = createFailingModel(({ data }) =>
    JSON.stringify(data).includes('/rejected.png') ? rejection : undefined,
  );
  const payload = createPayload({ image_urls: [badImage.url, goodImage.url] });
  const model = createCountingModel();
  const harness = createHarness(db, { model, images: openService(vision).images });
  const rawRecord = await harness.process(payload);
  assert.deepEqual(
    [rawRecord.status, rawRecord.error, vision.visionRequests.length],
    ['completed', null, 2],
  );
  assert.ok((await findListing(db, payload))?.embedding);
  const readSummary = async () => (await readEnrichments(db, rawRecord.listing_id))['images'];
  assert.deepEqual(await readSummary(), { stored: 2, failed: 0, room_types: { kitchen: 1 } });
  const secondRun = await harness.process(payload);
  assert.deepEqual([secondRun.status, secondRun.stages.length], ['completed', 1]);
  assert.deepEqual([model.calls.chat, vision.visionRequests.length], [1, 2]);

  const betterVision = createVisionModel();
  const reprocess = openReprocess(db, model, openService(betterVision).images);
  for (let run = 0; run < 2; run += 1) {
    const [reading] = filterExtracted(
      await readAll(reprocess, { listingId: rawRecord.listing_id ?? 0 }),
    );
    assert.ok(reading);
    assert.deepEqual(await reprocess.write(reading), { outcome: 'written' });
    assert.deepEqual(
      betterVision.visionRequests.map(({ data }) => data),
      [{ hint: badImage.url, width: 92, height: 48 }],
    );
  }
  assert.deepEqual(await findImage(badImage.sha256), describedImage);
  assert.deepEqual(await readSummary(), { stored: 2, failed: 0, room_types: { kitchen: 2 } });
});
