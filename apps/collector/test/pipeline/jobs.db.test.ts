import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '@oselya/db';
import { createLogger } from '@oselya/kit';
import { ModelError } from '@oselya/model';
import { atEnd, until } from '@oselya/testing';
import { createLossyDatabase } from '@oselya/testing/database';
import { Registry } from 'prom-client';
import { backfillEmbeddings } from '../../src/embeddings/backfill.ts';
import { start } from '../../src/main.ts';
import { createMetrics } from '../../src/metrics.ts';
import { claimJobs } from '../../src/queue/claim.ts';
import { createJobRunner } from '../../src/queue/job-runner.ts';
import { rescueJobs } from '../../src/queue/job-writes.ts';
import type { ProcessJob } from '../../src/queue/job-types.ts';
import { requeuePayload } from '../../src/queue/retry.ts';
import { startWorker } from '../../src/queue/worker.ts';
import { createSearchService } from '../../src/search/service.ts';
import type { Tables } from '../../src/tables.ts';
import {
  countedModel,
  createHarness,
  DIMENSIONS,
  fakeBreaker,
  log,
  makeDue,
  noImages,
  openDatabase,
  payloadOf,
  rawRecord,
  startModelServer,
  store,
} from '../support/pipeline.ts';

const { db } = await openDatabase();

/** A request, as the model server counted it. */
const event = {
  operation: 'x',
  outcome: 'ok',
  durationMs: 1,
  inputTokens: 70,
  outputTokens: 7,
} as const;

test('A new listing costs two requests, and an unchanged one none', async () => {
  const harness = createHarness(db);
  const payload = payloadOf();
  const { model_usage: first } = await harness.process(payload);
  assert.equal(first?.calls, 2);
  assert.ok(first.input_tokens > 100 && first.output_tokens > 50, JSON.stringify(first));
  const { model_usage: second } = await harness.process(payload);
  assert.deepEqual(second, { calls: 0, input_tokens: 0, output_tokens: 0 });
});

test('Requests about images count for their job', async () => {
  const images = {
    ...noImages,
    processRemote: ({ observe }: { observe?: (one: typeof event) => void }) => {
      observe?.(event);
      return Promise.resolve([]);
    },
  };
  const alone = await createHarness(db).process(payloadOf({ external_id: 'alone' }));
  const withImages = await createHarness(db, { images }).process(
    payloadOf({ external_id: 'withImages' }),
  );
  assert.deepEqual(withImages.model_usage, {
    calls: 3,
    input_tokens: (alone.model_usage?.input_tokens ?? 0) + 70,
    output_tokens: (alone.model_usage?.output_tokens ?? 0) + 7,
  });
});

test('A failed job has its cost, and the next attempt adds to it', async () => {
  const model = modelFailing(() => {
    throw new ModelError('MODEL_REJECTED', 'too long');
  });
  const payload = payloadOf();
  const failed = await createHarness(db, { model }).process(payload);
  assert.equal(failed.status, 'failed');
  assert.equal(failed.model_usage?.calls, 2);
  assert.ok(await requeuePayload(db, failed.id));
  await createHarness(db).runNext();
  const { model_usage: usage } = await rawRecord(db, failed.id);
  assert.equal(usage?.calls, 4);
  assert.ok(usage.output_tokens >= 2 * failed.model_usage.output_tokens);
});

/** Creates a model whose embeddings fail. */
function modelFailing(fail: () => never) {
  const model = countedModel();
  return {
    ...model,
    embed: ((_texts, options) => {
      options?.observe?.({ ...event, inputTokens: null, outputTokens: null });
      fail();
    }) satisfies typeof model.embed,
  };
}

/** Asks the model once, and then waits until it is aborted. */
const askAndWait: ProcessJob = (_job, { cost, signal }) => {
  cost?.observe(event);
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
};

test('A job that a shutdown interrupts is counted, in a worker and in a request', async () => {
  const id = await store(db, payloadOf());
  const metrics = createMetrics(new Registry());
  let asked = 0;
  const process: ProcessJob = (job, options) => {
    asked += 1;
    return askAndWait(job, options);
  };
  const usual = { db, process, metrics, log, leaseMs: 60_000 };
  const worker = startWorker({
    ...usual,
    breaker: fakeBreaker(),
    slots: 1,
    maxAttempts: 3,
    // A stop must wait for a busy database here.
  });
  await until('the worker to ask the model', () => asked === 1);
  await worker.stop({ timeoutMs: 0 });
  const returned = await rawRecord(db, id);
  assert.deepEqual([returned.status, returned.model_usage?.calls], ['pending', 1]);

  const jobs = createJobRunner(usual);
  const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
  assert.ok(job);
  const outcome = jobs.run(job, {});
  await jobs.close({ timeoutMs: 0 });
  assert.equal(await outcome, 'returned');
  const again = await rawRecord(db, id);
  assert.deepEqual(
    [again.status, again.model_usage],
    ['pending', { calls: 2, input_tokens: 140, output_tokens: 14 }],
  );
  await db.deleteFrom('raw_data').where('id', '=', id).execute();
});

test('The job of a lost worker has its cost at the last renewal of the lease', async () => {
  const id = await store(db, payloadOf());
  const metrics = createMetrics(new Registry());
  const process = askAndWait;
  const usual = { db, process, metrics, log, leaseMs: 3000, breaker: fakeBreaker(), slots: 1 };
  for (const attempt of [1, 2]) {
    const worker = startWorker({ ...usual, maxAttempts: 2 });
    await until('the lease to be renewed', async () => {
      const { attempt_usage: usage, attempts } = await rawRecord(db, id);
      return attempts === attempt && usage?.calls === 1;
    });
    const { model_usage: before } = await rawRecord(db, id);
    assert.equal(before?.calls ?? 0, attempt - 1, 'nothing is counted twice while it goes on');
    // As if the worker was killed and its claim expired.
    await db
      .updateTable('raw_data')
      .set({ lease_expires_at: new Date(0), attempt: attempt * 10 })
      .where('id', '=', id)
      .execute();
    await worker.stop({ timeoutMs: 0 });
    await rescueJobs(db, 2);
    const lost = await rawRecord(db, id);
    assert.deepEqual(
      [lost.status, lost.model_usage?.calls, lost.attempt_usage],
      [attempt === 2 ? 'failed' : 'pending', attempt, null],
    );
    assert.equal(lost.model_usage?.input_tokens, attempt * event.inputTokens);
  }
});

/** Database with one connection. */
const other = await openDatabase();
const { db: narrow } =
  other.url === undefined
    ? other
    : await connect<Tables>({ url: other.url, maxConnections: 1 }).then((connection) => {
        atEnd(connection.close);
        return connection;
      });

const LIMIT_MS = 5000;
const { signal } = new AbortController();

/** Creates a model that holds one kind of request until the test answers it. */
function heldModel(held: 'generateObject' | 'embed') {
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const mock = countedModel();
  const wait = (): Promise<void> => {
    asked.resolve();
    return answer.promise;
  };
  const model: typeof mock = {
    ...mock,
    // With another model every listing is embedded again.
    embeddingModel: 'held',
    async generateObject(request) {
      if (held === 'generateObject') await wait();
      return mock.generateObject(request);
    },
    async embed(texts, options) {
      if (held === 'embed') await wait();
      return mock.embed(texts, options);
    },
  };
  return { model, asked: asked.promise, answer: answer.resolve };
}

type Model = ReturnType<typeof countedModel>;

/** Users of the model. */
const uses: [
  name: string,
  held: 'generateObject' | 'embed',
  use: (model: Model) => Promise<unknown>,
][] = [
  ['the validate stage', 'generateObject', work],
  ['the embed stage', 'embed', work],
  [
    'a similar search',
    'embed',
    (model) => createSearchService({ db: narrow, model }).similar({ query: 'квартира' }, signal),
  ],
  [
    'a hybrid search',
    'embed',
    (model) => createSearchService({ db: narrow, model }).hybrid({ query: 'квартира' }, signal),
  ],
  [
    'a backfill',
    'embed',
    (model) =>
      backfillEmbeddings(
        { db: narrow, model },
        { dryRun: false, signal, onProgress: () => undefined },
      ),
  ],
];

async function work(model: Model): Promise<void> {
  await store(narrow, payloadOf());
  assert.equal(await createHarness(narrow, { model }).runNext(), 'completed');
}

test('Each use of the model holds no connection while the model answers', async () => {
  await createHarness(narrow).process(payloadOf());
  for (const [name, held, use] of uses) {
    const { model, asked, answer } = heldModel(held);
    const using = use(model);
    await Promise.race([asked, using]);
    const late = Promise.withResolvers<string>();
    const timer = setTimeout(() => late.resolve('no connection was free'), LIMIT_MS);
    const query = narrow
      .selectFrom('property_listings')
      .select('id')
      .execute()
      .then(() => 'answered');
    assert.equal(await Promise.race([query, late.promise]), 'answered', name);
    clearTimeout(timer);
    answer();
    await using;
  }
});

type Line = {
  msg: string;
  raw_id?: number;
  request_id?: string;
  source?: string;
  attempt?: number;
  outcome?: string;
  reason?: string;
};

const logged = await openDatabase();
const lossy = createLossyDatabase(logged.db);
const server = await startModelServer();
const folder = await mkdtemp(join(tmpdir(), 'oselya-log-'));
const lines: Line[] = [];
const running = await start(
  {
    DATA_DIR: folder,
    COLLECTOR_PORT: '0',
    EMBEDDING_DIMENSIONS: String(DIMENSIONS),
    MIN_FREE_DISK_MB: '0',
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: server.url,
    MODEL_CHAT: 'chat',
    MODEL_EMBEDDING: 'embedding',
  },
  {
    database: { ...logged, db: lossy.db },
    log: createLogger({
      level: 'info',
      service: 'test',
      destination: { write: (line) => lines.push(JSON.parse(line) as Line) },
    }),
  },
);
atEnd(async () => {
  await running.close();
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

/** Sends a payload in a request with this id, and returns its raw id. */
async function send(requestId: string, source: string): Promise<number> {
  const response = await fetch(`${running.url}/api/v1/ingest`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-request-id': requestId },
    body: JSON.stringify(payloadOf({ source_slug: source })),
  });
  assert.equal(response.status, 202);
  return ((await response.json()) as { raw_id: number }).raw_id;
}

const ended = (rawId: number) =>
  until(`the line of job ${rawId}`, () =>
    lines.some(({ msg, raw_id: id }) => msg === 'job' && id === rawId),
  );

test('Every log line of a job names its payload and request', async () => {
  await until('the probes', () => lines.filter(({ msg }) => msg.startsWith('Probed')).length === 2);
  lines.length = 0;
  // During an outage the client retries, the stage fails, and the job returns to the queue.
  server.state.up = false;
  const first = await send('request-one', 'one');
  await ended(first);
  server.state.up = true;
  const second = await send('request-two', 'two');
  await ended(second);
  await makeDue(logged.db);
  const completed = await until('the next attempt', () =>
    lines.find(({ msg, raw_id: id, attempt }) => msg === 'job' && id === first && attempt === 2),
  );
  assert.equal(completed.outcome, 'completed');

  const ofJobs = lines.filter(({ msg }) => msg !== 'request');
  const linesOf = (rawId: number) =>
    ofJobs
      .filter(({ raw_id: id }) => id === rawId)
      .map(({ msg, request_id: request, source, attempt }) => [msg, request, source, attempt]);
  const failing = Array.from({ length: 3 }, () => 'a request to the model failed');
  assert.deepEqual(linesOf(first), [
    ...[...failing, 'a stage failed', 'job'].map((msg) => [msg, 'request-one', 'one', 1]),
    ['job', 'request-one', 'one', 2],
  ]);
  assert.deepEqual(linesOf(second), [['job', 'request-two', 'two', 1]]);
  for (const { msg, reason } of ofJobs) {
    if (msg === failing[0]) assert.match(String(reason), /answered 503 to POST .*: overloaded\.$/);
  }
  assert.equal(ofJobs.length, linesOf(first).length + linesOf(second).length);
  assert.equal((await rawRecord(logged.db, first)).request_id, 'request-one');
});

test('Every log line of a job within a request names its payload and request', async () => {
  const form = new FormData();
  form.set('metadata', JSON.stringify(payloadOf({ source_slug: 'three' })));
  const response = await fetch(`${running.url}/api/v1/ingest/with-images`, {
    method: 'POST',
    headers: { 'x-request-id': 'request-three' },
    body: form,
  });
  assert.equal(response.status, 200);
  const { raw_id: id } = (await response.json()) as { raw_id: number };
  const job = await until('its line', () =>
    lines.find((line) => line.msg === 'job' && line.raw_id === id),
  );
  assert.equal(job.request_id, 'request-three');
  assert.equal((await rawRecord(logged.db, id)).request_id, 'request-three');
});

test('A job that loses the database is dropped, and runs again under its request', async () => {
  lossy.lose({ statement: 'set completed_hash =', when: 'before', times: 1 });
  const id = await send('request-four', 'four');
  await ended(id);
  const said = lines.filter(({ raw_id }) => raw_id === id);
  assert.deepEqual(
    said.map(({ msg, request_id: request }) => [msg, request]),
    ['a job was dropped', 'job'].map((msg) => [msg, 'request-four']),
  );
});
