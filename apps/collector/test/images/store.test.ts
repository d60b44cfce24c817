import assert from 'node:assert/strict';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { suite, test } from 'node:test';
import type { Logger } from '@oselya/kit';
import { deferCleanup, openFolder, startProcess, until } from '@oselya/testing';
import { log } from '../support/pipeline.ts';
import { Registry } from 'prom-client';
import { readConfig } from '../../src/config.ts';
import {
  type ImageBackend,
  openBucket as openBucketBackend,
  openLocalFolder,
} from '../../src/images/backends.ts';
import {
  createImageStore,
  openImageStore,
  registerStoreMetrics,
  StoreOutageError,
} from '../../src/images/store.ts';
import { createTemporaryFolder } from '../../src/images/temporary.ts';
import { startBucket } from '../support/bucket.ts';

const rootFolder = await openFolder();
const sourcePath = join(rootFolder, 'source');
await writeFile(sourcePath, 'bytes');
const imageHash = 'ab'.repeat(32);
const imageKey = `ab/ab/${imageHash}`;

const folder = join(rootFolder, 'images');
const incomingFolder = join(rootFolder, 'incoming');
await mkdir(incomingFolder);
const openBackend = () => openLocalFolder(folder, () => incomingFolder);
const localStore = createImageStore(openBackend(), { log });
deferCleanup(localStore.close);
const listFiles = async () =>
  (await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));

const bucket = await startBucket();
async function openBucket(overrides: Record<string, string> = {}) {
  const { store, close } = await openImageStore(readConfig({ ...bucket.env, ...overrides }), {
    folder: join(rootFolder, 'unused'),
    getTemporaryFolder: () => assert.fail('a bucket needs no temporary files'),
    log,
  });
  deferCleanup(close);
  return store;
}
const bucketStore = await openBucket();

for (const [name, store, listKeys] of [
  ['folder', localStore.store, listFiles],
  ['bucket', bucketStore, async () => [...bucket.objects.keys()]],
] as const) {
  test(`Equal bytes are one file of a ${name}, with thumbnails beside it, which a removal covers`, async () => {
    assert.equal(await store.has(imageHash), false);
    await Promise.all([store.put(imageHash, sourcePath), store.put(imageHash, sourcePath)]);
    await store.put(imageHash, sourcePath);
    assert.deepEqual(await listKeys(), [imageKey]);
    assert.equal((await store.read(imageHash)).toString(), 'bytes');
    const chunks = await (await store.openStream(imageHash)).toArray();
    assert.equal(Buffer.concat(chunks).toString(), 'bytes');
    await store.putThumbnail(imageHash, 320, Buffer.from('small'));
    assert.equal((await store.readThumbnail(imageHash, 320))?.toString(), 'small');
    assert.equal(await store.readThumbnail(imageHash, 1024), undefined);
    assert.ok((await listKeys()).includes(`thumbnails/320/${imageKey}`));
    await store.remove(imageHash);
    await store.remove(imageHash);
    assert.deepEqual(await listKeys(), []);
  });
}

test('A removal covers the thumbnails, including one that is stored during the removal', async () => {
  const putThumbnail = () => localStore.store.putThumbnail(imageHash, 320, Buffer.from('small'));
  const backend = openBackend();
  const remove = (key: string) => backend.remove(key).then(putThumbnail);
  await localStore.store.put(imageHash, sourcePath);
  await putThumbnail();
  await createImageStore({ ...backend, remove }, { log }).store.remove(imageHash);
  assert.deepEqual(await listFiles(), []);
});

test('A failed write leaves no file', async () => {
  await assert.rejects(localStore.store.put('cd'.repeat(32), join(rootFolder, 'no such file')));
  await writeFile(join(folder, 'ef'), 'in the way');
  await assert.rejects(localStore.store.put('ef'.repeat(32), sourcePath));
  assert.deepEqual(await listFiles(), ['ef']);
  await until('no temporary file', async () => (await readdir(incomingFolder)).length === 0);
});

const hasCauseNamed = (name: string) =>
  function isCause(error: unknown): boolean {
    return error instanceof Error && (error.name === name || isCause(error.cause));
  };

test('A deletion from a bucket is abandoned after five seconds', async (t) => {
  await bucketStore.put(imageHash, sourcePath);
  bucket.state.ignoredMethod = 'DELETE';
  const timeoutController = new AbortController();
  const timeout = t.mock.method(AbortSignal, 'timeout', () => timeoutController.signal);
  const removal = assert.rejects(bucketStore.remove(imageHash), hasCauseNamed('AbortError'));
  await until('the request', () => bucket.requests.at(-1)?.startsWith('DELETE'));
  timeoutController.abort();
  await removal;
  assert.deepEqual(timeout.mock.calls[0]?.arguments, [5000]);
  timeout.mock.restore();
  bucket.state.ignoredMethod = undefined;
  assert.equal(await bucketStore.has(imageHash), true);
});

test('At most four images are in memory during uploads to a bucket, and waiting images are not read', async () => {
  const { promise: uploadsAllowed, resolve: allowUploads } = Promise.withResolvers<void>();
  bucket.state.uploadsAllowed = uploadsAllowed;
  const hashes = Array.from({ length: 12 }, (_, index) => index.toString(16).padStart(64, '9'));
  const paths = hashes.map((uploadHash) => join(rootFolder, uploadHash));
  for (const path of paths) await writeFile(path, 'bytes');
  const countBefore = bucket.requests.length;
  const countRequests = (method: string) =>
    bucket.requests.slice(countBefore).filter((request) => request.startsWith(method)).length;
  const uploads = hashes.map((uploadHash, index) =>
    bucketStore.put(uploadHash, paths[index] ?? ''),
  );
  await until(
    'all looked up, four sent',
    () => countRequests('HEAD') === 12 && countRequests('PUT') >= 4,
  );
  // Without the files, only images in memory can still be stored.
  for (const path of paths) await rm(path);
  allowUploads();
  bucket.state.uploadsAllowed = Promise.resolve();
  const results = await Promise.allSettled(uploads);
  assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 4);
});

test('A throttled request is sent three times', async () => {
  const otherHash = 'cd'.repeat(32);
  bucket.state.slowDownCount = 2;
  await bucketStore.put(otherHash, sourcePath);
  bucket.state.slowDownCount = Infinity;
  await assert.rejects(bucketStore.read(otherHash), hasCauseNamed('SlowDown'));
  const readRequest = `GET /images/cd/cd/${otherHash}`;
  assert.equal(bucket.requests.filter((request) => request === readRequest).length, 3);
  bucket.state.slowDownCount = 0;
});

test('A request to a silent bucket is abandoned and sent three times', async () => {
  const { env, requests, state } = await startBucket();
  const backend = await openBucketBackend(readConfig(env), { idleTimeoutMs: 20 });
  deferCleanup(() => backend.close());
  state.ignoredMethod = 'GET';
  await assert.rejects(backend.read(imageKey), { name: 'TimeoutError' });
  const request = `GET /images/${imageKey}`;
  assert.deepEqual(requests, [request, request, request]);
});

test('A denied key and an unreachable server are outages; a missing object is not', async () => {
  const missingRead = bucketStore.read('00'.repeat(32));
  await assert.rejects(missingRead, (error) => !(error instanceof StoreOutageError));
  await assert.rejects(missingRead, hasCauseNamed('NoSuchKey'));
  for (const [name, value] of [
    ['S3_ACCESS_KEY_ID', 'another-key'],
    ['S3_ENDPOINT', 'http://127.0.0.1:9'],
  ] as const) {
    await assert.rejects((await openBucket({ [name]: value })).has(imageHash), StoreOutageError);
  }
});

suite('An outage of the store', () => {
  const createError = (code: string) => Object.assign(new Error(code), { code });

  /** Opens a store whose writes, or all its requests, fail while `backendState.failure` is set. */
  function openFlakyStore() {
    const backendState = {
      failure: undefined as { at: 'writing' | 'all'; error: Error } | undefined,
      isHanging: false,
      writeCount: 0,
    };
    const logLines: string[] = [];
    const throwFailure = () => {
      const cause = backendState.failure?.error;
      if (cause !== undefined) throw new Error('wrapped', { cause });
    };
    const read = async () => {
      if (backendState.isHanging) await new Promise(() => undefined);
      if (backendState.failure?.at === 'all') throwFailure();
    };
    const write = async () => {
      backendState.writeCount += 1;
      throwFailure();
    };
    const backend: ImageBackend = {
      put: write,
      putFile: write,
      exists: () => read().then(() => false),
      read: () => read().then(() => Buffer.alloc(0)),
      openStream: () => assert.fail(),
      remove: () => assert.fail(),
      close: () => undefined,
    };
    const recordLine = (_fields: unknown, line: string) => void logLines.push(line);
    const logger = { warn: recordLine, info: recordLine } as Pick<Logger, 'warn' | 'info'>;
    const flakyStore = createImageStore(backend, { log: logger, minPauseMs: 1 });
    deferCleanup(flakyStore.close);
    return { ...flakyStore, backendState, logLines };
  }

  async function catchOutage(work: Promise<unknown>): Promise<object> {
    const error = await work.catch((failure: unknown) => failure);
    assert.ok(error instanceof StoreOutageError, String(error));
    return error.outage;
  }

  for (const at of ['all', 'writing'] as const) {
    test(`All failures until the store can be used again are one outage (${at})`, async () => {
      const { store, state, backendState, logLines } = openFlakyStore();
      backendState.failure = { at, error: createError('EROFS') };
      const outage = await catchOutage(store.put('a', '/a'));
      assert.equal(state.isUnavailable, true);
      if (at === 'writing') assert.equal(await store.has('a'), false, 'a read does not end it');
      const { writeCount } = backendState;
      await until('some probes', () => backendState.writeCount >= writeCount + 3);
      assert.equal(await catchOutage(store.put('a', '/a')), outage);
      assert.equal(logLines.length, 1);
      backendState.failure = undefined;
      await until('its end', () => !state.isUnavailable);
      assert.equal(logLines.length, 2);
      backendState.failure = { at, error: createError('EIO') };
      assert.notEqual(await catchOutage(store.put('a', '/a')), outage);
    });
  }

  test('A missing object and a full disk are not outages', async () => {
    const { store, state, backendState, logLines } = openFlakyStore();
    const notFoundError = Object.assign(new Error('not here'), { name: 'NoSuchKey' });
    for (const error of [createError('ENOENT'), notFoundError, createError('ENOSPC')]) {
      backendState.failure = { at: 'all', error };
      await assert.rejects(store.read('a'), ({ cause }: Error) => cause === error);
    }
    assert.deepEqual([state.isUnavailable, logLines], [false, []]);
  });

  test('The health and the metric show the outage immediately', async () => {
    const { state, backendState } = openFlakyStore();
    const idleSignal = new AbortController().signal;
    assert.equal(await state.isReachable(idleSignal), true);
    backendState.isHanging = true;
    assert.equal(await state.isReachable(AbortSignal.timeout(5)), false);
    const registry = new Registry();
    registerStoreMetrics(registry, { imageStore: state });
    const readGauge = async () =>
      /^collector_image_store_away (\d)$/m.exec(await registry.metrics())?.[1];
    assert.equal(await readGauge(), '0', 'nothing has failed yet');
    backendState.isHanging = false;
    backendState.failure = { at: 'all', error: createError('EIO') };
    assert.equal(await state.isReachable(idleSignal), false);
    assert.equal(await readGauge(), '1');
  });
});

suite('A temporary folder', () => {
  const parent = join(rootFolder, 'temporary');
  const openTemporaryFolder = () => createTemporaryFolder(parent);

  test('The folder exists from its first use until it is closed', async () => {
    const temporaryFolder = openTemporaryFolder();
    await temporaryFolder.sweep();
    await assert.rejects(readdir(parent), { code: 'ENOENT' });
    const path = temporaryFolder.path();
    assert.equal(temporaryFolder.path(), path);
    await writeFile(join(path, 'half an image'), 'bytes');
    await temporaryFolder.close();
    assert.deepEqual(await readdir(parent), []);
  });

  test('A new folder that another process has locked is replaced by one with a different name', async (t) => {
    const lockError = Object.assign(new Error('database is locked'), { errcode: 5 });
    const exec = t.mock.method(DatabaseSync.prototype, 'exec');
    exec.mock.mockImplementationOnce(() => {
      throw lockError;
    });
    const temporaryFolder = openTemporaryFolder();
    await writeFile(join(temporaryFolder.path(), 'half an image'), 'bytes');
    assert.equal((await readdir(parent)).length, 2);
    await temporaryFolder.sweep();
    await temporaryFolder.close();
    assert.deepEqual(await readdir(parent), []);
  });

  test('A sweep removes everything but folders in use', async () => {
    const [sweepingFolder, usedFolder] = [openTemporaryFolder(), openTemporaryFolder()];
    const [abandonedPath, usedPath] = [join(parent, 'abandoned'), usedFolder.path()];
    await mkdir(abandonedPath);
    for (const path of [join(abandonedPath, 'a'), join(usedPath, 'a'), join(parent, 'a file')]) {
      await writeFile(path, 'bytes');
    }
    await Promise.all([sweepingFolder.sweep(), openTemporaryFolder().sweep()]);
    assert.deepEqual(await readdir(parent), [basename(usedPath)]);
    assert.ok((await readdir(usedPath)).includes('a'));
    await usedFolder.close();
  });

  test('A sweep removes the files of a process after it is killed', async () => {
    const script = join(import.meta.dirname, 'temporary-folder.child.ts');
    const { waitForMessage, kill } = startProcess([script, parent]);
    const path = String(await waitForMessage());
    const temporaryFolder = openTemporaryFolder();
    await temporaryFolder.sweep();
    assert.ok((await readdir(path)).includes('half an image'));
    await kill();
    await temporaryFolder.sweep();
    assert.deepEqual(await readdir(parent), []);
  });
});
