import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModelError } from '@oselya/model';
import { openDatabase, rawRecord, store } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';
import { countedModel, createHarness, noImages } from '../support/pipeline.ts';

const { db } = await openDatabase();

/** What a model server counted for a request. */
const event = {
  operation: 'x',
  outcome: 'ok',
  durationMs: 1,
  inputTokens: 70,
  outputTokens: 7,
} as const;

test('a new listing costs two calls, an unchanged one none', async () => {
  const harness = createHarness(db);
  const payload = payloadOf();
  const { model_usage: first } = await harness.process(payload);
  assert.equal(first?.calls, 2);
  assert.ok(first.input_tokens > 100 && first.output_tokens > 50, JSON.stringify(first));
  const { model_usage: second } = await harness.process(payload);
  assert.deepEqual(second, { calls: 0, input_tokens: 0, output_tokens: 0 });
});

test("requests for pictures count as the job's own", async () => {
  const images = {
    ...noImages,
    processRemote: ({ observe }: { observe?: (one: typeof event) => void }) => {
      observe?.(event);
      return Promise.resolve([]);
    },
  };
  const alone = await createHarness(db).process(payloadOf({ external_id: 'alone' }));
  const pictured = await createHarness(db, { images }).process(
    payloadOf({ external_id: 'pictured' }),
  );
  assert.deepEqual(pictured.model_usage, {
    calls: 3,
    input_tokens: (alone.model_usage?.input_tokens ?? 0) + 70,
    output_tokens: (alone.model_usage?.output_tokens ?? 0) + 7,
  });
});

test('a job that failed has its cost, and the next attempt adds to it', async () => {
  const model = countedModel();
  const failing = {
    ...model,
    embed: ((_texts, options) => {
      options?.observe?.({ ...event, inputTokens: null, outputTokens: null });
      return Promise.reject(new ModelError('MODEL_REJECTED', 'too long'));
    }) satisfies typeof model.embed,
  };
  const payload = payloadOf();
  const failed = await createHarness(db, { model: failing }).process(payload);
  assert.equal(failed.status, 'failed');
  assert.equal(failed.model_usage?.calls, 2);
  await db.updateTable('raw_data').set({ status: 'pending' }).where('id', '=', failed.id).execute();
  await createHarness(db).runNext();
  const { model_usage: usage } = await rawRecord(db, failed.id);
  assert.equal(usage?.calls, 4);
  assert.ok(usage.output_tokens >= 2 * failed.model_usage.output_tokens);
});

test('a payload that waits has cost nothing that is known', async () => {
  assert.equal((await rawRecord(db, await store(db, payloadOf()))).model_usage, null);
});
