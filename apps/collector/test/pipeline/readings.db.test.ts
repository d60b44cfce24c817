import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModelError } from '@oselya/model';
import { claimJobs } from '../../src/queue/claim.ts';
import { LeaseLostError } from '../../src/queue/job.ts';
import { rescueJobs } from '../../src/queue/jobs.ts';
import { extractionPrompt, extractListing, keepReading } from '../../src/pipeline/extraction.ts';
import {
  openDatabase,
  rawRecord,
  store,
  payloadOf,
  countedModel,
  createHarness,
  noImages,
  outcomesOf,
} from '../support/pipeline.ts';

const { db } = await openDatabase();

const away = new ModelError('MODEL_BREAKER_OPEN', 'The server is being left alone.');

/** A model whose embeddings are away until they come back. */
function modelWithoutEmbeddings() {
  const model = countedModel();
  const state = { error: away as ModelError | undefined };
  const embed: typeof model.embed = (texts, options) =>
    state.error === undefined ? model.embed(texts, options) : Promise.reject(state.error);
  return { model: { ...model, embed }, state };
}

const kept = (rawId: number) =>
  db.selectFrom('raw_readings').selectAll().where('raw_id', '=', rawId).execute();

/** A payload that was read, and went back because the embeddings are away. */
async function postponed() {
  const { model, state } = modelWithoutEmbeddings();
  const harness = createHarness(db, { model });
  const payload = payloadOf();
  const raw = await harness.process(payload);
  assert.deepEqual([raw.status, raw.attempts, model.calls.chat], ['pending', 0, 1]);
  return { ...harness, model, state, payload, rawId: raw.id };
}

test('a payload that went back is not read again, however often it goes', async () => {
  const { model, state, rawId, runNext } = await postponed();
  assert.deepEqual(
    (await kept(rawId)).map((row) => [row.requested_model, row.prompt_version, row.revision]),
    [[model.chatModel, extractionPrompt.version, 0]],
  );
  const { model_usage: before } = await rawRecord(db, rawId);
  assert.equal(await runNext(), 'postponed');
  assert.deepEqual((await rawRecord(db, rawId)).model_usage, before, 'nothing was asked');
  state.error = undefined;
  assert.equal(await runNext(), 'completed');
  assert.deepEqual(model.calls, { chat: 1, embed: 1 });
  const raw = await rawRecord(db, rawId);
  assert.equal(raw.model_usage?.calls, 2);
  const outcomes = outcomesOf(raw);
  assert.deepEqual([outcomes['validate'], outcomes['upsert']], ['skipped', 'done']);
  assert.deepEqual(await kept(rawId), []);
});

test('a listing is the same, whether or not its payload went back in between', async () => {
  const { state, payload, runNext } = await postponed();
  state.error = undefined;
  await runNext();
  const twin = { ...payload, external_id: 'undisturbed' };
  await createHarness(db).process(twin);
  const madeOf = async (externalId: string) => {
    const {
      id,
      external_id: _,
      created_at: __,
      updated_at: ___,
      ...listing
    } = await db
      .selectFrom('property_listings')
      .selectAll()
      .where('external_id', '=', externalId)
      .executeTakeFirstOrThrow();
    const snapshots = await db
      .selectFrom('listing_snapshots')
      .select(['changes', 'listing', 'model', 'prompt_version'])
      .where('listing_id', '=', id)
      .execute();
    return { listing, snapshots };
  };
  assert.deepEqual(await madeOf(payload.external_id), await madeOf('undisturbed'));
});

test('pictures that are away keep what was read', async () => {
  const model = countedModel();
  let isAway = true;
  const images = {
    ...noImages,
    processRemote: () => (isAway ? Promise.reject(away) : Promise.resolve([])),
  };
  const harness = createHarness(db, { model, images });
  const raw = await harness.process(payloadOf({ image_urls: ['https://pictures.example/1.jpg'] }));
  assert.equal(raw.status, 'pending');
  isAway = false;
  assert.equal(await harness.runNext(), 'completed');
  assert.deepEqual(model.calls, { chat: 1, embed: 1 });
});

test('what models write and jsonb refuses is kept as it is', async () => {
  const { model, state } = modelWithoutEmbeddings();
  const generateObject: typeof model.generateObject = async (request) => {
    const answer = await model.generateObject(request);
    Object.assign(answer.value, { summary: 'A bright\0 flat \ud800.' });
    return answer;
  };
  const harness = createHarness(db, { model: { ...model, generateObject } });
  const { id } = await harness.process(payloadOf());
  state.error = undefined;
  assert.equal(await harness.runNext(), 'completed');
  assert.equal((await rawRecord(db, id)).status, 'completed');
  assert.equal(model.calls.chat, 1);
});

test('what another prompt or model has read, or was read before the payload was taken anew, is not used', async () => {
  for (const change of [
    { prompt_version: 'earlier' },
    { requested_model: 'another' },
    { revision: 7 },
  ]) {
    const { model, state, payload, rawId, runNext } = await postponed();
    // As where it went back before it made a listing, which would tell what was read too.
    for (const table of ['property_listings', 'listing_payloads'] as const) {
      await db.deleteFrom(table).where('external_id', '=', payload.external_id).execute();
    }
    await db.updateTable('raw_readings').set(change).where('raw_id', '=', rawId).execute();
    state.error = undefined;
    assert.equal(await runNext(), 'completed');
    assert.equal(model.calls.chat, 2);
    assert.deepEqual(await kept(rawId), []);
  }
});

test('a job that fails, or whose attempts are spent, keeps no reading, nor does a removed payload', async () => {
  const failing = await postponed();
  failing.state.error = new ModelError('MODEL_REJECTED', 'No such model.');
  assert.equal(await failing.runNext(), 'failed');
  assert.deepEqual(await kept(failing.rawId), []);

  const spent = await postponed();
  await claimJobs(db, { worker: 'gone', leaseMs: -1, count: 1 });
  await rescueJobs(db, 1);
  assert.equal((await rawRecord(db, spent.rawId)).status, 'failed');
  assert.deepEqual(await kept(spent.rawId), []);

  const removed = await postponed();
  assert.equal((await kept(removed.rawId)).length, 1);
  await db.deleteFrom('raw_data').where('id', '=', removed.rawId).execute();
  assert.deepEqual(await kept(removed.rawId), []);
});

test('a job whose pictures came with its request keeps nothing: it cannot be processed later', async () => {
  const isFull = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  const images = { ...noImages, processUploaded: () => Promise.reject(isFull) };
  const { runNext } = createHarness(db, { model: countedModel(), images });
  const rawId = await store(db, payloadOf());
  const cameAlong = { inline: true, uploads: '[]' };
  await db.updateTable('raw_data').set(cameAlong).where('id', '=', rawId).execute();
  assert.equal(await runNext({ uploads: [] }), 'postponed');
  const { status, error } = await rawRecord(db, rawId);
  assert.deepEqual([status, error?.code], ['failed', 'interrupted']);
  assert.deepEqual(await kept(rawId), []);
});

test('a job of a request that brought no pictures goes back like any other, and its reading is of use', async () => {
  const isFull = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  let isRoom = false;
  const images = {
    ...noImages,
    processRemote: () => (isRoom ? Promise.resolve([]) : Promise.reject(isFull)),
  };
  const model = countedModel();
  const { runNext } = createHarness(db, { model, images });
  const rawId = await store(db, payloadOf());
  await db.updateTable('raw_data').set({ inline: true }).where('id', '=', rawId).execute();
  assert.equal(await runNext({ canWait: false }), 'postponed');
  const { status, attempts, inline } = await rawRecord(db, rawId);
  assert.deepEqual([status, attempts, inline], ['pending', 0, false]);
  isRoom = true;
  assert.equal(await runNext(), 'completed');
  assert.equal(model.calls.chat, 1);
  assert.deepEqual(await kept(rawId), []);
});

test('without its claim a job keeps nothing', async () => {
  const rawId = await store(db, payloadOf());
  const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
  assert.equal(job?.rawId, rawId);
  const { signal } = new AbortController();
  const reading = await extractListing(countedModel(), payloadOf(), { signal });
  const lost = keepReading(db, { rawId, attempt: 9 }, reading);
  await assert.rejects(lost, LeaseLostError);
  assert.deepEqual(await kept(rawId), []);
});
