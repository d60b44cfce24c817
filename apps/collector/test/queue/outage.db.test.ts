import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atEnd } from '@oselya/db/testing';
import { createModelClient } from '@oselya/model';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/metrics.ts';
import { createPipeline } from '../../src/pipeline/pipeline.ts';
import { startWorker } from '../../src/queue/worker.ts';
import { DIMENSIONS, openDatabase, store } from '../support/database.ts';
import { startModelServer } from '../support/model-server.ts';
import { payloadOf } from '../support/payload.ts';
import { log, noImages } from '../support/pipeline.ts';
import { until } from '../support/until.ts';

const { db } = await openDatabase();
const server = await startModelServer();
const model = createModelClient({
  mode: 'openai',
  baseUrl: server.url,
  chat: 'chat',
  embedding: 'embedding',
  timeoutMs: 10_000,
  embeddingDimensions: DIMENSIONS,
  retry: { initialDelayMs: 1, maxDelayMs: 5 },
  breaker: { halfOpenAfterMs: 30 },
});
const metrics = createMetrics(new Registry());
const SLOTS = 4;
const JOBS = 40;

const worker = startWorker({
  db,
  process: createPipeline({
    db,
    model,
    images: noImages,
    metrics,
    log,
    modelTimeoutMs: 10_000,
  }),
  breaker: model.breaker,
  metrics,
  log,
  slots: SLOTS,
  leaseMs: 60_000,
  maxAttempts: 3,
  pollMs: 10,
});
atEnd(async () => {
  await worker.stop({ timeoutMs: 5000 });
  await model.close();
  await server.close();
});

async function count(status: 'completed' | 'failed' | 'pending'): Promise<number> {
  const { n } = await db
    .selectFrom('raw_data')
    .where('status', '=', status)
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow();
  return n;
}

// https://github.com/karakeep-app/karakeep/issues/1611
test('an outage of the model does not burn the queue', async () => {
  server.state.up = false;
  await Promise.all(Array.from({ length: JOBS }, () => store(db, payloadOf())));
  worker.hint();
  await until('the breaker to open', () => model.breaker.state !== 'closed');
  const reached = server.state.requests;
  await until('ten probes', () => server.state.requests >= reached + 10);
  const failed = await count('failed');
  assert.ok(failed <= SLOTS, `${failed} failed, with ${SLOTS} in progress`);
  assert.equal(await count('completed'), 0);

  server.state.up = true;
  await until('the rest to be done', async () => (await count('completed')) === JOBS - failed);
  const { most } = await db
    .selectFrom('raw_data')
    .select((eb) => eb.fn.max('attempts').as('most'))
    .executeTakeFirstOrThrow();
  assert.equal(most, 1, 'jobs that were put back had cost no attempt');
});
