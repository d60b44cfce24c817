import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModelError } from '@oselya/model';
import type { StageRecord } from '../../src/tables.ts';
import { putBackOne } from '../../src/queue/retry.ts';
import { claimJobs } from '../../src/queue/claim.ts';
import { renewLeases } from '../../src/queue/jobs.ts';
import { startCollector } from '../support/collector.ts';
import { openDatabase, payloadOf, countedModel, createHarness } from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const collector = await startCollector(database, { COLLECTOR_WORKER: 'false' });

/** What the API tells of a payload's stages. */
async function stagesOf(rawId: number): Promise<StageRecord[]> {
  const answer = await collector.get(`/api/v1/raw/${rawId}`);
  return answer.json<{ stages: StageRecord[] }>().stages;
}

const outcomes = (stages: readonly StageRecord[]) =>
  stages.map(({ stage, outcome }) => [stage, outcome]);

const noEmbedding = {
  ...countedModel(),
  embed: () => Promise.reject(new ModelError('MODEL_REJECTED', 'too long', { status: 400 })),
};

test('a retry tells of each stage how it ended last, until it runs again', async () => {
  const { id, status } = await createHarness(db, { model: noEmbedding }).process(payloadOf());
  assert.equal(status, 'failed');
  const failed = await stagesOf(id);
  assert.equal(failed.length, 8);
  assert.deepEqual(outcomes(failed).at(-1), ['embed', 'failed']);

  assert.ok(await putBackOne(db, id));
  assert.deepEqual(await stagesOf(id), failed, 'while it waits');
  const [job] = await claimJobs(db, { worker: 'test', leaseMs: 60_000, count: 1 });
  assert.ok(job);
  assert.deepEqual(await stagesOf(id), failed, 'while nothing of it has run again');

  const load: StageRecord = {
    stage: 'load',
    outcome: 'done',
    started_at: new Date().toISOString(),
    duration_ms: 1,
  };
  const modelUsage = { calls: 0, input_tokens: 0, output_tokens: 0 };
  await renewLeases(db, [{ ...job, stages: [load], modelUsage }], 60_000);
  const inProgress = await stagesOf(id);
  assert.deepEqual(inProgress, [...failed.slice(1), load], 'each once, the last to run at the end');
});

test('what a retry has done takes the place of what had failed', async () => {
  const { id } = await createHarness(db, { model: noEmbedding }).process(payloadOf());
  const failed = await stagesOf(id);
  assert.ok(await putBackOne(db, id));
  assert.equal(await createHarness(db).runNext(), 'completed');
  const completed = await stagesOf(id);
  assert.deepEqual(
    completed.map(({ stage }) => stage),
    failed.map(({ stage }) => stage),
  );
  assert.deepEqual(outcomes(completed).at(-1), ['embed', 'done']);
  assert.ok((completed[0]?.started_at ?? '') >= (failed.at(-1)?.started_at ?? ''));
});

test('a stage that a retry does not come to is as it was', async () => {
  const { id } = await createHarness(db, { model: noEmbedding }).process(payloadOf());
  const failed = await stagesOf(id);
  assert.ok(await putBackOne(db, id));
  const refuses = countedModel();
  const model = {
    ...refuses,
    generateObject: () => Promise.reject(new ModelError('MODEL_TRUNCATED', 'cut off')),
  };
  assert.equal(await createHarness(db, { model }).runNext(), 'failed');
  const stages = await stagesOf(id);
  assert.deepEqual(stages.slice(0, 6), failed.slice(2));
  assert.deepEqual(outcomes(stages).slice(6), [
    ['load', 'done'],
    ['validate', 'failed'],
  ]);
});

const leftAlone = {
  ...countedModel(),
  embed: () => Promise.reject(new ModelError('MODEL_BREAKER_OPEN', 'being left alone')),
};

test('an attempt that goes back tells how far it came', async () => {
  const { id, status } = await createHarness(db, { model: leftAlone }).process(payloadOf());
  assert.equal(status, 'pending');
  const stages = await stagesOf(id);
  assert.equal(stages.length, 8);
  assert.deepEqual(outcomes(stages).at(-1), ['embed', 'postponed']);
  assert.equal(await createHarness(db).runNext(), 'completed');
  assert.deepEqual(outcomes(await stagesOf(id)).at(-1), ['embed', 'done']);
});

test('what an attempt that goes back has done takes the place of what had failed', async () => {
  const { id } = await createHarness(db, { model: noEmbedding }).process(payloadOf());
  const failed = await stagesOf(id);
  assert.ok(await putBackOne(db, id));
  await createHarness(db, { model: leftAlone }).runNext();
  const stages = await stagesOf(id);
  assert.deepEqual(outcomes(stages).at(-1), ['embed', 'postponed']);
  assert.equal(stages.length, 8);
  assert.ok((stages[0]?.started_at ?? '') >= (failed.at(-1)?.started_at ?? ''));
});
