import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { suite, test } from 'node:test';
import type { Logger } from '@oselya/kit';
import { atEnd, until } from '@oselya/testing';
import { log } from '../support/pipeline.ts';
import { Registry } from 'prom-client';
import { readConfig } from '../../src/config.ts';
import { openLocalFolder } from '../../src/images/local-folder.ts';
import {
  createImageStore,
  openImageStore,
  registerStoreMetrics,
  StoreOutageError,
} from '../../src/images/store.ts';
import { createTemporaryFolder } from '../../src/images/temporary.ts';
import { startBucket } from '../support/bucket.ts';

const root = await mkdtemp(join(tmpdir(), 'oselya-store-'));
atEnd(() => rm(root, { recursive: true }));
const source = join(root, 'source');
await writeFile(source, 'bytes');
const hash = 'ab'.repeat(32);
const key = `ab/ab/${hash}`;

suite('A folder', async () => {
  const folder = join(root, 'images');
  const temporary = join(root, 'incoming');
  await mkdir(temporary);
  const openDisk = () => openLocalFolder(folder, () => temporary);
  const { store, close } = createImageStore(openDisk(), { log });
  atEnd(close);

  const files = async () =>
    (await readdir(folder, { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));

  test('Equal bytes are one file, with thumbnails beside it', async () => {
    assert.equal(await store.has(hash), false);
    await Promise.all([store.put(hash, source), store.put(hash, source)]);
    assert.deepEqual(await files(), [join(folder, key)]);
    assert.equal(await store.has(hash), true);
    assert.equal((await store.read(hash)).toString(), 'bytes');
    const chunks = await (await store.stream(hash)).toArray();
    assert.equal(Buffer.concat(chunks).toString(), 'bytes');
    await store.putThumbnail(hash, 320, Buffer.from('small'));
    assert.equal((await store.readThumbnail(hash, 320))?.toString(), 'small');
    assert.equal(await store.readThumbnail(hash, 1024), undefined);
    assert.ok((await files()).includes(join(folder, 'thumbnails/320', key)));
  });

  test('A removal covers the thumbnails, including one that is stored meanwhile', async () => {
    const gone = 'bc'.repeat(32);
    const before = await files();
    const disk = openDisk();
    const deleteFile = disk.delete.bind(disk);
    disk.delete = async (one) => {
      await deleteFile(one);
      if (await store.has(gone)) await store.putThumbnail(gone, 320, Buffer.from('small'));
    };
    await store.put(gone, source);
    await store.putThumbnail(gone, 1024, Buffer.from('small'));
    await createImageStore(disk, { log }).store.remove(gone);
    assert.deepEqual(await files(), before);
    await store.remove(gone);
  });

  test('A failed write leaves no file', async () => {
    const before = await files();
    await assert.rejects(store.put('cd'.repeat(32), join(root, 'no such file')));
    assert.deepEqual(await files(), before);
    await writeFile(join(folder, 'ef'), 'in the way');
    await assert.rejects(store.put('ef'.repeat(32), source));
    await until('no temporary file', async () => (await readdir(temporary)).length === 0);
  });
});

suite('A bucket', async () => {
  const bucket = await startBucket();

  async function open(overrides: Record<string, string> = {}) {
    const { store, close } = await openImageStore(readConfig({ ...bucket.env, ...overrides }), {
      folder: join(root, 'unused'),
      temporary: () => assert.fail('a bucket needs no temporary files'),
      log,
    });
    atEnd(close);
    return store;
  }
  const store = await open();

  const causedBy = (name: string) =>
    function isCause(error: unknown): boolean {
      return error instanceof Error && (error.name === name || isCause(error.cause));
    };

  test('Equal bytes are one object, with thumbnails beside it, which a removal covers', async () => {
    await store.put(hash, source);
    await store.put(hash, source);
    assert.deepEqual([...bucket.objects.keys()], [key]);
    assert.deepEqual(
      bucket.requests,
      ['HEAD', 'PUT', 'HEAD'].map((method) => `${method} /images/${key}`),
    );
    assert.equal((await store.read(hash)).toString(), 'bytes');
    const chunks = await (await store.stream(hash)).toArray();
    assert.equal(Buffer.concat(chunks).toString(), 'bytes');
    assert.equal(await store.readThumbnail(hash, 320), undefined);
    await store.putThumbnail(hash, 320, Buffer.from('small'));
    assert.equal((await store.readThumbnail(hash, 320))?.toString(), 'small');
    await store.remove(hash);
    await store.remove(hash);
    assert.equal(bucket.objects.size, 0);
  });

  test('A deletion is abandoned after five seconds', async (t) => {
    await store.put(hash, source);
    bucket.state.keepsAll = true;
    const over = new AbortController();
    const timeout = t.mock.method(AbortSignal, 'timeout', () => over.signal);
    const removed = assert.rejects(store.remove(hash), causedBy('AbortError'));
    await until('the request', () => bucket.requests.at(-1)?.startsWith('DELETE'));
    over.abort();
    await removed;
    assert.deepEqual(timeout.mock.calls[0]?.arguments, [5000]);
    timeout.mock.restore();
    bucket.state.keepsAll = false;
    assert.equal(await store.has(hash), true);
  });

  test('Four images are in memory on their way to the bucket, and waiting ones are not read', async () => {
    const { promise: taking, resolve: take } = Promise.withResolvers<void>();
    bucket.state.taking = taking;
    const hashes = Array.from({ length: 12 }, (_, nth) => nth.toString(16).padStart(64, '9'));
    const paths = hashes.map((one) => join(root, one));
    for (const path of paths) await writeFile(path, 'bytes');
    const before = bucket.requests.length;
    const count = (method: string) =>
      bucket.requests.slice(before).filter((request) => request.startsWith(method)).length;
    const puts = hashes.map((one, nth) => store.put(one, paths[nth] ?? ''));
    await until('all looked up, four sent', () => count('HEAD') === 12 && count('PUT') >= 4);
    // An image that is stored now was in memory by now.
    for (const path of paths) await rm(path);
    take();
    bucket.state.taking = Promise.resolve();
    const ends = await Promise.allSettled(puts);
    assert.equal(ends.filter(({ status }) => status === 'fulfilled').length, 4);
  });

  test('A throttled request is sent three times', async () => {
    const other = 'cd'.repeat(32);
    bucket.state.slowDowns = 2;
    await store.put(other, source);
    bucket.state.slowDowns = Infinity;
    await assert.rejects(store.read(other), causedBy('SlowDown'));
    const reads = bucket.requests.filter((one) => one === `GET /images/cd/cd/${other}`);
    assert.equal(reads.length, 3);
    bucket.state.slowDowns = 0;
  });

  test('A missing object is no outage; a denied key and an unreachable server are', async () => {
    const missing = store.read('00'.repeat(32));
    await assert.rejects(missing, (error) => !(error instanceof StoreOutageError));
    await assert.rejects(missing, causedBy('NoSuchKey'));
    for (const [name, value] of [
      ['S3_ACCESS_KEY_ID', 'another-key'],
      ['S3_ENDPOINT', 'http://127.0.0.1:9'],
    ] as const) {
      await assert.rejects((await open({ [name]: value })).has(hash), StoreOutageError);
    }
  });
});

suite('An outage of the store', () => {
  const coded = (code: string) => Object.assign(new Error(code), { code });

  /** Opens a store whose writes or requests fail at the will of the test. */
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
    const disk = {
      put: write,
      copyFromFs: write,
      exists: () => read().then(() => false),
      getBytes: () => read().then(() => new Uint8Array()),
    } as unknown as Parameters<typeof createImageStore>[0];
    const note = (_fields: unknown, line: string) => void lines.push(line);
    const logger = { warn: note, info: note } as Pick<Logger, 'warn' | 'info'>;
    const opened = createImageStore(disk, { log: logger, firstPauseMs: 1 });
    atEnd(opened.close);
    return { ...opened, inner, lines };
  }

  async function outageOf(work: Promise<unknown>): Promise<object> {
    const error = await work.catch((failure: unknown) => failure);
    assert.ok(error instanceof StoreOutageError, String(error));
    return error.outage;
  }

  for (const at of ['all', 'writing'] as const) {
    test(`All failures until the store can be used again are one outage (${at})`, async () => {
      const { store, state, inner, lines } = open();
      inner.fails = { at, error: coded('EROFS') };
      const outage = await outageOf(store.put('a', '/a'));
      assert.equal(state.isAway, true);
      if (at === 'writing') assert.equal(await store.has('a'), false, 'a read does not end it');
      const { writes } = inner;
      await until('some tries', () => inner.writes >= writes + 3);
      assert.equal(await outageOf(store.put('a', '/a')), outage);
      assert.equal(lines.length, 1);
      inner.fails = undefined;
      await until('its end', () => !state.isAway);
      assert.equal(lines.length, 2);
      inner.fails = { at, error: coded('EIO') };
      assert.notEqual(await outageOf(store.put('a', '/a')), outage);
    });
  }

  test('A missing object and a full disk are not outages', async () => {
    const { store, state, inner, lines } = open();
    const missing = Object.assign(new Error('not here'), { name: 'NoSuchKey' });
    for (const error of [coded('ENOENT'), missing, coded('ENOSPC')]) {
      inner.fails = { at: 'all', error };
      await assert.rejects(store.read('a'), (failed: Error) => failed.cause === error);
    }
    assert.deepEqual([state.isAway, lines], [false, []]);
  });

  test('The health and the metric show the outage at once', async () => {
    const { state, inner } = open();
    const never = new AbortController().signal;
    assert.equal(await state.answers(never), true);
    inner.hangs = true;
    assert.equal(await state.answers(AbortSignal.timeout(5)), false);
    const registry = new Registry();
    registerStoreMetrics(registry, { imageStore: state });
    const shown = async () =>
      /^collector_image_store_away (\d)$/m.exec(await registry.metrics())?.[1];
    assert.equal(await shown(), '0', 'nothing has failed yet');
    Object.assign(inner, { hangs: false, fails: { at: 'all', error: coded('EIO') } });
    assert.equal(await state.answers(never), false);
    assert.equal(await shown(), '1');
  });
});

suite('A temporary folder', () => {
  const parent = join(root, 'temporary');
  const open = () => createTemporaryFolder(parent);

  test('The folder exists from its first use until it is closed', async () => {
    const folder = open();
    await folder.sweep();
    await assert.rejects(readdir(parent), { code: 'ENOENT' });
    const path = folder.path();
    assert.equal(folder.path(), path);
    await writeFile(join(path, 'half an image'), 'bytes');
    await folder.close();
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

  test('A sweep removes the files of a process once it is killed', async () => {
    const child = fork(new URL('temporary-folder.child.ts', import.meta.url), [parent]);
    const [path] = (await once(child, 'message')) as [string];
    const folder = open();
    await folder.sweep();
    assert.ok((await readdir(path)).includes('half an image'));
    child.kill('SIGKILL');
    await once(child, 'exit');
    await folder.sweep();
    assert.deepEqual(await readdir(parent), []);
  });
});
