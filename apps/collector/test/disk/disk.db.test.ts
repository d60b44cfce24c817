import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { tmpdir } from 'node:os';
import { before, suite, test } from 'node:test';
import { openFolder, until } from '@oselya/testing';
import sharp from 'sharp';
import { createDisk, type Disk, isDiskLow } from '../../src/free-disk-space.ts';
import { MEBIBYTE } from '../../src/schemas.ts';
import { createForm, sendForm, startCollector } from '../support/collector.ts';
import { simulateFullDisk } from '../support/full-disk.ts';
import { createImage, startServer } from '../support/images.ts';
import {
  openDatabase,
  createPayload,
  readRawRecord,
  waitUntilCompleted,
  createResourceLeakCheck,
} from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const dataDir = await openFolder();
const env = { DATA_DIR: dataDir, SSRF_ALLOW: '127.0.0.1', COLLECTOR_INGEST_PER_MINUTE: '0' };

/** Creates a disk whose free space the test sets. */
function createScriptedDisk(freeMb: number) {
  const state = { freeMb };
  const readFreeBytes = async () => state.freeMb * MEBIBYTE;
  return { state, disk: createDisk({ folder: tmpdir(), minFreeMb: 100, readFreeBytes }) };
}

test('The minimum stays free beside the needed bytes, and a full disk is recognized by its error', async () => {
  const { disk } = createScriptedDisk(150);
  await disk.requireFree(50 * MEBIBYTE);
  await assert.rejects(disk.requireFree(50 * MEBIBYTE + 1), isDiskLow);
  assert.ok((await createDisk({ folder: tmpdir(), minFreeMb: 0 }).readFreeBytes()) > 0);
  const fullDiskError = Object.assign(new Error('write'), { code: 'ENOSPC' });
  assert.ok(isDiskLow(new Error('The image could not be stored', { cause: fullDiskError })));
  assert.ok(!isDiskLow(Object.assign(new Error('write'), { code: 'EIO' })));
});

test('A collector whose disk fills and is freed loses and fails nothing', async () => {
  const { state, disk } = createScriptedDisk(99);
  let readCount = 0;
  const watchedDisk: Disk = {
    ...disk,
    readFreeBytes() {
      readCount += 1;
      return disk.readFreeBytes();
    },
  };
  await using collector = await startCollector(database, env, { disk: watchedDisk });
  const bytes = await createImage('png', { colour: 'azure' });
  const imageHost = await startServer((_request, response) => response.end(bytes));
  const readRecords = () =>
    db.selectFrom('raw_data').select(['status', 'attempt', 'attempts']).execute();
  const sendPayloads = async (count: number) => {
    for (let index = 0; index < count; index += 1) {
      const payload = createPayload({ image_urls: [`${imageHost.url}/${index}`] });
      assert.equal((await collector.post('/api/v1/ingest', payload)).status, 202);
    }
  };
  const waitUntilCountCompleted = (count: number) =>
    until(`${count} completed`, async () => {
      const completedRecords = (await readRecords()).filter(({ status }) => status === 'completed');
      return completedRecords.length === count;
    });

  const waitForDiskReads = () => {
    const countBefore = readCount;
    return until('two reads of the free space', () => readCount >= countBefore + 2);
  };
  /** Sends ten payloads, and checks that no payload is claimed. */
  const sendUnclaimedPayloads = async () => {
    await waitForDiskReads();
    await sendPayloads(10);
    await waitForDiskReads();
    const unclaimedRecord = { status: 'pending', attempt: 0, attempts: 0 };
    assert.deepEqual(
      (await readRecords()).filter(({ status }) => status !== 'completed'),
      Array.from({ length: 10 }, () => unclaimedRecord),
    );
  };

  await sendUnclaimedPayloads();
  state.freeMb = 100;
  await waitUntilCountCompleted(10);
  const checkLeaks = await createResourceLeakCheck({ database, dataDir, host: imageHost });
  state.freeMb = 99;
  await sendUnclaimedPayloads();
  state.freeMb = 100;
  await waitUntilCountCompleted(20);
  assert.ok((await readRecords()).every(({ attempts }) => attempts === 1));
  await checkLeaks();
});

/** Creates a noise image that is too large for one chunk. Each mean brightness gives different bytes. */
async function createLargeImage(mean: number) {
  const noise = { type: 'gaussian', mean, sigma: 40 } as const;
  const imageOptions = {
    width: 600,
    height: 600,
    channels: 3,
    background: 'white',
    noise,
  } as const;
  const bytes = Uint8Array.from(await sharp({ create: imageOptions }).png().toBuffer());
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { name: `${mean}.png`, bytes, sha256 };
}

type LargeImage = Awaited<ReturnType<typeof createLargeImage>>;

const [firstImage, uploadedImage, storedImage] = [
  await createLargeImage(70),
  await createLargeImage(90),
  await createLargeImage(110),
];
/** Remote images by the disk operation that fails. */
const remoteImages = { writing: await createLargeImage(130), copying: await createLargeImage(150) };

suite('A full disk', () => {
  let requestCount = 0;
  let host: Awaited<ReturnType<typeof startServer>>;
  let collector: Awaited<ReturnType<typeof startCollector>>;

  before(async () => {
    host = await startServer((request, response) => {
      requestCount += 1;
      response.end(
        request.url === '/writing' ? remoteImages.writing.bytes : remoteImages.copying.bytes,
      );
    });
    collector = await startCollector(database, env);
    // The first request opens descriptors that stay open, so it precedes the leak checks.
    assert.equal(
      (await sendForm(collector.url, createForm(createPayload(), [firstImage]))).status,
      200,
    );
  });

  const listRecords = (externalId: string) =>
    db.selectFrom('raw_data').selectAll().where('external_id', '=', externalId).execute();
  const isServed = async ({ sha256 }: LargeImage) =>
    (await collector.get(`/api/v1/images/${sha256}`)).status === 200;

  test('A disk that fills during an upload is 503 without a file or record, and the next request works', async () => {
    const checkLeaks = await createResourceLeakCheck({ database, dataDir });
    using disk = simulateFullDisk(dataDir);
    const payload = createPayload();
    disk.failingOperation = 'writing';
    const { status, body, headers } = await sendForm(
      collector.url,
      createForm(payload, [uploadedImage]),
    );
    assert.deepEqual([status, body.code, headers.get('retry-after')], [503, 'disk_low', '5']);
    assert.deepEqual(await listRecords(payload.external_id), []);
    await checkLeaks();
    disk.failingOperation = undefined;
    assert.equal((await sendForm(collector.url, createForm(payload, [uploadedImage]))).status, 200);
    assert.ok(await isServed(uploadedImage));
    await checkLeaks();
  });

  test('A disk that fills while an upload is stored fails the payload, which can be sent again', async () => {
    const checkLeaks = await createResourceLeakCheck({ database, dataDir });
    using disk = simulateFullDisk(dataDir);
    const payload = createPayload();
    const headers = { 'idempotency-key': 'full-disk' };
    disk.failingOperation = 'copying';
    const rejection = await sendForm(collector.url, createForm(payload, [storedImage]), headers);
    assert.deepEqual([rejection.status, rejection.body.code], [503, 'interrupted']);
    const [record] = await listRecords(payload.external_id);
    assert.deepEqual([record?.status, record?.error?.code], ['failed', 'interrupted']);
    assert.equal(await isServed(storedImage), false);
    await checkLeaks();
    disk.failingOperation = undefined;
    const response = await sendForm(collector.url, createForm(payload, [storedImage]), headers);
    assert.equal(response.status, 200, JSON.stringify(response.body));
    assert.ok(await isServed(storedImage));
    await checkLeaks();
  });

  test('A job whose fetched image has no room is returned, and completes when there is room', async () => {
    const checkLeaks = await createResourceLeakCheck({ database, dataDir, host });
    using disk = simulateFullDisk(dataDir);
    for (const operation of ['writing', 'copying'] as const) {
      disk.failingOperation = operation;
      const countBefore = requestCount;
      const payload = createPayload({ image_urls: [`${host.url}/${operation}`] });
      const { text, json } = await collector.post('/api/v1/ingest', payload);
      const rawId = json<{ raw_id: number }>().raw_id;
      await until('a second attempt', () => requestCount >= countBefore + 2);
      const { status, error } = await readRawRecord(db, rawId);
      assert.deepEqual(
        [status === 'pending' || status === 'processing', error],
        [true, null],
        text,
      );
      assert.equal(await isServed(remoteImages[operation]), false);
      disk.failingOperation = undefined;
      assert.equal((await waitUntilCompleted(db, rawId)).attempts, 1);
      assert.ok(await isServed(remoteImages[operation]));
      await checkLeaks();
    }
  });
});
