import assert from 'node:assert/strict';
import { join } from 'node:path';
import { beforeEach, test } from 'node:test';
import {
  createCompletion,
  type ReceivedRequest,
  type ScriptedResponse,
} from '@oselya/model/testing';
import { openFolder, deferCleanup, until } from '@oselya/testing';
import { sql } from 'kysely';
import { startBucket } from '../support/bucket.ts';
import { createForm, sendForm, startCollector } from '../support/collector.ts';
import { createImage, openWorkerImages, serveImages } from '../support/images.ts';
import {
  countByStatus,
  countPayloads,
  hasImage,
  openDatabase,
  openModel,
  OVERLOADED,
  createPayload,
  startModelServer,
  startModelWorker,
  store,
  createModelEnv,
} from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const server = await startModelServer();
deferCleanup(server.close);
const host = await serveImages();
const dataDir = await openFolder();

const JOB_COUNT = 6;
/** Timeout of requests to a silent server. */
const SHORT_TIMEOUT_MS = 800;

const MODEL_ENV = {
  ...createModelEnv(server.url),
  SSRF_ALLOW: '127.0.0.1',
  COLLECTOR_INGEST_PER_MINUTE: '0',
};

/** URLs of the images in requests to the model. The control image has the URL `control`. */
let describedUrls: string[] = [];
let round = 0;

beforeEach(async () => {
  describedUrls = [];
  round += 1;
  server.state.chatRequestCount = 0;
  delete server.state.describeImage;
  delete server.state.createResponse;
  await db.deleteFrom('raw_data').execute();
});

/** Scripts the response to requests for affected images. The server describes all other images. */
function scriptAnswer(answer: ScriptedResponse, isAffected: (url: string) => boolean = () => true) {
  server.state.describeImage = (request) => {
    const url = getImageUrl(request);
    describedUrls.push(url);
    return isAffected(url) ? answer : undefined;
  };
}

function getImageUrl({ text }: ReceivedRequest): string {
  return /http:[^"\\]+\.png/.exec(text)?.[0] ?? 'control';
}

const isPoison = (url: string) => url.endsWith('poison.png');

/** Image names of the payloads. One payload has the poison image. */
const PAYLOADS = Array.from({ length: JOB_COUNT }, (_, index) => [
  `${index}`,
  index === 2 ? 'poison' : `${index}-other`,
]);

/** Stores a payload for each list of image names, then starts a worker. */
async function startTestWorker({
  payloads = PAYLOADS,
  timeoutMs = 20_000,
  slots = 3,
  retryMs = 100,
} = {}) {
  for (const names of payloads) {
    const urls = names.map((name) => `${host.url}/${round}-${name}.png`);
    await store(db, createPayload({ image_urls: urls }));
  }
  const model = openModel(server.url, { vision: 'eyes', timeoutMs });
  const { images, close } = await openWorkerImages({ db, model, folder: join(dataDir, 'images') });
  const settings = { database, model, modelTimeoutMs: timeoutMs, images, slots, retryMs };
  const modelWorker = startModelWorker({ ...settings, servers: [server, host], folder: dataDir });
  const dispose = async (): Promise<void> => {
    await modelWorker[Symbol.asyncDispose]();
    await close();
  };
  return { ...modelWorker, [Symbol.asyncDispose]: dispose };
}

/** Waits until all jobs end, and checks their outcome. Returns the number of descriptions, and the rejections. */
async function checkOutcome(hasTimeouts = false) {
  const rawRecords = await until('all jobs to end', async () => {
    const records = await db.selectFrom('raw_data').selectAll().execute();
    return records.every(({ status }) => !['pending', 'processing'].includes(status)) && records;
  });
  assert.ok(rawRecords.every(({ status, attempts }) => status === 'completed' && attempts === 1));
  if (!hasTimeouts)
    assert.equal(server.state.chatRequestCount, JOB_COUNT, 'each text was read once');
  const listingIds = rawRecords.map(({ listing_id: id }) => id ?? 0);
  assert.equal(new Set(listingIds).size, JOB_COUNT);
  const images = await db
    .selectFrom('listing_images')
    .leftJoin('images', 'images.sha256', 'listing_images.sha256')
    .select(['url', 'error', 'described_by', 'describe_error'])
    .where('listing_id', 'in', listingIds)
    .execute();
  assert.equal(images.length, 2 * JOB_COUNT);
  assert.ok(images.every(({ error }) => error === null));
  assert.deepEqual(await db.selectFrom('raw_readings').selectAll().execute(), []);
  const rejections = images.flatMap(({ url, describe_error: error }) =>
    error === null ? [] : [[url?.replace(/.*-/, '') ?? '', error.code]],
  );
  const describedCount = images.filter(({ described_by: by }) => by !== null).length;
  return {
    describedCount,
    rejections: Object.fromEntries(rejections) as Record<string, string>,
  };
}

const limitRate = (retryAfter: string): ScriptedResponse => ({
  status: 429,
  headers: { 'retry-after': retryAfter },
  body: {},
});

for (const [name, answer, timeoutMs] of [
  ['is down', OVERLOADED, undefined],
  ['stays silent', 'silence', SHORT_TIMEOUT_MS],
  ['limits its rate', limitRate('0.01'), undefined],
] as const) {
  test(`No listing and no image fails while the vision server ${name}`, async (t) => {
    scriptAnswer(answer);
    await using modelWorker = await startTestWorker({ timeoutMs });
    await until('the breaker to open', () => modelWorker.model.breaker.state !== 'closed');
    const requestCount = describedUrls.length;
    await until('four probes', () => describedUrls.length >= requestCount + 4);
    assert.partialDeepStrictEqual(await countByStatus(db), { completed: 0, failed: 0 });
    delete server.state.describeImage;
    assert.deepEqual(await checkOutcome(timeoutMs !== undefined), {
      describedCount: 2 * JOB_COUNT,
      rejections: {},
    });
    t.diagnostic(
      `${JOB_COUNT} accepted, ${JOB_COUNT} stored, 0 lost, 0 doubled, ${2 * JOB_COUNT} images`,
    );
  });
}

/** Responses to requests for one image, with the recorded error code, and the number of requests if it is fixed. */
const poisonCases: [
  name: string,
  ScriptedResponse,
  code: string,
  requestCount?: number,
  timeoutMs?: number,
][] = [
  ['answers prose', createCompletion('A bright kitchen.'), 'MODEL_INVALID_OUTPUT', 2],
  [
    'truncates its answer',
    createCompletion('{"descr', { finishReason: 'length' }),
    'MODEL_TRUNCATED',
    1,
  ],
  ['responds with 400', { status: 400, body: {} }, 'MODEL_REJECTED', 1],
  ['limits its rate', limitRate('0'), 'MODEL_RATE_LIMITED', 5 * 3],
  ['responds with 500', { status: 500, body: {} }, 'MODEL_UNAVAILABLE'],
  ['resets the connection', 'reset', 'MODEL_UNREACHABLE'],
  ['stays silent', 'silence', 'MODEL_TIMEOUT', undefined, SHORT_TIMEOUT_MS],
];

for (const [name, answer, code, requestCount, timeoutMs] of poisonCases) {
  test(`Only the affected image is recorded when the vision server always ${name} for it`, async () => {
    scriptAnswer(answer, isPoison);
    await using modelWorker = await startTestWorker({ timeoutMs });
    const rejections = { 'poison.png': code };
    assert.deepEqual(await checkOutcome(timeoutMs !== undefined), {
      describedCount: 2 * JOB_COUNT - 1,
      rejections,
    });
    if (requestCount === undefined) return;
    assert.equal(describedUrls.filter(isPoison).length, requestCount);
    assert.equal(modelWorker.model.breaker.state, 'closed');
  });
}

/** Makes the server fail the request for a poison image and the next two requests. */
function crashOnPoison(): void {
  let remainingFailures = 0;
  server.state.describeImage = (request) => {
    if (isPoison(getImageUrl(request))) remainingFailures = 3;
    remainingFailures -= 1;
    return remainingFailures >= 0 ? 'reset' : undefined;
  };
}

test('Only the image that takes the server down is recorded', async () => {
  crashOnPoison();
  await using _ = await startTestWorker();
  const rejections = { 'poison.png': 'MODEL_UNREACHABLE' };
  assert.deepEqual(await checkOutcome(), { describedCount: 2 * JOB_COUNT - 1, rejections });
});

test('Several images that take the server down are recorded when their listing is alone in the queue', async () => {
  crashOnPoison();
  await using _ = await startTestWorker({
    payloads: [['1-poison', '2-poison', 'good']],
    retryMs: 10,
  });
  await until('the payload to be completed', async () => (await countByStatus(db)).completed === 1);
  assert.equal(server.state.chatRequestCount, 1);
  const { rows } = await sql`select from listing_images join images using (sha256)
    where describe_error is not null and url like ${`${host.url}/${round}-%`}`.execute(db);
  assert.equal(rows.length, 2);
});

test('An image that failed in an outage is described after it', async () => {
  // The server fails the first six requests for each image.
  const requestCounts = new Map<string, number>();
  server.state.describeImage = (request) => {
    const url = getImageUrl(request);
    describedUrls.push(url);
    const count = requestCounts.get(url) ?? 0;
    requestCounts.set(url, count + 1);
    return url !== 'control' && count < 6 ? OVERLOADED : undefined;
  };
  // Only one listing is in progress, so each failure belongs to this listing.
  await using _ = await startTestWorker({ slots: 1 });
  assert.deepEqual(await checkOutcome(), { describedCount: 2 * JOB_COUNT, rejections: {} });
  assert.ok(describedUrls.includes('control'));
});

test('Without vision, payloads with images are completed without descriptions', async () => {
  const message =
    'image input is not supported - hint: if this is unexpected, you may need to provide the mmproj';
  scriptAnswer({ status: 500, body: { error: { code: 500, message, type: 'server_error' } } });
  await using modelWorker = await startTestWorker();
  const { describedCount, rejections } = await checkOutcome();
  assert.equal(describedCount, 0);
  assert.deepEqual(new Set(Object.values(rejections)), new Set(['MODEL_UNSUPPORTED']));
  assert.equal(describedUrls.length, 2 * JOB_COUNT, 'each image is sent once');
  assert.equal(modelWorker.model.breaker.state, 'closed');
});

test('No image is sent with MODEL_VISION=off, and a separate vision server gets its key', async () => {
  const vision = await startModelServer();
  deferCleanup(vision.close);
  const keys: (string | undefined)[] = [];
  vision.state.createResponse = ({ headers, path }) => {
    if (!path.endsWith('/models')) keys.push(headers.authorization);
    return undefined;
  };
  let imageRequestCount = 0;
  server.state.createResponse = (request) => {
    imageRequestCount += hasImage(request) ? 1 : 0;
    return undefined;
  };
  for (const [env, expected] of [
    [{ MODEL_VISION: 'off' }, []],
    [
      { MODEL_VISION_BASE_URL: vision.url, MODEL_VISION_API_KEY: 'vision-key' },
      ['Bearer vision-key', 'Bearer vision-key'],
    ],
  ] as const) {
    await db.deleteFrom('raw_data').execute();
    await using _ = await startCollector(database, { ...MODEL_ENV, ...env });
    const names = ['a', 'b'].map((name) => `${round}-${expected.length}-${name}`);
    const image_urls = names.map((name) => `${host.url}/${name}.png`);
    await store(db, createPayload({ image_urls }));
    await until(
      'the payload to be completed',
      async () => (await countByStatus(db)).completed === 1,
    );
    assert.deepEqual([keys, imageRequestCount], [expected, 0]);
  }
});

test('An outage of the image store fails no job, rejects forms, and reads no text twice', async (t) => {
  const bucket = await startBucket();
  await using collector = await startCollector(database, { ...MODEL_ENV, ...bucket.env });
  const getHealth = async () =>
    (await collector.get('/health')).json<{
      status: string;
      checks: { disk: { status: string; image_store: string } };
    }>();
  const isAway = async () =>
    (await collector.get('/metrics')).text.includes('collector_image_store_away 1\n');
  const bytes = Uint8Array.from(await createImage('png', { colour: 'gold' }));
  const payload = createPayload();
  const send = () =>
    sendForm(collector.url, createForm(payload, [{ name: 'a.png', bytes }]), {
      'idempotency-key': 'store-outage',
    });
  const getImage = (sha256 = '') => collector.get(`/api/v1/images/${sha256}`);

  const otherForm = createForm(createPayload(), [
    { name: 'b.png', bytes: Uint8Array.from(await createImage('png')) },
  ]);
  const firstResponse = await sendForm(collector.url, otherForm);
  const sha256 = firstResponse.body.images[0]?.sha256;
  assert.equal((await getHealth()).checks.disk.image_store, 'ok');
  bucket.state.isDown = true;
  const failedResponse = await send();
  assert.deepEqual(
    [failedResponse.status, failedResponse.body.code],
    [503, 'image_store_unavailable'],
  );
  assert.match(failedResponse.body.detail, /raw_id/);
  await until('the outage', isAway);
  const countBefore = await countPayloads(db);
  const rejectedResponse = await send();
  assert.deepEqual(
    [rejectedResponse.status, rejectedResponse.body.code],
    [503, 'image_store_unavailable'],
  );
  assert.match(rejectedResponse.body.detail, /Nothing was stored/);
  assert.ok(rejectedResponse.headers.get('retry-after'));
  assert.equal((await getImage(sha256)).status, 503);

  for (let index = 0; index < JOB_COUNT; index += 1) {
    const image_urls = [`${host.url}/${round}-${index}.png`];
    const response = await collector.post('/api/v1/ingest', createPayload({ image_urls }));
    assert.equal(response.status, 202);
  }
  const { status, checks } = await getHealth();
  assert.deepEqual(
    [status, checks.disk.status, checks.disk.image_store],
    ['degraded', 'degraded', 'away'],
  );
  const countProbes = () =>
    bucket.requests.filter((request) => request === 'PUT /images/probe').length;
  const earlierProbeCount = countProbes();
  await until('another probe', () => countProbes() > earlierProbeCount);
  assert.partialDeepStrictEqual(await countByStatus(db), { pending: JOB_COUNT, completed: 1 });
  assert.equal(await countPayloads(db), countBefore + JOB_COUNT);
  bucket.state.isDown = false;
  await until('the end of the outage', async () => !(await isAway()));
  await until(
    'all payloads to be completed',
    async () => (await countByStatus(db)).completed === JOB_COUNT + 1,
  );
  assert.equal((await getHealth()).status, 'ok');
  const repeatedResponse = await send();
  assert.equal(repeatedResponse.status, 200, 'a failed request frees its key');
  assert.equal(
    repeatedResponse.body.images[0]?.duplicate,
    false,
    'the failed request stored no image',
  );
  assert.equal((await getImage(sha256)).status, 200);
  assert.equal(
    server.state.chatRequestCount,
    JOB_COUNT + 3,
    'each text was read once for each request',
  );
  t.diagnostic(`${JOB_COUNT} accepted, ${JOB_COUNT} stored, 0 lost, 0 doubled`);
});
