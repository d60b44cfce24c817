import assert from 'node:assert/strict';
import { rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ModelError } from '@oselya/model';
import { sql } from 'kysely';
import { CONTROL_SIZE } from '../../src/images/decode.ts';
import { descriptionPrompt } from '../../src/images/describe.ts';
import { openReprocess, readAll, filterReadings } from '../reprocess/harness.ts';
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
} from '../support/pipeline.ts';

const { db, open, addListing, readRows, folder, getPath, ...database } = await openImages();
const { put, seen } = await openImageHost();

/** Creates a model that throws the error that `getError` returns, or describes the image if it returns none. */
function createFailingModel(
  getError: (shown: VisionRequest) => ModelError | undefined,
  visionModelName = 'eyes',
) {
  const { model, shown } = createVisionModel((one) => {
    const error = getError(one);
    if (error !== undefined) throw error;
  });
  return { model: { ...model, visionModel: visionModelName }, shown };
}

const rejection = new ModelError('MODEL_REFUSED', 'The content\0 filter rejected.');
const createRejection = () => rejection;
const described = { described_by: 'eyes-1', describe_error: null };

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
      (status) => new ModelError('MODEL_REJECTED', `The server answered ${status}.`, { status }),
    ),
  ];
  for (const [nth, error] of errors.entries()) {
    const bad = await put(`/bad-${nth}.png`, 'png', { width: 20 + nth });
    const good = await put(`/good-${nth}.png`, 'png', { width: 40 + nth });
    const { model } = createFailingModel(({ data }) =>
      JSON.stringify(data).includes('/bad-') ? error : undefined,
    );
    const { images, events, warnings } = open({ model });
    const listing = await addListing();
    await images.processRemote({ ...listing, urls: [bad.url, good.url] });
    assert.ok((await readRows(listing.listingId)).every((row) => row.error === null));
    const { describe_error: recorded } = await findImage(bad.sha256);
    const { failed_at: failedAt, ...reason } = recorded ?? assert.fail();
    assert.deepEqual(reason, {
      code: error.code,
      message: error.message.replace('\0', ''),
      requested_model: 'eyes',
      prompt_version: descriptionPrompt.version,
    });
    assert.ok(!Number.isNaN(Date.parse(failedAt)));
    assert.deepEqual(await findImage(good.sha256), described);
    assert.deepEqual(events.toSorted(), ['stored', 'stored', 'undescribed']);
    const { listingId, fence } = listing;
    const { sha256 } = bad;
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
  for (const [nth, error] of failures.entries()) {
    const { url, sha256 } = await put(`/failure-${nth}.png`, 'png', { width: 50 + nth });
    const job = { ...(await addListing()), urls: [url] };
    const { model } = createFailingModel(() => error);
    await assert.rejects(open({ model }).images.processRemote(job), error);
    assert.equal((await readRows(job.listingId)).length, 1);
    await open().images.processRemote(job);
    assert.deepEqual(await findImage(sha256), described);
    assert.equal(seen.filter((path) => path === `/failure-${nth}.png`).length, 1);
  }
});

test('A failed image is described again only with another model or prompt', async () => {
  const { url, sha256 } = await put('/logo.png', 'png', { width: 90 });
  const fail = async (visionModelName: string) => {
    const vision = createFailingModel(createRejection, visionModelName);
    await open(vision).images.processRemote({ ...(await addListing()), urls: [url] });
    return vision.shown.length;
  };
  assert.deepEqual([await fail('eyes'), await fail('eyes'), await fail('other')], [1, 0, 1]);
  assert.equal((await findImage(sha256)).describe_error?.requested_model, 'other');
  const error = JSON.stringify({ requested_model: 'eyes', prompt_version: 'earlier' });
  await db.updateTable('images').set({ describe_error: error }).execute();
  await open().images.processRemote({ ...(await addListing()), urls: [url] });
  assert.deepEqual(await findImage(sha256), described);
});

test('Only a temporary error leaves an image outdated', async () => {
  for (const [nth, code] of ['MODEL_RATE_LIMITED', 'MODEL_REFUSED'].entries()) {
    const { url, sha256 } = await put(`/limited-${nth}.png`, 'png', { width: 98 + nth });
    const listing = await addListing();
    await open(createFailingModel(createRejection)).images.processRemote({
      ...listing,
      urls: [url],
    });
    await sql`update images set describe_error = describe_error || ${JSON.stringify({ code })}
      where sha256 = ${sha256}`.execute(db);
    const { model, shown } = createVisionModel();
    const { images } = open({ model });
    await images.processRemote({ ...(await addListing()), urls: [url] });
    assert.equal(shown.length, 0, 'no payload asks again');
    const count = code === 'MODEL_RATE_LIMITED' ? 1 : 0;
    assert.equal(await images.describeAll(listing, { outdated: true }), count);
    assert.equal(shown.length, count);
  }
});

test('A failure does not replace a description that another listing has stored meanwhile', async () => {
  const { url, sha256 } = await put('/raced.png', 'png', { width: 91 });
  const { model } = createVisionModel(async () => {
    await open().images.processRemote({ ...(await addListing()), urls: [url] });
    throw rejection;
  });
  await open({ model }).images.processRemote({ ...(await addListing()), urls: [url] });
  assert.deepEqual(await findImage(sha256), described);
});

for (const [damage, message, width] of [
  ['broken', /broken in the image store/, 94],
  ['gone', /not in the image store/, 111],
] as const) {
  test(`A stored image that is ${damage} is recorded as unreadable, and the others are described`, async () => {
    const bad = await put(`/${damage}.png`, 'png', { width });
    const good = await put(`/beside-${damage}.png`, 'png', { width: width + 1 });
    const job = { ...(await addListing()), urls: [bad.url, good.url] };
    const away = new ModelError('MODEL_BREAKER_OPEN', 'The breaker is open.');
    const first = open(createFailingModel(() => away));
    await assert.rejects(first.images.processRemote(job), away);
    await rm(join(folder, 'thumbnails'), { recursive: true });
    if (damage === 'gone') await rm(getPath(bad.sha256));
    else await truncate(getPath(bad.sha256), bad.bytes.length - 30);

    const { images, events } = open();
    assert.equal(await images.describeAll(job), 2);
    const { describe_error: error } = await findImage(bad.sha256);
    assert.equal(error?.code, 'IMAGE_UNREADABLE');
    assert.match(error?.message ?? '', message);
    assert.deepEqual(await findImage(good.sha256), described);
    assert.deepEqual(events, ['undescribed']);
    assert.equal(await images.describeAll(job, { outdated: true }), 1);
    if (damage === 'broken') return;
    await images.processRemote(job);
    assert.deepEqual(await findImage(bad.sha256), described, 'it is in the store again');
  });
}

for (const [code, most] of [
  ['MODEL_TIMEOUT', 3],
  ['MODEL_RATE_LIMITED', 5],
] as const) {
  test(`An image that meets ${code} in ${most} outages, each after the control image, is recorded`, async () => {
    const { url, sha256 } = await put(`/outage-${code}.png`, 'png', { width: 190 + most });
    const calls: string[] = [];
    const { images } = open(
      createFailingModel(({ data }) => {
        const isControl = data === CONTROL_SIZE;
        calls.push(isControl ? 'control' : 'image');
        if (isControl) return undefined;
        return Object.assign(new ModelError(code, 'No answer.'), { outage: { since: new Date() } });
      }),
    );
    const job = { ...(await addListing()), urls: [url] };
    for (let time = 1; time < most; time += 1) {
      await assert.rejects(images.processRemote(job), { code });
      assert.equal((await findImage(sha256)).describe_error, null);
    }
    await images.processRemote(job);
    assert.equal((await findImage(sha256)).describe_error?.code, code);
    const repeated = Array.from({ length: most - 1 }, () => ['control', 'image']).flat();
    assert.deepEqual(calls, ['image', ...repeated]);
  });
}

test('A listing with a rejected image is complete and calls the model again only when reprocessed', async () => {
  const bad = await put('/rejected.png', 'png', { width: 92 });
  const good = await put('/kept.png', 'png', { width: 93 });
  const vision = createFailingModel(({ data }) =>
    JSON.stringify(data).includes('/rejected.png') ? rejection : undefined,
  );
  const payload = createPayload({ image_urls: [bad.url, good.url] });
  const model = createCountingModel();
  const harness = createHarness(db, { model, images: open(vision).images });
  const raw = await harness.process(payload);
  assert.deepEqual([raw.status, raw.error, vision.shown.length], ['completed', null, 2]);
  assert.ok((await findListing(db, payload))?.embedding);
  const summary = async () => {
    const { value } = await db
      .selectFrom('listing_enrichments')
      .select('value')
      .where('listing_id', '=', raw.listing_id ?? 0)
      .where('kind', '=', 'images')
      .executeTakeFirstOrThrow();
    return value;
  };
  assert.deepEqual(await summary(), { stored: 2, failed: 0, room_types: { kitchen: 1 } });
  const again = await harness.process(payload);
  assert.deepEqual([again.status, again.stages.length], ['completed', 1]);
  assert.deepEqual([model.calls.chat, vision.shown.length], [1, 2]);

  const better = createVisionModel();
  const reprocess = openReprocess(db, model, open(better).images);
  for (let time = 0; time < 2; time += 1) {
    const [reading] = filterReadings(await readAll(reprocess, { listingId: raw.listing_id ?? 0 }));
    assert.ok(reading);
    assert.deepEqual(await reprocess.write(reading), { outcome: 'written' });
    assert.deepEqual(
      better.shown.map(({ data }) => data),
      [{ hint: bad.url, width: 92, height: 48 }],
    );
  }
  assert.deepEqual(await findImage(bad.sha256), described);
  assert.deepEqual(await summary(), { stored: 2, failed: 0, room_types: { kitchen: 2 } });
});
