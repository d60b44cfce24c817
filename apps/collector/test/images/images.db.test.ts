import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ModelError } from '@oselya/model';
import sharp from 'sharp';
import { descriptionPrompt } from '../../src/images/describe.ts';
import { LeaseLostError } from '../../src/queue/job.ts';
import { openImages, visionModel } from './harness.ts';
import { FORMATS, picture } from './pictures.ts';
import { serve } from './server.ts';

const { db, pool, url: databaseUrl, addListing, open, rowsOf, files, store } = await openImages();
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

const seen: string[] = [];
const content = new Map<string, Buffer>();
const host = await serve((request, response) => {
  const path = request.url ?? '';
  seen.push(path);
  const bytes = content.get(path);
  response.writeHead(bytes === undefined ? 404 : 200, { 'content-type': 'image/jpeg' }).end(bytes);
});

/** Puts a picture on the host. */
async function put(path: string, ...options: Parameters<typeof picture>) {
  const bytes = await picture(...options);
  content.set(path, bytes);
  return { url: host + path, sha256: sha256(bytes), bytes };
}

afterEach(async () => {
  const stored = await db.selectFrom('images').select('sha256').execute();
  const temporary = (await files()).filter((name) => !stored.some((one) => one.sha256 === name));
  assert.deepEqual(temporary, [], 'a temporary file stayed');
});

test('pictures of every type are stored, recorded in their order and described', async () => {
  const { model, shown } = visionModel();
  const { images, events } = open({ model });
  const listing = await addListing();
  const put5 = await Promise.all(FORMATS.map((format) => put(`/kitchen.${format}`, format)));
  const outcomes = await images.processRemote({ ...listing, urls: put5.map(({ url }) => url) });

  assert.deepEqual(
    outcomes,
    put5.map((one, position) => ({
      position,
      url: one.url,
      sha256: one.sha256,
      width: 64,
      height: 48,
      duplicate: false,
    })),
  );
  assert.deepEqual(
    await rowsOf(listing.listingId),
    put5.map((one, position) => ({ position, url: one.url, sha256: one.sha256, error: null })),
  );
  assert.deepEqual(new Set(events), new Set(['stored']));
  const rows = await db.selectFrom('images').selectAll().execute();
  assert.deepEqual(
    new Set(rows.map((row) => row.media_type)),
    new Set(FORMATS.map((format) => `image/${format}`)),
  );
  for (const row of rows) {
    assert.deepEqual(
      [row.width, row.height, row.description, row.room_type, row.quality],
      [64, 48, 'A bright kitchen.', 'kitchen', 'good'],
    );
    assert.deepEqual([row.described_by, row.prompt_version], ['eyes-1', descriptionPrompt.version]);
    assert.equal(row.bytes, put5.find((one) => one.sha256 === row.sha256)?.bytes.length);
  }
  assert.equal(shown.length, 5);
});

test('the vision model sees an upright JPEG of at most 1024 pixels, and the facts as JSON', async () => {
  const { model, shown } = visionModel();
  const listing = await addListing();
  const { url } = await put('/big.png', 'png', { width: 2000, height: 1000, colour: 'navy' });
  await open({ model }).images.processRemote({ ...listing, urls: [url] });
  const [call] = shown;
  assert.equal(call?.operation, 'image_description');
  assert.deepEqual(call?.data, { hint: url, width: 2000, height: 1000 });
  assert.equal(call?.image?.mediaType, 'image/jpeg');
  const { format, width, height } = await sharp(call?.image?.bytes).metadata();
  assert.deepEqual([format, width, height], ['jpeg', 1024, 512]);
});

test('bad pictures are recorded with their reason and do not touch the good ones', async () => {
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
  for (const [index, reason] of reasons.entries()) {
    assert.match(rows[index]?.error ?? '', reason);
    assert.deepEqual(outcomes[index], {
      position: index,
      url: urls[index],
      error: rows[index]?.error,
    });
  }
  assert.equal(rows[5]?.sha256, good.sha256);
  assert.deepEqual(events.toSorted(), [...Array<string>(5).fill('failed'), 'stored']);
});

test('equal bytes are stored once, described once, and said to be duplicates', async () => {
  const { model, shown } = visionModel();
  const { images, events } = open({ model });
  const first = await put('/one.jpg', 'jpeg', { colour: 'gold' });
  content.set('/same.jpg', first.bytes);
  const same = `${host}/same.jpg`;
  const outcomes = await images.processRemote({
    ...(await addListing()),
    urls: [first.url, same, first.url],
  });
  const later = await images.processRemote({ ...(await addListing()), urls: [same] });
  const duplicates = [...outcomes, ...later].map((one) => 'duplicate' in one && one.duplicate);
  assert.deepEqual(duplicates, [false, true, true, true]);
  assert.equal((await files()).filter((name) => name === first.sha256).length, 1);
  assert.equal(shown.length, 1);
  assert.deepEqual(events, ['stored', 'duplicate', 'duplicate', 'duplicate']);
  assert.equal(seen.filter((path) => path === '/one.jpg').length, 1);
});

test('three are fetched at once, and no more', { timeout: 60_000 }, async () => {
  let most = 0;
  let waiting: (() => void)[] = [];
  // Nobody is answered until three have asked.
  const gate = await serve((request, response) => {
    waiting.push(() => response.writeHead(404).end(request.url));
    most = Math.max(most, waiting.length);
    if (waiting.length < 3) return;
    for (const answer of waiting) answer();
    waiting = [];
  });
  const urls = Array.from({ length: 9 }, (_, index) => `${gate}/${index}`);
  const outcomes = await open().images.processRemote({ ...(await addListing()), urls });
  assert.deepEqual(
    outcomes.map(({ url }) => url),
    urls,
  );
  assert.equal(most, 3);
});

test('the rows are replaced as a whole; an address of before is not fetched again', async () => {
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
  const rows = await rowsOf(listing.listingId);
  assert.deepEqual(
    rows.map(({ url }) => url),
    [kept.url, added.url, missing],
  );
  assert.ok(rows.every(({ error }) => error === null));
  assert.equal(seen.filter((path) => path === '/kept.jpg').length, 1);
  assert.equal(events.filter((event) => event === 'reused').length, 1);

  assert.deepEqual(await images.processRemote({ ...listing, urls: [] }), []);
  assert.deepEqual(await rowsOf(listing.listingId), []);
});

test('a worker that lost its claim writes nothing', async () => {
  const listing = await addListing();
  const { url, sha256: hash } = await put('/fenced.jpg', 'jpeg', { colour: 'linen' });
  const urls = [url];
  const lost = { ...listing, fence: { ...listing.fence, attempt: 2 }, urls };
  await assert.rejects(open().images.processRemote(lost), LeaseLostError);
  assert.deepEqual(await rowsOf(listing.listingId), []);

  // Lost while the model looks: the pictures are the listing's, the description is not written.
  const { model } = visionModel(async () => {
    await db
      .updateTable('raw_data')
      .set({ attempt: 9 })
      .where('id', '=', listing.fence.rawId)
      .execute();
  });
  await assert.rejects(open({ model }).images.processRemote({ ...listing, urls }), LeaseLostError);
  const image = await db
    .selectFrom('images')
    .selectAll()
    .where('sha256', '=', hash)
    .executeTakeFirst();
  assert.equal(image?.described_by, null);
});

test('a failure of the model propagates, what was fetched stays, and the next attempt goes on', async () => {
  for (const code of ['MODEL_UNAVAILABLE', 'MODEL_REJECTED', 'MODEL_INVALID_OUTPUT'] as const) {
    const listing = await addListing();
    const { url } = await put(`/${code}.png`, 'png', { width: 20 + code.length });
    const failing = visionModel(() => {
      throw new ModelError(code, 'The model failed.');
    });
    const urls = [url];
    await assert.rejects(
      open({ model: failing.model }).images.processRemote({ ...listing, urls }),
      { code },
    );
    assert.equal((await rowsOf(listing.listingId)).length, 1);

    const working = visionModel();
    await open({ model: working.model }).images.processRemote({ ...listing, urls });
    assert.equal(working.shown.length, 1);
    assert.equal(seen.filter((path) => path === `/${code}.png`).length, 1);
  }
});

test('a refusal to describe a picture is not swallowed: the picture stays stored', async () => {
  const listing = await addListing();
  const { url, sha256: hash } = await put('/refused.jpg', 'jpeg', { colour: 'coral' });
  const { model } = visionModel(() => {
    throw new ModelError('MODEL_REFUSED', 'The content filter refused.');
  });
  await assert.rejects(open({ model }).images.processRemote({ ...listing, urls: [url] }), {
    code: 'MODEL_REFUSED',
  });
  const image = await db
    .selectFrom('images')
    .selectAll()
    .where('sha256', '=', hash)
    .executeTakeFirst();
  assert.deepEqual([image?.sha256, image?.description], [hash, null]);
});

test('no connection is held while pictures are fetched and described', async () => {
  const inUse: number[] = [];
  const watch = () => void inUse.push(pool.totalCount - pool.idleCount);
  const bytes = await picture('jpeg', { colour: 'olive' });
  const watched = await serve((_request, response) => {
    watch();
    response.end(bytes);
  });
  const { model } = visionModel(watch);
  await open({ model }).images.processRemote({ ...(await addListing()), urls: [watched] });
  assert.deepEqual(inUse, [0, 0]);
});

test('an abort ends the work with its reason', async () => {
  const abort = new AbortController();
  const reason = new Error('the worker is stopping');
  const silent = await serve(() => abort.abort(reason));
  const job = { ...(await addListing()), signal: abort.signal };
  const work = open().images.processRemote({ ...job, urls: [silent] });
  await assert.rejects(work, (error) => error === reason);
  assert.deepEqual(await rowsOf(job.listingId), []);
});

/** A store that says it is empty. */
const noFiles: typeof store.list = async function* () {};

/** Makes what is stored old enough to be removed. */
const age = () =>
  db
    .updateTable('images')
    .set({ created_at: new Date(0) })
    .execute();

test('pictures that no listing shows go with their copies, all others stay', async () => {
  const { images } = open();
  const listing = await addListing();
  const [kept, gone] = [
    await put('/clean/kept.jpg', 'jpeg', { colour: 'azure' }),
    await put('/clean/gone.jpg', 'jpeg', { colour: 'khaki' }),
  ];
  await images.processRemote({ ...listing, urls: [kept.url, gone.url] });
  for (const { sha256: hash } of [kept, gone]) await images.open(hash, 320);
  await images.processRemote({ ...listing, urls: [kept.url] });
  assert.ok(await store.readThumbnail(gone.sha256, 320));

  assert.equal(await images.cleanUp({ olderThanDays: 1 }), 0, 'they are young');
  await age();
  const looked: string[] = [];
  const watched = open({
    store: { ...store, list: (digits) => (looked.push(digits), noFiles(digits)) },
  });
  const aborted = { olderThanDays: 1, signal: AbortSignal.abort() };
  assert.equal(await watched.images.cleanUp(aborted), 0);
  assert.deepEqual(looked, [], 'it ends at once');
  assert.ok((await images.cleanUp({ olderThanDays: 1 })) > 0);
  assert.equal(await images.open(gone.sha256), undefined);
  assert.equal(await store.has(gone.sha256), false);
  for (const side of [320, 1024]) {
    assert.equal(await store.readThumbnail(gone.sha256, side), undefined);
    assert.ok(await store.readThumbnail(kept.sha256, side));
  }
  assert.ok(await store.has(kept.sha256));
  assert.equal(await images.cleanUp({ olderThanDays: 1 }), 0);

  // It comes again, and is described again.
  const { model, shown } = visionModel();
  await open({ model }).images.processRemote({ ...listing, urls: [gone.url] });
  assert.ok(await store.has(gone.sha256));
  assert.equal(shown.length, 1);
});

test('bytes that nobody recorded go too, once they are old', async () => {
  const bytes = await picture('jpeg', { colour: 'beige' });
  const hash = sha256(bytes);
  const folder = await mkdtemp(join(tmpdir(), 'oselya-upload-'));
  after(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, 'a'), bytes);
  const { images } = open();
  await images.cleanUp({ olderThanDays: 1 });
  await store.put(hash, join(folder, 'a'));
  assert.equal(await images.cleanUp({ olderThanDays: 1 }), 0);
  const old = {
    ...store,
    async *list(digits: string) {
      for await (const found of store.list(digits)) {
        yield found.map(({ sha256: one }) => ({ sha256: one, storedAt: async () => new Date(0) }));
      }
    },
  };
  assert.equal(await open({ store: old }).images.cleanUp({ olderThanDays: 1 }), 1);
  assert.equal(await store.has(hash), false);
  const row = await db.selectFrom('images').select('sha256').where('sha256', '=', hash).execute();
  assert.deepEqual(row, []);
});

test('a picture whose bytes cannot be removed keeps its row', async () => {
  const { sha256: hash, url } = await put('/clean/stuck.jpg', 'jpeg', { colour: 'orange' });
  const listing = await addListing();
  await open().images.processRemote({ ...listing, urls: [url] });
  await open().images.processRemote({ ...listing, urls: [] });
  await age();
  const stuck = { ...store, remove: () => Promise.reject(new Error('the bucket is away')) };
  await assert.rejects(open({ store: stuck }).images.cleanUp({ olderThanDays: 1 }), /bucket/);
  assert.ok(await open().images.open(hash));
  assert.ok((await open().images.cleanUp({ olderThanDays: 1 })) > 0);
});

test('a picture that is removed after it was found in the store is stored again', async () => {
  const found = await put('/clean/found.jpg', 'jpeg', { colour: 'violet' });
  const folder = await mkdtemp(join(tmpdir(), 'oselya-upload-'));
  after(() => rm(folder, { recursive: true }));
  const uploaded = join(folder, 'found.jpg');
  await writeFile(uploaded, found.bytes);
  const file = { path: uploaded, sha256: found.sha256, bytes: found.bytes.length, name: 'f' };
  const [first, second, third] = [await addListing(), await addListing(), await addListing()];
  await open().images.processRemote({ ...first, urls: [found.url] });
  await open().images.processRemote({ ...second, urls: [found.url] });
  await open().images.processRemote({ ...first, urls: [] });

  for (const way of ['fetched', 'reused', 'uploaded'] as const) {
    // Nobody shows it until it is recorded again.
    await db.deleteFrom('listing_images').where('listing_id', '=', first.listingId).execute();
    if (way !== 'reused') {
      await db.deleteFrom('listing_images').where('listing_id', '=', second.listingId).execute();
    }
    await age();
    let removals = 0;
    const other = open().images;
    const removeOnce = async () => {
      if (removals > 0) return;
      removals += 1;
      await db.deleteFrom('listing_images').where('sha256', '=', found.sha256).execute();
      assert.ok((await other.cleanUp({ olderThanDays: 1 })) > 0, way);
    };
    const { images, events } = open({
      store: {
        ...store,
        async put(hash, path) {
          await store.put(hash, path);
          await removeOnce();
        },
        async has(hash) {
          const isThere = await store.has(hash);
          await removeOnce();
          return isThere;
        },
      },
    });
    const outcomes =
      way === 'uploaded'
        ? await images.processUploaded({ ...third, files: [file] })
        : await images.processRemote({ ...(way === 'reused' ? second : first), urls: [found.url] });
    assert.equal(removals, 1, way);
    assert.ok(outcomes[0] && 'sha256' in outcomes[0], way);
    assert.equal(events.length, 1, 'it is counted once');
    assert.ok(await store.has(found.sha256), way);
    if (way === 'uploaded') continue;
    await open().images.processRemote({ ...second, urls: [found.url] });
    await open().images.processRemote({ ...first, urls: [] });
  }
});

test('pictures that come and go while others are removed are there whenever a listing shows them', async () => {
  const colours = ['lime', 'navy', 'pink'];
  const put3 = await Promise.all(
    colours.map((colour) => put(`/clean/${colour}.jpg`, 'jpeg', { colour })),
  );
  const { images } = open();
  // What is stored now is never old enough to go before it is recorded.
  const keeper = open({ store: { ...store, list: noFiles } }).images;
  const listings = await Promise.all(colours.map(() => addListing()));
  const over = new AbortController();
  const removing = (async () => {
    let removed = 0;
    while (!over.signal.aborted) {
      removed += await keeper.cleanUp({ olderThanDays: 0 });
      await sleep(1);
    }
    return removed;
  })();
  const comeAndGo = async (listing: (typeof listings)[number]) => {
    for (let round = 0; round < 12; round += 1) {
      const one = put3[round % put3.length];
      assert.ok(one);
      await images.processRemote({ ...listing, urls: [one.url] });
      assert.ok(await store.has(one.sha256), 'the listing shows it');
      await images.processRemote({ ...listing, urls: [] });
    }
  };
  try {
    await Promise.all(listings.map(comeAndGo));
  } finally {
    over.abort();
  }
  assert.ok((await removing) > 0, 'some were removed meanwhile');
});

// A lock that others wait for needs a second connection.
if (databaseUrl !== undefined) {
  test('a picture that is about to be shown is passed by', async () => {
    const { sha256: hash, url } = await put('/clean/soon.jpg', 'jpeg', { colour: 'peru' });
    const { images } = open();
    const listing = await addListing();
    await images.processRemote({ ...listing, urls: [url] });
    await images.processRemote({ ...listing, urls: [] });
    await age();
    await db.transaction().execute(async (trx) => {
      await trx
        .insertInto('listing_images')
        .values({ listing_id: listing.listingId, position: 0, sha256: hash })
        .execute();
      await images.cleanUp({ olderThanDays: 1 });
    });
    assert.ok(await store.has(hash));
  });
}

test('uploaded files are taken one after another and stay where they are', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-upload-'));
  after(() => rm(folder, { recursive: true }));
  const { model, shown } = visionModel();
  const contents = [
    await picture('webp', { colour: 'silver' }),
    Buffer.from('no picture'),
    await picture('webp', { colour: 'silver' }),
  ];
  const uploads = await Promise.all(
    contents.map(async (bytes, index) => {
      const path = join(folder, String(index));
      await writeFile(path, bytes);
      return { path, sha256: sha256(bytes), bytes: bytes.length, name: `bath-${index}.webp` };
    }),
  );
  const listing = await addListing();
  const outcomes = await open({ model }).images.processUploaded({ ...listing, files: uploads });
  const hash = uploads[0]?.sha256;
  assert.deepEqual(outcomes, [
    { position: 0, url: null, sha256: hash, width: 64, height: 48, duplicate: false },
    { position: 1, url: null, error: 'It is no JPEG, PNG, WebP, AVIF or GIF' },
    { position: 2, url: null, sha256: hash, width: 64, height: 48, duplicate: true },
  ]);
  assert.equal(shown.length, 1);
  assert.deepEqual(shown[0]?.data, { hint: 'bath-0.webp', width: 64, height: 48 });
  await rm(join(folder, '0'));

  // The payload is processed again, long after its files went.
  const rows = await rowsOf(listing.listingId);
  assert.deepEqual(await open({ model }).images.processRemote({ ...listing, urls: [host] }), []);
  assert.deepEqual(await rowsOf(listing.listingId), rows);
  const { uploads: recorded } = await db
    .selectFrom('raw_data')
    .select('uploads')
    .where('id', '=', listing.fence.rawId)
    .executeTakeFirstOrThrow();
  assert.deepEqual(recorded, [
    { sha256: hash, width: 64, height: 48, duplicate: false },
    { error: 'It is no JPEG, PNG, WebP, AVIF or GIF' },
    { sha256: hash, width: 64, height: 48, duplicate: true },
  ]);
});
