import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ModelCallEvent } from '@oselya/model';
import type { StageRecord } from '../../src/tables.ts';
import type { ProcessResult } from '../../src/queue/run-job.ts';
import { fakeBreaker } from '../support/breaker.ts';
import { rawRecord, store } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';
import { until } from '../support/until.ts';
import { watchedDatabase } from '../support/watched-database.ts';
import { completed, LONG, NO_WAIT, openQueue } from './harness.ts';

const { db, empty, reach, start, statuses, storeMany } = await openQueue();

/** A request to the model. */
const call: ModelCallEvent = {
  operation: 'extract',
  outcome: 'ok',
  durationMs: 1,
  inputTokens: 7,
  outputTokens: 1,
};

/** What a job has been through. */
const stage: StageRecord = {
  stage: 'load',
  outcome: 'done',
  started_at: '2026-05-04T09:00:00.000Z',
  duration_ms: 3,
};

test('shutdown waits for jobs in progress', async () => {
  const id = await store(db, payloadOf());
  const { promise, resolve } = Promise.withResolvers<ProcessResult>();
  let started = false;
  const worker = start(() => {
    started = true;
    return promise;
  });
  await until('the job to start', () => started);
  const stopping = worker.stop(LONG);
  await store(db, payloadOf());
  await sleep(50);
  resolve(completed);
  await stopping;
  assert.equal((await rawRecord(db, id)).status, 'completed');
  assert.deepEqual(await statuses(), { completed: 1, pending: 1 }, 'nothing more was claimed');
  await empty();
});

test('shutdown returns jobs that take too long, at no cost, and they write nothing', async () => {
  const id = await store(db, payloadOf());
  let aborted = false;
  const worker = start(async (_, { signal }) => {
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    aborted = true;
    return completed;
  });
  await reach({ processing: 1 });
  await worker.stop(NO_WAIT);
  await until('the work to be ended', () => aborted);
  await reach({ pending: 1 });
  const row = await rawRecord(db, id);
  assert.deepEqual([row.status, row.attempts, row.stages], ['pending', 0, []]);
  await empty();
});

test('all that is in progress is returned at shutdown in one statement', async () => {
  let returns = 0;
  const watched = watchedDatabase(db, {
    before(text) {
      if (text.includes('from job as back')) returns += 1;
    },
  });
  await storeMany(10);
  const worker = start(
    (_, { signal, stages, cost }) => {
      stages?.push(stage);
      cost?.observe(call);
      return new Promise<ProcessResult>((resolve) => {
        signal.addEventListener('abort', () => resolve(completed), { once: true });
      });
    },
    { db: watched, slots: 10 },
  );
  await reach({ processing: 10 });
  await worker.stop(NO_WAIT);
  await reach({ pending: 10 });
  assert.equal(returns, 1);
  const rows = await db.selectFrom('raw_data').selectAll().execute();
  for (const row of rows) {
    assert.deepEqual([row.status, row.attempts, row.claimed_by], ['pending', 0, null]);
    assert.equal(row.model_usage?.input_tokens, 7, 'each with its own cost');
    assert.deepEqual(row.stages, [stage], 'and with how far it came');
  }
  await empty();
});

test('a worker has not stopped while jobs are on their way back', async () => {
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
  let isReturned = false;
  const slow = watchedDatabase(db, {
    async after(text) {
      // What is given back at the stop comes after it, and is not held up.
      if (isReturned || !text.includes('from job as back')) return;
      isReturned = true;
      await held;
    },
  });
  await storeMany(60);
  const breaker = fakeBreaker();
  let begun = 0;
  const worker = start(
    async (_, { signal }) => {
      begun += 1;
      if (begun > 30) {
        await new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => resolve(), { once: true });
        });
      }
      return completed;
    },
    { db: slow, breaker, pollMs: 60_000, maxWaitMs: 60_000, giveUpMs: 60_000 },
  );
  await until('all slots to be taken', () => begun === 34);
  await until('jobs that wait for one', async () => ((await statuses())['processing'] ?? 0) > 4);
  breaker.set('open');
  await until('them to be returned', () => isReturned);
  let hasStopped = false;
  const stopping = worker.stop(NO_WAIT).then(() => (hasStopped = true));
  await sleep(50);
  assert.equal(hasStopped, false);
  letGo();
  await stopping;
  assert.deepEqual(Object.keys(await statuses()).toSorted(), ['completed', 'pending']);
  await empty();
});

/** What a worker waits for that is told to stop, by a part of its text. */
const awaited = {
  'a claim': 'with recursive',
  'a renewal': 'attempt_usage = job.usage',
  'a return': 'from job as back',
};

for (const [name, statement] of Object.entries(awaited)) {
  test(`a stop does not wait for ${name} that the database does not answer`, async () => {
    const { promise: answer, resolve: letGo } = Promise.withResolvers<void>();
    let asked = 0;
    let answered = 0;
    const silent = watchedDatabase(db, {
      async after(text) {
        if (!text.includes(statement)) return;
        asked += 1;
        await answer;
        answered += 1;
      },
    });
    await storeMany(1);
    const worker = start(
      async (_, { signal }) => {
        await new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => resolve(), { once: true });
        });
        return completed;
      },
      { db: silent, slots: 1, leaseMs: 300 },
    );
    if (name === 'a return') await reach({ processing: 1 });
    else await until('it to be asked', () => asked > 0);
    await worker.stop({ timeoutMs: 200 });
    assert.ok(asked > 0);
    assert.equal(answered, 0, 'it has stopped all the same');
    letGo();
    await until('what was asked to be answered', () => answered === asked);
    await reach({ pending: 1 });
    await empty();
  });
}
