import assert from 'node:assert/strict';
import { rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ModelError } from '@oselya/model';
import { sql } from 'kysely';
import { CONTROL_SIZE } from '../../src/images/decode.ts';
import { descriptionPrompt } from '../../src/images/describe.ts';
import { countedModel, createHarness, listingOf } from '../support/pipeline.ts';
import { payloadOf } from '../support/payload.ts';
import { openReprocess, readAll, readings } from '../reprocess/harness.ts';
import { openImages, type Shown, visionModel } from './harness.ts';
import { openPictureHost } from './picture-host.ts';

const { db, open, addListing, rowsOf, folder } = await openImages();
const { put } = await openPictureHost();

/** A model that refuses what this says, and otherwise describes. */
function pickyModel(
  rejectionOf: (shown: Shown) => ModelError | undefined,
  visionModelName = 'eyes',
) {
  const { model, shown } = visionModel((one) => {
    const refusal = rejectionOf(one);
    if (refusal !== undefined) throw refusal;
  });
  return { model: { ...model, visionModel: visionModelName }, shown };
}

const refused = new ModelError('MODEL_REFUSED', 'The content\0 filter refused.');
const always = () => refused;

async function imageOf(sha256: string) {
  return db
    .selectFrom('images')
    .select(['described_by', 'describe_error'])
    .where('sha256', '=', sha256)
    .executeTakeFirstOrThrow();
}

test('what the model says of one picture is recorded with it, and the others are described', async () => {
  const refusals = [
    refused,
    new ModelError('MODEL_INVALID_OUTPUT', 'The answer fails its schema.'),
    new ModelError('MODEL_TRUNCATED', 'The answer was cut off.'),
    ...[400, 413, 415, 422].map(
      (status) => new ModelError('MODEL_REJECTED', `The server answered ${status}.`, { status }),
    ),
  ];
  for (const [nth, error] of refusals.entries()) {
    const bad = await put(`/bad-${nth}.png`, 'png', { width: 20 + nth });
    const good = await put(`/good-${nth}.png`, 'png', { width: 40 + nth });
    const { model } = pickyModel(({ data }) =>
      JSON.stringify(data).includes('/bad-') ? error : undefined,
    );
    const { images, events, warnings } = open({ model });
    const listing = await addListing();
    await images.processRemote({ ...listing, urls: [bad.url, good.url] });
    assert.deepEqual(
      (await rowsOf(listing.listingId)).map((row) => [row.sha256, row.error]),
      [
        [bad.sha256, null],
        [good.sha256, null],
      ],
    );
    const { described_by: describedBy, describe_error: recorded } = await imageOf(bad.sha256);
    assert.equal(describedBy, null);
    assert.ok(recorded);
    const { failed_at: failedAt, ...reason } = recorded;
    assert.deepEqual(reason, {
      code: error.code,
      message: error.message.replace('\0', ''),
      requested_model: 'eyes',
      prompt_version: descriptionPrompt.version,
    });
    assert.ok(Math.abs(Date.now() - Date.parse(failedAt)) < 3_600_000);
    assert.deepEqual(await imageOf(good.sha256), { described_by: 'eyes-1', describe_error: null });
    assert.deepEqual(events.toSorted(), ['stored', 'stored', 'undescribed']);
    const { rawId } = listing.fence;
    assert.deepEqual(warnings, [
      { err: error, raw_id: rawId, listing_id: listing.listingId, sha256: bad.sha256 },
    ]);
  }
});

test('a refused picture is not asked for again, in whatever listing, but of another model', async () => {
  const { url, sha256 } = await put('/logo.png', 'png', { width: 90 });
  const first = pickyModel(always);
  await open(first).images.processRemote({ ...(await addListing()), urls: [url] });
  const same = pickyModel(always);
  await open(same).images.processRemote({ ...(await addListing()), urls: [url] });
  assert.deepEqual([first.shown.length, same.shown.length], [1, 0]);

  const other = pickyModel(always, 'other-eyes');
  await open(other).images.processRemote({ ...(await addListing()), urls: [url] });
  assert.equal(other.shown.length, 1);
  assert.equal((await imageOf(sha256)).describe_error?.requested_model, 'other-eyes');
  // As if it had been asked for with an earlier prompt.
  const error = JSON.stringify({ requested_model: 'eyes', prompt_version: 'earlier' });
  await db.updateTable('images').set({ describe_error: error }).execute();
  const newer = visionModel();
  await open(newer).images.processRemote({ ...(await addListing()), urls: [url] });
  assert.equal(newer.shown.length, 1);
  assert.deepEqual(await imageOf(sha256), { described_by: 'eyes-1', describe_error: null });
});

test('of what is refused a limit alone leaves a picture outdated, with the same model and prompt', async () => {
  const limit = new ModelError('MODEL_RATE_LIMITED', 'It did not let it pass.', { status: 429 });
  for (const [nth, error] of [limit, refused].entries()) {
    const { url, sha256 } = await put(`/limited-${nth}.png`, 'png', { width: 98 + nth });
    const listing = await addListing();
    const unable = { ...visionModel().model, generateObject: () => Promise.reject(refused) };
    await open({ model: unable }).images.processRemote({ ...listing, urls: [url] });
    await db
      .updateTable('images')
      .set({
        describe_error: sql<string>`describe_error || ${JSON.stringify({ code: error.code })}`,
      })
      .where('sha256', '=', sha256)
      .execute();
    const { model, shown } = visionModel();
    const { images } = open({ model });
    await images.processRemote({ ...(await addListing()), urls: [url] });
    assert.equal(shown.length, 0, 'no payload asks again');
    const isLimit = error === limit;
    assert.equal(await images.describeAll(listing, { outdated: true }), isLimit ? 1 : 0);
    assert.equal((await imageOf(sha256)).described_by, isLimit ? 'eyes-1' : null);
  }
});

test('a refusal does not stand over what was described for another listing meanwhile', async () => {
  const { url, sha256 } = await put('/raced.png', 'png', { width: 91 });
  const { model } = visionModel(async () => {
    await open().images.processRemote({ ...(await addListing()), urls: [url] });
    throw refused;
  });
  await open({ model }).images.processRemote({ ...(await addListing()), urls: [url] });
  assert.deepEqual(await imageOf(sha256), { described_by: 'eyes-1', describe_error: null });
});

test('a stored picture that cannot be decoded any more is recorded, and the others are described', async () => {
  const [broken, good] = [
    await put('/damaged.png', 'png', { width: 94 }),
    await put('/whole.png', 'png', { width: 95 }),
  ];
  const urls = [broken.url, good.url];
  const listing = await addListing();
  const away = new ModelError('MODEL_BREAKER_OPEN', 'The model is left alone.');
  const first = open({ model: pickyModel(() => away).model });
  await assert.rejects(first.images.processRemote({ ...listing, urls }), away);
  const { sha256 } = broken;
  await rm(join(folder, 'thumbnails'), { recursive: true });
  const path = join(folder, sha256.slice(0, 2), sha256.slice(2, 4), sha256);
  await truncate(path, broken.bytes.length - 30);

  const { shown, model } = visionModel();
  const { images, events } = open({ model });
  await images.processRemote({ ...listing, urls });
  assert.equal(shown.length, 1);
  const { describe_error: error, described_by: by } = await imageOf(sha256);
  assert.deepEqual([by, error?.code], [null, 'IMAGE_UNREADABLE']);
  assert.match(error?.message ?? '', /broken in the image store/);
  assert.equal((await imageOf(good.sha256)).described_by, 'eyes-1');
  assert.ok(events.includes('undescribed'));
});

test('a stored picture that is gone from the store is recorded, and described once it is there again', async () => {
  const [gone, good] = [
    await put('/gone.png', 'png', { width: 111 }),
    await put('/there.png', 'png', { width: 112 }),
  ];
  const urls = [gone.url, good.url];
  const listing = await addListing();
  const away = new ModelError('MODEL_BREAKER_OPEN', 'The model is left alone.');
  const first = open({ model: pickyModel(() => away).model });
  await assert.rejects(first.images.processRemote({ ...listing, urls }), away);
  const { sha256 } = gone;
  await rm(join(folder, 'thumbnails'), { recursive: true });
  await rm(join(folder, sha256.slice(0, 2), sha256.slice(2, 4), sha256));

  const { shown, model } = visionModel();
  const { images, events } = open({ model });
  assert.equal(await images.describeAll(listing), 2);
  assert.equal(shown.length, 1);
  const { describe_error: error, described_by: by } = await imageOf(sha256);
  assert.deepEqual([by, error?.code], [null, 'IMAGE_UNREADABLE']);
  assert.match(error?.message ?? '', /not in the image store/);
  assert.equal((await imageOf(good.sha256)).described_by, 'eyes-1');
  assert.ok(events.includes('undescribed'));

  assert.equal(await images.describeAll(listing, { outdated: true }), 1, 'it may come back');
  assert.equal(shown.length, 1);

  await images.processRemote({ ...listing, urls });
  assert.deepEqual(await imageOf(sha256), { described_by: 'eyes-1', describe_error: null });
});

/** Fails a picture's first calls, each in an outage of its own, and notes what is shown. */
function outageModel(
  times: number,
  code: 'MODEL_TIMEOUT' | 'MODEL_RATE_LIMITED' = 'MODEL_TIMEOUT',
) {
  const calls: string[] = [];
  const { model } = visionModel(({ data }) => {
    const isControl = data === CONTROL_SIZE;
    calls.push(isControl ? 'control' : 'image');
    if (isControl || calls.filter((call) => call === 'image').length > times) return;
    throw Object.assign(new ModelError(code, 'No answer.'), { outage: { since: new Date() } });
  });
  return { model, calls };
}

test('a picture that the server fails on in three outages, each after the control, is recorded', async () => {
  for (const [nth, [code, most]] of (
    [
      ['MODEL_TIMEOUT', 3],
      ['MODEL_RATE_LIMITED', 5],
    ] as const
  ).entries()) {
    const { url, sha256 } = await put(`/outage-${nth}.png`, 'png', { width: 96 + nth });
    const { model, calls } = outageModel(Infinity, code);
    const { images } = open({ model });
    const job = { ...(await addListing()), urls: [url] };
    for (let time = 1; time < most; time += 1) {
      await assert.rejects(images.processRemote(job), { code });
      assert.equal((await imageOf(sha256)).describe_error, null);
    }
    await images.processRemote(job);
    assert.equal((await imageOf(sha256)).describe_error?.code, code);
    assert.deepEqual(calls, [
      'image',
      ...Array.from({ length: most - 1 }, () => ['control', 'image']).flat(),
    ]);
  }
});

test('where the control fails too nothing is held against the picture, and its end describes it', async () => {
  const { url, sha256 } = await put('/outage-ends.png', 'png', { width: 88 });
  let isAway = true;
  const { model, shown } = visionModel(() => {
    if (isAway)
      throw Object.assign(new ModelError('MODEL_TIMEOUT', 'x'), { outage: { since: new Date() } });
  });
  const { images } = open({ model });
  const job = { ...(await addListing()), urls: [url] };
  for (let time = 0; time < 8; time += 1) {
    await assert.rejects(images.processRemote(job), { code: 'MODEL_TIMEOUT' });
  }
  assert.equal(shown.filter(({ data }) => data !== CONTROL_SIZE).length, 1);
  isAway = false;
  await images.processRemote(job);
  assert.equal((await imageOf(sha256)).described_by, 'eyes-1');
});

test('with a refused picture a listing is complete, and costs the model nothing until it is reprocessed', async () => {
  const [bad, good] = [
    await put('/refused.png', 'png', { width: 92 }),
    await put('/kept.png', 'png', { width: 93 }),
  ];
  const vision = pickyModel(({ data }) =>
    JSON.stringify(data).includes('/refused.png') ? refused : undefined,
  );
  const payload = payloadOf({ image_urls: [bad.url, good.url] });
  const model = countedModel();
  const harness = createHarness(db, { model, images: open(vision).images });
  const raw = await harness.process(payload);
  assert.deepEqual([raw.status, raw.error, vision.shown.length], ['completed', null, 2]);
  assert.ok((await listingOf(db, payload))?.embedding);
  const roomTypes = async () => {
    const { value } = await db
      .selectFrom('listing_enrichments')
      .select('value')
      .where('listing_id', '=', raw.listing_id ?? 0)
      .where('kind', '=', 'images')
      .executeTakeFirstOrThrow();
    return value;
  };
  assert.deepEqual(await roomTypes(), { stored: 2, failed: 0, room_types: { kitchen: 1 } });

  const again = await harness.process(payload);
  assert.deepEqual([again.status, again.stages.length], ['completed', 1]);
  assert.deepEqual([model.calls.chat, vision.shown.length], [1, 2]);

  const better = visionModel();
  const reprocess = openReprocess(db, model, open(better).images);
  const [reading] = readings(await readAll(reprocess, { listingId: raw.listing_id ?? 0 }));
  assert.ok(reading);
  assert.equal(better.shown.length, 0, 'a reading asks for no picture');
  assert.deepEqual(await reprocess.write(reading), { outcome: 'written' });
  assert.deepEqual(
    better.shown.map(({ data }) => data),
    [{ hint: bad.url, width: 92, height: 48 }],
  );
  assert.deepEqual(await imageOf(bad.sha256), { described_by: 'eyes-1', describe_error: null });
  assert.deepEqual(await roomTypes(), { stored: 2, failed: 0, room_types: { kitchen: 2 } });
  // What is described is left alone.
  const [next] = readings(await readAll(reprocess, { listingId: raw.listing_id ?? 0 }));
  assert.ok(next);
  assert.deepEqual(await reprocess.write(next), { outcome: 'written' });
  assert.equal(better.shown.length, 1);
});
