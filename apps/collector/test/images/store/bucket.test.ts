import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { readConfig } from '../../../src/config.ts';
import { openImageStore } from '../../../src/images/store.ts';
import { StoreOutageError } from '../../../src/images/store.ts';
import { log } from '../../support/pipeline.ts';
import { until } from '../../support/until.ts';
import { startBucket } from './scripted-bucket.ts';

const folder = await mkdtemp(join(tmpdir(), 'oselya-bucket-'));
after(() => rm(folder, { recursive: true }));
const source = join(folder, 'source');
await writeFile(source, 'bytes');
const bucket = await startBucket();
const hash = 'ab'.repeat(32);
const key = `ab/ab/${hash}`;

async function open(overrides: Record<string, string> = {}) {
  const config = readConfig({ ...bucket.env, ...overrides });
  const { store, close } = await openImageStore(config, {
    folder: join(folder, 'unused'),
    temporary: () => assert.fail('a bucket needs no temporary files'),
    log,
  });
  after(close);
  return store;
}
const store = await open();

/** What the server said lies beneath what failed. */
const causedBy = (name: string) =>
  function isCause(error: unknown): boolean {
    return error instanceof Error && (error.name === name || isCause(error.cause));
  };

test('a picture is one object under its hash, however often it is put', async () => {
  assert.equal(await store.has(hash), false);
  await store.put(hash, source);
  await store.put(hash, source);
  assert.equal(await store.has(hash), true);
  assert.deepEqual([...bucket.objects.keys()], [key]);
  assert.equal((await store.read(hash)).toString(), 'bytes');
  const chunks = await (await store.stream(hash)).toArray();
  assert.equal(Buffer.concat(chunks).toString(), 'bytes');
  assert.deepEqual(bucket.requests.slice(0, 4), [
    `HEAD /pictures/${key}`,
    `HEAD /pictures/${key}`,
    `PUT /pictures/${key}`,
    `HEAD /pictures/${key}`,
  ]);
});

test('smaller copies are objects beside', async () => {
  assert.equal(await store.readThumbnail(hash, 320), undefined);
  await store.putThumbnail(hash, 320, Buffer.from('small'));
  assert.equal((await store.readThumbnail(hash, 320))?.toString(), 'small');
  assert.equal(bucket.objects.get(`thumbnails/320/${key}`)?.toString(), 'small');
});

test('what is removed goes with its copies, and may be gone already', async () => {
  const gone = 'ef'.repeat(32);
  const before = [...bucket.objects.keys()];
  await store.put(gone, source);
  await store.putThumbnail(gone, 1024, Buffer.from('small'));
  assert.equal(bucket.objects.size, before.length + 2);
  await store.remove(gone);
  await store.remove(gone);
  assert.deepEqual([...bucket.objects.keys()], before);
});

test('an object that is not gone in five seconds stays, and nobody waits for it', async (context) => {
  const stuck = 'dd'.repeat(32);
  await store.put(stuck, source);
  bucket.state.keepsAll = true;
  const over = new AbortController();
  const timeout = context.mock.method(AbortSignal, 'timeout', () => over.signal);
  const removed = assert.rejects(store.remove(stuck), causedBy('AbortError'));
  await until('the request', () => bucket.requests.at(-1)?.startsWith('DELETE'));
  over.abort();
  await removed;
  assert.deepEqual(timeout.mock.calls[0]?.arguments, [5000]);
  timeout.mock.restore();
  bucket.state.keepsAll = false;
  assert.equal(await store.has(stuck), true);
  await store.remove(stuck);
});

test('what is stored can be listed, page after page', async () => {
  const others = ['1', '2'].map((digit) => `${'ab'.repeat(31)}a${digit}`);
  for (const other of others) await store.put(other, source);
  const pages = await Array.fromAsync(store.list('ab'));
  assert.ok(pages.length > 1);
  assert.deepEqual(
    pages.flat().map(({ sha256 }) => sha256),
    [...others, hash],
  );
  assert.deepEqual(await pages[0]?.[0]?.storedAt(), new Date('2026-01-02T03:04:05Z'));
  for (const other of others) await store.remove(other);
});

test('four are in memory on their way to the bucket; what waits has not been read', async () => {
  const { promise: taking, resolve: take } = Promise.withResolvers<void>();
  bucket.state.taking = taking;
  const hashes = Array.from({ length: 12 }, (_, nth) => nth.toString(16).padStart(64, '9'));
  const paths = hashes.map((one) => join(folder, one));
  for (const path of paths) await writeFile(path, 'bytes');
  const before = bucket.requests.length;
  const since = (method: string) =>
    bucket.requests.slice(before).filter((request) => request.startsWith(method)).length;
  const puts = hashes.map((one, nth) => store.put(one, paths[nth] ?? ''));
  await until('all looked for, four sent', () => since('HEAD') === 12 && since('PUT') >= 4);
  // Long enough for one more to be read, if it were to be.
  await sleep(200);
  assert.equal(since('PUT'), 4);
  // Whatever is stored all the same was in memory by now.
  for (const path of paths) await rm(path);
  take();
  bucket.state.taking = Promise.resolve();
  const ends = await Promise.allSettled(puts);
  const stored = hashes.filter((_, nth) => ends[nth]?.status === 'fulfilled');
  assert.equal(stored.length, 4);
  for (const end of ends) {
    if (end.status === 'rejected')
      assert.equal((end.reason as NodeJS.ErrnoException).code, 'ENOENT');
  }
  for (const one of stored) await store.remove(one);
});

test('a bucket that wants it slower is asked again, three times in all', async () => {
  const other = 'cd'.repeat(32);
  bucket.state.slowDowns = 2;
  await store.put(other, source);
  assert.equal(await store.has(other), true);
  bucket.state.slowDowns = Infinity;
  const reads = () => bucket.requests.filter((one) => one === `GET /pictures/cd/cd/${other}`);
  await assert.rejects(store.read(other), causedBy('SlowDown'));
  assert.equal(reads().length, 3);
  bucket.state.slowDowns = 0;
});

test('what is not there, not allowed or not a bucket is an error, never a missing picture', async () => {
  const missing = store.read('00'.repeat(32));
  await assert.rejects(missing, (error) => !(error instanceof StoreOutageError));
  await assert.rejects(missing, causedBy('NoSuchKey'));
  const stranger = await open({ S3_ACCESS_KEY_ID: 'somebody-else' });
  await assert.rejects(stranger.has(hash), StoreOutageError);
  await assert.rejects(stranger.put(hash, source), StoreOutageError);
  const elsewhere = await open({ S3_ENDPOINT: 'http://127.0.0.1:9' });
  await assert.rejects(elsewhere.has(hash), StoreOutageError);
});
