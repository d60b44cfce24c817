import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModelError, type ModelErrorCode } from '@oselya/model';
import { StoreOutageError } from '../../src/images/store.ts';
import type { JobInput } from '../../src/pipeline/context.ts';
import { extractionPrompt } from '../../src/pipeline/extraction.ts';
import { renewLeases } from '../../src/queue/job-writes.ts';
import { retryPayload } from '../../src/queue/retry.ts';
import type { StageRecord } from '../../src/tables.ts';
import { startCollector } from '../support/collector.ts';
import {
  createCountingModel,
  createHarness,
  emptyImageService,
  openDatabase,
  getOutcomes,
  createPayload,
  readRawRecord,
  store,
  updateRawRecord,
  claimJob,
} from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const collector = await startCollector(database, { COLLECTOR_WORKER: 'false' });

/** Creates a model that fails for one kind of call. */
function createFailingModel(call: 'generateObject' | 'embed', error: unknown) {
  return { ...createCountingModel(), [call]: () => Promise.reject(error) };
}

const outage = { since: new Date() };
const modelFailures: [ModelErrorCode, JobInput, string][] = [
  ['MODEL_UNREACHABLE', {}, 'returned'],
  ['MODEL_TIMEOUT', {}, 'returned'],
  ['MODEL_BREAKER_OPEN', {}, 'returned'],
  ['MODEL_REJECTED', {}, 'failed'],
  ['MODEL_INVALID_OUTPUT', {}, 'failed'],
  ['MODEL_REFUSED', {}, 'failed'],
  // An inline job fails instead of waiting.
  ['MODEL_UNREACHABLE', { canWait: false }, 'failed'],
  ['MODEL_BREAKER_OPEN', { canWait: false }, 'failed'],
];

test('An outage of the model postpones a job that can wait, and other errors fail it', async () => {
  for (const [code, options, outcome] of modelFailures) {
    const error = new ModelError(code, `It was ${code}.`);
    if (error.retryable && code !== 'MODEL_BREAKER_OPEN') error.outage = outage;
    const model = createFailingModel('generateObject', error);
    const id = await store(db, createPayload());
    assert.equal(await createHarness(db, { model }).runNext(options), outcome, code);
    const rawRecord = await readRawRecord(db, id);
    assert.deepEqual(rawRecord.error, {
      code: outcome === 'returned' ? 'model_unavailable' : 'model_failed',
      message: `It was ${code}.`,
      stage: 'validate',
    });
    if (outcome === 'returned')
      assert.deepEqual([rawRecord.status, rawRecord.attempts], ['pending', 0]);
    else assert.deepEqual(getOutcomes(rawRecord), { load: 'done', validate: 'failed' });
    await db.deleteFrom('raw_data').where('id', '=', id).execute();
  }
});

/** Creates an image service whose store fails, with a new outage for each call. */
function createImagesWithoutStore() {
  const state = { attempts: 0, isUnavailable: true };
  const processRemote = () => {
    state.attempts += 1;
    if (!state.isUnavailable) return Promise.resolve([]);
    return Promise.reject(new StoreOutageError({}, new Error('ECONNREFUSED')));
  };
  return { state, images: { ...emptyImageService, processRemote } };
}

test('A job on which the image store fails in five outages is failed', async () => {
  const { state, images } = createImagesWithoutStore();
  const harness = createHarness(db, { images });
  const { id } = await harness.process(createPayload());
  for (let attempt = 2; attempt < 5; attempt += 1) {
    assert.equal(await harness.runNext(), 'returned');
  }
  assert.equal(await harness.runNext(), 'failed');
  const { error } = await readRawRecord(db, id);
  assert.deepEqual([error?.code, error?.stage], ['image_store_unavailable', 'images']);
  assert.equal(state.attempts, 5);
  // An inline job fails instead of waiting.
  const inlineId = await store(db, createPayload());
  assert.equal(await harness.runNext({ canWait: false }), 'failed');
  assert.equal((await readRawRecord(db, inlineId)).error?.code, 'image_store_unavailable');
});

test('Reasons are storable, and unexpected errors have no message', async () => {
  const model = createFailingModel(
    'generateObject',
    new ModelError('MODEL_REJECTED', 'a\0b\uD800'),
  );
  const rejectedRecord = await createHarness(db, { model }).process(createPayload());
  assert.deepEqual([rejectedRecord.status, rejectedRecord.error?.message], ['failed', 'ab\uFFFD']);
  const processRemote = () => Promise.reject(new Error('secret inside'));
  const images = { ...emptyImageService, processRemote };
  const failedRecord = await createHarness(db, { images }).process(createPayload());
  assert.deepEqual([failedRecord.status, failedRecord.error?.code], ['failed', 'internal_error']);
  assert.ok(!failedRecord.error?.message.includes('secret'));
});

const OUTAGE_ERROR = new ModelError('MODEL_BREAKER_OPEN', 'The server is being left alone.');

/** Creates a model whose embeddings fail until the error is removed. */
function createModelWithoutEmbeddings() {
  const model = createCountingModel();
  const state = { error: OUTAGE_ERROR as ModelError | undefined };
  const embed: typeof model.embed = (texts, options) =>
    state.error === undefined ? model.embed(texts, options) : Promise.reject(state.error);
  return { model: { ...model, embed }, state };
}

const findReadings = (rawId: number) =>
  db.selectFrom('raw_readings').selectAll().where('raw_id', '=', rawId).execute();

/** Processes a payload that is postponed at its embedding. */
async function createPostponedJob() {
  const { model, state } = createModelWithoutEmbeddings();
  const harness = createHarness(db, { model });
  const payload = createPayload();
  const rawRecord = await harness.process(payload);
  assert.deepEqual([rawRecord.status, rawRecord.attempts, model.calls.chat], ['pending', 0, 1]);
  return { ...harness, model, state, payload, rawId: rawRecord.id };
}

test('A postponed payload is not extracted again', async () => {
  const { model, state, rawId, runNext } = await createPostponedJob();
  assert.deepEqual(
    (await findReadings(rawId)).map((row) => [
      row.requested_model,
      row.prompt_version,
      row.revision,
    ]),
    [[model.chatModel, extractionPrompt.version, 0]],
  );
  const { model_usage: usageBefore } = await readRawRecord(db, rawId);
  assert.equal(await runNext(), 'returned');
  assert.deepEqual(
    (await readRawRecord(db, rawId)).model_usage,
    usageBefore,
    'the model is not called',
  );
  state.error = undefined;
  assert.equal(await runNext(), 'completed');
  assert.deepEqual(model.calls, { chat: 1, embed: 1 });
  const rawRecord = await readRawRecord(db, rawId);
  assert.equal(rawRecord.model_usage?.calls, 2);
  const outcomes = getOutcomes(rawRecord);
  assert.deepEqual([outcomes['validate'], outcomes['upsert']], ['skipped', 'done']);
  assert.deepEqual(await findReadings(rawId), []);
});

test('An extraction of another prompt, model or revision is not used', async () => {
  for (const change of [
    { prompt_version: 'earlier' },
    { requested_model: 'another' },
    { revision: 7 },
  ]) {
    const { model, state, payload, rawId, runNext } = await createPostponedJob();
    // Simulates a first attempt that created no listing.
    for (const table of ['property_listings', 'listing_payloads'] as const) {
      await db.deleteFrom(table).where('external_id', '=', payload.external_id).execute();
    }
    await db.updateTable('raw_readings').set(change).where('raw_id', '=', rawId).execute();
    state.error = undefined;
    assert.equal(await runNext(), 'completed');
    assert.equal(model.calls.chat, 2);
    assert.deepEqual(await findReadings(rawId), []);
  }
});

test('A job of a request without uploads is postponed and keeps its extraction', async () => {
  const diskFullError = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  let hasFreeDisk = false;
  const images = {
    ...emptyImageService,
    processRemote: () => (hasFreeDisk ? Promise.resolve([]) : Promise.reject(diskFullError)),
  };
  const model = createCountingModel();
  const { runNext } = createHarness(db, { model, images });
  const rawId = await store(db, createPayload());
  await updateRawRecord(db, rawId, { inline: true });
  assert.equal(await runNext({ canWait: false }), 'returned');
  const { status, attempts, inline } = await readRawRecord(db, rawId);
  assert.deepEqual([status, attempts, inline], ['pending', 0, false]);
  hasFreeDisk = true;
  assert.equal(await runNext(), 'completed');
  assert.equal(model.calls.chat, 1);
  assert.deepEqual(await findReadings(rawId), []);
});

/** Returns the stages of a payload from the API. */
async function readStages(rawId: number): Promise<StageRecord[]> {
  const response = await collector.get(`/api/v1/raw/${rawId}`);
  return response.json<{ stages: StageRecord[] }>().stages;
}

const formatOutcomes = (stages: readonly StageRecord[]) =>
  stages.map(({ stage, outcome }) => [stage, outcome]);

const modelWithoutEmbeddings = {
  ...createCountingModel(),
  embed: () => Promise.reject(new ModelError('MODEL_REJECTED', 'too long', { status: 400 })),
};

test('A retry shows the last outcome of each stage until it runs again', async () => {
  const { id, status } = await createHarness(db, { model: modelWithoutEmbeddings }).process(
    createPayload(),
  );
  assert.equal(status, 'failed');
  const failedStages = await readStages(id);
  assert.equal(failedStages.length, 8);
  assert.deepEqual(formatOutcomes(failedStages).at(-1), ['embed', 'failed']);

  await retryPayload(db, id);
  assert.deepEqual(await readStages(id), failedStages, 'while the payload waits');
  const job = await claimJob(db);
  assert.deepEqual(await readStages(id), failedStages, 'while no stage has run again');

  const loadRecord: StageRecord = {
    stage: 'load',
    outcome: 'done',
    started_at: new Date().toISOString(),
    duration_ms: 1,
  };
  const modelUsage = { calls: 0, input_tokens: 0, output_tokens: 0 };
  await renewLeases(db, [{ ...job, stages: [loadRecord], modelUsage }], 60_000);
  const stagesInProgress = await readStages(id);
  assert.deepEqual(
    stagesInProgress,
    [...failedStages.slice(1), loadRecord],
    'each stage once, the last one to run at the end',
  );
});
