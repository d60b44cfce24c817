import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { suite, test } from 'node:test';
import type { Logger } from '@oselya/kit';
import { deferCleanup, until } from '@oselya/testing';
import { log } from '../support/pipeline.ts';
import { Registry } from 'prom-client';
import { readConfig } from '../../src/config.ts';
import { type ImageDisk, openLocalFolder } from '../../src/images/disks.ts';
import {
  createImageStore,
  openImageStore,
  registerStoreMetrics,
  StoreOutageError,
} from '../../src/images/store.ts';
import { createTemporaryFolder } from '../../src/images/temporary.ts';
import { startBucket } from '../support/bucket.ts';

const root = await mkdtemp(join(tmpdir(), 'oselya-store-'));
deferCleanup(() => rm(root, { recursive: true }));
const source = join(root, 'source');
await writeFile(source, 'bytes');
const hash = 'ab'.repeat(32);
const key = `ab/ab/${hash}`;

const folder = join(root, 'images');
const incoming = join(root, 'incoming');
await mkdir(incoming);
const openDisk = () => openLocalFolder(folder, () => incoming);
const local = createImageStore(openDisk(), { log });
deferCleanup(local.close);
const files = async () =>
  (await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));

const bucket = await startBucket();
async function openBucket(overrides: Record<string, string> = {}) {
  const { store, close } = await openImageStore(readConfig({ ...bucket.env, ...overrides }), {
    folder: join(root, 'unused'),
    temporary: () => assert.fail('a bucket needs no temporary files'),
    log,
  });
  deferCleanup(close);
  return store;
}
const remote = await openBucket();

for (const [name, store, list] of [
  ['folder', local.store, files],
  ['bucket', remote, async () => [...bucket.objects.keys()]],
] as const) {
  test(`Equal bytes are one file of a ${name}, with thumbnails beside it, which a removal covers`, async () => {
    assert.equal(await store.has(hash), false);
    await Promise.all([store.put(hash, source), store.put(hash, source)]);
    await store.put(hash, source);
    assert.deepEqual(await list(), [key]);
    assert.equal((await store.read(hash)).toString(), 'bytes');
    const chunks = await (await store.openStream(hash)).toArray();
    assert.equal(Buffer.concat(chunks).toString(), 'bytes');
    await store.putThumbnail(hash, 320, Buffer.from('small'));
    assert.equal((await store.readThumbnail(hash, 320))?.toString(), 'small');
    assert.equal(await store.readThumbnail(hash, 1024), undefined);
    assert.ok((await list()).includes(`thumbnails/320/${key}`));
    await store.remove(hash);
    await store.remove(hash);
    assert.deepEqual(await list(), []);
  });
}

test('A failed write leaves no file', async () => {
  await assert.rejects(local.store.put('cd'.repeat(32), join(root, 'no such file')));
  await writeFile(join(folder, 'ef'), 'in the way');
  await assert.rejects(local.store.put('ef'.repeat(32), source));
  assert.deepEqual(await files(), ['ef']);
  await until('no temporary file', async () => (await readdir(incoming)).length === 0);
});

const isCausedBy = (name: string) =>
  function isCause(error: unknown): boolean {
    return error instanceof Error && (error.name === name || isCause(error.cause));
  };

test('A deletion from a bucket is abandoned after five seconds', async (t) => {
  await remote.put(hash, source);
  bucket.state.keepsAll = true;
  const over = new AbortController();
  const timeout = t.mock.method(AbortSignal, 'timeout', () => over.signal);
  const removed = assert.rejects(remote.remove(hash), isCausedBy('AbortError'));
  await until('the request', () => bucket.requests.at(-1)?.startsWith('DELETE'));
  over.abort();
  await removed;
  assert.deepEqual(timeout.mock.calls[0]?.arguments, [5000]);
  timeout.mock.restore();
  bucket.state.keepsAll = false;
  assert.equal(await remote.has(hash), true);
});

test('At most four images are in memory during uploads to a bucket, and waiting images are not read', async () => {
  const { promise: taking, resolve: take } = Promise.withResolvers<void>();
  bucket.state.taking = taking;
  const hashes = Array.from({ length: 12 }, (_, index) => index.toString(16).padStart(64, '9'));
  const paths = hashes.map((imageHash) => join(root, imageHash));
  for (const path of paths) await writeFile(path, 'bytes');
  const before = bucket.requests.length;
  const count = (method: string) =>
    bucket.requests.slice(before).filter((request) => request.startsWith(method)).length;
  const puts = hashes.map((imageHash, index) => remote.put(imageHash, paths[index] ?? ''));
  await until('all looked up, four sent', () => count('HEAD') === 12 && count('PUT') >= 4);
  // Without the files, only images in memory can still be stored.
  for (const path of paths) await rm(path);
  take();
  bucket.state.taking = Promise.resolve();
  const ends = await Promise.allSettled(puts);
  assert.equal(ends.filter(({ status }) => status === 'fulfilled').length, 4);
});

test('A throttled request is sent three times', async () => {
  const other = 'cd'.repeat(32);
  bucket.state.slowDowns = 2;
  await remote.put(other, source);
  bucket.state.slowDowns = Infinity;
  await assert.rejects(remote.read(other), isCausedBy('SlowDown'));
  const reads = bucket.requests.filter((request) => request === `GET /images/cd/cd/${other}`);
  assert.equal(reads.length, 3);
  bucket.state.slowDowns = 0;
});

test('A missing object is no outage; a denied key and an unreachable server are', async () => {
  const missing = remote.read('00'.repeat(32));
  await assert.rejects(missing, (error) => !(error instanceof StoreOutageError));
  await assert.rejects(missing, isCausedBy('NoSuchKey'));
  for (const [name, value] of [
    ['S3_ACCESS_KEY_ID', 'another-key'],
    ['S3_ENDPOINT', 'http://127.0.0.1:9'],
  ] as const) {
    await assert.rejects((await openBucket({ [name]: value })).has(hash), StoreOutageError);
  }
});

suite('An outage of the store', () => {
  const createError = (code: string) => Object.assign(new Error(code), { code });

  /** Opens a store whose writes or requests fail while `inner.fails` is set. */
  function open() {
    const inner = {
      fails: undefined as { at: 'writing' | 'all'; error: Error } | undefined,
      hangs: false,
      writes: 0,
    };
    const lines: string[] = [];
    const read = async () => {
      if (inner.hangs) await new Promise(() => undefined);
      if (inner.fails?.at === 'all') throw new Error('wrapped', { cause: inner.fails.error });
    };
    const write = async () => {
      inner.writes += 1;
      if (inner.fails !== undefined) throw new Error('wrapped', { cause: inner.fails.error });
    };
    const disk: ImageDisk = {
      put: write,
      putFile: write,
      exists: () => read().then(() => false),
      read: () => read().then(() => Buffer.alloc(0)),
      openStream: () => assert.fail(),
      remove: () => assert.fail(),
      close: () => undefined,
    };
    const note = (_fields: unknown, line: string) => void lines.push(line);
    const logger = { warn: note, info: note } as Pick<Logger, 'warn' | 'info'>;
    const opened = createImageStore(disk, { log: logger, minPauseMs: 1 });
    deferCleanup(opened.close);
    return { ...opened, inner, lines };
  }

  async function catchOutage(work: Promise<unknown>): Promise<object> {
    const error = await work.catch((failure: unknown) => failure);
    assert.ok(error instanceof StoreOutageError, String(error));
    return error.outage;
  }

  for (const at of ['all', 'writing'] as const) {
    test(`All failures until the store can be used again are one outage (${at})`, async () => {
      const { store, state, inner, lines } = open();
      inner.fails = { at, error: createError('EROFS') };
      const outage = await catchOutage(store.put('a', '/a'));
      assert.equal(state.isUnavailable, true);
      if (at === 'writing') assert.equal(await store.has('a'), false, 'a read does not end it');
      const { writes } = inner;
      await until('some probes', () => inner.writes >= writes + 3);
      assert.equal(await catchOutage(store.put('a', '/a')), outage);
      assert.equal(lines.length, 1);
      inner.fails = undefined;
      await until('its end', () => !state.isUnavailable);
      assert.equal(lines.length, 2);
      inner.fails = { at, error: createError('EIO') };
      assert.notEqual(await catchOutage(store.put('a', '/a')), outage);
    });
  }

  test('A missing object and a full disk are not outages', async () => {
    const { store, state, inner, lines } = open();
    const missing = Object.assign(new Error('not here'), { name: 'NoSuchKey' });
    for (const error of [createError('ENOENT'), missing, createError('ENOSPC')]) {
      inner.fails = { at: 'all', error };
      await assert.rejects(store.read('a'), (failed: Error) => failed.cause === error);
    }
    assert.deepEqual([state.isUnavailable, lines], [false, []]);
  });

  test('The health and the metric show the outage immediately', async () => {
    const { state, inner } = open();
    const never = new AbortController().signal;
    assert.equal(await state.isReachable(never), true);
    inner.hangs = true;
    assert.equal(await state.isReachable(AbortSignal.timeout(5)), false);
    const registry = new Registry();
    registerStoreMetrics(registry, { imageStore: state });
    const shown = async () =>
      /^collector_image_store_away (\d)$/m.exec(await registry.metrics())?.[1];
    assert.equal(await shown(), '0', 'nothing has failed yet');
    Object.assign(inner, { hangs: false, fails: { at: 'all', error: createError('EIO') } });
    assert.equal(await state.isReachable(never), false);
    assert.equal(await shown(), '1');
  });
});

suite('A temporary folder', () => {
  const parent = join(root, 'temporary');
  const open = () => createTemporaryFolder(parent);

  test('The folder exists from its first use until it is closed', async () => {
    const own = open();
    await own.sweep();
    await assert.rejects(readdir(parent), { code: 'ENOENT' });
    const path = own.path();
    assert.equal(own.path(), path);
    await writeFile(join(path, 'half an image'), 'bytes');
    await own.close();
    assert.deepEqual(await readdir(parent), []);
  });

  test('A sweep removes everything but folders in use', async () => {
    const [one, other] = [open(), open()];
    const [left, used] = [join(parent, 'left'), other.path()];
    await mkdir(left);
    for (const path of [join(left, 'a'), join(used, 'a'), join(parent, 'a file')]) {
      await writeFile(path, 'bytes');
    }
    await Promise.all([one.sweep(), open().sweep()]);
    assert.deepEqual(await readdir(parent), [basename(used)]);
    assert.ok((await readdir(used)).includes('a'));
    await other.close();
  });

  test('A sweep removes the files of a process after it is killed', async () => {
    const child = fork(new URL('temporary-folder.child.ts', import.meta.url), [parent]);
    const [path] = (await once(child, 'message')) as [string];
    const own = open();
    await own.sweep();
    assert.ok((await readdir(path)).includes('half an image'));
    child.kill('SIGKILL');
    await once(child, 'exit');
    await own.sweep();
    assert.deepEqual(await readdir(parent), []);
  });
});
