import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';
import { deferCleanup, until } from '@oselya/testing';
import sharp from 'sharp';
import { createDisk, type Disk, isDiskLow } from '../../src/free-disk-space.ts';
import { createForm, sendForm, startCollector } from '../support/collector.ts';
import { simulateFullDisk } from '../support/full-disk.ts';
import { createImage, startServer } from '../support/images.ts';
import { openDatabase, createPayload, readRawRecord, watchResources } from '../support/pipeline.ts';

const MIB = 1024 * 1024;
const database = await openDatabase();
const { db } = database;
const dataDir = await mkdtemp(join(tmpdir(), 'oselya-disk-'));
deferCleanup(() => rm(dataDir, { recursive: true, force: true }));
const env = { DATA_DIR: dataDir, SSRF_ALLOW: '127.0.0.1', COLLECTOR_INGEST_PER_MINUTE: '0' };

/** Creates a disk whose free space the test sets. */
function scriptedDisk(freeMb: number) {
  const state = { freeMb };
  const freeBytes = async () => state.freeMb * MIB;
  return { state, disk: createDisk({ folder: tmpdir(), minFreeMb: 100, freeBytes }) };
}

test('The minimum stays free beside the needed bytes, and a full disk is recognized by its error', async () => {
  const { disk } = scriptedDisk(150);
  await disk.requireFree(50 * MIB);
  await assert.rejects(disk.requireFree(50 * MIB + 1), isDiskLow);
  assert.ok((await createDisk({ folder: tmpdir(), minFreeMb: 0 }).freeBytes()) > 0);
  const full = Object.assign(new Error('write'), { code: 'ENOSPC' });
  assert.ok(isDiskLow(new Error('The image could not be stored', { cause: full })));
  assert.ok(!isDiskLow(Object.assign(new Error('write'), { code: 'EIO' })));
});

test('A collector whose disk fills and is freed loses and fails nothing', async () => {
  const { state, disk } = scriptedDisk(99);
  const looks = { count: 0 };
  const watched: Disk = {
    ...disk,
    freeBytes() {
      looks.count += 1;
      return disk.freeBytes();
    },
  };
  await using collector = await startCollector(database, env, { disk: watched });
  const bytes = await createImage('png', { colour: 'azure' });
  const host = await startServer((_request, response) => response.end(bytes));
  const records = () =>
    db.selectFrom('raw_data').select(['status', 'attempt', 'attempts']).execute();
  const send = async (count: number) => {
    for (let nth = 0; nth < count; nth += 1) {
      const payload = createPayload({ image_urls: [`${host.url}/${nth}`] });
      assert.equal((await collector.post('/api/v1/ingest', payload)).status, 202);
    }
  };
  const allCompleted = (count: number) =>
    until(`${count} completed`, async () => {
      const completed = (await records()).filter(({ status }) => status === 'completed');
      return completed.length === count;
    });

  const someLooks = () => {
    const earlier = looks.count;
    return until('some looks at the disk', () => looks.count >= earlier + 2);
  };
  /** Sends ten payloads, and checks that none is claimed. */
  const sendInVain = async () => {
    await someLooks();
    await send(10);
    await someLooks();
    const untouched = { status: 'pending', attempt: 0, attempts: 0 };
    assert.deepEqual(
      (await records()).filter(({ status }) => status !== 'completed'),
      Array.from({ length: 10 }, () => untouched),
    );
  };

  await sendInVain();
  state.freeMb = 100;
  await allCompleted(10);
  const waitUntilResourcesAreFree = await watchResources({ database, dataDir, host });
  state.freeMb = 99;
  await sendInVain();
  state.freeMb = 100;
  await allCompleted(20);
  assert.ok((await records()).every(({ attempts }) => attempts === 1));
  await waitUntilResourcesAreFree();
});

/** Creates an image of many pieces; each shade is another one. */
async function largeImage(mean: number) {
  const noise = { type: 'gaussian', mean, sigma: 40 } as const;
  const create = { width: 600, height: 600, channels: 3, background: 'white', noise } as const;
  const bytes = Uint8Array.from(await sharp({ create }).png().toBuffer());
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { name: `${mean}.png`, bytes, sha256 };
}

type LargeImage = Awaited<ReturnType<typeof largeImage>>;

const [known, uploaded, kept] = [await largeImage(70), await largeImage(90), await largeImage(110)];
/** Fetched images, by the operation that failed. */
const fetched = { writing: await largeImage(130), copying: await largeImage(150) };

suite('a real disk that is full', () => {
  let requests = 0;
  let host: Awaited<ReturnType<typeof startServer>>;
  let collector: Awaited<ReturnType<typeof startCollector>>;

  before(async () => {
    host = await startServer((request, response) => {
      requests += 1;
      response.end(request.url === '/writing' ? fetched.writing.bytes : fetched.copying.bytes);
    });
    collector = await startCollector(database, env);
    // The first request opens descriptors that stay.
    assert.equal((await sendForm(collector.url, createForm(createPayload(), [known]))).status, 200);
  });

  const recordsOf = (externalId: string) =>
    db.selectFrom('raw_data').selectAll().where('external_id', '=', externalId).execute();
  const isKnown = async ({ sha256 }: LargeImage) =>
    (await collector.get(`/api/v1/images/${sha256}`)).status === 200;

  test('A disk that fills during an upload is 503 without a file or record, and the next request works', async () => {
    const waitUntilResourcesAreFree = await watchResources({ database, dataDir });
    using disk = simulateFullDisk(dataDir);
    const payload = createPayload();
    disk.failingOperation = 'writing';
    const { status, body, headers } = await sendForm(
      collector.url,
      createForm(payload, [uploaded]),
    );
    assert.deepEqual([status, body.code, headers.get('retry-after')], [503, 'disk_low', '5']);
    assert.deepEqual(await recordsOf(payload.external_id), []);
    await waitUntilResourcesAreFree();
    disk.failingOperation = undefined;
    assert.equal((await sendForm(collector.url, createForm(payload, [uploaded]))).status, 200);
    assert.ok(await isKnown(uploaded));
    await waitUntilResourcesAreFree();
  });

  test('A disk that fills while an upload is stored fails the payload, which can be sent again', async () => {
    const waitUntilResourcesAreFree = await watchResources({ database, dataDir });
    using disk = simulateFullDisk(dataDir);
    const payload = createPayload();
    const headers = { 'idempotency-key': 'full-disk' };
    disk.failingOperation = 'copying';
    const rejected = await sendForm(collector.url, createForm(payload, [kept]), headers);
    assert.deepEqual([rejected.status, rejected.body.code], [503, 'interrupted']);
    const [record] = await recordsOf(payload.external_id);
    assert.deepEqual([record?.status, record?.error?.code], ['failed', 'interrupted']);
    assert.equal(await isKnown(kept), false);
    await waitUntilResourcesAreFree();
    disk.failingOperation = undefined;
    const answer = await sendForm(collector.url, createForm(payload, [kept]), headers);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    assert.ok(await isKnown(kept));
    await waitUntilResourcesAreFree();
  });

  test('A job whose fetched image has no room is returned, and completes when there is room', async () => {
    const waitUntilResourcesAreFree = await watchResources({ database, dataDir, host });
    using disk = simulateFullDisk(dataDir);
    for (const operation of ['writing', 'copying'] as const) {
      disk.failingOperation = operation;
      const earlier = requests;
      const payload = createPayload({ image_urls: [`${host.url}/${operation}`] });
      const { text, json } = await collector.post('/api/v1/ingest', payload);
      const rawId = json<{ raw_id: number }>().raw_id;
      await until('a second attempt', () => requests >= earlier + 2);
      const { status, error } = await readRawRecord(db, rawId);
      assert.deepEqual(
        [status === 'pending' || status === 'processing', error],
        [true, null],
        text,
      );
      assert.equal(await isKnown(fetched[operation]), false);
      disk.failingOperation = undefined;
      const ended = await until('its end', async () => {
        const record = await readRawRecord(db, rawId);
        return record.status === 'completed' && record;
      });
      assert.equal(ended.attempts, 1);
      assert.ok(await isKnown(fetched[operation]));
      await waitUntilResourcesAreFree();
    }
  });
});
