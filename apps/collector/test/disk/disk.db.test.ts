import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { createDisk, createDiskGate, type Disk, isDiskLow } from '../../src/free-disk-space.ts';
import { createImage, startServer } from '../support/images.ts';
import { until } from '@oselya/testing';
import { startCollector } from '../support/collector.ts';
import {
  openDatabase,
  watchResources,
  payloadOf,
  createHarness,
  noImages,
} from '../support/pipeline.ts';

const MIB = 1024 * 1024;
const database = await openDatabase();

/** Creates a disk whose free room the test sets. */
function scriptedDisk(freeMb: number) {
  const state = { freeMb };
  const freeBytes = async () => state.freeMb * MIB;
  return { state, disk: createDisk({ folder: tmpdir(), minFreeMb: 100, freeBytes }) };
}

test('There is room while the minimum stays free beside the needed bytes', async () => {
  const { disk } = scriptedDisk(150);
  await disk.requireFree();
  await disk.requireFree(50 * MIB);
  await assert.rejects(disk.requireFree(50 * MIB + 1), isDiskLow);
  assert.ok((await createDisk({ folder: tmpdir(), minFreeMb: 0 }).freeBytes()) > 0);
});

test('A full disk is recognized by its error', () => {
  const full = Object.assign(new Error('write'), { code: 'ENOSPC' });
  assert.ok(isDiskLow(full));
  assert.ok(isDiskLow(new Error('The image could not be stored', { cause: full })));
  assert.ok(!isDiskLow(Object.assign(new Error('write'), { code: 'EIO' })));
  assert.ok(!isDiskLow('ENOSPC'));
});

test('The gate is closed while the disk is low, and other failures propagate', async () => {
  const { state, disk } = scriptedDisk(99);
  const lines: string[] = [];
  const note = (line: string) => void lines.push(line);
  const gate = createDiskGate(disk, { warn: note, info: note });
  assert.equal(await gate(), false);
  assert.equal(await gate(), false);
  state.freeMb = 100;
  assert.equal(await gate(), true);
  assert.equal(await gate(), true);
  assert.equal(lines.length, 2, 'the log has its begin and end');
  const broken = createDisk({
    folder: tmpdir(),
    minFreeMb: 100,
    freeBytes: () => Promise.reject(new Error('no such folder')),
  });
  await assert.rejects(
    async () => createDiskGate(broken, { warn: note, info: note })(),
    /no such folder/,
  );
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
  const dataDir = await mkdtemp(join(tmpdir(), 'oselya-disk-'));
  after(() => rm(dataDir, { recursive: true, force: true }));
  const env = { DATA_DIR: dataDir, SSRF_ALLOW: '127.0.0.1', COLLECTOR_INGEST_PER_MINUTE: '0' };
  await using collector = await startCollector(database, env, { disk: watched });
  const bytes = await createImage('png', { colour: 'azure' });
  const host = await startServer((_request, response) => response.end(bytes));
  const records = () =>
    database.db.selectFrom('raw_data').select(['status', 'attempt', 'attempts']).execute();
  const send = async (count: number) => {
    for (let nth = 0; nth < count; nth += 1) {
      const payload = payloadOf({ image_urls: [`${host.url}/${nth}`] });
      assert.equal((await collector.post('/api/v1/ingest', payload)).status, 202);
    }
  };
  const allCompleted = (count: number) =>
    until(`${count} completed`, async () => {
      const completed = (await records()).filter(({ status }) => status === 'completed');
      return completed.length === count;
    });

  const someLooks = () => {
    const before = looks.count;
    return until('some looks at the disk', () => looks.count >= before + 2);
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
  const untilResourcesAreFree = await watchResources({ database, dataDir, host });
  state.freeMb = 99;
  await sendInVain();
  state.freeMb = 100;
  await allCompleted(20);
  assert.ok((await records()).every(({ attempts }) => attempts === 1));
  await untilResourcesAreFree();
});

test('A job that meets a full disk at its images is returned without an attempt', async () => {
  const cause = Object.assign(new Error('write'), { code: 'ENOSPC' });
  const fail = () => Promise.reject(new Error('The image could not be stored', { cause }));
  const harness = createHarness(database.db, {
    images: { ...noImages, processRemote: fail, processUploaded: fail },
  });
  const { status, attempts, error } = await harness.process(payloadOf());
  assert.deepEqual([status, attempts, error], ['pending', 0, null]);
});
