import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, before, suite, test } from 'node:test';
import { createServer } from '@oselya/kit';
import { deferCleanup, until } from '@oselya/testing';
import sharp from 'sharp';
import { guardRoutes } from '../../src/access/guard.ts';
import { createDisk } from '../../src/free-disk-space.ts';
import { descriptionPrompt } from '../../src/images/describe.ts';
import { imageRoutes } from '../../src/images/routes.ts';
import { StoreOutageError } from '../../src/images/store.ts';
import { MAX_IMAGE_BYTES } from '../../src/images/temporary.ts';
import { LeaseLostError } from '../../src/queue/job-types.ts';
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
import { log } from '../support/pipeline.ts';

const { db, store, addListing, open, readRows, findImage, files, getPath } = await openImages();
const { url: host, seen, content, put } = await openImageHost();
const uploads = await mkdtemp(join(tmpdir(), 'oselya-upload-'));
deferCleanup(() => rm(uploads, { recursive: true }));

afterEach(async () => {
  const stored = await db.selectFrom('images').select('sha256').execute();
  const temporary = new Set(await files()).difference(new Set(stored.map((row) => row.sha256)));
  assert.deepEqual([...temporary], [], 'a temporary file stayed');
});

const upload = (contents: readonly Buffer[]) =>
  Promise.all(
    contents.map(async (bytes, index) => {
      const path = join(uploads, String(index));
      await writeFile(path, bytes);
      return { path, sha256: sha256(bytes), bytes: bytes.length, name: `bath-${index}.webp` };
    }),
  );

test('Images of every type are stored, recorded in their order and described', async () => {
  const { model, shown } = createVisionModel();
  const { images, events } = open({ model });
  const listing = await addListing();
  const all = await Promise.all(FORMATS.map((format) => put(`/kitchen.${format}`, format)));
  const outcomes = await images.processRemote({ ...listing, urls: all.map(({ url }) => url) });
  const size = { width: 64, height: 48 };
  const stored = all.map(({ url, sha256: hash }, position) => ({ position, url, sha256: hash }));
  assert.deepEqual(
    outcomes,
    stored.map((one) => ({ ...one, ...size, duplicate: false })),
  );
  assert.deepEqual(
    await readRows(listing.listingId),
    stored.map((one) => ({ ...one, error: null, retry_at: null })),
  );
  assert.deepEqual(new Set(events), new Set(['stored']));
  for (const [index, one] of all.entries()) {
    const row = await findImage(one.sha256);
    assert.deepEqual(
      [row?.media_type, row?.width, row?.height, row?.bytes],
      [`image/${FORMATS[index]}`, 64, 48, one.bytes.length],
    );
    assert.deepEqual(
      [row?.description, row?.room_type, row?.quality, row?.described_by, row?.prompt_version],
      ['A bright kitchen.', 'kitchen', 'good', 'eyes-1', descriptionPrompt.version],
    );
  }
  assert.equal(shown.length, 5);
});

test('The vision model sees an upright JPEG of at most 1024 pixels, and the facts as JSON', async () => {
  const { model, shown } = createVisionModel(undefined, `${'a'.repeat(1999)}🏠`);
  const size = { width: 2000, height: 1000 };
  const { url, sha256: hash } = await put('/big.png', 'png', { ...size, colour: 'navy' });
  await open({ model }).images.processRemote({ ...(await addListing()), urls: [url] });
  const [call] = shown;
  assert.deepEqual([call?.operation, call?.data], ['image_description', { hint: url, ...size }]);
  assert.equal(call?.image?.mediaType, 'image/jpeg');
  const { format, width, height } = await sharp(call?.image?.bytes).metadata();
  assert.deepEqual([format, width, height], ['jpeg', 1024, 512]);
  assert.equal((await findImage(hash))?.description, 'a'.repeat(1999), 'cut between characters');
});

test('Equal bytes are stored once, described once, and reported as duplicates', async () => {
  const { model, shown } = createVisionModel();
  const { images, events } = open({ model });
  const first = await put('/one.jpg', 'jpeg', { colour: 'gold' });
  content.set('/same.jpg', first.bytes);
  const same = `${host}/same.jpg`;
  const urls = [first.url, same, first.url];
  const outcomes = await images.processRemote({ ...(await addListing()), urls });
  const later = await images.processRemote({ ...(await addListing()), urls: [same] });
  const duplicates = [...outcomes, ...later].map((one) => 'duplicate' in one && one.duplicate);
  assert.deepEqual(duplicates, [false, true, true, true]);
  assert.equal((await files()).filter((name) => name === first.sha256).length, 1);
  assert.equal(shown.length, 1);
  assert.deepEqual(events, ['stored', 'duplicate', 'duplicate', 'duplicate']);
  assert.equal(seen.filter((path) => path === '/one.jpg').length, 1);
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

for (const [title, most] of [
  ['Three remote images are fetched, stored and described concurrently', 3],
  ['Uploaded images are stored and described one after another', 1],
] as const) {
  test(title, async () => {
    const [fetches, stores, calls] = [
      createCallCounter(most),
      createCallCounter(most),
      createCallCounter(most),
    ];
    const { model } = createVisionModel(() => calls.run(() => undefined));
    const countedPut: typeof store.put = (...file) => stores.run(() => store.put(...file));
    const { images } = open({ model, store: { ...store, put: countedPut } });
    const contents = await Promise.all(
      Array.from({ length: 7 }, (_, index) =>
        createImage('png', { width: 70 + most, height: 9 + index }),
      ),
    );
    const url = await serve(
      (request, response) =>
        void fetches.run(() => response.end(contents[Number(request.url?.slice(1))])),
    );
    const job = await addListing();
    if (most === 1) await images.processUploaded({ ...job, files: await upload(contents) });
    else
      await images.processRemote({ ...job, urls: contents.map((_, index) => `${url}/${index}`) });
    const counts = { all: 7, concurrent: most };
    const expected = [most === 1 ? { all: 0, concurrent: 0 } : counts, counts, counts];
    assert.deepEqual([fetches.counts, stores.counts, calls.counts], expected);
  });
}

test('The images of a listing are replaced as a whole, and a known URL is not fetched again', async () => {
  const { images, events } = open();
  const listing = await addListing();
  const [used, unused, added] = [
    await put('/used.jpg', 'jpeg', { colour: 'plum' }),
    await put('/unused.jpg', 'jpeg', { colour: 'tan' }),
    await put('/added.jpg', 'jpeg', { colour: 'snow' }),
  ];
  const missing = `${host}/comes-later.jpg`;
  await images.processRemote({ ...listing, urls: [unused.url, used.url, missing] });
  await put('/comes-later.jpg', 'jpeg', { colour: 'wheat' });
  await images.processRemote({ ...listing, urls: [used.url, added.url, missing] });
  assert.deepEqual(
    (await readRows(listing.listingId)).map(({ url, error }) => [url, error]),
    [used.url, added.url, missing].map((url) => [url, null]),
  );
  assert.equal(seen.filter((path) => path === '/used.jpg').length, 1);
  assert.equal(events.filter((event) => event === 'reused').length, 1);
  assert.deepEqual(await images.processRemote({ ...listing, urls: [] }), []);
  assert.deepEqual(await readRows(listing.listingId), []);
});

test('Uploads are recorded with their outcomes, also when the stage is repeated', async () => {
  const known = await put('/known.webp', 'webp', { colour: 'ivory' });
  await open().images.processRemote({ ...(await addListing()), urls: [known.url] });
  const silver = await createImage('webp', { colour: 'silver' });
  const job = {
    ...(await addListing()),
    files: await upload([silver, Buffer.from('no image'), silver, known.bytes]),
  };
  let isAway = true;
  const { model, shown } = createVisionModel(() => {
    if (isAway) throw new Error('the vision model is away');
  });
  const { images } = open({ model });
  await assert.rejects(images.processUploaded(job), /away/);
  isAway = false;
  const outcomes = await images.processUploaded(job);
  const stored = { sha256: sha256(silver), width: 64, height: 48, duplicate: false };
  const expected = [
    stored,
    { error: 'It is no JPEG, PNG, WebP, AVIF or GIF' },
    { ...stored, duplicate: true },
    { ...stored, sha256: known.sha256, duplicate: true },
  ];
  assert.deepEqual(
    outcomes,
    expected.map((outcome, position) => ({ position, url: null, ...outcome })),
  );
  assert.deepEqual(shown.at(-1)?.data, { hint: 'bath-0.webp', width: 64, height: 48 });
  const raw = await db
    .selectFrom('raw_data')
    .select('uploads')
    .where('id', '=', job.fence.rawId)
    .executeTakeFirstOrThrow();
  assert.deepEqual(raw.uploads, expected);
});

test('An image of 50 MB is stored, and a larger image is not', async () => {
  const { bytes } = await put('/small.png', 'png', { colour: 'salmon' });
  const rest = MAX_IMAGE_BYTES - bytes.length;
  // Decoders ignore bytes after the end of an image.
  content.set('/exact.png', Buffer.concat([bytes, Buffer.alloc(rest)]));
  content.set('/over.png', Buffer.concat([bytes, Buffer.alloc(rest + 1)]));
  const urls = [`${host}/exact.png`, `${host}/over.png`];
  const job = { ...(await addListing()), urls };
  const [exact, over] = await open().images.processRemote(job);
  assert.ok(exact !== undefined && 'sha256' in exact, JSON.stringify(exact));
  assert.equal((await findImage(exact.sha256))?.bytes, 50 * 1024 * 1024);
  assert.equal(over !== undefined && 'error' in over && over.error, 'It is larger than 50 MB');
});

test('Bad images are recorded with their reason and leave the good ones alone', async () => {
  const { images, events } = open();
  const listing = await addListing();
  const good = await put('/good.jpg', 'jpeg', { colour: 'red' });
  content.set('/page.jpg', Buffer.from('<!doctype html>'));
  content.set('/half.jpg', good.bytes.subarray(0, good.bytes.length - 40));
  const paths = ['/missing.jpg', '/page.jpg', '/half.jpg'].map((path) => host + path);
  const urls = [...paths, 'http://169.254.169.254/latest', 'nonsense', good.url];
  const outcomes = await images.processRemote({ ...listing, urls });
  const rows = await readRows(listing.listingId);
  assert.deepEqual(
    rows.map(({ url }) => url),
    urls,
  );
  const reasons = [/status 404/, /no JPEG/, /broken/, /private or reserved/, /malformed/];
  for (const [position, reason] of reasons.entries()) {
    const error = rows[position]?.error ?? '';
    assert.match(error, reason);
    assert.deepEqual(outcomes[position], { position, url: urls[position], error });
  }
  assert.equal(rows[5]?.sha256, good.sha256);
  assert.deepEqual(events.toSorted(), [...Array<string>(5).fill('failed'), 'stored']);
});

test('A failure of this machine on the way to the store is an outage of the store', async () => {
  const stale = Object.assign(new Error('stale'), { code: 'ESTALE' });
  const disk = createDisk({ folder: '/', minFreeMb: 0, freeBytes: () => Promise.reject(stale) });
  const toOutageError = (error: unknown) => new StoreOutageError({}, error);
  const listing = await addListing();
  const { url } = await put('/on-its-way.jpg', 'jpeg', { colour: 'olive' });
  for (const [code, options] of [
    ['ENOTDIR', { temporary: () => '/dev/null' }],
    ['ESTALE', { disk }],
  ] as const) {
    const { images } = open({ storeState: { toOutageError }, ...options });
    const failed = images.processRemote({ ...listing, urls: [url] });
    await assert.rejects(failed, ({ name, cause }: Error) => {
      assert.deepEqual([name, (cause as { code?: string }).code], ['StoreOutageError', code]);
      return true;
    });
  }
  assert.deepEqual(await readRows(listing.listingId), []);
});

test('A listing with slow images keeps the fetched images and fetches the others later', async () => {
  const slow = await serve((_request, response) => {
    setTimeout(() => response.writeHead(404).end(), 100);
  });
  const urls = Array.from({ length: 5 }, (_, index) => `${slow}/${index}`);
  const job = { ...(await addListing()), urls };
  await open({ limits: { listingMs: 50 } }).images.processRemote(job);
  const rows = await readRows(job.listingId);
  assert.match(rows[0]?.error ?? '', /status 404/);
  for (const { error, retry_at: retryAt } of rows.slice(3)) {
    assert.match(error ?? '', /took too long/);
    assert.ok(retryAt !== null && retryAt.getTime() > Date.now());
  }
});

test('A temporarily failed URL is recorded with the time of its next attempt', async () => {
  const busy = await serve((request, response) => {
    const seconds = request.url?.slice(1) ?? '';
    response.writeHead(503, seconds === '' ? {} : { 'retry-after': seconds }).end();
  });
  const lookup = () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' }));
  const { images } = open({ fetch: createSafeFetch({ allow: ['127.0.0.1'], lookup }) });
  const listing = await addListing();
  const urls = [busy, `${busy}/7200`, `${busy}/200`, 'http://nowhere.test/', 'nonsense'];
  await images.processRemote({ ...listing, urls });
  const rows = await readRows(listing.listingId);
  const hours = rows.map(
    ({ retry_at: at }) => at && Math.round((10 * (at.getTime() - Date.now())) / 3_600_000) / 10,
  );
  assert.deepEqual(hours, [20, 2, 0.8, 20, null]);
  assert.match(rows[3]?.error ?? '', /host of the address was not found/);
});

test('A worker that lost its claim writes no description', async () => {
  const listing = await addListing();
  const { url, sha256: hash } = await put('/fenced.jpg', 'jpeg', { colour: 'linen' });
  const { model } = createVisionModel(async () => {
    const { rawId } = listing.fence;
    await db.updateTable('raw_data').set({ attempt: 9 }).where('id', '=', rawId).execute();
  });
  const { images } = open({ model });
  await assert.rejects(images.processRemote({ ...listing, urls: [url] }), LeaseLostError);
  assert.equal((await findImage(hash))?.described_by, null);
});

test('An abort stops the processing with its reason', async () => {
  const abort = new AbortController();
  const reason = new Error('the worker is stopping');
  const silent = await serve(() => abort.abort(reason));
  const job = { ...(await addListing()), signal: abort.signal };
  const work = open().images.processRemote({ ...job, urls: [silent] });
  await assert.rejects(work, (error) => error === reason);
  assert.deepEqual(await readRows(job.listingId), []);
});

const ageImages = () =>
  db
    .updateTable('images')
    .set({ created_at: new Date(0) })
    .execute();

async function putUnusedImage(path: string, colour: string) {
  const image = await put(path, 'jpeg', { colour });
  const listing = await addListing();
  await open().images.processRemote({ ...listing, urls: [image.url] });
  await open().images.processRemote({ ...listing, urls: [] });
  return { ...image, listing };
}

test('The cleanup removes old images that no listing shows, with their thumbnails, and no others', async () => {
  const { images } = open();
  const used = await put('/clean/used.jpg', 'jpeg', { colour: 'azure' });
  await images.processRemote({ ...(await addListing()), urls: [used.url] });
  const unused = await putUnusedImage('/clean/unused.jpg', 'khaki');
  for (const image of [used, unused]) await images.open(image.sha256, 320);
  assert.equal(await images.cleanUp({ olderThanDays: 1 }), 0, 'they are young');
  await ageImages();
  assert.equal(await images.cleanUp({ olderThanDays: 1, signal: AbortSignal.abort() }), 0);
  const stuck = { ...store, remove: () => Promise.reject(new Error('the bucket is away')) };
  await assert.rejects(open({ store: stuck }).images.cleanUp({ olderThanDays: 1 }), /bucket/);
  assert.ok(await images.has(unused.sha256));
  assert.ok((await images.cleanUp({ olderThanDays: 1 })) > 0);
  for (const [hash, isStored] of [
    [used.sha256, true],
    [unused.sha256, false],
  ] as const) {
    assert.equal(await store.has(hash), isStored);
    assert.equal((await store.readThumbnail(hash, 320)) !== undefined, isStored);
    assert.equal(await images.has(hash), isStored);
  }
  assert.equal(await images.cleanUp({ olderThanDays: 1 }), 0);
  const { model, shown } = createVisionModel();
  await open({ model }).images.processRemote({ ...unused.listing, urls: [unused.url] });
  assert.ok(await store.has(unused.sha256));
  assert.equal(shown.length, 1, 'it is described again');
});

test('An image that is removed while it is recorded fails the stage, whose repetition stores it', async () => {
  const { url, sha256: hash, listing } = await putUnusedImage('/clean/found.jpg', 'violet');
  await ageImages();
  let removed = 0;
  const { images, events } = open({
    store: {
      ...store,
      async put(one, path) {
        const isNew = await store.put(one, path);
        if (removed === 0) removed = await open().images.cleanUp({ olderThanDays: 1 });
        return isNew;
      },
    },
  });
  await assert.rejects(images.processRemote({ ...listing, urls: [url] }), /was removed while/);
  assert.ok(removed > 0);
  await images.processRemote({ ...listing, urls: [url] });
  assert.equal(events.length, 1);
  assert.ok(await store.has(hash));
});

test('Images of listings survive concurrent cleanups', async () => {
  const colours = ['lime', 'navy', 'pink'];
  const urls = await Promise.all(
    colours.map(async (colour) => (await put(`/clean/${colour}.jpg`, 'jpeg', { colour })).url),
  );
  const { images } = open();
  const end = new AbortController();
  const cleanups = (async () => {
    let removed = 0;
    while (!end.signal.aborted) {
      removed += await images.cleanUp({ olderThanDays: 0 });
      await new Promise(setImmediate);
    }
    return removed;
  })();
  const replaceImagesRepeatedly = async () => {
    const listing = await addListing();
    for (let index = 0; index < 12; index += 1) {
      const job = { ...listing, urls: [urls[index % 3] ?? ''] };
      const [outcome] = await until('it to be recorded', () =>
        images.processRemote(job).catch(() => false as const),
      );
      assert.ok(outcome && 'sha256' in outcome && (await store.has(outcome.sha256)));
      await images.processRemote({ ...listing, urls: [] });
    }
  };
  await Promise.all(colours.map(replaceImagesRepeatedly)).finally(() => end.abort());
  assert.ok((await cleanups) > 0, 'some were removed meanwhile');
});

suite('GET /images/{sha256}', async () => {
  const bytes = await createImage('png', { width: 2000, height: 1000 });
  const hash = sha256(bytes);
  content.set('/served.png', bytes);
  const { images } = open();
  before(async () => {
    await images.processRemote({ ...(await addListing()), urls: [`${host}/served.png`] });
  });

  const key = { id: 'k', name: 'test', scopes: ['search' as const], source_slugs: null };
  async function start(keys?: Parameters<typeof guardRoutes>[1]) {
    const app = await createServer({
      log,
      openapi: { title: 'Test', description: 'A test.', version: '1' },
      bodyLimit: 1024,
    });
    await app.register(async (scope) => {
      guardRoutes(scope, keys);
      imageRoutes(scope, images);
    });
    deferCleanup(() => app.close());
    return (query: string, headers: Record<string, string> = {}) =>
      app.inject({ url: `/images/${query}`, headers });
  }
  const get = await start();

  test('An image is sent as it was stored, and a thumbnail as a JPEG', async () => {
    const whole = await get(hash);
    assert.deepEqual([whole.statusCode, whole.rawPayload], [200, bytes]);
    const { etag, 'content-type': type, ...headers } = whole.headers;
    assert.deepEqual([etag, type], [`"${hash}"`, 'image/png']);
    assert.equal(headers['cache-control'], 'public, max-age=31536000, immutable');
    assert.equal(headers['x-content-type-options'], 'nosniff');
    for (const side of [320, 1024]) {
      const response = await get(`${hash}?size=${side}`);
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
      const sent = await get(query);
      for (const known of [tag, `W/${tag}`, `"other", W/"another",${tag}`, '*']) {
        const response = await get(query, { 'if-none-match': known });
        assert.deepEqual([response.statusCode, response.body], [304, ''], known);
        for (const name of ['cache-control', 'etag', 'vary', 'x-content-type-options']) {
          assert.equal(response.headers[name], sent.headers[name], `${name} for ${known}`);
        }
        assert.equal(response.headers['content-length'], undefined);
      }
    }
    const since = { 'if-modified-since': 'Thu, 01 Jan 1970 00:00:00 GMT' };
    for (const known of [`"${hash}-320"`, '"other"', hash, '']) {
      assert.equal((await get(hash, { 'if-none-match': known, ...since })).statusCode, 200, known);
    }
    assert.equal((await get(hash, { 'if-none-match': '*', ...since })).statusCode, 304);
  });

  test('An unknown hash is 404 and is not cached; a malformed hash or size is 422', async () => {
    for (const known of ['', '*']) {
      const response = await get('0'.repeat(64), { 'if-none-match': known });
      assert.deepEqual([response.statusCode, response.json().code], [404, 'image_not_found']);
      assert.equal(response.headers['cache-control'], 'no-store');
    }
    for (const path of [
      'abc',
      hash.toUpperCase().replace(/^./, 'G'),
      '..%2f..%2fetc%2fpasswd',
      ...['size=321', 'size=big', 'width=320'].map((query) => `${hash}?${query}`),
    ]) {
      assert.equal((await get(path)).statusCode, 422, path);
    }
  });

  test('With API keys an image requires a key and is cached privately', async () => {
    const guarded = await start({ verify: async (text) => (text === 'good' ? key : undefined) });
    assert.equal((await guarded(hash)).statusCode, 401);
    const headers = { authorization: 'Bearer good' };
    for (const [known, status] of [
      ['', 200],
      [`"${hash}"`, 304],
    ] as const) {
      const response = await guarded(hash, { ...headers, 'if-none-match': known });
      assert.equal(response.statusCode, status);
      assert.match(String(response.headers['cache-control']), /^private, /);
    }
  });

  test('An image that is missing from the store is 404', async () => {
    await rm(getPath(hash));
    for (const query of [hash, `${hash}?size=320`]) {
      for (const known of ['', '*', `"${hash}"`, `"${hash}-320"`]) {
        assert.equal((await get(query, { 'if-none-match': known })).statusCode, 404, known);
      }
    }
  });
});
