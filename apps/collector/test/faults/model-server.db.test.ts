import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, test } from 'node:test';
import { createModelClient } from '@oselya/model';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/metrics.ts';
import { createPipeline } from '../../src/pipeline/pipeline.ts';
import { startWorker, type Worker } from '../../src/queue/worker.ts';
import { DIMENSIONS, openDatabase, store } from '../support/database.ts';
import { type Interference, startModelServer } from '../support/model-server.ts';
import { payloadOf } from '../support/payload.ts';
import { log, noImages } from '../support/pipeline.ts';
import { until } from '../support/until.ts';

const { db } = await openDatabase();
const server = await startModelServer();
after(server.close);

const JOBS = 12;
const SLOTS = 3;
const TIMEOUT_MS = 2000;
/** Failures in a row that open the breaker. */
const FAILURES = 5;

let worker: Worker;
let model: ReturnType<typeof createModelClient>;

beforeEach(async () => {
  server.state.requests = 0;
  model = createModelClient({
    mode: 'openai',
    baseUrl: server.url,
    chat: 'chat',
    embedding: 'embedding',
    timeoutMs: TIMEOUT_MS,
    embeddingDimensions: DIMENSIONS,
    retry: { initialDelayMs: 1, maxDelayMs: 5 },
    breaker: { failures: FAILURES, halfOpenAfterMs: 30 },
  });
  const metrics = createMetrics(new Registry());
  const deps = { db, model, images: noImages, metrics, log, modelTimeoutMs: TIMEOUT_MS };
  await db.deleteFrom('raw_data').execute();
  await Promise.all(Array.from({ length: JOBS }, () => store(db, payloadOf())));
  worker = startWorker({
    ...deps,
    process: createPipeline(deps),
    breaker: model.breaker,
    slots: SLOTS,
    leaseMs: 60_000,
    maxAttempts: 3,
    pollMs: 10,
  });
});

afterEach(async () => {
  server.state.interfere = undefined;
  await worker.stop({ timeoutMs: 5000 });
  await model.close();
});

async function countBy(): Promise<Record<string, number>> {
  const rows = await db
    .selectFrom('raw_data')
    .select(['status', (eb) => eb.fn.countAll<number>().as('n')])
    .groupBy('status')
    .execute();
  return Object.fromEntries(rows.map(({ status, n }) => [status, n]));
}

/** Waits until all jobs have ended, and gives how. */
function ended(): Promise<Record<string, number>> {
  return until('all jobs to end', async () => {
    const { completed = 0, failed = 0 } = await countBy();
    return completed + failed === JOBS && { completed, failed };
  });
}

async function retryAll(): Promise<void> {
  await db
    .updateTable('raw_data')
    .set({ status: 'pending', attempts: 0 })
    .where('status', '=', 'failed')
    .execute();
  worker.hint();
}

const chat = (content: string, finish_reason = 'stop') =>
  JSON.stringify({
    model: 'test',
    choices: [{ index: 0, finish_reason, message: { role: 'assistant', content } }],
    usage: { prompt_tokens: 10, completion_tokens: 5 },
  });

const send =
  (body: string): Interference =>
  (response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(body);
  };

/** Answers that are no use: each job fails for itself, after so many requests, and nothing is kept back. */
const useless: [
  name: string,
  answer: Interference,
  requests: number,
  tokens: number,
  said: RegExp,
][] = [
  ['garbage', send('<html>proxy</html>'), 1, 0, /not JSON/],
  ['prose in place of JSON', send(chat('The flat is in Lviv.')), 2, 20, /fails its schema/],
  ['truncated answers', send(chat('{"is_listing": tr', 'length')), 1, 10, /cut off/],
  [
    'an answer that never ends',
    (response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const chunk = ' '.repeat(1024 * 1024);
      const more = () => {
        while (!response.destroyed && response.write(chunk));
      };
      response.on('drain', more);
      more();
    },
    1,
    0,
    /larger than 16 MiB/,
  ],
];

for (const [name, answer, requests, tokens, said] of useless) {
  test(`${name}: ${JOBS} jobs fail with the reason, and complete when they are tried again`, async () => {
    server.state.interfere = answer;
    assert.deepEqual(await ended(), { completed: 0, failed: JOBS });
    const raws = await db.selectFrom('raw_data').selectAll().execute();
    for (const { error, model_usage: usage, attempts } of raws) {
      assert.equal(error?.code, 'model_failed');
      assert.match(error.message, said);
      assert.deepEqual([usage?.calls, usage && usage.input_tokens], [requests, tokens]);
      assert.equal(attempts, 1);
    }
    assert.equal(server.state.requests, JOBS * requests);
    assert.equal(model.breaker.state, 'closed', 'the server is there');
    server.state.interfere = undefined;
    await retryAll();
    assert.deepEqual(await ended(), { completed: JOBS, failed: 0 });
  });
}

/**
 * A server that is not there: it costs few jobs, and the rest wait. A job that is told at once has all
 * its attempts, so that those in progress open the breaker; one that is told nothing has its whole
 * deadline for one, so that it takes as many jobs as the breaker takes failures.
 */
const absent: [name: string, answer: Interference, most: number][] = [
  [
    'a server that breaks connections',
    (response) => void response.socket?.resetAndDestroy(),
    SLOTS,
  ],
  ['a server that says nothing', () => undefined, FAILURES + SLOTS - 1],
  ['a server that is overloaded', (response) => void response.writeHead(503).end('{}'), SLOTS],
];

for (const [name, answer, most] of absent) {
  test(`${name}: at most ${most} of ${JOBS} jobs fail, and the rest complete when it is back`, async () => {
    server.state.interfere = answer;
    await until('the breaker to open', () => model.breaker.state !== 'closed');
    const reached = server.state.requests;
    await until('three probes', () => server.state.requests >= reached + 3);
    const { failed = 0, completed = 0 } = await countBy();
    assert.ok(failed <= most, `${failed} failed`);
    assert.equal(completed, 0);
    server.state.interfere = undefined;
    assert.deepEqual(await ended(), { completed: JOBS - failed, failed });
    await retryAll();
    assert.deepEqual(await ended(), { completed: JOBS, failed: 0 });
  });
}

test('429 with Retry-After: the wait is kept, and no job fails', async () => {
  const refusals: number[] = [];
  server.state.interfere = (response) => {
    refusals.push(performance.now());
    if (refusals.length > SLOTS) server.state.interfere = undefined;
    response.writeHead(429, { 'retry-after': '0.2' }).end('{}');
  };
  assert.deepEqual(await ended(), { completed: JOBS, failed: 0 });
  assert.equal(refusals.length, SLOTS + 1);
  const waited = (refusals.at(SLOTS) ?? 0) - (refusals.at(0) ?? 0);
  assert.ok(waited >= 200, `the next request came after ${waited} ms`);
  const raws = await db.selectFrom('raw_data').select('model_usage').execute();
  const calls = raws.reduce((sum, raw) => sum + (raw.model_usage?.calls ?? 0), 0);
  assert.equal(calls, 2 * JOBS + SLOTS + 1, 'each refusal is one request more');
  assert.equal(model.breaker.state, 'closed');
});
