import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, before, suite, test } from 'node:test';
import { LeaseLostError } from '@oselya/db';
import { openFolder, until } from '@oselya/testing';
import { sql } from 'kysely';
import sharp from 'sharp';
import { guardRoutes } from '../../src/access/guard.ts';
import { createDisk } from '../../src/free-disk-space.ts';
import { descriptionPrompt } from '../../src/images/describe.ts';
import { replaceImages, SupersededError } from '../../src/images/repository.ts';
import { registerImageRoutes } from '../../src/images/routes.ts';
import { StoreOutageError } from '../../src/images/store.ts';
import { MAX_IMAGE_BYTES } from '../../src/images/temporary.ts';
import { createSafeFetch } from '../../src/safe-fetch/fetch.ts';
import {
  createImage,
  FORMATS,
  openImageHost,
  openImages,
  serve,
  sha256,
  createVisionModel,
} from '../support/images.ts';
import { createTestServer, readRawRecord, updateRawRecord } from '../support/pipeline.ts';

const { db, store, addListing, openService, readRows, findImage, listFiles, getPath } =
  await openImages();
const { url: hostUrl, requestedPaths, content, putImage } = await openImageHost();
const uploadFolder = await openFolder();

afterEach(async () => {
  const storedImages = await db.selectFrom('images').select('sha256').execute();
  const temporaryFiles = new Set(await listFiles()).difference(
    new Set(storedImages.map((row) => row.sha256)),
  );
  assert.deepEqual([...temporaryFiles], [], 'a temporary file stayed');
});

const writeUploads = (contents: readonly Buffer[]) =>
  Promise.all(
    contents.map(async (bytes, index) => {
      const path = join(uploadFolder, String(index));
      await writeFile(path, bytes);
      return { path, sha256: sha256(bytes), bytes: bytes.length, name: `bath-${index}.webp` };
    }),
  );

test('Images of every type are stored, recorded in their order and described', async () => {
  const { model, visionRequests } = createVisionModel();
  const { images, events } = openService({ model });
  const listing = await addListing();
  const hostedImages = await Promise.all(
    FORMATS.map((format) => putImage(`/kitchen.${format}`, format)),
  );
  const outcomes = await images.processRemote({
    ...listing,
    urls: hostedImages.map(({ url }) => url),
  });
  const size = { width: 64, height: 48 };
  const rows = await readRows(listing.listingId);
  assert.equal(rows.length, FORMATS.length);
  assert.deepEqual(new Set(events), new Set(['stored']));
  for (const [position, { url, sha256: hash, bytes }] of hostedImages.entries()) {
    const image = { position, url, sha256: hash };
    assert.deepEqual(outcomes[position], { ...image, ...size, duplicate: false });
    assert.deepEqual(rows[position], { ...image, error: null, retry_at: null });
    assert.partialDeepStrictEqual(await findImage(hash), {
      ...size,
      media_type: `image/${FORMATS[position]}`,
      bytes: bytes.length,
      description: 'A bright kitchen.',
      room_type: 'kitchen',
      quality: 'good',
      described_by: 'eyes-1',
      prompt_version: descriptionPrompt.version,
    });
  }
  assert.equal(visionRequests.length, 5);
});

test('The vision model sees an upright JPEG of at most 1024 pixels, and the facts as JSON', async () => {
  const { model, visionRequests } = createVisionModel(undefined, `${'a'.repeat(1999)}🏠`);
  const size = { width: 2000, height: 1000 };
  const { url, sha256: hash } = await putImage('/big.png', 'png', { ...size, colour: 'navy' });
  await openService({ model }).images.processRemote({ ...(await addListing()), urls: [url] });
  const [call] = visionRequests;
  assert.deepEqual([call?.operation, call?.data], ['image_description', { hint: url, ...size }]);
  assert.equal(call?.image?.mediaType, 'image/jpeg');
  const { format, width, height } = await sharp(call?.image?.bytes).metadata();
  assert.deepEqual([format, width, height], ['jpeg', 1024, 512]);
  assert.equal((await findImage(hash))?.description, 'a'.repeat(1999), 'cut between characters');
});

test('Equal bytes are stored once, described once, and reported as duplicates', async () => {
  const { model, visionRequests } = createVisionModel();
  const { images, events } = openService({ model });
  const firstImage = await putImage('/one.jpg', 'jpeg', { colour: 'gold' });
  content.set('/same.jpg', firstImage.bytes);
  const duplicateUrl = `${hostUrl}/same.jpg`;
  const urls = [firstImage.url, duplicateUrl, firstImage.url];
  const outcomes = await images.processRemote({ ...(await addListing()), urls });
  const laterOutcomes = await images.processRemote({
    ...(await addListing()),
    urls: [duplicateUrl],
  });
  const duplicates = [...outcomes, ...laterOutcomes].map(
    (outcome) => 'duplicate' in outcome && outcome.duplicate,
  );
  assert.deepEqual(duplicates, [false, true, true, true]);
  assert.equal((await listFiles()).filter((name) => name === firstImage.sha256).length, 1);
  assert.equal(visionRequests.length, 1);
  assert.deepEqual(events, ['stored', 'duplicate', 'duplicate', 'duplicate']);
  assert.equal(requestedPaths.filter((path) => path === '/one.jpg').length, 1);
});

/** Counts concurrent calls, and delays them until the expected number has been reached. */
function createCallCounter(expected: number) {
  const counts = { all: 0, concurrent: 0 };
  let inProgress = 0;
  async function run<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    inProgress += 1;
    counts.all += 1;
    counts.concurrent = Math.max(counts.concurrent, inProgress);
    await until(`${expected} in progress`, () => counts.concurrent >= expected);
    return Promise.resolve(work()).finally(() => (inProgress -= 1));
  }
  return { counts, run };
}

for (const [title, maxConcurrent] of [
  ['Three remote images are fetched, stored and described concurrently', 3],
  ['Uploaded images are stored and described one after another', 1],
] as const) {
  test(title, async () => {
    const [fetchCounter, storeCounter, modelCounter] = [
      createCallCounter(maxConcurrent),
      createCallCounter(maxConcurrent),
      createCallCounter(maxConcurrent),
    ];
    const { model } = createVisionModel(() => modelCounter.run(() => undefined));
    const countedPut: typeof store.put = (...file) => storeCounter.run(() => store.put(...file));
    const { images } = openService({ model, store: { ...store, put: countedPut } });
    const contents = await Promise.all(
      Array.from({ length: 7 }, (_, index) =>
        createImage('png', { width: 70 + maxConcurrent, height: 9 + index }),
      ),
    );
    const url = await serve(
      (request, response) =>
        void fetchCounter.run(() => response.end(contents[Number(request.url?.slice(1))])),
    );
    const job = await addListing();
    if (maxConcurrent === 1)
      await images.processUploaded({ ...job, files: await writeUploads(contents) });
    else
      await images.processRemote({ ...job, urls: contents.map((_, index) => `${url}/${index}`) });
    const counts = { all: 7, concurrent: maxConcurrent };
    const expected = [maxConcurrent === 1 ? { all: 0, concurrent: 0 } : counts, counts, counts];
    assert.deepEqual([fetchCounter.counts, storeCounter.counts, modelCounter.counts], expected);
  });
}

test('The images of a listing are replaced as a whole, and a known URL is not fetched again', async () => {
  const { images, events } = openService();
  const listing = await addListing();
  const [usedImage, unusedImage, addedImage] = [
    await putImage('/used.jpg', 'jpeg', { colour: 'plum' }),
    await putImage('/unused.jpg', 'jpeg', { colour: 'tan' }),
    await putImage('/added.jpg', 'jpeg', { colour: 'snow' }),
  ];
  const missingUrl = `${hostUrl}/later.jpg`;
  await images.processRemote({ ...listing, urls: [unusedImage.url, usedImage.url, missingUrl] });
  await putImage('/later.jpg', 'jpeg', { colour: 'wheat' });
  await images.processRemote({ ...listing, urls: [usedImage.url, addedImage.url, missingUrl] });
  assert.deepEqual(
    (await readRows(listing.listingId)).map(({ url, error }) => [url, error]),
    [usedImage.url, addedImage.url, missingUrl].map((url) => [url, null]),
  );
  assert.equal(requestedPaths.filter((path) => path === '/used.jpg').length, 1);
  assert.equal(events.filter((event) => event === 'reused').length, 1);
  assert.deepEqual(await images.processRemote({ ...listing, urls: [] }), []);
  assert.deepEqual(await readRows(listing.listingId), []);
});

test('Uploads are recorded with their outcomes, also when the stage is repeated', async () => {
  const knownImage = await putImage('/known.webp', 'webp', { colour: 'ivory' });
  await openService().images.processRemote({ ...(await addListing()), urls: [knownImage.url] });
  const silverImage = await createImage('webp', { colour: 'silver' });
  const job = {
    ...(await addListing()),
    files: await writeUploads([
      silverImage,
      Buffer.from('no image'),
      silverImage,
      knownImage.bytes,
    ]),
  };
  let isModelDown = true;
  const { model, visionRequests } = createVisionModel(() => {
    if (isModelDown) throw new Error('the vision model is down');
  });
  const { images } = openService({ model });
  await assert.rejects(images.processUploaded(job), /is down/);
  isModelDown = false;
  const outcomes = await images.processUploaded(job);
  const storedImage = { sha256: sha256(silverImage), width: 64, height: 48, duplicate: false };
  const expected = [
    storedImage,
    { error: 'The file is not a JPEG, PNG, WebP, AVIF or GIF image' },
    { ...storedImage, duplicate: true },
    { ...storedImage, sha256: knownImage.sha256, duplicate: true },
  ];
  assert.deepEqual(
    outcomes,
    expected.map((outcome, position) => ({ position, url: null, ...outcome })),
  );
  assert.deepEqual(visionRequests.at(-1)?.data, { hint: 'bath-0.webp', width: 64, height: 48 });
  assert.deepEqual((await readRawRecord(db, job.fence.rawId)).uploads, expected);
});

test('An image of 50 MiB is stored, and a larger image is not', async () => {
  const { bytes } = await putImage('/small.png', 'png', { colour: 'salmon' });
  const paddingBytes = MAX_IMAGE_BYTES - bytes.length;
  // Decoders ignore bytes after the end of an image, so padding sets the size of the file.
  content.set('/exact.png', Buffer.concat([bytes, Buffer.alloc(paddingBytes)]));
  content.set('/over.png', Buffer.concat([bytes, Buffer.alloc(paddingBytes + 1)]));
  const urls = [`${hostUrl}/exact.png`, `${hostUrl}/over.png`];
  const job = { ...(await addListing()), urls };
  const [exactOutcome, oversizedOutcome] = await openService().images.processRemote(job);
  assert.ok(exactOutcome !== undefined && 'sha256' in exactOutcome, JSON.stringify(exactOutcome));
  assert.equal((await findImage(exactOutcome.sha256))?.bytes, 50 * 1024 * 1024);
  assert.partialDeepStrictEqual(oversizedOutcome, { error: 'The image is larger than 50 MiB' });
});

test('Bad images are recorded with their reason and leave the good ones alone', async () => {
  const { images, events } = openService();
  const listing = await addListing();
  const goodImage = await putImage('/good.jpg', 'jpeg', { colour: 'red' });
  content.set('/page.jpg', Buffer.from('<!doctype html>'));
  content.set('/half.jpg', goodImage.bytes.subarray(0, goodImage.bytes.length - 40));
  const paths = ['/missing.jpg', '/page.jpg', '/half.jpg'].map((path) => hostUrl + path);
  const urls = [...paths, 'http://169.254.169.254/latest', 'nonsense', goodImage.url];
  const outcomes = await images.processRemote({ ...listing, urls });
  const rows = await readRows(listing.listingId);
  const reasons = [/status 404/, /not a JPEG/, /corrupt/, /private or reserved/, /malformed/];
  for (const [position, reason] of reasons.entries()) {
    const { url, error } = rows[position] ?? assert.fail();
    assert.match(error ?? '', reason);
    assert.deepEqual(outcomes[position], { position, url, error });
    assert.equal(url, urls[position]);
  }
  assert.equal(rows[5]?.sha256, goodImage.sha256);
  assert.deepEqual(events.toSorted(), [...Array<string>(5).fill('failed'), 'stored']);
});

test('A failure of this machine on the way to the store is an outage of the store', async () => {
  const staleError = Object.assign(new Error('stale'), { code: 'ESTALE' });
  const disk = createDisk({
    folder: '/',
    minFreeMb: 0,
    readFreeBytes: () => Promise.reject(staleError),
  });
  const toOutageError = (error: unknown) => new StoreOutageError({}, error);
  const listing = await addListing();
  const { url } = await putImage('/on-its-way.jpg', 'jpeg', { colour: 'olive' });
  for (const [code, options] of [
    ['ENOTDIR', { getTemporaryFolder: () => '/dev/null' }],
    ['ESTALE', { disk }],
  ] as const) {
    const { images } = openService({ storeState: { toOutageError }, ...options });
    const processing = images.processRemote({ ...listing, urls: [url] });
    await assert.rejects(processing, ({ name, cause }: Error) => {
      assert.deepEqual([name, (cause as { code?: string }).code], ['StoreOutageError', code]);
      return true;
    });
  }
  assert.deepEqual(await readRows(listing.listingId), []);
});

test('No image is fetched while the disk is low, and the recorded images stay', async () => {
  let freeBytes = 2 ** 30;
  const disk = createDisk({ folder: '/', minFreeMb: 100, readFreeBytes: async () => freeBytes });
  const { images } = openService({ disk });
  const listing = await addListing();
  const storedImage = await putImage('/stored-before.png', 'png', { width: 61 });
  const newImage = await putImage('/disk-low.png', 'png', { width: 62 });
  await images.processRemote({ ...listing, urls: [storedImage.url] });
  freeBytes = 0;
  const processing = images.processRemote({ ...listing, urls: [storedImage.url, newImage.url] });
  await assert.rejects(processing, { code: 'disk_low' });
  assert.deepEqual(
    (await readRows(listing.listingId)).map(({ url }) => url),
    [storedImage.url],
  );
  assert.ok(!requestedPaths.includes('/disk-low.png'));
});

test('A listing with slow images keeps the fetched images and fetches the others later', async () => {
  const slowUrl = await serve((_request, response) => {
    setTimeout(() => response.writeHead(404).end(), 100);
  });
  const urls = Array.from({ length: 5 }, (_, index) => `${slowUrl}/${index}`);
  const job = { ...(await addListing()), urls };
  await openService({ limits: { listingMs: 50 } }).images.processRemote(job);
  const rows = await readRows(job.listingId);
  assert.match(rows[0]?.error ?? '', /status 404/);
  for (const { error, retry_at: retryAt } of rows.slice(3)) {
    assert.match(error ?? '', /took too long/);
    assert.ok(retryAt !== null && retryAt.getTime() > Date.now());
  }
});

test('A temporarily failed URL is recorded with the time of its next attempt', async () => {
  const busyUrl = await serve((request, response) => {
    const seconds = request.url?.slice(1) ?? '';
    response.writeHead(503, seconds === '' ? {} : { 'retry-after': seconds }).end();
  });
  const lookup = () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' }));
  const { images } = openService({ fetch: createSafeFetch({ allow: ['127.0.0.1'], lookup }) });
  const listing = await addListing();
  const urls = [busyUrl, `${busyUrl}/7200`, `${busyUrl}/200`, 'http://nowhere.test/', 'nonsense'];
  await images.processRemote({ ...listing, urls });
  const rows = await readRows(listing.listingId);
  const hours = rows.map(
    ({ retry_at: at }) => at && Math.round((10 * (at.getTime() - Date.now())) / 3_600_000) / 10,
  );
  assert.deepEqual(hours, [20, 2, 0.8, 20, null]);
  assert.match(rows[3]?.error ?? '', /host of the address was not found/);
});

test('The images of an older payload do not replace those of a newer one', async () => {
  const { listingId, fence } = await addListing();
  await db
    .updateTable('listing_payloads')
    .set({ raw_id: fence.rawId + 1 })
    .where('raw_id', '=', fence.rawId)
    .execute();
  const outcomes = [{ position: 0, url: 'http://old.example/1.jpg', error: 'gone' }];
  const replacement = replaceImages(db, { listingId, outcomes, storedImages: [], fence });
  await assert.rejects(replacement, SupersededError);
  assert.deepEqual(await readRows(listingId), []);
});

test('A worker that lost its claim replaces no images and writes no description', async () => {
  const listing = await addListing();
  const { url, sha256: hash } = await putImage('/fenced.jpg', 'jpeg', { colour: 'linen' });
  const lostJob = { ...listing, fence: { ...listing.fence, attempt: 2 }, urls: [url] };
  await assert.rejects(openService().images.processRemote(lostJob), LeaseLostError);
  assert.deepEqual(await readRows(listing.listingId), []);
  const { model } = createVisionModel(async () => {
    await updateRawRecord(db, listing.fence.rawId, { attempt: 9 });
  });
  const { images } = openService({ model });
  await assert.rejects(images.processRemote({ ...listing, urls: [url] }), LeaseLostError);
  assert.equal((await findImage(hash))?.described_by, null);
});

test('An abort stops the processing with its reason', async () => {
  const abortController = new AbortController();
  const reason = new Error('the worker is stopping');
  const silentUrl = await serve(() => abortController.abort(reason));
  const job = { ...(await addListing()), signal: abortController.signal };
  const processing = openService().images.processRemote({ ...job, urls: [silentUrl] });
  await assert.rejects(processing, (error) => error === reason);
  assert.deepEqual(await readRows(job.listingId), []);
});

const ageImages = () => sql`update images set created_at = to_timestamp(0)`.execute(db);

async function putUnusedImage(path: string, colour: string) {
  const image = await putImage(path, 'jpeg', { colour });
  const listing = await addListing();
  await openService().images.processRemote({ ...listing, urls: [image.url] });
  await openService().images.processRemote({ ...listing, urls: [] });
  return { ...image, listing };
}

test('The cleanup removes old images that no listing shows, with their thumbnails, and no others', async () => {
  const { images } = openService();
  const usedImage = await putImage('/clean/used.jpg', 'jpeg', { colour: 'azure' });
  await images.processRemote({ ...(await addListing()), urls: [usedImage.url] });
  const unusedImage = await putUnusedImage('/clean/unused.jpg', 'khaki');
  for (const image of [usedImage, unusedImage]) await images.open(image.sha256, 320);
  assert.equal(await images.cleanUp({ olderThanDays: 1 }), 0, 'the unused images are too new');
  await ageImages();
  assert.equal(await images.cleanUp({ olderThanDays: 1, signal: AbortSignal.abort() }), 0);
  const stuckStore = { ...store, remove: () => Promise.reject(new Error('the bucket is down')) };
  await assert.rejects(
    openService({ store: stuckStore }).images.cleanUp({ olderThanDays: 1 }),
    /bucket/,
  );
  assert.ok(await images.has(unusedImage.sha256));
  assert.ok((await images.cleanUp({ olderThanDays: 1 })) > 0);
  for (const { sha256: hash } of [usedImage, unusedImage]) {
    const isStored = hash === usedImage.sha256;
    assert.equal(await store.has(hash), isStored);
    assert.equal((await store.readThumbnail(hash, 320)) !== undefined, isStored);
    assert.equal(await images.has(hash), isStored);
  }
  assert.equal(await images.cleanUp({ olderThanDays: 1 }), 0);
  const { model, visionRequests } = createVisionModel();
  const job = { ...unusedImage.listing, urls: [unusedImage.url] };
  await openService({ model }).images.processRemote(job);
  assert.ok(await store.has(unusedImage.sha256));
  assert.equal(visionRequests.length, 1, 'the image is described again');
});

test('An image that is removed while it is recorded fails the stage, whose repetition stores it', async () => {
  const { url, sha256: hash, listing } = await putUnusedImage('/clean/found.jpg', 'violet');
  await ageImages();
  let removedCount = 0;
  const { images, events } = openService({
    store: {
      ...store,
      async put(storedHash, path) {
        const isNew = await store.put(storedHash, path);
        if (removedCount === 0)
          removedCount = await openService().images.cleanUp({ olderThanDays: 1 });
        return isNew;
      },
    },
  });
  await assert.rejects(images.processRemote({ ...listing, urls: [url] }), /was removed while/);
  assert.ok(removedCount > 0);
  await images.processRemote({ ...listing, urls: [url] });
  assert.equal(events.length, 1);
  assert.ok(await store.has(hash));
});

test('Images of listings survive concurrent cleanups', async () => {
  const colours = ['lime', 'navy', 'pink'];
  const urls = await Promise.all(
    colours.map(async (colour) => (await putImage(`/clean/${colour}.jpg`, 'jpeg', { colour })).url),
  );
  const { images } = openService();
  const stopController = new AbortController();
  const cleanupLoop = (async () => {
    let removedCount = 0;
    while (!stopController.signal.aborted) {
      removedCount += await images.cleanUp({ olderThanDays: 0 });
      await new Promise(setImmediate);
    }
    return removedCount;
  })();
  const replaceImagesRepeatedly = async () => {
    const listing = await addListing();
    for (let index = 0; index < 12; index += 1) {
      const job = { ...listing, urls: [urls[index % 3] ?? ''] };
      const [outcome] = await until('the image to be recorded', () =>
        images.processRemote(job).catch(() => false as const),
      );
      assert.ok(outcome && 'sha256' in outcome && (await store.has(outcome.sha256)));
      await images.processRemote({ ...listing, urls: [] });
    }
  };
  await Promise.all(colours.map(replaceImagesRepeatedly)).finally(() => stopController.abort());
  assert.ok((await cleanupLoop) > 0, 'some were removed during the load');
});

suite('GET /images/{sha256}', async () => {
  const bytes = await createImage('png', { width: 2000, height: 1000 });
  const hash = sha256(bytes);
  content.set('/served.png', bytes);
  const { images } = openService();
  before(async () => {
    await images.processRemote({ ...(await addListing()), urls: [`${hostUrl}/served.png`] });
  });

  async function startServer(keys?: Parameters<typeof guardRoutes>[1]) {
    const app = await createTestServer();
    await app.register(async (scope) => {
      guardRoutes(scope, keys);
      registerImageRoutes(scope, images);
    });
    return (query: string, headers: Record<string, string> = {}) =>
      app.inject({ url: `/images/${query}`, headers });
  }
  const getImage = await startServer();

  test('An image is sent as it was stored, and a thumbnail as a JPEG', async () => {
    const imageResponse = await getImage(hash);
    assert.deepEqual([imageResponse.statusCode, imageResponse.rawPayload], [200, bytes]);
    const { etag, 'content-type': type, ...headers } = imageResponse.headers;
    assert.deepEqual([etag, type], [`"${hash}"`, 'image/png']);
    assert.equal(headers['cache-control'], 'public, max-age=31536000, immutable');
    assert.equal(headers['x-content-type-options'], 'nosniff');
    assert.equal(headers['content-length'], String(bytes.length));
    for (const side of [320, 1024]) {
      const response = await getImage(`${hash}?size=${side}`);
      assert.equal(response.headers['content-type'], 'image/jpeg');
      assert.equal(response.headers['etag'], `"${hash}-${side}"`);
      const { format, width, height } = await sharp(response.rawPayload).metadata();
      assert.deepEqual([format, width, height], ['jpeg', side, side / 2]);
    }
  });

  test('A known tag is 304 with the headers of the image (RFC 9110 13.1 and 15.4.5)', async () => {
    for (const [query, tag] of [
      [hash, `"${hash}"`],
      [`${hash}?size=320`, `"${hash}-320"`],
    ] as const) {
      const imageResponse = await getImage(query);
      for (const ifNoneMatch of [tag, `W/${tag}`, `"other", W/"another",${tag}`, '*']) {
        const response = await getImage(query, { 'if-none-match': ifNoneMatch });
        assert.deepEqual([response.statusCode, response.body], [304, ''], ifNoneMatch);
        for (const name of ['cache-control', 'etag', 'vary', 'x-content-type-options']) {
          assert.equal(response.headers[name], imageResponse.headers[name], name);
        }
        assert.equal(response.headers['content-length'], undefined);
      }
    }
    for (const ifNoneMatch of [`"${hash}-320"`, '"other"', hash, '', '*']) {
      const { statusCode } = await getImage(hash, {
        'if-none-match': ifNoneMatch,
        'if-modified-since': 'Thu, 01 Jan 1970 00:00:00 GMT',
      });
      assert.equal(statusCode, ifNoneMatch === '*' ? 304 : 200, ifNoneMatch);
    }
  });

  test('An unknown hash is 404 and is not cached; a malformed hash or size is 422', async () => {
    for (const ifNoneMatch of ['', '*']) {
      const response = await getImage('0'.repeat(64), { 'if-none-match': ifNoneMatch });
      assert.deepEqual([response.statusCode, response.json().code], [404, 'image_not_found']);
      assert.equal(response.headers['cache-control'], 'no-store');
    }
    for (const path of [
      'abc',
      hash.toUpperCase().replace(/^./, 'G'),
      '..%2f..%2fetc%2fpasswd',
      ...['size=321', 'size=big', 'width=320'].map((query) => `${hash}?${query}`),
    ]) {
      assert.equal((await getImage(path)).statusCode, 422, path);
    }
  });

  test('With API keys an image requires a key and is cached privately', async () => {
    const apiKey = { id: 'k', name: 'test', scopes: ['search' as const], source_slugs: null };
    const getGuardedImage = await startServer({
      verify: async (text) => (text === 'good' ? apiKey : undefined),
    });
    assert.equal((await getGuardedImage(hash)).statusCode, 401);
    const headers = { authorization: 'Bearer good' };
    for (const ifNoneMatch of ['', `"${hash}"`]) {
      const response = await getGuardedImage(hash, { ...headers, 'if-none-match': ifNoneMatch });
      assert.equal(response.statusCode, ifNoneMatch === '' ? 200 : 304);
      assert.match(String(response.headers['cache-control']), /^private, /);
    }
  });

  test('An image that is missing from the store is 404', async () => {
    await rm(getPath(hash));
    for (const query of [hash, `${hash}?size=320`]) {
      for (const ifNoneMatch of ['', '*', `"${hash}"`, `"${hash}-320"`]) {
        const { statusCode } = await getImage(query, { 'if-none-match': ifNoneMatch });
        assert.equal(statusCode, 404, ifNoneMatch);
      }
    }
  });
});
