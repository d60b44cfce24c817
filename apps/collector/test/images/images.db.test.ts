import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import sharp from 'sharp';
import { descriptionPrompt } from '../../src/images/describe.ts';
import { MAX_IMAGE_BYTES } from '../../src/images/temporary.ts';
import { openImages, visionModel } from './harness.ts';
import { openPictureHost, sha256 } from './picture-host.ts';
import { FORMATS, picture } from './pictures.ts';
import { serve } from './server.ts';

const { db, pool, addListing, open, rowsOf, files } = await openImages();
const { url: host, seen, content, put } = await openPictureHost();

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

test('a long description is cut between characters', async () => {
  const { model } = visionModel(undefined, `${'a'.repeat(1999)}🏠`);
  const one = await put('/long.png', 'png', { width: 33 });
  await open({ model }).images.processRemote({ ...(await addListing()), urls: [one.url] });
  const { description } = await db
    .selectFrom('images')
    .select('description')
    .where('sha256', '=', one.sha256)
    .executeTakeFirstOrThrow();
  assert.equal(description, 'a'.repeat(1999));
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

test('pictures that were stored by a first try of the stage are no duplicates in the second', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-upload-'));
  after(() => rm(folder, { recursive: true }));
  const known = await put('/known.png', 'png', { colour: 'ivory' });
  await open().images.processRemote({ ...(await addListing()), urls: [known.url] });
  const uploaded = await Promise.all(
    [await picture('png', { colour: 'khaki' }), known.bytes].map(async (bytes, index) => {
      const path = join(folder, String(index));
      await writeFile(path, bytes);
      return { path, sha256: sha256(bytes), bytes: bytes.length, name: `${index}.png` };
    }),
  );
  let isAway = true;
  const { model } = visionModel(() => {
    if (isAway) throw new Error('the store of smaller copies is away');
  });
  const { images } = open({ model });
  const job = { ...(await addListing()), files: uploaded };
  await assert.rejects(images.processUploaded(job), /away/);
  isAway = false;
  const outcomes = await images.processUploaded(job);
  assert.deepEqual(
    outcomes.map((one) => 'duplicate' in one && one.duplicate),
    [false, true],
  );
  const { uploads } = await db
    .selectFrom('raw_data')
    .select('uploads')
    .where('id', '=', job.fence.rawId)
    .executeTakeFirstOrThrow();
  assert.deepEqual(
    uploads?.map((one) => 'duplicate' in one && one.duplicate),
    [false, true],
  );
});

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

test('50 MB are stored, and a byte more is not', async () => {
  const { bytes } = await put('/small.png', 'png', { colour: 'salmon' });
  const rest = MAX_IMAGE_BYTES - bytes.length;
  // What follows a picture's end is of no account to whoever decodes it.
  content.set('/exact.png', Buffer.concat([bytes, Buffer.alloc(rest)]));
  content.set('/over.png', Buffer.concat([bytes, Buffer.alloc(rest + 1)]));
  const listing = await addListing();
  const urls = [`${host}/exact.png`, `${host}/over.png`];
  const [exact, over] = await open().images.processRemote({ ...listing, urls });
  assert.ok(exact !== undefined && 'sha256' in exact, JSON.stringify(exact));
  const { bytes: stored } = await db
    .selectFrom('images')
    .select('bytes')
    .where('sha256', '=', exact.sha256)
    .executeTakeFirstOrThrow();
  assert.equal(stored, 50 * 1024 * 1024);
  assert.equal(over !== undefined && 'error' in over && over.error, 'It is larger than 50 MB');
});
