import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModelError } from '@oselya/model';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/metrics.ts';
import { claimJobs } from '../../src/queue/claim.ts';
import { createInlineJobs } from '../../src/queue/inline.ts';
import { rescueJobs } from '../../src/queue/job-writes.ts';
import { requeuePayload } from '../../src/queue/retry.ts';
import type { ProcessJob } from '../../src/queue/job-types.ts';
import { createJobRunner } from '../../src/queue/job-runner.ts';
import { startWorker } from '../../src/queue/worker.ts';
import { until } from '@oselya/testing';
import {
  fakeBreaker,
  openDatabase,
  rawRecord,
  store,
  payloadOf,
  countedModel,
  createHarness,
  log,
  noImages,
} from '../support/pipeline.ts';

const { db } = await openDatabase();

/** A request, as the model server counted it. */
const event = {
  operation: 'x',
  outcome: 'ok',
  durationMs: 1,
  inputTokens: 70,
  outputTokens: 7,
} as const;

test('A new listing costs two requests, and an unchanged one none', async () => {
  const harness = createHarness(db);
  const payload = payloadOf();
  const { model_usage: first } = await harness.process(payload);
  assert.equal(first?.calls, 2);
  assert.ok(first.input_tokens > 100 && first.output_tokens > 50, JSON.stringify(first));
  const { model_usage: second } = await harness.process(payload);
  assert.deepEqual(second, { calls: 0, input_tokens: 0, output_tokens: 0 });
});

test('Requests about images count for their job', async () => {
  const images = {
    ...noImages,
    processRemote: ({ observe }: { observe?: (one: typeof event) => void }) => {
      observe?.(event);
      return Promise.resolve([]);
    },
  };
  const alone = await createHarness(db).process(payloadOf({ external_id: 'alone' }));
  const withImages = await createHarness(db, { images }).process(
    payloadOf({ external_id: 'withImages' }),
  );
  assert.deepEqual(withImages.model_usage, {
    calls: 3,
    input_tokens: (alone.model_usage?.input_tokens ?? 0) + 70,
    output_tokens: (alone.model_usage?.output_tokens ?? 0) + 7,
  });
});

test('A failed job has its cost, and the next attempt adds to it', async () => {
  const model = modelFailing(() => {
    throw new ModelError('MODEL_REJECTED', 'too long');
  });
  const payload = payloadOf();
  const failed = await createHarness(db, { model }).process(payload);
  assert.equal(failed.status, 'failed');
  assert.equal(failed.model_usage?.calls, 2);
  assert.ok(await requeuePayload(db, failed.id));
  await createHarness(db).runNext();
  const { model_usage: usage } = await rawRecord(db, failed.id);
  assert.equal(usage?.calls, 4);
  assert.ok(usage.output_tokens >= 2 * failed.model_usage.output_tokens);
});

/** Creates a model whose embeddings fail. */
function modelFailing(fail: () => never) {
  const model = countedModel();
  return {
    ...model,
    embed: ((_texts, options) => {
      options?.observe?.({ ...event, inputTokens: null, outputTokens: null });
      fail();
    }) satisfies typeof model.embed,
  };
}

test('A postponed job is counted', async () => {
  const model = modelFailing(() => {
    throw new ModelError('MODEL_BREAKER_OPEN', 'The server is being left alone.');
  });
  const payload = payloadOf();
  const postponed = await createHarness(db, { model }).process(payload);
  assert.deepEqual([postponed.status, postponed.attempts], ['pending', 0]);
  assert.equal(postponed.model_usage?.calls, 2);
  await createHarness(db).runNext();
  const { status, model_usage: usage } = await rawRecord(db, postponed.id);
  assert.equal(status, 'completed');
  assert.equal(usage?.calls, 3);
  // The reading is kept, and only a reading has output tokens.
  assert.equal(usage.output_tokens, postponed.model_usage.output_tokens);
});

test('An exception is counted', async () => {
  const id = await store(db, payloadOf());
  const process: ProcessJob = (_job, { cost }) => {
    cost?.observe(event);
    throw new Error(`no luck with ${id}`);
  };
  const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
  assert.ok(job);
  const metrics = createMetrics(new Registry());
  const runner = createJobRunner({ db, process, metrics, log, leaseMs: 60_000 });
  assert.equal(await runner.run(job), 'failed');
  const { model_usage: usage } = await rawRecord(db, id);
  assert.deepEqual(usage, { calls: 1, input_tokens: 70, output_tokens: 7 });
});

/** Asks the model once, and then waits until it is aborted. */
const askAndWait: ProcessJob = (_job, { cost, signal }) => {
  cost?.observe(event);
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
};

test('A job that a shutdown interrupts is counted, in a worker and in a request', async () => {
  const id = await store(db, payloadOf());
  const metrics = createMetrics(new Registry());
  let asked = 0;
  const process: ProcessJob = (job, options) => {
    asked += 1;
    return askAndWait(job, options);
  };
  const usual = { db, process, metrics, log, leaseMs: 60_000 };
  const worker = startWorker({
    ...usual,
    breaker: fakeBreaker(),
    slots: 1,
    maxAttempts: 3,
    // A stop must wait for a busy database here.
  });
  await until('the worker to ask the model', () => asked === 1);
  await worker.stop({ timeoutMs: 0 });
  const returned = await rawRecord(db, id);
  assert.deepEqual([returned.status, returned.model_usage?.calls], ['pending', 1]);

  const jobs = createInlineJobs(usual);
  const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
  assert.ok(job);
  const outcome = jobs.run(job, {});
  await jobs.close({ timeoutMs: 0 });
  assert.equal(await outcome, 'returned');
  const again = await rawRecord(db, id);
  assert.deepEqual(
    [again.status, again.model_usage],
    ['pending', { calls: 2, input_tokens: 140, output_tokens: 14 }],
  );
  await db.deleteFrom('raw_data').where('id', '=', id).execute();
});

test('The job of a lost worker has its cost at the last renewal of the lease', async () => {
  const id = await store(db, payloadOf());
  const metrics = createMetrics(new Registry());
  const process = askAndWait;
  const usual = { db, process, metrics, log, leaseMs: 3000, breaker: fakeBreaker(), slots: 1 };
  for (const attempt of [1, 2]) {
    const worker = startWorker({ ...usual, maxAttempts: 2 });
    await until('the lease to be renewed', async () => {
      const { attempt_usage: usage, attempts } = await rawRecord(db, id);
      return attempts === attempt && usage?.calls === 1;
    });
    const { model_usage: before } = await rawRecord(db, id);
    assert.equal(before?.calls ?? 0, attempt - 1, 'nothing is counted twice while it goes on');
    // As if the worker was killed and its claim expired.
    await db
      .updateTable('raw_data')
      .set({ lease_expires_at: new Date(0), attempt: attempt * 10 })
      .where('id', '=', id)
      .execute();
    await worker.stop({ timeoutMs: 0 });
    await rescueJobs(db, 2);
    const lost = await rawRecord(db, id);
    assert.deepEqual(
      [lost.status, lost.model_usage?.calls, lost.attempt_usage],
      [attempt === 2 ? 'failed' : 'pending', attempt, null],
    );
    assert.equal(lost.model_usage?.input_tokens, attempt * event.inputTokens);
  }
});
