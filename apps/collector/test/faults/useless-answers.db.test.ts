import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, test } from 'node:test';
import { LISTING } from '@oselya/model/testing';
import { createPayloadRetry } from '../../src/queue/retry.ts';
import { until } from '@oselya/testing';
import {
  DIMENSIONS,
  openDatabase,
  store,
  type Interference,
  startModelServer,
  countByStatus,
  openModel,
  startModelWorker,
  sumUsage,
  payloadOf,
} from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const server = await startModelServer();
after(server.close);

const JOBS = 6;
const SLOTS = 3;
const TIMEOUT_MS = 20_000;

let opened: ReturnType<typeof startModelWorker>;

beforeEach(() => begin(TIMEOUT_MS));
afterEach(end);

/** Starts a worker over new jobs. */
async function begin(timeoutMs: number): Promise<void> {
  server.state.requests = 0;
  await db.deleteFrom('raw_data').execute();
  await Promise.all(Array.from({ length: JOBS }, () => store(db, payloadOf())));
  opened = startModelWorker({
    database,
    servers: [server],
    model: openModel(server.url, { timeoutMs }),
    modelTimeoutMs: timeoutMs,
    slots: SLOTS,
  });
}

async function end(): Promise<void> {
  server.state.interfere = undefined;
  await opened[Symbol.asyncDispose]();
}

/** Waits until all jobs have ended, and counts them. */
function ended(): Promise<Record<string, number>> {
  return until('all jobs to end', async () => {
    const { completed, failed } = await countByStatus(db);
    return completed + failed === JOBS && { completed, failed };
  });
}

async function retryAll(): Promise<void> {
  await createPayloadRetry({ db, onRetried: opened.worker.notify }).all({ status: 'failed' });
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

/** Useless answers: the requests of each job, their tokens and the reason. Outages are in queue/outage.db.test.ts. */
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
  test(`${name}: jobs fail with the reason, and complete when they are retried`, async () => {
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
    assert.equal(opened.model.breaker.state, 'closed', 'the server answers');
    server.state.interfere = undefined;
    await retryAll();
    assert.deepEqual(await ended(), { completed: JOBS, failed: 0 });
  });
}

/** Invalid vectors. */
const vectors: [name: string, vector: unknown][] = [
  ['of another width', [1, 2, 3]],
  ['of zeros', Array(DIMENSIONS).fill(0)],
];

for (const [name, embedding] of vectors) {
  test(`Vectors ${name}: jobs fail without an embedding, and complete when they are retried`, async () => {
    server.state.interfere = (response) => {
      const isChat = response.req.url?.endsWith('/chat/completions') === true;
      const data = [{ index: 0, embedding }];
      send(isChat ? chat(JSON.stringify(LISTING)) : JSON.stringify({ data }))(response);
    };
    assert.deepEqual(await ended(), { completed: 0, failed: JOBS });
    const raws = await db.selectFrom('raw_data').select(['error', 'listing_id']).execute();
    for (const { error } of raws) {
      assert.deepEqual([error?.code, error?.stage], ['model_failed', 'embed']);
    }
    const embedded = () =>
      db
        .selectFrom('property_listings')
        .select('id')
        .where('embedding', 'is not', null)
        .where(
          'id',
          'in',
          raws.map(({ listing_id }) => listing_id ?? 0),
        )
        .execute();
    assert.deepEqual(await embedded(), []);
    server.state.interfere = undefined;
    await retryAll();
    assert.deepEqual(await ended(), { completed: JOBS, failed: 0 });
    assert.equal((await embedded()).length, JOBS);
  });
}

/** Sends a byte at a time until long after every deadline. */
const drip: Interference = (response) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  const timer = setInterval(() => response.write(' '), 20);
  response.on('close', () => clearInterval(timer));
};

test('A server that sends a byte at a time ends at the deadline, and no job fails', async () => {
  await end();
  await begin(500);
  server.state.interfere = drip;
  await until('requests', () => server.state.requests >= 3 * SLOTS);
  assert.notEqual(opened.model.breaker.state, 'closed', 'it does not answer in time');
  const { completed, failed } = await countByStatus(db);
  assert.deepEqual({ completed, failed }, { completed: 0, failed: 0 });
  server.state.interfere = undefined;
  assert.deepEqual(await ended(), { completed: JOBS, failed: 0 });
});

test('After 429 with Retry-After the next request waits, and no job fails', async () => {
  let rejections = 0;
  server.state.interfere = (response) => {
    rejections += 1;
    if (rejections > SLOTS) server.state.interfere = undefined;
    response.writeHead(429, { 'retry-after': '0.2' }).end('{}');
  };
  assert.deepEqual(await ended(), { completed: JOBS, failed: 0 });
  assert.equal(rejections, SLOTS + 1);
  const { calls } = await sumUsage(db);
  assert.equal(calls, 2 * JOBS + SLOTS + 1, 'each rejection is one more request');
  assert.equal(opened.model.breaker.state, 'closed');
});
