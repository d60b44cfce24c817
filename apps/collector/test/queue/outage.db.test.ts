import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { deferCleanup, until } from '@oselya/testing';
import type { ModelClient, ModelClientOptions } from '@oselya/model';
import { sql } from 'kysely';
import { createPayloadRetry } from '../../src/queue/retry.ts';
import type { Payload } from '../../src/ingest/payload.ts';
import { extractionCompletion } from '../../src/pipeline/extraction.ts';
import { startCollector } from '../support/collector.ts';
import {
  openDatabase,
  store,
  startModelServer,
  countByStatus,
  openModel,
  startModelWorker,
  createPayload,
  emptyImageService,
} from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const [server, embedder] = await Promise.all([startModelServer(), startModelServer()]);
deferCleanup(() => Promise.all([server.close(), embedder.close()]).then(() => undefined));

beforeEach(async () => {
  for (const { state } of [server, embedder]) {
    Object.assign(state, {
      up: true,
      canEmbed: true,
      canDescribe: true,
      requests: 0,
      chatRequestCount: 0,
    });
    delete state.writeResponse;
    delete state.isServerError;
  }
  await db.deleteFrom('raw_data').execute();
});

/** Describes each image with the model, as the pipeline does. */
function describeWith(model: ModelClient): typeof emptyImageService.processRemote {
  return async ({ urls, signal, observe }) => {
    for (const url of urls) {
      await model.generateObject({
        operation: 'look',
        ...extractionCompletion,
        system: 'Look.',
        data: url,
        image: { bytes: Uint8Array.of(0xff, 0xd8, 0xff), mediaType: 'image/jpeg' },
        signal,
        observe,
      });
    }
    return [];
  };
}

/** Starts a worker and its model client. */
function startTestWorker({
  slots = 4,
  ...options
}: Partial<ModelClientOptions> & { slots?: number } = {}) {
  const model = openModel(server.url, options);
  const images = { ...emptyImageService, processRemote: describeWith(model) };
  const { timeoutMs } = options;
  const servers = [server, embedder];
  return startModelWorker({ database, servers, model, modelTimeoutMs: timeoutMs, images, slots });
}

function addPayloads(jobs: number, overrides: Partial<Payload> = {}): Promise<number[]> {
  return Promise.all(Array.from({ length: jobs }, () => store(db, createPayload(overrides))));
}

/** Counts the requests to the servers. */
const countRequests = () => server.state.requests + embedder.state.requests;

/** Counts the claims, including those of returned jobs. */
async function countClaims(): Promise<number> {
  const { claims } = await db
    .selectFrom('raw_data')
    .select((eb) => eb.fn.sum<number>('attempt').as('claims'))
    .executeTakeFirstOrThrow();
  return claims;
}

/** Waits until all jobs have completed, and checks that none needed two attempts. */
async function waitUntilCompleted(jobs: number): Promise<void> {
  for (let endedCount = 0; endedCount < jobs;) {
    endedCount = await until('more jobs to end', async () => {
      const { completed, failed } = await countByStatus(db);
      return completed + failed > endedCount && completed + failed;
    });
  }
  const rows = await db.selectFrom('raw_data').select(['status', 'attempts']).execute();
  assert.ok(rows.every(({ status, attempts }) => status === 'completed' && attempts === 1));
}

type Faults = Partial<typeof server.state>;

for (const [name, jobs, options, faultyServer, fault] of [
  ['an outage', 40, {}, server, { up: false }],
  [
    'an outage of the embedding server',
    40,
    { embeddingBaseUrl: embedder.url },
    embedder,
    { up: false },
  ],
  ['an unresponsive server', 20, { timeoutMs: 500 }, server, { writeResponse: () => undefined }],
] as [string, number, Parameters<typeof startTestWorker>[0], typeof server, Faults][]) {
  test(`None of ${jobs} jobs loses an attempt to ${name}`, async () => {
    Object.assign(faultyServer.state, fault);
    const isRead = server.state.up && server.state.writeResponse === undefined;
    await addPayloads(jobs, { image_urls: ['https://images.example/1.jpg'] });
    await using modelWorker = startTestWorker(options);
    const { model } = modelWorker;
    await until('the breaker to open', () => model.breaker.state !== 'closed');
    const [requestsBefore, claimsBefore] = [countRequests(), await countClaims()];
    await until('five probes', () => countRequests() >= requestsBefore + 5);
    const { completed, failed } = await countByStatus(db);
    assert.deepEqual([completed, failed], [0, 0]);
    // Each slot claims once for each probe, and once before the outage.
    const [probes, claims] = [
      countRequests() - requestsBefore,
      (await countClaims()) - claimsBefore,
    ];
    const maxClaims = (options?.slots ?? 4) * (probes + 1);
    assert.ok(claims <= maxClaims, `${claims} claims for ${probes} requests, and not ${maxClaims}`);
    Object.assign(faultyServer.state, { up: true, writeResponse: undefined });
    await waitUntilCompleted(jobs);
    // A call without a response within half a second is repeated.
    if (isRead && options?.timeoutMs === undefined)
      assert.equal(server.state.chatRequestCount, jobs, 'none is read twice');
  });
}

test('An outage of ten minutes fails none of 200 jobs, and one call retries earlier failures', async () => {
  const [jobs, rejectedCount] = [200, 20];
  await using collector = await startCollector(database, { COLLECTOR_WORKER: 'false' });
  // The server rejects these jobs.
  server.state.writeResponse = (response) => void response.writeHead(401).end('{}');
  await addPayloads(rejectedCount);
  {
    await using modelWorker = startTestWorker();
    await until('the failures', async () => (await countByStatus(db)).failed === rejectedCount);
    assert.equal(modelWorker.model.breaker.state, 'closed');
  }
  delete server.state.writeResponse;

  server.state.up = false;
  server.state.requests = 0;
  await addPayloads(jobs);
  await using modelWorker = startTestWorker({ slots: 16 });
  await until('the breaker to open', () => modelWorker.model.breaker.state !== 'closed');
  // At one probe per half minute, twenty probes take ten minutes.
  const requestsBefore = server.state.requests;
  await until('twenty probes', () => server.state.requests >= requestsBefore + 20);
  const { completed, failed } = await countByStatus(db);
  assert.deepEqual([completed, failed], [0, rejectedCount]);

  server.state.up = true;
  const retryResponse = await collector.post('/api/v1/admin/raw/retry', { status: 'failed' });
  assert.deepEqual([retryResponse.status, retryResponse.json()], [200, { retried: rejectedCount }]);
  await waitUntilCompleted(jobs + rejectedCount);
});

for (const [name, path, slots] of [
  ['a chat request', '/chat/completions', 4],
  // The texts share one request, which fails as a whole.
  ['a batch of embeddings', '/embeddings', 16],
] as const) {
  test(`Only the causing job fails when the server crashes on ${name}`, async () => {
    let jobs = 30;
    server.state.isServerError = (request) =>
      request.path.endsWith(path) && JSON.stringify(request.body).includes('crash me');
    const [poisonId] = await addPayloads(1, { description: 'Продам квартиру: crash me, please' });
    await addPayloads(jobs);
    await using modelWorker = startTestWorker({ slots });
    // Other jobs show that the server works.
    await until('the failure', async () => {
      const { completed, failed } = await countByStatus(db);
      if (failed === 0 && completed === jobs) jobs += (await addPayloads(1)).length;
      return failed > 0;
    });
    const failedQuery = db.selectFrom('raw_data').selectAll().where('status', '=', 'failed');
    const { id, error } = await failedQuery.executeTakeFirstOrThrow();
    assert.deepEqual([id, error?.code], [poisonId, 'model_failed']);
    assert.match(error?.message ?? '', /answered 500/);

    delete server.state.isServerError;
    const retry = createPayloadRetry({ db, onRetried: modelWorker.worker.notify });
    assert.equal(await retry.retryAll({ status: 'failed' }), 1);
    await waitUntilCompleted(jobs + 1);
  });
}

test('An outage of the embedding server shows in the metrics, the queue and the health', async () => {
  // The collector would search duplicates among the listings of earlier tests.
  await sql`truncate property_listings, duplicate_marks cascade`.execute(db);
  embedder.state.up = false;
  await using collector = await startCollector(database, {
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: server.url,
    MODEL_EMBEDDING_BASE_URL: embedder.url,
    MODEL_CHAT: 'chat',
    MODEL_EMBEDDING: 'embedding',
  });
  const readBreakerGauge = async () =>
    /^collector_model_breaker_open (\d)$/m.exec((await collector.get('/metrics')).text)?.[1];
  assert.equal(await readBreakerGauge(), '0');
  await addPayloads(2);
  await until('the metric', async () => (await readBreakerGauge()) === '1');
  const queue = (await collector.get('/api/v1/admin/queue')).json<{ breaker: string }>();
  assert.equal(queue.breaker, 'open');
  const health = await collector.get('/health');
  const { model } = health.json<{ checks: { model: Record<string, string> } }>().checks;
  assert.deepEqual(
    [health.status, model?.['status'], model?.['breaker']],
    [200, 'degraded', 'open'],
  );
  assert.match(model?.['detail'] ?? '', /answered 503/);
});
