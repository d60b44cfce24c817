import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { createOfflineDatabase } from '@oselya/db';
import { createLogger } from '@oselya/kit';
import { ModelError } from '@oselya/model';
import { createOutageError } from '@oselya/testing/database';
import { problem } from '../../src/errors.ts';
import type { JobContext, Stage, StageDeps, StageRun } from '../../src/pipeline/context.ts';
import { DONE_RESULT, StageTimeoutError } from '../../src/pipeline/outcome.ts';
import { runStage } from '../../src/pipeline/pipeline.ts';
import type { Tables } from '../../src/tables.ts';

const context: JobContext = {
  job: { rawId: 1, attempt: 1, sourceSlug: 'a', externalId: 'b', contentHash: 'c' },
  outputs: {},
};
const fail = () => Promise.reject(new Error('not used'));
const deps: StageDeps = {
  db: createOfflineDatabase<Tables>().db,
  model: {
    chatModel: '',
    embeddingModel: '',
    generateObject: fail,
    embed: fail,
    observe: () => undefined,
  },
  images: { processRemote: fail, processUploaded: fail, describeAll: fail },
  log: createLogger({ level: 'silent', service: 'test' }),
};

function run(stage: StageRun, signal = new AbortController().signal, timeoutMs = 10_000) {
  const options: Stage = { name: 'load', run: stage, timeoutMs, attempts: 3 };
  return runStage(options, context, deps, signal);
}

test('A failed stage is repeated up to its attempts, except after an outage', async () => {
  for (const [error, expected] of [
    [new Error('a deadlock'), 3],
    [problem('disk_low'), 1],
    [new ModelError('MODEL_UNREACHABLE', 'gone'), 1],
    [createOutageError(), 1],
  ] as const) {
    let attempts = 0;
    const failRepeatedly = () => {
      attempts += 1;
      return Promise.reject(error);
    };
    await assert.rejects(run(failRepeatedly), error);
    assert.equal(attempts, expected);
  }
  let attempts = 0;
  const { signal } = new AbortController();
  const result = await run(() => {
    attempts += 1;
    return attempts < 3 ? fail() : Promise.resolve(DONE_RESULT);
  }, signal);
  assert.equal(result, DONE_RESULT);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});

test('A stage that ignores its signal ends at its timeout or with its job', async () => {
  const signals: AbortSignal[] = [];
  const endless: StageRun = (_context, _deps, signal) => {
    signals.push(signal);
    return new Promise(() => undefined);
  };
  await assert.rejects(run(endless, undefined, 20), StageTimeoutError);
  const job = new AbortController();
  const stageRun = run(endless, job.signal);
  job.abort(new Error('lease lost'));
  await assert.rejects(stageRun, /lease lost/);
  assert.deepEqual(
    signals.map(({ aborted }) => aborted),
    [true, true],
  );
});
