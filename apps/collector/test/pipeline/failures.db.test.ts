import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ModelError, type ModelErrorCode } from '@oselya/model';
import { StoreOutageError } from '../../src/images/store.ts';
import type { JobInput } from '../../src/pipeline/context.ts';
import {
  openDatabase,
  rawRecord,
  store,
  payloadOf,
  countedModel,
  createHarness,
  currentOf,
  listingOf,
  noImages,
  outcomesOf,
} from '../support/pipeline.ts';

const { db } = await openDatabase();

/** A model of which one call fails. */
function failingModel(call: 'generateObject' | 'embed', error: unknown) {
  return { ...countedModel(), [call]: () => Promise.reject(error) };
}

/** Failures of the infrastructure are told their outage. */
const outage = { since: new Date() };
const modelFailures: [ModelErrorCode, JobInput, string][] = [
  ['MODEL_UNREACHABLE', {}, 'postponed'],
  ['MODEL_TIMEOUT', {}, 'postponed'],
  ['MODEL_BREAKER_OPEN', {}, 'postponed'],
  ['MODEL_REJECTED', {}, 'failed'],
  ['MODEL_INVALID_OUTPUT', {}, 'failed'],
  ['MODEL_REFUSED', {}, 'failed'],
  // Somebody waits for its end.
  ['MODEL_UNREACHABLE', { canWait: false }, 'failed'],
  ['MODEL_BREAKER_OPEN', { canWait: false }, 'failed'],
];

for (const [code, options, outcome] of modelFailures) {
  const awaited = options.canWait === false ? ', for whose end somebody waits,' : '';
  test(`${code} leaves the job${awaited} ${outcome}`, async () => {
    const error = new ModelError(code, `It was ${code}.`);
    if (error.retryable && code !== 'MODEL_BREAKER_OPEN') error.outage = outage;
    const model = failingModel('generateObject', error);
    const id = await store(db, payloadOf());
    assert.equal(await createHarness(db, { model }).runNext(options), outcome);
    const raw = await rawRecord(db, id);
    assert.deepEqual(raw.error, {
      code: outcome === 'postponed' ? 'model_unavailable' : 'model_failed',
      message: `It was ${code}.`,
      stage: 'validate',
    });
    if (outcome === 'postponed') {
      assert.deepEqual([raw.status, raw.attempts], ['pending', 0]);
    } else {
      assert.deepEqual(outcomesOf(raw), { load: 'done', validate: 'failed' });
    }
    await db.deleteFrom('raw_data').where('id', '=', id).execute();
  });
}

/** Pictures whose store fails, in another outage at each call. */
function picturesWithoutStore() {
  const state = { tries: 0, isAway: true };
  const processRemote = () => {
    state.tries += 1;
    if (!state.isAway) return Promise.resolve([]);
    return Promise.reject(new StoreOutageError({}, new Error('ECONNREFUSED')));
  };
  return { state, images: { ...noImages, processRemote } };
}

test('an outage of the image store costs a job no attempt, no second try and no second reading', async () => {
  const { state, images } = picturesWithoutStore();
  const model = countedModel();
  const harness = createHarness(db, { model, images });
  const raw = await harness.process(payloadOf());
  assert.deepEqual([raw.status, raw.attempts], ['pending', 0]);
  assert.deepEqual([raw.error?.code, raw.error?.stage], ['image_store_unavailable', 'images']);
  assert.equal(state.tries, 1, 'whoever keeps the store has tried it by then');
  state.isAway = false;
  assert.equal(await harness.runNext(), 'completed');
  const completed = await rawRecord(db, raw.id);
  assert.deepEqual([completed.attempts, completed.error], [1, null]);
  assert.equal(model.calls.chat, 1);
});

test('a job that the image store fails while it takes what others have is failed at last', async () => {
  const { state, images } = picturesWithoutStore();
  const harness = createHarness(db, { images });
  const { id } = await harness.process(payloadOf());
  for (let nth = 2; nth < 5; nth += 1) {
    assert.equal(await harness.runNext(), 'postponed');
  }
  assert.equal(await harness.runNext(), 'failed');
  const { error } = await rawRecord(db, id);
  assert.deepEqual([error?.code, error?.stage], ['image_store_unavailable', 'images']);
  assert.equal(state.tries, 5);
});

test('a job for whose end somebody waits does not wait for the image store', async () => {
  const { images } = picturesWithoutStore();
  const id = await store(db, payloadOf());
  assert.equal(await createHarness(db, { images }).runNext({ canWait: false }), 'failed');
  assert.equal((await rawRecord(db, id)).error?.code, 'image_store_unavailable');
});

test('a bad embedding fails the job and is not written; the next try makes it good', async () => {
  const error = new ModelError('MODEL_INVALID_OUTPUT', 'An embedding of zeros only.');
  const payload = payloadOf();
  const raw = await createHarness(db, { model: failingModel('embed', error) }).process(payload);
  assert.equal(raw.status, 'failed');
  assert.equal(raw.error?.stage, 'embed');
  assert.ok(raw.listing_id, 'the listing is there');
  assert.equal((await listingOf(db, payload))?.embedding, null);
  const current = await currentOf(db, payload);
  assert.equal(current?.completed_hash, null, 'the same payload will not pass as unchanged');

  const again = await createHarness(db).process(payload);
  assert.equal(again.status, 'completed');
  assert.ok((await listingOf(db, payload))?.embedding);
});

test('reasons with characters that the database cannot store are recorded all the same', async () => {
  const model = failingModel('generateObject', new ModelError('MODEL_REJECTED', 'a\0b\uD800'));
  const raw = await createHarness(db, { model }).process(payloadOf());
  assert.equal(raw.status, 'failed');
  assert.equal(raw.error?.message, 'ab\uFFFD');
});

test('a stage that throws something else fails the job without telling its inside', async () => {
  const raw = await createHarness(db, {
    images: { ...noImages, processRemote: () => Promise.reject(new Error('secret inside')) },
  }).process(payloadOf());
  assert.equal(raw.status, 'failed');
  assert.equal(raw.error?.code, 'internal_error');
  assert.ok(!raw.error?.message.includes('secret'));
});

test('a text that was in an outage is embedded by itself', async () => {
  const model = countedModel();
  const asked: number[] = [];
  let isUp = false;
  const embed: typeof model.embed = async (texts, options) => {
    asked.push(texts.length);
    // Texts wait for those of other jobs for a share of what the last request took.
    await sleep(400);
    if (isUp) return model.embed(texts, options);
    throw Object.assign(new ModelError('MODEL_UNAVAILABLE', 'It crashed.'), { outage });
  };
  const meeting = Promise.withResolvers<void>();
  let present = 0;
  const images = {
    ...noImages,
    // All jobs go on to their embedding together.
    processRemote: async () => {
      present += 1;
      if (present === 2) meeting.resolve();
      if (isUp) await meeting.promise;
      return [];
    },
  };
  const harness = createHarness(db, { images, model: { ...model, embed } });
  const payloads = [payloadOf(), payloadOf()];
  const both = () => Promise.all([harness.runNext(), harness.runNext()]);

  for (const payload of payloads) await store(db, payload);
  assert.equal(await harness.runNext(), 'postponed');
  [isUp, present] = [true, 0];
  assert.deepEqual(await both(), ['completed', 'completed']);
  assert.deepEqual(asked, [1, 1, 1]);
});
