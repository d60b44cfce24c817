import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { ModelError } from '@oselya/model';
import { createDisk } from '../../src/disk.ts';
import { StoreOutageError } from '../../src/images/store.ts';
import { LeaseLostError } from '../../src/queue/job.ts';
import { createSafeFetch } from '../../src/safe-fetch/fetch.ts';
import { openImages, visionModel } from './harness.ts';
import { openPictureHost } from './picture-host.ts';
import { serve } from './server.ts';

const { db, addListing, open, rowsOf, files } = await openImages();
const { url: host, seen, content, put } = await openPictureHost();

afterEach(async () => {
  const stored = await db.selectFrom('images').select('sha256').execute();
  const temporary = (await files()).filter((name) => !stored.some((one) => one.sha256 === name));
  assert.deepEqual(temporary, [], 'a temporary file stayed');
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

test('what this machine fails at on the way to the store is an outage of the store, not a bad picture', async () => {
  const { disk, toOutage, met } = failingMachine();
  const listing = await addListing();
  const { url } = await put('/on-its-way.jpg', 'jpeg', { colour: 'olive' });
  const storeState = { toOutage };
  const notAFolder = '/dev/null';
  for (const options of [{ temporary: () => notAFolder }, { disk }]) {
    const { images } = open({ storeState, ...options });
    await assert.rejects(images.processRemote({ ...listing, urls: [url] }), StoreOutageError);
  }
  assert.deepEqual(met, ['ENOTDIR', 'ESTALE']);
  assert.deepEqual(await rowsOf(listing.listingId), []);
});

/** A disk that cannot be asked for room, and what is told of a store. */
function failingMachine() {
  const met: unknown[] = [];
  const stale = Object.assign(new Error('stale'), { code: 'ESTALE' });
  const disk = createDisk({ folder: '/', minFreeMb: 0, freeBytes: () => Promise.reject(stale) });
  const toOutage = (error: unknown) => {
    met.push(error instanceof Error && 'code' in error && error.code);
    return new StoreOutageError({}, error);
  };
  return { disk, toOutage, met };
}

test('a listing whose pictures take too long has those that came, and asks for the others later', async () => {
  const slow = await serve((_request, response) => {
    setTimeout(() => response.writeHead(404).end(), 100);
  });
  const { images } = open({ limits: { listingMs: 50 } });
  const listing = await addListing();
  const urls = Array.from({ length: 5 }, (_, nth) => `${slow}/${nth}`);
  await images.processRemote({ ...listing, urls });
  const rows = await db
    .selectFrom('listing_images')
    .select(['error', 'retry_at'])
    .where('listing_id', '=', listing.listingId)
    .orderBy('position')
    .execute();
  assert.match(rows[0]?.error ?? '', /status 404/);
  for (const { error, retry_at: retryAt } of rows.slice(3)) {
    assert.match(error ?? '', /took too long/);
    assert.ok(retryAt !== null && retryAt.getTime() > Date.now());
  }
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
  const failures = [
    new ModelError('MODEL_UNAVAILABLE', 'The model failed.', { status: 500 }),
    new ModelError('MODEL_TIMEOUT', 'The model took too long.'),
    new ModelError('MODEL_BREAKER_OPEN', 'The model is left alone.'),
    // What no status says anything about, or of which it says something that is not of the picture.
    ...[undefined, 401, 403, 404].map(
      (status) => new ModelError('MODEL_REJECTED', 'No.', status === undefined ? {} : { status }),
    ),
  ];
  for (const [nth, error] of failures.entries()) {
    const { code } = error;
    const path = `/${nth}-${code}.png`;
    const listing = await addListing();
    const { url } = await put(path, 'png', { width: 20 + nth });
    const failing = visionModel(() => {
      throw error;
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
    assert.equal(seen.filter((one) => one === path).length, 1);
  }
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

/** What is said of a name while its servers are away, and of one that nobody has. */
const lookup = () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' }));

test('an address that failed for a moment is noted with the time of the next attempt', async () => {
  const busy = await serve((request, response) => {
    const seconds = request.url?.slice(1) ?? '';
    response.writeHead(503, seconds === '' ? {} : { 'retry-after': seconds }).end();
  });
  const { images } = open({ fetch: createSafeFetch({ allow: ['127.0.0.1'], lookup }) });
  const listing = await addListing();
  const urls = [busy, `${busy}/7200`, `${busy}/200`, 'http://nowhere.test/', 'nonsense'];
  await images.processRemote({ ...listing, urls });
  const rows = await db
    .selectFrom('listing_images')
    .select(['error', 'retry_at'])
    .where('listing_id', '=', listing.listingId)
    .orderBy('position')
    .execute();
  const hours = rows.map(
    ({ retry_at: at }) => at && Math.round((10 * (at.getTime() - Date.now())) / 3_600_000) / 10,
  );
  assert.deepEqual(hours, [20, 2, 0.8, 20, null]);
  assert.match(rows[3]?.error ?? '', /host of the address was not found/);
});
