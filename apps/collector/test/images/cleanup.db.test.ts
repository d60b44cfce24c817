import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { watchedDatabase } from '../support/watched-database.ts';
import { openImages, visionModel } from './harness.ts';
import { openPictureHost, sha256 } from './picture-host.ts';
import { picture } from './pictures.ts';

const { db, url: databaseUrl, addListing, open, files, store } = await openImages();
const { put } = await openPictureHost();

afterEach(async () => {
  const stored = await db.selectFrom('images').select('sha256').execute();
  const temporary = (await files()).filter((name) => !stored.some((one) => one.sha256 === name));
  assert.deepEqual(temporary, [], 'a temporary file stayed');
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
  test('a picture that was stored long ago is not removed while it is recorded again', async () => {
    const { sha256: hash, url } = await put('/clean/again.jpg', 'jpeg', { colour: 'sienna' });
    const listing = await addListing();
    await open().images.processRemote({ ...listing, urls: [url] });
    await open().images.processRemote({ ...listing, urls: [] });
    await age();
    const cleanUps: Promise<number>[] = [];
    const watched = watchedDatabase(db, {
      async after(text) {
        if (!text.includes('insert into images')) return;
        cleanUps.push(open().images.cleanUp({ olderThanDays: 1 }));
        await cleanUps.at(-1);
      },
    });
    await open({ db: watched }).images.processRemote({ ...listing, urls: [url] });
    assert.equal(cleanUps.length, 1);
    assert.ok(await store.has(hash));
  });

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
