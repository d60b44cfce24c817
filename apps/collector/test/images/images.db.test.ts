import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import { atEnd, until } from '@oselya/testing';
import sharp from 'sharp';
import { createDisk } from '../../src/free-disk-space.ts';
import { descriptionPrompt } from '../../src/images/describe.ts';
import { replaceImages } from '../../src/images/repository.ts';
import { StoreOutageError } from '../../src/images/store.ts';
import { MAX_IMAGE_BYTES } from '../../src/images/temporary.ts';
import { LeaseLostError, SupersededError } from '../../src/queue/job-types.ts';
import { createSafeFetch } from '../../src/safe-fetch/fetch.ts';
import {
  createImage,
  FORMATS,
  openImageHost,
  openImages,
  serve,
  sha256,
  visionModel,
} from '../support/images.ts';

const { db, pool, store, addListing, open, rowsOf, imageOf, files } = await openImages();
const { url: host, seen, content, put } = await openImageHost();
const uploads = await mkdtemp(join(tmpdir(), 'oselya-upload-'));
atEnd(() => rm(uploads, { recursive: true }));

afterEach(async () => {
  const stored = await db.selectFrom('images').select('sha256').execute();
  const temporary = (await files()).filter((name) => !stored.some((one) => one.sha256 === name));
  assert.deepEqual(temporary, [], 'a temporary file stayed');
});

/** Writes uploaded files. */
const upload = (contents: readonly Buffer[]) =>
  Promise.all(
    contents.map(async (bytes, index) => {
      const path = join(uploads, String(index));
      await writeFile(path, bytes);
      return { path, sha256: sha256(bytes), bytes: bytes.length, name: `bath-${index}.webp` };
    }),
  );

test('Images of every type are stored, recorded in their order and described', async () => {
  const { model, shown } = visionModel();
  const { images, events } = open({ model });
  const listing = await addListing();
  const all = await Promise.all(FORMATS.map((format) => put(`/kitchen.${format}`, format)));
  const outcomes = await images.processRemote({ ...listing, urls: all.map(({ url }) => url) });
  const size = { width: 64, height: 48 };
  assert.deepEqual(
    outcomes,
    all.map((one, position) => ({
      position,
      url: one.url,
      sha256: one.sha256,
      ...size,
      duplicate: false,
    })),
  );
  assert.deepEqual(
    (await rowsOf(listing.listingId)).map((row) => [row.position, row.url, row.sha256, row.error]),
    all.map((one, position) => [position, one.url, one.sha256, null]),
  );
  assert.deepEqual(new Set(events), new Set(['stored']));
  for (const [index, one] of all.entries()) {
    const row = await imageOf(one.sha256);
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

test('A long description is cut between characters', async () => {
  const { model } = visionModel(undefined, `${'a'.repeat(1999)}🏠`);
  const one = await put('/long.png', 'png', { width: 33 });
  await open({ model }).images.processRemote({ ...(await addListing()), urls: [one.url] });
  assert.equal((await imageOf(one.sha256))?.description, 'a'.repeat(1999));
});

test('The vision model sees an upright JPEG of at most 1024 pixels, and the facts as JSON', async () => {
  const { model, shown } = visionModel();
  const { url } = await put('/big.png', 'png', { width: 2000, height: 1000, colour: 'navy' });
  await open({ model }).images.processRemote({ ...(await addListing()), urls: [url] });
  const [call] = shown;
  assert.equal(call?.operation, 'image_description');
  assert.deepEqual(call?.data, { hint: url, width: 2000, height: 1000 });
  assert.equal(call?.image?.mediaType, 'image/jpeg');
  const { format, width, height } = await sharp(call?.image?.bytes).metadata();
  assert.deepEqual([format, width, height], ['jpeg', 1024, 512]);
});

test('Equal bytes are stored once, described once, and reported as duplicates', async () => {
  const { model, shown } = visionModel();
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

/** Counts work in progress, and holds it until the expected number. */
function watch(expected: number) {
  const counts = { all: 0, most: 0 };
  let inProgress = 0;
  async function run<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    inProgress += 1;
    counts.all += 1;
    counts.most = Math.max(counts.most, inProgress);
    try {
      await until(`${expected} in progress`, () => counts.most >= expected);
      return await work();
    } finally {
      inProgress -= 1;
    }
  }
  return { counts, run };
}

for (const [title, most] of [
  ['Three remote images are fetched, stored and described at once, and no more', 3],
  ['Uploaded images are stored and described one after another', 1],
] as const) {
  test(title, async () => {
    const [fetches, stores, calls] = [watch(most), watch(most), watch(most)];
    const { model } = visionModel(() => calls.run(() => undefined));
    const watched: typeof store.put = (...file) => stores.run(() => store.put(...file));
    const { images } = open({ model, store: { ...store, put: watched } });
    const colours = ['gold', 'silver', 'plum', 'olive', 'red', 'green', 'blue'];
    const contents = await Promise.all(
      colours.map((colour) => createImage('png', { colour, width: 70 + most })),
    );
    const url = await serve(
      (request, response) =>
        void fetches.run(() => response.end(contents[Number(request.url?.slice(1))])),
    );
    const job = await addListing();
    if (most === 1) await images.processUploaded({ ...job, files: await upload(contents) });
    else await images.processRemote({ ...job, urls: contents.map((_, nth) => `${url}/${nth}`) });
    const counts = { all: 7, most };
    assert.deepEqual([stores.counts, calls.counts], [counts, counts]);
    if (most > 1) assert.deepEqual(fetches.counts, counts);
  });
}

test('The images of a listing are replaced as a whole, and a known address is not fetched again', async () => {
  const { images, events } = open();
  const listing = await addListing();
  const [kept, gone, added] = [
    await put('/kept.jpg', 'jpeg', { colour: 'plum' }),
    await put('/gone.jpg', 'jpeg', { colour: 'tan' }),
    await put('/added.jpg', 'jpeg', { colour: 'snow' }),
  ];
  const missing = `${host}/comes-later.jpg`;
  await images.processRemote({ ...listing, urls: [gone.url, kept.url, missing] });
  await put('/comes-later.jpg', 'jpeg', { colour: 'wheat' });
  await images.processRemote({ ...listing, urls: [kept.url, added.url, missing] });
  assert.deepEqual(
    (await rowsOf(listing.listingId)).map(({ url, error }) => [url, error]),
    [kept.url, added.url, missing].map((url) => [url, null]),
  );
  assert.equal(seen.filter((path) => path === '/kept.jpg').length, 1);
  assert.equal(events.filter((event) => event === 'reused').length, 1);
  assert.deepEqual(await images.processRemote({ ...listing, urls: [] }), []);
  assert.deepEqual(await rowsOf(listing.listingId), []);
});

test('No connection is held while images are fetched and described', async () => {
  const inUse: number[] = [];
  const count = () => void inUse.push(pool.totalCount - pool.idleCount);
  const bytes = await createImage('jpeg', { colour: 'olive' });
  const watched = await serve((_request, response) => {
    count();
    response.end(bytes);
  });
  const { model } = visionModel(count);
  await open({ model }).images.processRemote({ ...(await addListing()), urls: [watched] });
  assert.deepEqual(inUse, [0, 0]);
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
  const { model, shown } = visionModel(() => {
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
  assert.equal((await imageOf(exact.sha256))?.bytes, 50 * 1024 * 1024);
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
  const rows = await rowsOf(listing.listingId);
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
  const met: unknown[] = [];
  const stale = Object.assign(new Error('stale'), { code: 'ESTALE' });
  const disk = createDisk({ folder: '/', minFreeMb: 0, freeBytes: () => Promise.reject(stale) });
  const toOutage = (error: unknown) => {
    met.push(error instanceof Error && 'code' in error && error.code);
    return new StoreOutageError({}, error);
  };
  const listing = await addListing();
  const { url } = await put('/on-its-way.jpg', 'jpeg', { colour: 'olive' });
  for (const options of [{ temporary: () => '/dev/null' }, { disk }]) {
    const { images } = open({ storeState: { toOutage }, ...options });
    await assert.rejects(images.processRemote({ ...listing, urls: [url] }), StoreOutageError);
  }
  assert.deepEqual(met, ['ENOTDIR', 'ESTALE']);
  assert.deepEqual(await rowsOf(listing.listingId), []);
});

test('No image is fetched while the disk is low, and the recorded ones stay', async () => {
  let isLow = false;
  const freeBytes = async () => (isLow ? 0 : 2 ** 30);
  const { images } = open({ disk: createDisk({ folder: tmpdir(), minFreeMb: 100, freeBytes }) });
  const listing = await addListing();
  const { url } = await put('/before.png', 'png', { width: 61 });
  await images.processRemote({ ...listing, urls: [url] });
  const before = await rowsOf(listing.listingId);
  isLow = true;
  const urls = [url, (await put('/low.png', 'png', { width: 62 })).url];
  await assert.rejects(images.processRemote({ ...listing, urls }), { code: 'disk_low' });
  assert.deepEqual(await rowsOf(listing.listingId), before);
  assert.ok(!seen.includes('/low.png'));
});

test('A listing with slow images keeps the fetched images and fetches the others later', async () => {
  const slow = await serve((_request, response) => {
    setTimeout(() => response.writeHead(404).end(), 100);
  });
  const { images } = open({ limits: { listingMs: 50 } });
  const listing = await addListing();
  const urls = Array.from({ length: 5 }, (_, nth) => `${slow}/${nth}`);
  await images.processRemote({ ...listing, urls });
  const rows = await rowsOf(listing.listingId);
  assert.match(rows[0]?.error ?? '', /status 404/);
  for (const { error, retry_at: retryAt } of rows.slice(3)) {
    assert.match(error ?? '', /took too long/);
    assert.ok(retryAt !== null && retryAt.getTime() > Date.now());
  }
});

test('A temporarily failed address is recorded with the time of its next attempt', async () => {
  const busy = await serve((request, response) => {
    const seconds = request.url?.slice(1) ?? '';
    response.writeHead(503, seconds === '' ? {} : { 'retry-after': seconds }).end();
  });
  const lookup = () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' }));
  const { images } = open({ fetch: createSafeFetch({ allow: ['127.0.0.1'], lookup }) });
  const listing = await addListing();
  const urls = [busy, `${busy}/7200`, `${busy}/200`, 'http://nowhere.test/', 'nonsense'];
  await images.processRemote({ ...listing, urls });
  const rows = await rowsOf(listing.listingId);
  const hours = rows.map(
    ({ retry_at: at }) => at && Math.round((10 * (at.getTime() - Date.now())) / 3_600_000) / 10,
  );
  assert.deepEqual(hours, [20, 2, 0.8, 20, null]);
  assert.match(rows[3]?.error ?? '', /host of the address was not found/);
});

test('A worker that lost its claim writes nothing', async () => {
  const listing = await addListing();
  const { url, sha256: hash } = await put('/fenced.jpg', 'jpeg', { colour: 'linen' });
  const lost = { ...listing, fence: { ...listing.fence, attempt: 2 }, urls: [url] };
  await assert.rejects(open().images.processRemote(lost), LeaseLostError);
  assert.deepEqual(await rowsOf(listing.listingId), []);
  const loseClaim = async () => {
    const { rawId } = listing.fence;
    await db.updateTable('raw_data').set({ attempt: 9 }).where('id', '=', rawId).execute();
  };
  const { model } = visionModel(loseClaim);
  const { images } = open({ model });
  await assert.rejects(images.processRemote({ ...listing, urls: [url] }), LeaseLostError);
  assert.equal((await imageOf(hash))?.described_by, null);
});

test('The images of an older payload do not replace those of a newer one', async () => {
  const { listingId, fence } = await addListing();
  const outcomes = [{ position: 0, url: 'http://old.example/1.jpg', error: 'gone' }];
  await db
    .updateTable('listing_payloads')
    .set({ raw_id: fence.rawId + 1 })
    .where('raw_id', '=', fence.rawId)
    .execute();
  const change = { listingId, outcomes, stored: [], fence };
  await assert.rejects(replaceImages(db, change), SupersededError);
  assert.deepEqual(await rowsOf(listingId), []);
});

test('An abort ends the work with its reason', async () => {
  const abort = new AbortController();
  const reason = new Error('the worker is stopping');
  const silent = await serve(() => abort.abort(reason));
  const job = { ...(await addListing()), signal: abort.signal };
  const work = open().images.processRemote({ ...job, urls: [silent] });
  await assert.rejects(work, (error) => error === reason);
  assert.deepEqual(await rowsOf(job.listingId), []);
});

/** Makes all images old enough to be removed. */
const age = () =>
  db
    .updateTable('images')
    .set({ created_at: new Date(0) })
    .execute();

/** Stores an image that no listing shows any more. */
async function putUnshown(path: string, colour: string) {
  const image = await put(path, 'jpeg', { colour });
  const listing = await addListing();
  await open().images.processRemote({ ...listing, urls: [image.url] });
  await open().images.processRemote({ ...listing, urls: [] });
  return { ...image, listing };
}

test('The cleanup removes old images that no listing shows, with their thumbnails, and no others', async () => {
  const { images } = open();
  const kept = await put('/clean/kept.jpg', 'jpeg', { colour: 'azure' });
  await images.processRemote({ ...(await addListing()), urls: [kept.url] });
  const gone = await putUnshown('/clean/gone.jpg', 'khaki');
  for (const one of [kept, gone]) await images.open(one.sha256, 320);
  assert.equal(await images.cleanUp({ olderThanDays: 1 }), 0, 'they are young');
  await age();
  assert.equal(await images.cleanUp({ olderThanDays: 1, signal: AbortSignal.abort() }), 0);
  const stuck = { ...store, remove: () => Promise.reject(new Error('the bucket is away')) };
  await assert.rejects(open({ store: stuck }).images.cleanUp({ olderThanDays: 1 }), /bucket/);
  assert.ok(await images.has(gone.sha256));
  assert.ok((await images.cleanUp({ olderThanDays: 1 })) > 0);
  for (const [hash, isThere] of [
    [kept.sha256, true],
    [gone.sha256, false],
  ] as const) {
    assert.equal(await store.has(hash), isThere);
    assert.equal((await store.readThumbnail(hash, 320)) !== undefined, isThere);
    assert.equal(await images.has(hash), isThere);
  }
  assert.equal(await images.cleanUp({ olderThanDays: 1 }), 0);
  const { model, shown } = visionModel();
  await open({ model }).images.processRemote({ ...gone.listing, urls: [gone.url] });
  assert.ok(await store.has(gone.sha256));
  assert.equal(shown.length, 1, 'it is described again');
});

test('An image that is removed while it is recorded fails the stage, whose repetition stores it', async () => {
  const { url, sha256: hash, listing } = await putUnshown('/clean/found.jpg', 'violet');
  await age();
  let removed = 0;
  const { images, events } = open({
    store: {
      ...store,
      async put(one, path) {
        await store.put(one, path);
        if (removed === 0) removed = await open().images.cleanUp({ olderThanDays: 1 });
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
  const all = await Promise.all(
    colours.map((colour) => put(`/clean/${colour}.jpg`, 'jpeg', { colour })),
  );
  const { images } = open();
  const over = new AbortController();
  const removing = (async () => {
    let removed = 0;
    while (!over.signal.aborted) {
      removed += await images.cleanUp({ olderThanDays: 0 });
      await new Promise(setImmediate);
    }
    return removed;
  })();
  const comeAndGo = async () => {
    const listing = await addListing();
    for (let round = 0; round < 12; round += 1) {
      const one = all[round % all.length];
      assert.ok(one);
      const job = { ...listing, urls: [one.url] };
      await until('it to be recorded', () => images.processRemote(job).catch(() => false));
      assert.ok(await store.has(one.sha256), 'the listing shows it');
      await images.processRemote({ ...listing, urls: [] });
    }
  };
  try {
    await Promise.all(colours.map(comeAndGo));
  } finally {
    over.abort();
  }
  assert.ok((await removing) > 0, 'some were removed meanwhile');
});
