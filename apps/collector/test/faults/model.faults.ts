import assert from 'node:assert/strict';
import { beforeEach, test, type TestContext } from 'node:test';
import type { ModelClient, ModelClientOptions } from '@oselya/model';
import { sql } from 'kysely';
import { extractEmbeddedTexts, LISTING, type ScriptedResponse } from '@oselya/model/testing';
import { deferCleanup, until } from '@oselya/testing';
import type { Payload } from '../../src/ingest/payload.ts';
import { extractionCompletion } from '../../src/pipeline/extraction.ts';
import { retryPayloads } from '../../src/queue/retry.ts';
import { startCollector } from '../support/collector.ts';
import {
  countByStatus,
  DIMENSIONS,
  type ResponseWriter,
  makeJobsDue,
  openDatabase,
  openModel,
  createPayload,
  startModelServer,
  startModelWorker,
  store,
  createModelEnv,
  emptyImageService,
} from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const [server, embedder] = await Promise.all([startModelServer(), startModelServer()]);
deferCleanup(() => Promise.all([server.close(), embedder.close()]).then(() => undefined));

const JOB_COUNT = 6;
const SLOT_COUNT = 3;
/** Time limit that suffices for 220 jobs on a busy machine. */
const LIMIT_MS = 180_000;

const MODEL_ENV = createModelEnv(server.url);

beforeEach(async () => {
  for (const { state } of [server, embedder]) {
    Object.assign(state, { isUp: true, requestCount: 0, chatRequestCount: 0 });
    Object.assign(state, {
      writeResponse: undefined,
      createResponse: undefined,
      isServerError: undefined,
    });
  }
  await db.deleteFrom('raw_data').execute();
});

/** Returns an error of llama.cpp's server, which responds with 500 for inputs that it rejects. */
function createLlamaError(message: string): ScriptedResponse {
  return { status: 500, body: { error: { code: 500, message, type: 'server_error' } } };
}

async function addJobs(jobCount: number, overrides: Partial<Payload> = {}): Promise<number[]> {
  return Promise.all(Array.from({ length: jobCount }, () => store(db, createPayload(overrides))));
}

/** Creates a function that describes each image with the model, as the pipeline does. */
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

function startTestWorker({
  slots = SLOT_COUNT,
  retryMs = 100,
  timeoutMs = 20_000,
  ...options
}: Partial<ModelClientOptions> & { slots?: number; retryMs?: number } = {}) {
  const model = openModel(server.url, { timeoutMs, ...options });
  const states: string[] = [];
  model.breaker.onChange((state) => states.push(state));
  const images = { ...emptyImageService, processRemote: describeWith(model) };
  const settings = { database, model, images, modelTimeoutMs: timeoutMs, slots, retryMs };
  return { ...startModelWorker({ ...settings, servers: [server, embedder] }), states };
}

/** Waits until all jobs have ended, and counts them. */
function waitUntilEnded(jobCount = JOB_COUNT): Promise<{ completed: number; failed: number }> {
  const countEnded = async () => {
    const { completed, failed } = await countByStatus(db);
    return completed + failed === jobCount && { completed, failed };
  };
  return until('all jobs to end', countEnded, LIMIT_MS);
}

/** Waits until all jobs end, checks that each has completed in one attempt, and reports the counts. */
async function waitUntilCompleted(jobCount: number, t: TestContext): Promise<void> {
  assert.deepEqual(await waitUntilEnded(jobCount), { completed: jobCount, failed: 0 });
  const rows = await db.selectFrom('raw_data').select(['attempts', 'listing_id']).execute();
  assert.ok(rows.every(({ attempts }) => attempts === 1));
  const listingCount = new Set(rows.map(({ listing_id: id }) => id)).size;
  assert.deepEqual([rows.length, listingCount], [jobCount, jobCount]);
  t.diagnostic(`${jobCount} accepted and stored, 0 lost, 0 doubled`);
}

/** Counts the requests to both servers. */
const countRequests = () => server.state.requestCount + embedder.state.requestCount;

/** Counts the claims, including those of returned jobs. */
async function countClaims(): Promise<number> {
  const rows = await db.selectFrom('raw_data').select('attempt').execute();
  return rows.reduce((sum, { attempt }) => sum + attempt, 0);
}

const createChatResponse = (content: string, finish_reason = 'stop') =>
  JSON.stringify({
    model: 'test',
    choices: [{ index: 0, finish_reason, message: { role: 'assistant', content } }],
    usage: { prompt_tokens: 10, completion_tokens: 5 },
  });

const send =
  (body: string): ResponseWriter =>
  (response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(body);
  };

const sendSlowly: ResponseWriter = (response) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  const timer = setInterval(() => response.write(' '), 20);
  response.on('close', () => clearInterval(timer));
};

const sendEndlessly: ResponseWriter = (response) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  const chunk = ' '.repeat(1024 * 1024);
  const sendChunk = () => {
    while (!response.destroyed && response.write(chunk));
  };
  response.on('drain', sendChunk);
  sendChunk();
};

const sendVector =
  (embedding: number[]): ResponseWriter =>
  (response) => {
    const isChat = response.req.url?.endsWith('/chat/completions') === true;
    const data = [{ index: 0, embedding }];
    send(isChat ? createChatResponse(JSON.stringify(LISTING)) : JSON.stringify({ data }))(response);
  };

/** Useless responses, with the number of requests and input tokens per job, and the reason in the record. */
const uselessResponses: [
  name: string,
  ResponseWriter,
  requestCount: number | null,
  inputTokens: number,
  reason: RegExp,
][] = [
  ['garbage', send('<html>proxy</html>'), 1, 0, /not JSON/],
  [
    'prose instead of JSON',
    send(createChatResponse('The flat is in Lviv.')),
    2,
    20,
    /fails its schema/,
  ],
  ['truncated answers', send(createChatResponse('{"is_listing": tr', 'length')), 1, 10, /cut off/],
  ['an answer that never ends', sendEndlessly, 1, 0, /larger than 16 MiB/],
  ['vectors of another width', sendVector([1, 2, 3]), null, 10, /3/],
  ['vectors of zeros', sendVector(Array<number>(DIMENSIONS).fill(0)), null, 10, /zero/],
];

for (const [name, writeResponse, requestCount, inputTokens, reason] of uselessResponses) {
  test(`On ${name}, jobs fail with the reason and complete when they are retried`, async () => {
    server.state.writeResponse = writeResponse;
    await addJobs(JOB_COUNT);
    await using testWorker = startTestWorker();
    assert.deepEqual(await waitUntilEnded(), { completed: 0, failed: JOB_COUNT });
    const rawRecords = await db.selectFrom('raw_data').selectAll().execute();
    for (const { error, model_usage: usage, attempts } of rawRecords) {
      assert.equal(error?.code, 'model_failed');
      assert.match(error.message, reason);
      assert.deepEqual([usage?.input_tokens, attempts], [inputTokens, 1]);
      // Jobs share requests for embeddings, so the number of calls varies.
      if (requestCount !== null) assert.equal(usage?.calls, requestCount);
    }
    const embeddedQuery = db
      .selectFrom('property_listings')
      .select('id')
      .where('embedding', 'is not', null)
      .where((eb) => eb('id', 'in', eb.selectFrom('raw_data').select('listing_id')));
    assert.deepEqual(await embeddedQuery.execute(), []);
    assert.equal(testWorker.model.breaker.state, 'closed', 'the server answers');
    server.state.writeResponse = undefined;
    await retryPayloads(db, { status: 'failed' }, testWorker.worker.notify);
    assert.deepEqual(await waitUntilEnded(), { completed: JOB_COUNT, failed: 0 });
    assert.equal((await embeddedQuery.execute()).length, JOB_COUNT);
  });
}

test('Two texts on which the server fails do not take every probe, and the other jobs complete', async () => {
  server.state.createResponse = (request) =>
    extractEmbeddedTexts(request)?.some((text) => text.includes('crash me')) === true
      ? createLlamaError('Compute error.')
      : undefined;
  await addJobs(2, { title: 'Квартира: crash me', description: 'Продам квартиру: crash me' });
  await using testWorker = startTestWorker({
    slots: 1,
    // Longer than the breaker stays open, as with the default settings.
    retryMs: 600,
    breaker: { failures: 2, halfOpenAfterMs: 400 },
    retry: { attempts: 1 },
  });
  const countOpenings = () => testWorker.states.filter((state) => state === 'open').length;
  await until('both jobs to be probed', () => countOpenings() > 2);
  await addJobs(JOB_COUNT);
  await until(
    'the other jobs to complete',
    async () => (await countByStatus(db)).completed === JOB_COUNT,
  );
});

test('The record and the health name the reason why a payload waits', async () => {
  const secret = 'sk-very-secret-0123456789';
  const description = 'Продам двокімнатну квартиру біля парку, 52 000 $';
  const message = `no slot at http://user:${secret}@gpu for ${secret}: ${description}`;
  server.state.createResponse = ({ path }) =>
    path.endsWith('/models') ? undefined : { status: 503, body: { error: { message } } };
  await using collector = await startCollector(database, { ...MODEL_ENV, MODEL_API_KEY: secret });
  const [id] = await addJobs(1, { description });
  type RawRecord = {
    status: string;
    error: { code: string; message: string; stage: string } | null;
    payload: object;
  };
  const getRawRecord = async () => (await collector.get(`/api/v1/raw/${id}`)).json<RawRecord>();
  const { error } = await until('the payload to be returned to the queue', async () => {
    const rawRecord = await getRawRecord();
    return rawRecord.status === 'pending' && rawRecord.error !== null && rawRecord;
  });
  assert.deepEqual([error?.code, error?.stage], ['model_unavailable', 'validate']);
  const REASON_PATTERN = /503 .*: no slot at http:\/\/\[credentials\]@gpu for \[key\]: \[…\]/;
  assert.match(error?.message ?? '', REASON_PATTERN);
  // The error stays while the payload waits and is retried. The test skips the delay of 45 s.
  await until('several attempts', async () => {
    await makeJobsDue(db);
    assert.match((await getRawRecord()).error?.message ?? '', REASON_PATTERN);
    const row = await db.selectFrom('raw_data').select('attempt').executeTakeFirstOrThrow();
    return row.attempt >= 2;
  });
  const health = await collector.get('/health');
  assert.equal(health.status, 200);
  type Health = { status: string; checks: { model: { status: string; detail?: string } } };
  const { status, checks } = health.json<Health>();
  assert.deepEqual([status, checks.model.status], ['degraded', 'degraded']);
  assert.match(checks.model.detail ?? '', REASON_PATTERN);
  const { payload: _payload, ...rawRecord } = await getRawRecord();
  const exposedText = health.text + JSON.stringify(rawRecord);
  assert.ok(
    !exposedText.includes('very-secret') && !exposedText.includes('двокімнатну'),
    exposedText,
  );
});

type Faults = Partial<typeof server.state>;

for (const [name, jobCount, options, faultyServer, fault] of [
  ['an outage', 40, {}, server, { isUp: false }],
  [
    'an outage of the embedding server',
    40,
    { embeddingBaseUrl: embedder.url },
    embedder,
    { isUp: false },
  ],
  ['an unresponsive server', 20, { timeoutMs: 500 }, server, { writeResponse: () => undefined }],
  [
    'a server that sends a byte at a time',
    6,
    { timeoutMs: 500 },
    server,
    { writeResponse: sendSlowly },
  ],
] as [string, number, Parameters<typeof startTestWorker>[0], typeof server, Faults][]) {
  test(`None of ${jobCount} jobs loses an attempt to ${name}`, async (t) => {
    Object.assign(faultyServer.state, fault);
    const isRead = server.state.isUp && server.state.writeResponse === undefined;
    await addJobs(jobCount, { image_urls: ['https://images.example/1.jpg'] });
    await using testWorker = startTestWorker(options);
    const { model } = testWorker;
    await until('the breaker to open', () => model.breaker.state !== 'closed');
    const [requestCountBefore, claimCountBefore] = [countRequests(), await countClaims()];
    await until('five probes', () => countRequests() >= requestCountBefore + 5);
    const { completed, failed } = await countByStatus(db);
    assert.deepEqual([completed, failed], [0, 0]);
    // Each slot claims at most once for each probe, and once before the first probe.
    const [probeCount, claimCount] = [
      countRequests() - requestCountBefore,
      (await countClaims()) - claimCountBefore,
    ];
    const maxClaimCount = SLOT_COUNT * (probeCount + 1);
    assert.ok(
      claimCount <= maxClaimCount,
      `${claimCount} claims for ${probeCount} probes exceed ${maxClaimCount}`,
    );
    Object.assign(faultyServer.state, { isUp: true, writeResponse: undefined });
    await waitUntilCompleted(jobCount, t);
    // With a timeout of half a second, slow calls are retried, so the count varies.
    if (isRead && options?.timeoutMs === undefined)
      assert.equal(server.state.chatRequestCount, jobCount, 'no text is read twice');
  });
}

test('An outage of ten minutes fails none of 200 jobs, and one call retries earlier failures', async (t) => {
  const [jobCount, rejectedCount] = [200, 20];
  await using collector = await startCollector(database, { COLLECTOR_WORKER: 'false' });
  // The server rejects the requests of these jobs.
  server.state.writeResponse = (response) => void response.writeHead(401).end('{}');
  await addJobs(rejectedCount);
  {
    await using testWorker = startTestWorker();
    await until('the failures', async () => (await countByStatus(db)).failed === rejectedCount);
    assert.equal(testWorker.model.breaker.state, 'closed');
  }
  delete server.state.writeResponse;

  server.state.isUp = false;
  server.state.requestCount = 0;
  await addJobs(jobCount);
  await using testWorker = startTestWorker({ slots: 16 });
  await until('the breaker to open', () => testWorker.model.breaker.state !== 'closed');
  // At one probe per half minute, twenty probes take ten minutes.
  const requestCountBefore = server.state.requestCount;
  await until('twenty probes', () => server.state.requestCount >= requestCountBefore + 20);
  const { completed, failed } = await countByStatus(db);
  assert.deepEqual([completed, failed], [0, rejectedCount]);

  server.state.isUp = true;
  const retryResponse = await collector.post('/api/v1/admin/raw/retry', { status: 'failed' });
  assert.deepEqual([retryResponse.status, retryResponse.json()], [200, { retried: rejectedCount }]);
  await waitUntilCompleted(jobCount + rejectedCount, t);
});

for (const [name, path, slots] of [
  ['a chat request', '/chat/completions', 4],
  // The texts share one request, which fails as a whole.
  ['a batch of embeddings', '/embeddings', 16],
] as const) {
  test(`Only the causing job fails when the server crashes on ${name}`, async (t) => {
    let jobCount = 30;
    server.state.isServerError = (request) =>
      request.path.endsWith(path) && JSON.stringify(request.body).includes('crash me');
    const [poisonId] = await addJobs(1, { description: 'Продам квартиру: crash me, please' });
    await addJobs(jobCount);
    await using testWorker = startTestWorker({ slots });
    // The success of other jobs shows that the server works.
    await until('the failure', async () => {
      const { completed, failed } = await countByStatus(db);
      if (failed === 0 && completed === jobCount) jobCount += (await addJobs(1)).length;
      return failed > 0;
    });
    const failedQuery = db.selectFrom('raw_data').selectAll().where('status', '=', 'failed');
    const { id, error } = await failedQuery.executeTakeFirstOrThrow();
    assert.deepEqual([id, error?.code], [poisonId, 'model_failed']);
    assert.match(error?.message ?? '', /responded with status 500/);

    delete server.state.isServerError;
    assert.equal(await retryPayloads(db, { status: 'failed' }, testWorker.worker.notify), 1);
    await waitUntilCompleted(jobCount + 1, t);
  });
}

test('An outage of the embedding server shows in the metrics, the queue and the health', async () => {
  // The collector would search for duplicates among the listings of earlier tests.
  await sql`truncate property_listings, duplicate_marks cascade`.execute(db);
  embedder.state.isUp = false;
  await using collector = await startCollector(database, {
    ...MODEL_ENV,
    MODEL_EMBEDDING_BASE_URL: embedder.url,
  });
  const readBreakerGauge = async () =>
    /^collector_model_breaker_open (\d)$/m.exec((await collector.get('/metrics')).text)?.[1];
  assert.equal(await readBreakerGauge(), '0');
  await addJobs(2);
  await until('the metric', async () => (await readBreakerGauge()) === '1');
  const queue = (await collector.get('/api/v1/admin/queue')).json<{ breaker: string }>();
  assert.equal(queue.breaker, 'open');
  const health = await collector.get('/health');
  const { model } = health.json<{ checks: { model: Record<string, string> } }>().checks;
  assert.deepEqual(
    [health.status, model?.['status'], model?.['breaker']],
    [200, 'degraded', 'open'],
  );
  assert.match(model?.['detail'] ?? '', /responded with status 503/);
});
