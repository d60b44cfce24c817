import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect } from '@oselya/db';
import { createLogger } from '@oselya/kit';
import { ModelError } from '@oselya/model';
import { openFolder, deferCleanup, until } from '@oselya/testing';
import { createLossyDatabase } from '@oselya/testing/database';
import { Registry } from 'prom-client';
import { backfillEmbeddings } from '../../src/embeddings/backfill.ts';
import { start } from '../../src/main.ts';
import { createMetrics } from '../../src/metrics.ts';
import { rescueJobs } from '../../src/queue/job-writes.ts';
import type { Job, JobOutcome, JobRun } from '../../src/queue/job-types.ts';
import { retryPayload } from '../../src/queue/retry.ts';
import { startWorker } from '../../src/queue/worker.ts';
import { createSearchService } from '../../src/search/service.ts';
import type { Tables } from '../../src/tables.ts';
import {
  createCountingModel,
  createHarness,
  MINIMAL_ENV,
  createFakeBreaker,
  log,
  makeJobsDue,
  emptyImageService,
  openDatabase,
  createPayload,
  readRawRecord,
  startModelServer,
  store,
  updateRawRecord,
  createModelEnv,
} from '../support/pipeline.ts';

const { db } = await openDatabase();

/** Database with one connection. */
const otherDatabase = await openDatabase();
const { db: singleConnectionDb } =
  otherDatabase.url === undefined
    ? otherDatabase
    : await connect<Tables>({ url: otherDatabase.url, maxConnections: 1 }).then((connection) => {
        deferCleanup(connection.close);
        return connection;
      });

type LogLine = {
  msg: string;
  raw_id?: number;
  request_id?: string;
  source?: string;
  attempt?: number;
  outcome?: string;
  reason?: string;
};

const loggedDatabase = await openDatabase();
const lossyDatabase = createLossyDatabase(loggedDatabase.db);
const server = await startModelServer();
deferCleanup(server.close);
const lines: LogLine[] = [];
const runningCollector = await start(
  {
    DATA_DIR: await openFolder(),
    ...MINIMAL_ENV,
    ...createModelEnv(server.url),
  },
  {
    database: { ...loggedDatabase, db: lossyDatabase.db },
    log: createLogger({
      level: 'info',
      service: 'test',
      destination: { write: (line) => lines.push(JSON.parse(line) as LogLine) },
    }),
  },
);
deferCleanup(runningCollector.close);

/** Model call that a job reports. */
const modelCall = {
  operation: 'x',
  outcome: 'ok',
  durationMs: 1,
  inputTokens: 70,
  outputTokens: 7,
} as const;

test('The record of a payload has the cost of all its attempts, images included', async () => {
  const images = {
    ...emptyImageService,
    processRemote: ({ observe }: { observe?: (event: typeof modelCall) => void }) => {
      observe?.(modelCall);
      return Promise.resolve([]);
    },
  };
  const model = createCountingModel();
  const embed: typeof model.embed = (_texts, options) => {
    options?.observe?.({ ...modelCall, inputTokens: null, outputTokens: null });
    return Promise.reject(new ModelError('MODEL_REJECTED', 'too long'));
  };
  const payload = createPayload();
  const failedRecord = await createHarness(db, { model: { ...model, embed }, images }).process(
    payload,
  );
  const {
    calls,
    input_tokens: input = 0,
    output_tokens: output = 0,
  } = failedRecord.model_usage ?? {};
  assert.deepEqual([failedRecord.status, calls], ['failed', 3]);
  assert.ok(input > 170 && output > 57, JSON.stringify(failedRecord.model_usage));
  await retryPayload(db, failedRecord.id);
  const harness = createHarness(db);
  await harness.runNext();
  const { model_usage: usage } = await readRawRecord(db, failedRecord.id);
  assert.equal(usage?.calls, 5);
  assert.ok(usage.output_tokens > output);
  const unchangedRecord = await harness.process(payload);
  assert.deepEqual(unchangedRecord.model_usage, { calls: 0, input_tokens: 0, output_tokens: 0 });
});

/** Calls the model once, and then waits for the abort. */
const callModelAndWait = (_job: Job, { usage, signal }: JobRun) => {
  usage.observe(modelCall);
  return new Promise<JobOutcome>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
};

test('The job of a lost worker has its cost at the last renewal of the lease', async () => {
  const id = await store(db, createPayload());
  const metrics = createMetrics(new Registry());
  const workerOptions = {
    db,
    processJob: callModelAndWait,
    metrics,
    log,
    leaseMs: 3000,
    breaker: createFakeBreaker(),
    slots: 1,
  };
  for (const attempt of [1, 2]) {
    const worker = startWorker({ ...workerOptions, maxAttempts: 2 });
    await until('the lease to be renewed', async () => {
      const { attempt_usage: usage, attempts } = await readRawRecord(db, id);
      return attempts === attempt && usage?.calls === 1;
    });
    const { model_usage: usageBefore } = await readRawRecord(db, id);
    assert.equal(
      usageBefore?.calls ?? 0,
      attempt - 1,
      'no call is counted twice while the attempt is in progress',
    );
    // Simulates a killed worker whose lease expires.
    await updateRawRecord(db, id, { lease_expires_at: new Date(0), attempt: attempt * 10 });
    await worker.stop({ timeoutMs: 0 });
    await rescueJobs({ db, log }, { maxAttempts: 2 });
    const rescuedRecord = await readRawRecord(db, id);
    assert.deepEqual(
      [rescuedRecord.status, rescuedRecord.model_usage?.calls, rescuedRecord.attempt_usage],
      [attempt === 2 ? 'failed' : 'pending', attempt, null],
    );
    assert.equal(rescuedRecord.model_usage?.input_tokens, attempt * modelCall.inputTokens);
  }
});

const LIMIT_MS = 5000;
const { signal } = new AbortController();

/** Creates a model that delays one kind of request until the test releases it. */
function createHeldModel(heldCall: 'generateObject' | 'embed') {
  const callStarted = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const mock = createCountingModel();
  const wait = (): Promise<void> => {
    callStarted.resolve();
    return answer.promise;
  };
  const model: typeof mock = {
    ...mock,
    // A different model name makes a backfill embed every listing again.
    embeddingModel: 'held',
    async generateObject(request) {
      if (heldCall === 'generateObject') await wait();
      return mock.generateObject(request);
    },
    async embed(texts, options) {
      if (heldCall === 'embed') await wait();
      return mock.embed(texts, options);
    },
  };
  return { model, callStarted: callStarted.promise, answer: answer.resolve };
}

type Model = ReturnType<typeof createCountingModel>;

const uses: [
  name: string,
  heldCall: 'generateObject' | 'embed',
  use: (model: Model) => Promise<unknown>,
][] = [
  ['the validate stage', 'generateObject', processPayload],
  ['the embed stage', 'embed', processPayload],
  [
    'a similar search',
    'embed',
    (model) =>
      createSearchService({ db: singleConnectionDb, model }).similar({ query: 'квартира' }, signal),
  ],
  [
    'a hybrid search',
    'embed',
    (model) =>
      createSearchService({ db: singleConnectionDb, model }).hybrid({ query: 'квартира' }, signal),
  ],
  [
    'a backfill',
    'embed',
    (model) =>
      backfillEmbeddings(
        { db: singleConnectionDb, model },
        { dryRun: false, signal, onProgress: () => undefined },
      ),
  ],
];

async function processPayload(model: Model): Promise<void> {
  await store(singleConnectionDb, createPayload());
  assert.equal(await createHarness(singleConnectionDb, { model }).runNext(), 'completed');
}

test('Each use of the model holds no connection while the model answers', async () => {
  await createHarness(singleConnectionDb).process(createPayload());
  for (const [name, heldCall, use] of uses) {
    const { model, callStarted, answer } = createHeldModel(heldCall);
    const useResult = use(model);
    await Promise.race([callStarted, useResult]);
    const timeout = Promise.withResolvers<string>();
    const timer = setTimeout(() => timeout.resolve('no connection was free'), LIMIT_MS);
    const query = singleConnectionDb
      .selectFrom('property_listings')
      .select('id')
      .execute()
      .then(() => 'answered');
    assert.equal(await Promise.race([query, timeout.promise]), 'answered', name);
    clearTimeout(timer);
    answer();
    await useResult;
  }
});

/** Sends a payload in a request with the given ID, and returns the ID of the raw record. */
async function send(requestId: string, source: string): Promise<number> {
  const response = await fetch(`${runningCollector.url}/api/v1/ingest`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-request-id': requestId },
    body: JSON.stringify(createPayload({ source_slug: source })),
  });
  assert.equal(response.status, 202);
  return ((await response.json()) as { raw_id: number }).raw_id;
}

const waitUntilEnded = (rawId: number) =>
  until(`the log line of job ${rawId}`, () =>
    lines.some(({ msg, raw_id: id }) => msg === 'job' && id === rawId),
  );

test('Every log line of a job names its payload and request', async () => {
  await until('the probes', () => lines.filter(({ msg }) => msg.startsWith('Probed')).length === 2);
  lines.length = 0;
  // During an outage the client retries, the stage fails, and the job returns to the queue.
  server.state.isUp = false;
  const firstId = await send('request-one', 'one');
  await waitUntilEnded(firstId);
  server.state.isUp = true;
  const secondId = await send('request-two', 'two');
  await waitUntilEnded(secondId);
  await makeJobsDue(loggedDatabase.db);
  const completedLine = await until('the next attempt', () =>
    lines.find(({ msg, raw_id: id, attempt }) => msg === 'job' && id === firstId && attempt === 2),
  );
  assert.equal(completedLine.outcome, 'completed');

  const jobLines = lines.filter(({ msg }) => msg !== 'request');
  const getLines = (rawId: number) =>
    jobLines
      .filter(({ raw_id: id }) => id === rawId)
      .map(({ msg, request_id: request, source, attempt }) => [msg, request, source, attempt]);
  const failureMessages = Array.from({ length: 3 }, () => 'a request to the model failed');
  assert.deepEqual(getLines(firstId), [
    ...[...failureMessages, 'a stage failed', 'job'].map((msg) => [msg, 'request-one', 'one', 1]),
    ['job', 'request-one', 'one', 2],
  ]);
  assert.deepEqual(getLines(secondId), [['job', 'request-two', 'two', 1]]);
  for (const { msg, reason } of jobLines) {
    if (msg === failureMessages[0])
      assert.match(String(reason), /responded with status 503 to POST .*: overloaded\.$/);
  }
  assert.equal(jobLines.length, getLines(firstId).length + getLines(secondId).length);
  assert.equal((await readRawRecord(loggedDatabase.db, firstId)).request_id, 'request-one');
});

test('A job that loses the database is aborted, and runs again under its request', async () => {
  lossyDatabase.lose({ statement: 'insert into property_listings', when: 'before', times: 1 });
  const id = await send('request-four', 'four');
  await waitUntilEnded(id);
  const payloadLines = lines.filter(({ raw_id }) => raw_id === id);
  assert.deepEqual(
    payloadLines.map(({ msg, request_id: request }) => [msg, request]),
    ['a job was aborted', 'job'].map((msg) => [msg, 'request-four']),
  );
});
