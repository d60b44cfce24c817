import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import sharp from 'sharp';
import { inspectImage } from '../../src/images/decode.ts';
import { decodeInTurn } from '../../src/images/decoding.ts';
import { createThumbnails as create } from '../../src/images/thumbnails.ts';
import { picture } from './pictures.ts';

const bytes = await picture('png', { width: 800, height: 400 });

/** A store that gives nothing until it is opened, and remembers what was asked of it. */
function closedStore() {
  const { promise: opened, resolve: open } = Promise.withResolvers<void>();
  const asked: string[] = [];
  let reading = 0;
  let mostReading = 0;
  let isFull = false;
  const copies = new Map<string, Buffer>();
  const removed = new Set<string>();
  const store = {
    has: async (sha256: string) => !removed.has(sha256),
    async read(sha256: string) {
      asked.push(sha256);
      reading += 1;
      mostReading = Math.max(mostReading, reading);
      await opened;
      // What others would begin beside this one they begin now.
      await setImmediate();
      reading -= 1;
      if (sha256 === 'bad') throw new Error('gone');
      return bytes;
    },
    readThumbnail: async (sha256: string, side: number) => copies.get(`${sha256}-${side}`),
    async putThumbnail(sha256: string, side: number, copy: Uint8Array) {
      if (isFull) throw new Error('no room');
      copies.set(`${sha256}-${side}`, Buffer.from(copy));
    },
    removeThumbnail: async (sha256: string, side: number) =>
      void copies.delete(`${sha256}-${side}`),
    remove: (sha256: string) => void removed.add(sha256),
    forget: () => copies.clear(),
    fill: () => (isFull = true),
  };
  return { store, asked, open, mostReading: () => mostReading };
}

const createThumbnails = (store: Parameters<typeof create>[0], errors: unknown[] = []) =>
  create(store, (error) => errors.push(error));

test('two are made at once; what waits has not been read', async () => {
  const { store, asked, open, mostReading } = closedStore();
  const thumbnails = createThumbnails(store);
  const made = Array.from({ length: 10 }, (_, index) => thumbnails.make(`${index}`, 320));
  await setImmediate();
  assert.deepEqual(asked, ['0', '1']);
  open();
  for (const copy of await Promise.all(made)) {
    assert.equal((await sharp(copy).metadata()).width, 320);
  }
  assert.equal(asked.length, 10);
  assert.equal(mostReading(), 2);
});

test('whatever unpacks pictures in this process shares its two turns', async () => {
  const { store, asked, open } = closedStore();
  const made = [0, 1, 2].map((index) => createThumbnails(store).make(`${index}`, 320));
  await setImmediate();
  const inspected = assert.rejects(inspectImage('/nowhere'), { code: 'ENOENT' });
  const { activeCount, pendingCount } = decodeInTurn;
  // Whatever is wrong, the turns must not be held for the tests after this one.
  open();
  await Promise.all([inspected, ...made]);
  assert.deepEqual([activeCount, pendingCount], [2, 2]);
  assert.equal(asked.length, 3, 'of three instances');
});

test('equal copies are made once for all who want them, then and later', async () => {
  const { store, asked, open } = closedStore();
  const thumbnails = createThumbnails(store);
  const made = Array.from({ length: 30 }, () => thumbnails.makeSoon('a', 320));
  const other = thumbnails.makeSoon('a', 640);
  open();
  const copies = await Promise.all(made);
  assert.equal(new Set(copies).size, 1);
  assert.equal((await sharp(await other).metadata()).width, 640);
  assert.equal(asked.length, 2);
  assert.deepEqual(await thumbnails.make('a', 320), copies[0]);
  assert.equal(asked.length, 2);
  store.forget();
  await thumbnails.make('a', 320);
  assert.equal(asked.length, 3);
});

test('a copy that cannot be stored is used all the same, and made anew', async () => {
  const { store, asked, open } = closedStore();
  const errors: unknown[] = [];
  const thumbnails = createThumbnails(store, errors);
  open();
  store.fill();
  for (const times of [1, 2]) {
    assert.equal((await sharp(await thumbnails.make('a', 320)).metadata()).width, 320);
    assert.deepEqual([asked.length, errors.length], [times, times]);
  }
});

test('a copy of a picture that was removed while it was made is given, and not kept', async () => {
  const { store, open } = closedStore();
  const made = createThumbnails(store).make('a', 320);
  store.remove('a');
  open();
  assert.equal((await sharp(await made).metadata()).width, 320);
  assert.equal(await store.readThumbnail('a', 320), undefined);
});

test('while many wait, a copy that is stored is given at once', async () => {
  const { store, open } = closedStore();
  const thumbnails = createThumbnails(store);
  await store.putThumbnail('known', 320, bytes);
  const made = Array.from({ length: 32 }, (_, index) => thumbnails.makeSoon(`${index}`, 320));
  assert.deepEqual(await thumbnails.makeSoon('known', 320), bytes);
  await assert.rejects(thumbnails.makeSoon('unknown', 320), { code: 'unavailable' });
  open();
  await Promise.all(made);
});

test('behind 32 others a request is refused, unless its copy is on its way; a job waits', async () => {
  const { store, open } = closedStore();
  const thumbnails = createThumbnails(store);
  const made = Array.from({ length: 32 }, (_, index) => thumbnails.makeSoon(`${index}`, 320));
  await assert.rejects(thumbnails.makeSoon('one more', 320), {
    code: 'unavailable',
    status: 503,
    headers: { 'retry-after': '2' },
  });
  const [same, job] = [thumbnails.makeSoon('31', 320), thumbnails.make('a job', 320)];
  open();
  await Promise.all([...made, same, job]);
  await thumbnails.makeSoon('one more', 320);
});

test('a request neither waits behind jobs nor is refused for them', async () => {
  const { store, asked, open } = closedStore();
  const thumbnails = createThumbnails(store);
  const jobs = Array.from({ length: 100 }, (_, index) => thumbnails.make(`job ${index}`, 1024));
  const soon = [320, 1024].map((side) => thumbnails.makeSoon('job 99', side));
  await setImmediate();
  assert.deepEqual(asked, ['job 0', 'job 1', 'job 99']);
  open();
  const [small] = await Promise.all([...soon, ...jobs]);
  assert.equal((await sharp(small).metadata()).width, 320);
});

test('one that fails gives its turn to the next', async () => {
  const { store, open } = closedStore();
  const thumbnails = createThumbnails(store);
  const bad = [320, 640, 1024].map((side) => thumbnails.make('bad', side));
  const good = thumbnails.make('good', 320);
  open();
  const ends = await Promise.allSettled(bad);
  assert.deepEqual(
    ends.map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  );
  assert.equal((await sharp(await good).metadata()).width, 320);
});
