import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, test } from 'node:test';
import { atEnd, until } from '@oselya/testing';
import { type ScriptedResponse, completion, type ReceivedRequest } from '@oselya/model/testing';
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
/** The timeout of requests to a silent server; a request that a busy machine delays as long is repeated. */
const SHORT_MS = 800;

/** Images that the model was shown: by address, or the control. */
let shown: string[] = [];
let round = 0;

beforeEach(async () => {
  shown = [];
  round += 1;
  Object.assign(server.state, { readings: 0 });
  delete server.state.saysOf;
  await db.deleteFrom('raw_data').execute();
});

/** Makes the server give an answer for some images, and describe the others. */
function faultOf(answer: ScriptedResponse, isOf: (url: string) => boolean = () => true): void {
  server.state.saysOf = (request) => {
    const url = urlIn(request);
    shown.push(url);
    return isOf(url) ? answer : undefined;
  };
}

/** Returns the address of the image in a request. */
function urlIn({ body }: ReceivedRequest): string {
  return /http:[^"\\]+\.png/.exec(JSON.stringify(body))?.[0] ?? 'control';
}

const isPoison = (url: string) => url.endsWith('poison.png');

/** Payloads with two images each; one of the images is the poison. */
const USUAL = Array.from({ length: JOBS }, (_, nth) => [
  `${nth}`,
  nth === 2 ? 'poison' : `${nth}-other`,
]);

/** Starts a worker over payloads with images of these names. */
async function open({ payloads = USUAL, timeoutMs = 20_000, slots = 3, retryMs = 100 } = {}) {
  for (const names of payloads) {
    const urls = names.map((name) => `${host.url}/${round}-${name}.png`);
    await store(db, payloadOf({ image_urls: urls }));
  }
  const model = openModel(server.url, { vision: 'eyes', timeoutMs });
  const workerImages = await openWorkerImages({
    db,
    model,
    folder: join(dataDir, 'images'),
  });
  const opened = startModelWorker({
    database,
    model,
    modelTimeoutMs: timeoutMs,
    images: workerImages.images,
    slots,
    retryMs,
    servers: [server, host],
    folder: dataDir,
  });
  const dispose = async (): Promise<void> => {
    await opened[Symbol.asyncDispose]();
    await workerImages.close();
  };
  return { ...opened, [Symbol.asyncDispose]: dispose };
}

/** Waits for the end of all payloads, and checks that none is lost or doubled. */
async function judge(
  timeoutMs?: number,
): Promise<{ described: number; rejected: Record<string, string> }> {
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
  const images = await db
    .selectFrom('listing_images')
    .leftJoin('images', 'images.sha256', 'listing_images.sha256')
    .select(['url', 'error', 'described_by', 'describe_error'])
    .where('listing_id', 'in', ids)
    .execute();
  assert.equal(images.length, 2 * JOBS);
  assert.ok(images.every(({ error }) => error === null));
  const embedded = await db
    .selectFrom('property_listings')
    .select('id')
    .where('id', 'in', ids)
    .where('embedding', 'is not', null)
    .execute();
  assert.equal(embedded.length, JOBS);
  assert.deepEqual(await db.selectFrom('raw_readings').selectAll().execute(), []);
  const rejected = images.flatMap(({ url, describe_error: rejection }) =>
    rejection === null ? [] : [[url?.replace(/.*-/, '') ?? '', rejection.code]],
  );
  const described = images.filter(({ described_by: by }) => by !== null).length;
  return { described, rejected: Object.fromEntries(rejected) };
}

const busy = (retryAfter: string): ScriptedResponse => ({
  status: 429,
  headers: { 'retry-after': retryAfter },
  body: {},
});

const outages: [name: string, answer: ScriptedResponse, timeoutMs?: number][] = [
  ['is down', OVERLOADED],
  ['stays silent', 'silence', SHORT_MS],
  ['limits its rate', busy('0.01')],
];

for (const [name, answer, timeoutMs] of outages) {
  test(`No listing and no image fails while the vision server ${name}`, async () => {
    faultOf(answer);
    await using opened = await open({ timeoutMs });
    await until('the breaker to open', () => opened.model.breaker.state !== 'closed');
    const reached = shown.length;
    await until('four probes', () => shown.length >= reached + 4);
    const { completed, failed } = await countByStatus(db);
    assert.deepEqual([completed, failed], [0, 0]);
    delete server.state.saysOf;
    assert.deepEqual(await judge(timeoutMs), { described: 2 * JOBS, rejected: {} });
  });
}

const useless: [name: string, answer: ScriptedResponse, code: string, requests: number][] = [
  ['prose', completion('A bright kitchen.'), 'MODEL_INVALID_OUTPUT', 2],
  ['half an answer', completion('{"descr', { finishReason: 'length' }), 'MODEL_TRUNCATED', 1],
  ['400', { status: 400, body: {} }, 'MODEL_REJECTED', 1],
];

for (const [name, answer, code, requests] of useless) {
  test(`Only the affected image is recorded when the vision server answers ${name} for it`, async () => {
    faultOf(answer, isPoison);
    await using opened = await open();
    assert.deepEqual(await judge(), { described: 2 * JOBS - 1, rejected: { 'poison.png': code } });
    assert.equal(shown.filter(isPoison).length, requests);
    assert.equal(opened.model.breaker.state, 'closed');
  });
}

const poisons: [name: string, answer: ScriptedResponse, code: string, timeoutMs?: number][] = [
  ['answers 500', { status: 500, body: {} }, 'MODEL_UNAVAILABLE'],
  ['resets the connection', 'reset', 'MODEL_UNREACHABLE'],
  ['stays silent', 'silence', 'MODEL_TIMEOUT', SHORT_MS],
];

for (const [name, answer, code, timeoutMs] of poisons) {
  test(`Only the affected image is recorded when the vision server always ${name} for it`, async () => {
    faultOf(answer, isPoison);
    await using _ = await open({ timeoutMs });
    const rejected = { 'poison.png': code };
    assert.deepEqual(await judge(timeoutMs), { described: 2 * JOBS - 1, rejected });
  });
}

test('Only the affected image is recorded when the vision server always limits its rate for it', async () => {
  faultOf(busy('0'), isPoison);
  await using opened = await open();
  const rejected = { 'poison.png': 'MODEL_RATE_LIMITED' };
  assert.deepEqual(await judge(), { described: 2 * JOBS - 1, rejected });
  assert.equal(shown.filter(isPoison).length, 5 * 3);
  assert.equal(opened.model.breaker.state, 'closed');
});

/** Makes the server fail the request of an image and the two requests after it. */
function crashServer(): void {
  let failures = 0;
  server.state.saysOf = (request) => {
    const url = urlIn(request);
    shown.push(url);
    if (isPoison(url)) failures = 3;
    failures -= 1;
    return failures >= 0 ? 'reset' : undefined;
  };
}

test('Only the image that takes the server down is recorded', async () => {
  crashServer();
  await using _ = await open();
  const rejected = { 'poison.png': 'MODEL_UNREACHABLE' };
  assert.deepEqual(await judge(), { described: 2 * JOBS - 1, rejected });
});

test('Several images that take the server down are recorded when their listing is alone in the queue', async () => {
  crashServer();
  await using _ = await open({ payloads: [['1-poison', '2-poison', 'good']], retryMs: 10 });
  await until('it to end', async () => {
    const { completed, failed } = await countByStatus(db);
    return completed + failed === 1;
  });
  const { status } = await db.selectFrom('raw_data').select('status').executeTakeFirstOrThrow();
  assert.equal(status, 'completed');
  assert.equal(server.state.readings, 1);
  const rejected = await db
    .selectFrom('listing_images')
    .innerJoin('images', 'images.sha256', 'listing_images.sha256')
    .select('url')
    .where('describe_error', 'is not', null)
    .where('url', 'like', `${host.url}/${round}-%`)
    .execute();
  assert.equal(rejected.length, 2);
});

test('An image that failed in an outage is described after it', async () => {
  // The server fails two calls of each image, and answers others.
  const met = new Map<string, number>();
  server.state.saysOf = (request) => {
    const url = urlIn(request);
    shown.push(url);
    const times = met.get(url) ?? 0;
    met.set(url, times + 1);
    return url !== 'control' && times < 6 ? OVERLOADED : undefined;
  };
  // One listing at a time, so that its failures are its own.
  await using _ = await open({ slots: 1 });
  assert.deepEqual(await judge(), { described: 2 * JOBS, rejected: {} });
  assert.ok(shown.includes('control'));
});
