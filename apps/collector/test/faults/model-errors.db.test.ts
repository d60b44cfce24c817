import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd, until } from '@oselya/testing';
import type { ModelClientOptions } from '@oselya/model';
import { type ScriptedResponse, extractEmbeddedTexts } from '@oselya/model/testing';
import type { Payload } from '../../src/ingest/payload.ts';
import { startCollector } from '../support/collector.ts';
import {
  openDatabase,
  store,
  hasImage,
  startModelServer,
  countByStatus,
  openModel,
  startModelWorker,
  payloadOf,
} from '../support/pipeline.ts';
import { openWorkerImages, serveImages } from '../support/images.ts';

// Errors as llama.cpp's server words them: it answers 500 for inputs that it rejects.

const database = await openDatabase();
const { db } = database;
const server = await startModelServer();
atEnd(server.close);
const host = await serveImages();
const dataDir = await mkdtemp(join(tmpdir(), 'oselya-model-errors-'));
atEnd(() => rm(dataDir, { recursive: true }));

const JOBS = 10;

/** Answers of the test; other requests succeed. */
let errorOf: (typeof server.state)['answers'];

beforeEach(async () => {
  Object.assign(server.state, { up: true, requests: 0, readings: 0 });
  errorOf = undefined;
  server.state.answers = (request) => errorOf?.(request);
  await db.deleteFrom('raw_data').execute();
});

function llamaCpp(message: string): ScriptedResponse {
  return { status: 500, body: { error: { code: 500, message, type: 'server_error' } } };
}

const NO_IMAGES = llamaCpp(
  'image input is not supported - hint: if this is unexpected, you may need to provide the mmproj',
);
const CONTEXT_FULL = llamaCpp('Context size has been exceeded.');

function add(jobs: number, overrides: Partial<Payload> = {}): Promise<number[]> {
  return Promise.all(Array.from({ length: jobs }, () => store(db, payloadOf(overrides))));
}

/** Starts a worker with images. */
async function open({
  slots = 4,
  retryMs = 100,
  ...options
}: Partial<ModelClientOptions> & { slots?: number; retryMs?: number } = {}) {
  const model = openModel(server.url, options);
  const workerImages = await openWorkerImages({ db, model, folder: join(dataDir, 'images') });
  const { images } = workerImages;
  const opened = startModelWorker({
    database,
    model,
    images,
    slots,
    retryMs,
    servers: [server, host],
    folder: dataDir,
  });
  const states: string[] = [];
  model.breaker.onChange((state) => states.push(state));
  const dispose = async (): Promise<void> => {
    await opened[Symbol.asyncDispose]();
    await workerImages.close();
  };
  return { ...opened, states, [Symbol.asyncDispose]: dispose };
}

async function allCompleted(jobs: number): Promise<void> {
  await until('all jobs to end', async () => {
    const { completed, failed } = await countByStatus(db);
    return completed + failed === jobs;
  });
  assert.equal((await countByStatus(db)).completed, jobs);
  const { most } = await db
    .selectFrom('raw_data')
    .select((eb) => eb.fn.max('attempts').as('most'))
    .executeTakeFirstOrThrow();
  assert.equal(most, 1);
}

let images = 0;
const withImages = () => ({
  image_urls: [1, 2].map(() => `${host.url}/model-errors-${(images += 1)}.png`),
});

test('A server without vision completes payloads with images, without their descriptions', async () => {
  let shown = 0;
  errorOf = (request) => {
    if (!hasImage(request)) return undefined;
    shown += 1;
    return NO_IMAGES;
  };
  for (let nth = 0; nth < JOBS; nth += 1) await add(1, withImages());
  await using opened = await open();
  await allCompleted(JOBS);
  assert.equal(shown, 2 * JOBS, 'each image is asked for once');
  assert.equal(server.state.readings, JOBS);
  assert.deepEqual(opened.states, [], 'no breaker has moved');
  const rows = await db
    .selectFrom('listing_images')
    .innerJoin('images', 'images.sha256', 'listing_images.sha256')
    .select(['error', 'describe_error'])
    .where('url', 'like', `${host.url}/model-errors-%`)
    .execute();
  assert.equal(rows.length, 2 * JOBS);
  for (const { error, describe_error: rejection } of rows) {
    assert.equal(error, null);
    assert.equal(rejection?.code, 'MODEL_UNSUPPORTED');
    assert.match(rejection?.message ?? '', /image input is not supported - hint/);
  }
});

test('No image is sent to a model with MODEL_VISION=off', async () => {
  let shown = 0;
  errorOf = (request) => {
    shown += hasImage(request) ? 1 : 0;
    return undefined;
  };
  await using collector = await startCollector(database, {
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: server.url,
    MODEL_CHAT: 'chat',
    MODEL_VISION: 'off',
    MODEL_EMBEDDING: 'embedding',
    SSRF_ALLOW: '127.0.0.1',
  });
  const [id] = await add(1, withImages());
  await until('it to end', async () => (await countByStatus(db)).completed === 1);
  const raw = await collector.get(`/api/v1/raw/${id}`);
  const { listing_id: listingId } = raw.json<{ listing_id: number }>();
  const found = await collector.get(`/api/v1/listings/${listingId}/images`);
  const list = found.json<{ sha256: string | null; describe_error: unknown }[]>();
  assert.equal(list.length, 2);
  assert.ok(list.every((image) => image.sha256 !== null && image.describe_error === null));
  assert.equal(shown, 0);
});

test('A separate vision server is asked at its address, with its key', async () => {
  const keys: (string | undefined)[] = [];
  const vision = await startModelServer();
  try {
    vision.state.answers = ({ headers, path }) => {
      if (!path.endsWith('/models')) keys.push(headers.authorization);
      return undefined;
    };
    errorOf = (request) => (hasImage(request) ? NO_IMAGES : undefined);
    await using collector = await startCollector(database, {
      MODEL_MODE: 'openai',
      MODEL_BASE_URL: server.url,
      MODEL_VISION_BASE_URL: vision.url,
      MODEL_VISION_API_KEY: 'vision-key',
      MODEL_CHAT: 'chat',
      MODEL_EMBEDDING: 'embedding',
      SSRF_ALLOW: '127.0.0.1',
    });
    await add(1, withImages());
    await until('it to end', async () => (await countByStatus(db)).completed === 1);
    assert.deepEqual(keys, ['Bearer vision-key', 'Bearer vision-key']);
    void collector;
  } finally {
    await vision.close();
  }
});

const tokens = (text: string) => Math.ceil(text.length / 2);

test('Texts and queries that are too long to embed are shortened', async () => {
  const limit = 100;
  errorOf = (request) => {
    const most = Math.max(0, ...(extractEmbeddedTexts(request) ?? []).map(tokens));
    return most > limit
      ? llamaCpp(
          `input (${most} tokens) is too large to process. increase the physical batch size (current batch size: ${limit})`,
        )
      : undefined;
  };
  await using collector = await startCollector(database, {
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: server.url,
    MODEL_CHAT: 'chat',
    MODEL_EMBEDDING: 'embedding',
    COLLECTOR_FULLTEXT_PER_MINUTE: '0',
  });
  const long = 'Двокімнатна квартира біля парку, тихий двір. ';
  await add(JOBS, { description: long.repeat(40) });
  const search = async () => {
    const query = long.repeat(11).slice(0, 500);
    const { status } = await collector.post('/api/v1/search/similar', { query });
    return status;
  };
  assert.equal(await search(), 200);
  await until('all to end', async () => {
    assert.equal(await search(), 200);
    const { completed, failed } = await countByStatus(db);
    return completed + failed === JOBS;
  });
  assert.equal((await countByStatus(db)).completed, JOBS);
  const metrics = (await collector.get('/metrics')).text;
  const count = (outcome: string) =>
    Number(
      new RegExp(`requests_total{operation="embed",outcome="${outcome}"} (\\d+)`).exec(
        metrics,
      )?.[1],
    );
  assert.ok(count('MODEL_INPUT_TOO_LARGE') <= 5, 'the limit is learned');
});

test('A server whose context is full gets fewer requests at once, and every job completes', async () => {
  const room = 2;
  let inProgress = 0;
  let rejected = 0;
  server.state.delay = async () => {
    inProgress += 1;
    // Long enough for the requests of all slots to overlap.
    await sleep(50);
  };
  errorOf = ({ path }) => {
    const isFull = inProgress > room && path.endsWith('/chat/completions');
    inProgress -= 1;
    rejected += isFull ? 1 : 0;
    return isFull ? CONTEXT_FULL : undefined;
  };
  try {
    await add(JOBS);
    await using opened = await open({ slots: 8 });
    await allCompleted(JOBS);
    assert.ok(rejected > 0 && rejected < JOBS, `${rejected} requests were too many`);
    assert.deepEqual(opened.states, []);
  } finally {
    delete server.state.delay;
  }
});

test('Two texts on which the server fails do not take every probe: the others complete', async () => {
  errorOf = (request) =>
    extractEmbeddedTexts(request)?.some((text) => text.includes('crash me')) === true
      ? llamaCpp('Compute error.')
      : undefined;
  const poison = { title: 'Квартира: crash me', description: 'Продам квартиру: crash me' };
  await add(2, poison);
  await using opened = await open({
    slots: 1,
    // Longer than the breaker stays open, as by default.
    retryMs: 600,
    breaker: { failures: 2, halfOpenAfterMs: 400 },
    retry: { attempts: 1 },
  });
  await until(
    'both to have been a probe',
    () => opened.states.filter((s) => s === 'open').length > 2,
  );
  await add(JOBS);
  await until('the others to complete', async () => (await countByStatus(db)).completed === JOBS);
});

test('The record and the health name the reason why a payload waits', async () => {
  const secret = 'sk-very-secret-0123456789';
  const says = `no slot at http://user:${secret}@gpu for ${secret}`;
  const description = 'Продам двокімнатну квартиру біля парку, 52 000 $';
  errorOf = ({ path }) =>
    path.endsWith('/models')
      ? undefined
      : { status: 503, body: { error: { message: `${says}: ${description}` } } };
  await using collector = await startCollector(database, {
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: server.url,
    MODEL_API_KEY: secret,
    MODEL_CHAT: 'chat',
    MODEL_EMBEDDING: 'embedding',
  });
  const [id] = await add(1, { description });
  type Raw = { status: string; error: { code: string; message: string; stage: string } | null };
  const raw = async () => (await collector.get(`/api/v1/raw/${id}`)).json<Raw>();
  const { error } = await until('it to be put back', async () => {
    const found = await raw();
    return found.status === 'pending' && found.error !== null && found;
  });
  assert.deepEqual([error?.code, error?.stage], ['model_unavailable', 'validate']);
  const quoted = /503 .*: no slot at http:\/\/\[credentials\]@gpu for \[key\]: \[…\]/;
  assert.match(error?.message ?? '', quoted);
  // The reason stays while the payload waits and is tried again.
  await until('several attempts', async () => {
    const found = await raw();
    // The payload need not wait its 45 s here.
    await db.updateTable('raw_data').set({ retry_at: null }).where('attempt', '=', 1).execute();
    assert.match(found.error?.message ?? '', quoted);
    const row = await db.selectFrom('raw_data').select('attempt').executeTakeFirstOrThrow();
    return row.attempt >= 2;
  });
  const health = await collector.get('/health');
  assert.equal(health.status, 200);
  type Health = { status: string; checks: { model: { status: string; detail?: string } } };
  const { status, checks } = health.json<Health>();
  assert.deepEqual([status, checks.model.status], ['degraded', 'degraded']);
  assert.match(checks.model.detail ?? '', quoted);
  const all = health.text + JSON.stringify(await raw());
  assert.ok(!all.includes('very-secret') && !all.includes('двокімнатну'), all);
});
