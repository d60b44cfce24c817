import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startWorker } from '../src/main.ts';
import { until } from '@oselya/testing';
import { DIMENSIONS, openDatabase, rawRecord, store, payloadOf, log } from './support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const folder = await mkdtemp(join(tmpdir(), 'oselya-worker-'));
after(() => rm(folder, { recursive: true, force: true }));

async function start(env: Record<string, string>) {
  const worker = await startWorker(
    {
      DATA_DIR: folder,
      EMBEDDING_DIMENSIONS: String(DIMENSIONS),
      MIN_FREE_DISK_MB: '0',
      COLLECTOR_WORKERS: '3',
      ...env,
    },
    { database, log },
  );
  after(worker.close);
  return worker;
}

test('a worker alone shows nothing unless it is told where', async () => {
  const worker = await start({});
  assert.equal(worker.url, undefined);
  await worker.close();
});

test('a worker alone shows its metrics to holders of the token, where there is one', async () => {
  const worker = await start({ COLLECTOR_WORKER_PORT: '0', METRICS_TOKEN: 'a-token-of-metrics' });
  const read = (headers: Record<string, string>) => fetch(`${worker.url}/metrics`, { headers });
  assert.equal((await read({})).status, 401);
  assert.equal((await read({ authorization: 'Bearer a-token-of-metrics' })).status, 200);
  assert.equal((await fetch(`${worker.url}/health`)).status, 200);
  await worker.close();
});

test('a worker alone shows its health and how busy it is', async () => {
  const worker = await start({ COLLECTOR_WORKER_PORT: '0' });
  assert.ok(worker.url);
  const { url } = worker;
  for (const path of ['/health', '/health/live', '/health/ready']) {
    assert.equal((await fetch(url + path)).status, 200, path);
  }
  const health = (await (await fetch(`${url}/health`)).json()) as { checks: object };
  assert.deepEqual(Object.keys(health.checks).toSorted(), ['database', 'disk', 'model']);
  const figure = async (name: string) => {
    const text = await (await fetch(`${url}/metrics`)).text();
    return Number(new RegExp(`^${name} (.+)$`, 'm').exec(text)?.[1]);
  };
  assert.equal(await figure('collector_worker_slots'), 3);
  assert.equal(await figure('collector_worker_last_claim_timestamp_seconds'), 0);

  const before = Date.now() / 1000;
  const id = await store(db, payloadOf());
  await until('the payload', async () => (await rawRecord(db, id)).status === 'completed');
  assert.ok((await figure('collector_worker_last_claim_timestamp_seconds')) >= before - 1);
  assert.equal(await figure('collector_worker_jobs'), 0);
  assert.equal(await figure('collector_queue_jobs\\{status="failed"\\}'), 0);
  assert.ok((await figure('collector_disk_free_bytes')) > 0);

  assert.equal((await fetch(`${url}/api/v1/admin/queue`)).status, 404);
  await worker.close();
  await assert.rejects(fetch(`${url}/health`));
});

test('a port that is taken stops the start of a worker', async () => {
  const first = await start({ COLLECTOR_WORKER_PORT: '0' });
  const { port } = new URL(first.url ?? '');
  await assert.rejects(start({ COLLECTOR_WORKER_PORT: port }), /COLLECTOR_WORKER_PORT/);
  await first.close();
});
