import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createOfflineDatabase } from '@oselya/db';
import { createLogger } from '@oselya/kit';
import { ModelError } from '@oselya/model';
import type { Tables } from '../../src/tables.ts';
import { problem } from '../../src/errors.ts';
import { createModelCostCounter } from '../../src/model.ts';
import type { Context, StageDeps } from '../../src/pipeline/context.ts';
import type { Stage, StageRun } from '../../src/pipeline/context.ts';
import { done, StageTimeoutError } from '../../src/pipeline/outcome.ts';
import { createJobModel, runStage } from '../../src/pipeline/pipeline.ts';
import { until } from '@oselya/testing';
import { outage } from '@oselya/testing/database';

const context: Context = {
  job: { rawId: 1, attempt: 1, sourceSlug: 'a', externalId: 'b', contentHash: 'c' },
  force: false,
  outputs: {},
};
const never = () => Promise.reject(new Error('not used'));
const deps: StageDeps = {
  db: createOfflineDatabase<Tables>().db,
  model: createJobModel({ generateObject: never, chatModel: '', embeddingModel: '' }, never, {
    cost: createModelCostCounter(),
  }),
  images: { processRemote: never, processUploaded: never, describeAll: never },
  log: createLogger({ level: 'silent', service: 'test' }),
};
const stage = (run: StageRun, settings: Partial<Stage> = {}): Stage => ({
  name: 'load',
  run,
  timeoutMs: 10_000,
  attempts: 3,
  ...settings,
});
const run = (one: Stage, signal = new AbortController().signal) =>
  runStage(one, context, deps, signal);

test('A failed stage is tried again, up to its attempts', async () => {
  let tries = 0;
  const result = await run(
    stage(async () => {
      tries += 1;
      if (tries < 3) throw new Error('connection lost');
      return done;
    }),
  );
  assert.equal(result, done);
  assert.equal(tries, 3);
  const failing = stage(() => Promise.reject(new Error(`failure ${(tries += 1)}`)), {
    attempts: 2,
  });
  await assert.rejects(run(failing), /failure 5/);
});

test('Outages and a full disk are not tried again', async () => {
  for (const error of [
    problem('disk_low'),
    new ModelError('MODEL_UNREACHABLE', 'gone'),
    outage(),
  ]) {
    let tries = 0;
    const failing = stage(() => {
      tries += 1;
      return Promise.reject(error);
    });
    await assert.rejects(run(failing), error);
    assert.equal(tries, 1);
  }
});

test('A stage that ignores its signal ends at its timeout', async () => {
  let signalled = false;
  const endless = stage(
    (_context, _deps, signal) => {
      signal.addEventListener('abort', () => {
        signalled = true;
      });
      return new Promise(() => undefined);
    },
    { timeoutMs: 20 },
  );
  await assert.rejects(run(endless), StageTimeoutError);
  assert.ok(signalled);
});

test('An aborted job ends its stage with the reason', async () => {
  const controller = new AbortController();
  const endless = stage(() => new Promise(() => undefined));
  const running = run(endless, controller.signal);
  controller.abort(new Error('lease lost'));
  await assert.rejects(running, /lease lost/);
  await assert.rejects(run(endless, controller.signal), /lease lost/);
});

test('A stage that ended is garbage-collected while its job goes on', async () => {
  const { signal } = new AbortController();
  let ofStage: WeakRef<AbortSignal> | undefined;
  await run(
    stage((_context, _deps, ending) => {
      ending.addEventListener('abort', () => undefined);
      ofStage = new WeakRef(ending);
      return Promise.resolve(done);
    }),
    signal,
  );
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  assert.ok(typeof collect === 'function');
  await until('it is collected', () => {
    collect();
    return ofStage?.deref() === undefined;
  });
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});
