import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, test } from 'node:test';
import { LISTING } from '@oselya/model/testing';
import { createRetry } from '../../src/operations/payloads.ts';
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

const JOBS = 12;
const SLOTS = 3;
const TIMEOUT_MS = 20_000;

let opened: ReturnType<typeof startModelWorker>;

beforeEach(() => begin(TIMEOUT_MS));
afterEach(end);

/** Has a worker take up jobs, all of them new. */
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

/** Waits until all jobs have ended, and gives how. */
function ended(): Promise<Record<string, number>> {
  return until('all jobs to end', async () => {
    const { completed, failed } = await countByStatus(db);
    return completed + failed === JOBS && { completed, failed };
  });
}

async function retryAll(): Promise<void> {
  await createRetry({ db, onRetried: opened.worker.notify }).all({ status: 'failed' });
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

/** A model that says one thing over and over, as small ones do. */
const loop = `{"is_listing": true, "features": [${'"balcony", '.repeat(2000)}`;

/**
 * Answers that are no use, of a server that is there (one that is not: queue/outage.db.test.ts): each job
 * fails for itself, after so many requests, and nothing is kept back.
 */
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
  ['a loop up to the length limit', send(chat(loop, 'length')), 1, 10, /cut off/],
  ['a loop whose server does not tell', send(chat(loop, 'stop')), 2, 20, /fails its schema/],
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
    assert.equal(opened.model.breaker.state, 'closed', 'the server is there');
    server.state.interfere = undefined;
    await retryAll();
    assert.deepEqual(await ended(), { completed: JOBS, failed: 0 });
  });
}

/** What servers send in place of the vector of a text. */
const vectors: [name: string, vector: unknown][] = [
  ['of another width', [1, 2, 3]],
  ['of nothing', []],
  ['of zeros', Array(DIMENSIONS).fill(0)],
  ['with holes', [null, ...Array(DIMENSIONS - 1).fill(1)]],
  ['of words', Array(DIMENSIONS).fill('1')],
];

for (const [name, embedding] of vectors) {
  test(`vectors ${name}: ${JOBS} jobs fail, nothing of them is stored, and they complete when tried again`, async () => {
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

/** Begins to answer at once, and goes on a byte at a time until long after every deadline. */
const drip: Interference = (response) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  const timer = setInterval(() => response.write(' '), 20);
  response.on('close', () => clearInterval(timer));
};

test('a server that answers by drips is given up at the deadline, and no job fails', async () => {
  await end();
  await begin(500);
  server.state.interfere = drip;
  await until('requests', () => server.state.requests >= 3 * SLOTS);
  assert.notEqual(opened.model.breaker.state, 'closed', 'it is as good as not there');
  const { completed, failed } = await countByStatus(db);
  assert.deepEqual({ completed, failed }, { completed: 0, failed: 0 });
  server.state.interfere = undefined;
  assert.deepEqual(await ended(), { completed: JOBS, failed: 0 });
});

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
  const { calls } = await sumUsage(db);
  assert.equal(calls, 2 * JOBS + SLOTS + 1, 'each refusal is one request more');
  assert.equal(opened.model.breaker.state, 'closed');
});
