import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { atEnd } from '@oselya/db/testing';
import { startWorker } from '../../src/main.ts';
import { POLL_MS } from '../../src/queue/worker.ts';
import { startCollector } from '../support/collector.ts';
import { DIMENSIONS, openDatabase, rawRecord } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';
import { log } from '../support/pipeline.ts';
import { until } from '../support/until.ts';

test('a worker elsewhere is woken by a notification for each payload that finds it idle', async (t) => {
  const database = await openDatabase();
  const folder = await mkdtemp(join(tmpdir(), 'oselya-wake-'));
  atEnd(() => rm(folder, { recursive: true, force: true }));
  // The poll never ends, so that whatever the worker takes it was told of.
  const { setTimeout: original } = globalThis;
  let polls = 0;
  const withoutPoll = (work: () => void, ms?: number) => {
    if (ms === POLL_MS) polls += 1;
    return original(ms === POLL_MS ? () => undefined : work, ms);
  };
  t.mock.method(globalThis, 'setTimeout', Object.assign(withoutPoll, original));
  // With PostgreSQL it has a pool and a connection for notifications of its own, as another process has.
  const worker = await startWorker(
    {
      DATA_DIR: folder,
      EMBEDDING_DIMENSIONS: String(DIMENSIONS),
      MIN_FREE_DISK_MB: '0',
      ...(database.url === undefined ? {} : { DATABASE_URL: database.url }),
    },
    { log, ...(database.url === undefined ? { database } : {}) },
  );
  await using opened = new AsyncDisposableStack();
  opened.defer(worker.close);
  await using collector = await startCollector(database, { COLLECTOR_WORKER: 'false' });
  await until('the worker to have nothing to do', () => polls > 0);
  for (let nth = 0; nth < 10; nth += 1) {
    const { status, json } = await collector.post('/api/v1/ingest', payloadOf());
    assert.equal(status, 202);
    const { raw_id: id } = json<{ raw_id: number }>();
    await until(
      'the payload to be processed',
      async () => (await rawRecord(database.db, id)).status === 'completed',
      5000,
    );
  }
});
