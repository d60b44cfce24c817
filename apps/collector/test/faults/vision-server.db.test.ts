import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, test } from 'node:test';
import { atEnd } from '@oselya/db/testing';
import { type Answer, completion, type ReceivedRequest } from '@oselya/model/testing';
import { until } from '@oselya/testing';
import {
  openDatabase,
  store,
  OVERLOADED,
  startModelServer,
  countByStatus,
  openModel,
  startModelWorker,
  payloadOf,
} from '../support/pipeline.ts';
import { openWorkerImages, serveImages } from '../support/images.ts';

const database = await openDatabase();
const { db } = database;
const server = await startModelServer();
atEnd(server.close);
const host = await serveImages();
const dataDir = await mkdtemp(join(tmpdir(), 'oselya-vision-'));
atEnd(() => rm(dataDir, { recursive: true }));

const JOBS = 6;
/** For what never answers; a busy machine may take as long for an answer, and then a request is made again. */
const SHORT_MS = 800;

/** Pictures that the model was shown: by address, or the control. */
let shown: string[] = [];
let round = 0;

beforeEach(async () => {
  shown = [];
  round += 1;
  Object.assign(server.state, { readings: 0 });
  delete server.state.saysOf;
  await db.deleteFrom('raw_data').execute();
});

/** Has the server answer so of some pictures, and describe the others. */
function faultOf(answer: Answer, isOf: (url: string) => boolean = () => true): void {
  server.state.saysOf = (request) => {
    const url = urlIn(request);
    shown.push(url);
    return isOf(url) ? answer : undefined;
  };
}

/** The address of the picture that a request shows; of the control there is none. */
function urlIn({ body }: ReceivedRequest): string {
  return /http:[^"\\]+\.png/.exec(JSON.stringify(body))?.[0] ?? 'control';
}

const isPoison = (url: string) => url.endsWith('poison.png');

/** Payloads with two pictures each; one of the pictures is the poison. */
const USUAL = Array.from({ length: JOBS }, (_, nth) => [
  `${nth}`,
  nth === 2 ? 'poison' : `${nth}-other`,
]);

/** A worker over payloads that have pictures of these names. */
async function open({ payloads = USUAL, timeoutMs = 20_000, slots = 3 } = {}) {
  for (const names of payloads) {
    const urls = names.map((name) => `${host.url}/${round}-${name}.png`);
    await store(db, payloadOf({ image_urls: urls }));
  }
  const model = openModel(server.url, { vision: 'eyes', timeoutMs });
  const pictures = await openWorkerImages({
    db,
    model,
    folder: join(dataDir, 'images'),
  });
  const opened = startModelWorker({
    database,
    model,
    modelTimeoutMs: timeoutMs,
    images: pictures.images,
    slots,
    servers: [server, host],
    folder: dataDir,
  });
  const dispose = async (): Promise<void> => {
    await opened[Symbol.asyncDispose]();
    await pictures.close();
  };
  return { ...opened, [Symbol.asyncDispose]: dispose };
}

/** All that came of the payloads: none is lost, and nothing is there twice. */
async function judge(
  timeoutMs?: number,
): Promise<{ described: number; refused: Record<string, string> }> {
  const raws = await until('all jobs to end', async () => {
    const found = await db.selectFrom('raw_data').selectAll().execute();
    return found.every(({ status }) => !['pending', 'processing'].includes(status)) && found;
  });
  assert.deepEqual(
    raws.map(({ status, attempts }) => [status, attempts]),
    raws.map(() => ['completed', 1]),
  );
  if (timeoutMs === undefined) assert.equal(server.state.readings, JOBS, 'each text was read once');
  const ids = raws.map(({ listing_id: id }) => id ?? 0);
  assert.equal(new Set(ids).size, JOBS);
  const pictures = await db
    .selectFrom('listing_images')
    .leftJoin('images', 'images.sha256', 'listing_images.sha256')
    .select(['url', 'error', 'described_by', 'describe_error'])
    .where('listing_id', 'in', ids)
    .execute();
  assert.equal(pictures.length, 2 * JOBS);
  assert.ok(pictures.every(({ error }) => error === null));
  const embedded = await db
    .selectFrom('property_listings')
    .select('id')
    .where('id', 'in', ids)
    .where('embedding', 'is not', null)
    .execute();
  assert.equal(embedded.length, JOBS);
  assert.deepEqual(await db.selectFrom('raw_readings').selectAll().execute(), []);
  const refused = pictures.flatMap(({ url, describe_error: refusal }) =>
    refusal === null ? [] : [[url?.replace(/.*-/, '') ?? '', refusal.code]],
  );
  const described = pictures.filter(({ described_by: by }) => by !== null).length;
  return { described, refused: Object.fromEntries(refused) };
}

/** A server that begins to answer, and goes on a byte at a time until long after every deadline. */
const drip: Answer = {
  write(response) {
    response.writeHead(200, { 'content-type': 'application/json' });
    const timer = setInterval(() => response.write(' '), 20);
    response.on('close', () => clearInterval(timer));
  },
};

const busy = (retryAfter: string): Answer => ({
  status: 429,
  headers: { 'retry-after': retryAfter },
  body: {},
});

const outages: [name: string, answer: Answer, timeoutMs?: number][] = [
  ['is down', OVERLOADED],
  ['resets each connection', 'reset'],
  ['cuts each connection in the midst of an answer', 'cut'],
  ['never answers', 'silence', SHORT_MS],
  ['answers by drips', drip, SHORT_MS],
  ['asks for patience', busy('0.01')],
];

for (const [name, answer, timeoutMs] of outages) {
  test(`a vision server that ${name} for a while costs no listing and no picture anything`, async () => {
    faultOf(answer);
    await using opened = await open({ timeoutMs });
    await until('the breaker to open', () => opened.model.breaker.state !== 'closed');
    const reached = shown.length;
    await until('four probes', () => shown.length >= reached + 4);
    const { completed, failed } = await countByStatus(db);
    assert.deepEqual([completed, failed], [0, 0]);
    delete server.state.saysOf;
    assert.deepEqual(await judge(timeoutMs), { described: 2 * JOBS, refused: {} });
  });
}

/** A model that says one thing over and over, as small ones do. */
const loop = `{"description": "${'a wall and '.repeat(2000)}`;

const useless: [name: string, answer: Answer, code: string, requests: number][] = [
  ['garbage', { body: '<html>proxy</html>' }, 'MODEL_INVALID_OUTPUT', 1],
  ['prose', completion('A bright kitchen.'), 'MODEL_INVALID_OUTPUT', 2],
  ['half an answer', completion('{"descr', { finishReason: 'length' }), 'MODEL_TRUNCATED', 1],
  ['a loop', completion(loop, { finishReason: 'length' }), 'MODEL_TRUNCATED', 1],
  ['a loop without saying so', completion(loop), 'MODEL_INVALID_OUTPUT', 2],
  ['that it is malformed', { status: 400, body: {} }, 'MODEL_REJECTED', 1],
  ['that it is too large', { status: 413, body: {} }, 'MODEL_REJECTED', 1],
];

for (const [name, answer, code, requests] of useless) {
  test(`a vision server that says ${name} of one picture has it recorded, and nothing else`, async () => {
    faultOf(answer, isPoison);
    await using opened = await open();
    assert.deepEqual(await judge(), { described: 2 * JOBS - 1, refused: { 'poison.png': code } });
    assert.equal(shown.filter(isPoison).length, requests);
    assert.equal(opened.model.breaker.state, 'closed');
  });
}

const poisons: [name: string, answer: Answer, code: string, timeoutMs?: number][] = [
  ['answers 500', { status: 500, body: {} }, 'MODEL_UNAVAILABLE'],
  ['resets the connection', 'reset', 'MODEL_UNREACHABLE'],
  ['cuts the connection in the midst of an answer', 'cut', 'MODEL_UNREACHABLE'],
  ['never answers', 'silence', 'MODEL_TIMEOUT', SHORT_MS],
];

for (const [name, answer, code, timeoutMs] of poisons) {
  test(`a vision server that ${name} for one picture, always, has it recorded, and nothing else`, async () => {
    faultOf(answer, isPoison);
    await using _ = await open({ timeoutMs });
    const refused = { 'poison.png': code };
    assert.deepEqual(await judge(timeoutMs), { described: 2 * JOBS - 1, refused });
  });
}

/** The requests for the poison that its limit refuses, with all attempts of each call. */
const limitedRequests = (calls: number) => 3 * calls;

test('a vision server that asks for patience for one picture, always, has it recorded, and nothing else', async () => {
  faultOf(busy('0'), isPoison);
  await using opened = await open();
  const refused = { 'poison.png': 'MODEL_RATE_LIMITED' };
  assert.deepEqual(await judge(), { described: 2 * JOBS - 1, refused });
  assert.equal(shown.filter(isPoison).length, limitedRequests(5));
  assert.equal(opened.model.breaker.state, 'closed', 'which the controls keep so for others');
});

test('a vision server that asks for patience for one picture for a while has it in the end', async () => {
  const most = limitedRequests(4);
  faultOf(busy('0'), (url) => isPoison(url) && shown.filter(isPoison).length <= most);
  await using _ = await open();
  assert.deepEqual(await judge(), { described: 2 * JOBS, refused: {} });
  assert.equal(shown.filter(isPoison).length, most + 1);
});

/** A server that a picture takes down, for as long as it takes to start again. */
function fallOver(): void {
  let downUntil = 0;
  server.state.saysOf = (request) => {
    const url = urlIn(request);
    shown.push(url);
    if (isPoison(url)) downUntil = Date.now() + 100;
    return Date.now() < downUntil ? 'reset' : undefined;
  };
}

test('a picture that takes the server down with it is recorded, and nothing else', async () => {
  fallOver();
  await using _ = await open();
  const refused = { 'poison.png': 'MODEL_UNREACHABLE' };
  assert.deepEqual(await judge(), { described: 2 * JOBS - 1, refused });
});

test('so are several of one listing that is alone in the queue: nobody else has to be answered', async () => {
  fallOver();
  await using _ = await open({ payloads: [['1-poison', '2-poison', '3-poison', 'good']] });
  await until('it to end', async () => {
    const { completed, failed } = await countByStatus(db);
    return completed + failed === 1;
  });
  const { status } = await db.selectFrom('raw_data').select('status').executeTakeFirstOrThrow();
  assert.equal(status, 'completed');
  assert.equal(server.state.readings, 1);
  const refused = await db
    .selectFrom('listing_images')
    .innerJoin('images', 'images.sha256', 'listing_images.sha256')
    .select('url')
    .where('describe_error', 'is not', null)
    .where('url', 'like', `${host.url}/${round}-%`)
    .execute();
  assert.equal(refused.length, 3);
});

test('a picture that failed in an outage is described after it, whoever else was answered before', async () => {
  // It is away for two calls of each picture, as if it fell over again and again, and answers in between.
  const met = new Map<string, number>();
  server.state.saysOf = (request) => {
    const url = urlIn(request);
    shown.push(url);
    const times = met.get(url) ?? 0;
    met.set(url, times + 1);
    return url !== 'control' && times < 6 ? OVERLOADED : undefined;
  };
  // One listing at a time: its trials have nobody else's failures among their own.
  await using _ = await open({ slots: 1 });
  assert.deepEqual(await judge(), { described: 2 * JOBS, refused: {} });
  assert.ok(shown.includes('control'));
});
