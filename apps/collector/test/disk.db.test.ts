import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { ProblemError } from '@oselya/kit';
import { createDisk, isDiskLow, postponeWhileDiskIsLow, readFreeBytes } from '../src/disk.ts';
import type { ProcessJob } from '../src/queue/run-job.ts';
import { openImages } from './images/harness.ts';
import { picture } from './images/pictures.ts';
import { serve } from './images/server.ts';
import { openDatabase } from './support/database.ts';
import { payloadOf } from './support/payload.ts';
import { createHarness } from './support/pipeline.ts';

const MIB = 1024 * 1024;
const idle = new AbortController().signal;

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
  assert.ok((await readFreeBytes(tmpdir())) > 0);
});

test('a full disk is known by its error too, other failures are none', () => {
  const full = Object.assign(new Error('write'), { code: 'ENOSPC' });
  assert.ok(isDiskLow(full));
  assert.ok(isDiskLow(new Error('The picture could not be stored', { cause: full })));
  assert.ok(!isDiskLow(Object.assign(new Error('write'), { code: 'EIO' })));
  assert.ok(!isDiskLow('ENOSPC'));
});

test('while it is low jobs are put back before anything is done for them', async () => {
  const { state, disk } = scriptedDisk(99);
  let runs = 0;
  const process: ProcessJob = async () => {
    runs += 1;
    return { status: 'completed', error: null, stages: [], listingId: null };
  };
  const careful = postponeWhileDiskIsLow(disk, process);
  const job = { rawId: 1, attempt: 1, sourceSlug: 's', externalId: 'e', contentHash: 'h' };
  const options = { signal: idle, probe: false };
  assert.deepEqual(await careful(job, options), { status: 'postponed' });
  assert.equal(runs, 0);
  state.freeMb = 100;
  assert.equal((await careful(job, options)).status, 'completed');
});

test('no picture is fetched while it is low, and what was recorded stays', async () => {
  const { addListing, open, rowsOf, files } = await openImages();
  const { state, disk } = scriptedDisk(200);
  const { images } = open({ disk });
  const bytes = await picture('png');
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
  const database = await openDatabase();
  const cause = Object.assign(new Error('write'), { code: 'ENOSPC' });
  const fail = () => Promise.reject(new Error('The picture could not be stored', { cause }));
  const harness = createHarness(database.db, {
    images: { processRemote: fail, processUploaded: fail },
  });
  const { status, attempts, error } = await harness.process(payloadOf());
  assert.deepEqual([status, attempts, error], ['pending', 0, null]);
});
