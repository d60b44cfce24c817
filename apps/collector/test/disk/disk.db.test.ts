import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ProblemError } from '@oselya/kit';
import { createDisk, type Disk, isDiskLow } from '../../src/disk.ts';
import { createDiskGate } from '../../src/disk.ts';
import { openImages, createImage, serve, startServer } from '../support/images.ts';
import { until } from '@oselya/testing';
import { startCollector } from '../support/collector.ts';
import {
  openDatabase,
  watchLeftovers,
  payloadOf,
  createHarness,
  noImages,
} from '../support/pipeline.ts';

const MIB = 1024 * 1024;
const database = await openDatabase();

/** A disk of which a test says how much is free. */
function scriptedDisk(freeMb: number) {
  const state = { freeMb };
  const freeBytes = async () => state.freeMb * MIB;
  return { state, disk: createDisk({ folder: tmpdir(), minFreeMb: 100, freeBytes }) };
}

test('there is room while the minimum stays free beside what is to come', async () => {
  const { disk } = scriptedDisk(150);
  await disk.need();
  await disk.need(50 * MIB);
  await assert.rejects(disk.need(50 * MIB + 1), isDiskLow);
  assert.ok((await createDisk({ folder: tmpdir(), minFreeMb: 0 }).freeBytes()) > 0);
});

test('a full disk is known by its error too, other failures are none', () => {
  const full = Object.assign(new Error('write'), { code: 'ENOSPC' });
  assert.ok(isDiskLow(full));
  assert.ok(isDiskLow(new Error('The picture could not be stored', { cause: full })));
  assert.ok(!isDiskLow(Object.assign(new Error('write'), { code: 'EIO' })));
  assert.ok(!isDiskLow('ENOSPC'));
});

test('while it is low the gate is shut, and what is another failure is told', async () => {
  const { state, disk } = scriptedDisk(99);
  const lines: string[] = [];
  const note = (line: string) => void lines.push(line);
  const gate = createDiskGate(disk, { warn: note, info: note });
  assert.equal(await gate(), false);
  assert.equal(await gate(), false);
  state.freeMb = 100;
  assert.equal(await gate(), true);
  assert.equal(await gate(), true);
  assert.equal(lines.length, 2, 'the log has when it began and when it ended');
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

test('a collector whose disk fills and is freed loses nothing, and fails nothing', async () => {
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
  /** Sends ten payloads, and tells that none of them is touched. */
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
  const untilNothingIsLeft = await watchLeftovers({ database, dataDir, host });
  state.freeMb = 99;
  await sendInVain();
  state.freeMb = 100;
  await allCompleted(20);
  assert.ok((await records()).every(({ attempts }) => attempts === 1));
  await untilNothingIsLeft();
});

test('no picture is fetched while it is low, and what was recorded stays', async () => {
  const { addListing, open, rowsOf, files } = await openImages();
  const { state, disk } = scriptedDisk(200);
  const { images } = open({ disk });
  const bytes = await createImage('png');
  let requests = 0;
  const url = await serve((_request, response) => {
    requests += 1;
    response.end(bytes);
  });
  const listing = await addListing();
  await images.processRemote({ ...listing, urls: [url] });
  const before = await rowsOf(listing.listingId);
  state.freeMb = 99;
  const urls = [url, `${url}/new`];
  await assert.rejects(
    images.processRemote({ ...listing, urls }),
    (error) => error instanceof ProblemError && error.code === 'disk_low',
  );
  assert.deepEqual(await rowsOf(listing.listingId), before);
  assert.equal(requests, 1);
  assert.equal((await files()).length, 1);
  state.freeMb = 100;
  assert.equal((await images.processRemote({ ...listing, urls })).length, 2);
});

test('a job that meets a full disk at its pictures is put back without spending an attempt', async () => {
  const cause = Object.assign(new Error('write'), { code: 'ENOSPC' });
  const fail = () => Promise.reject(new Error('The picture could not be stored', { cause }));
  const harness = createHarness(database.db, {
    images: { ...noImages, processRemote: fail, processUploaded: fail },
  });
  const { status, attempts, error } = await harness.process(payloadOf());
  assert.deepEqual([status, attempts, error], ['pending', 0, null]);
});
