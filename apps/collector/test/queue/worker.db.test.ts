import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { rawRecord, store } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';
import { until } from '../support/until.ts';
import { watchedDatabase } from '../support/watched-database.ts';
import { completed, type Line, logTo, LONG, openQueue } from './harness.ts';

const { db, empty, reach, start, statuses, storeMany } = await openQueue();

const CLAIM_FAILED = 'a job could not be claimed';

test('a worker drains the queue, with no more in progress than its slots', async () => {
  await storeMany(30);
  let inProgress = 0;
  let most = 0;
  // With a poll of a minute only claiming again at once can drain it in time.
  const worker = start(
    async () => {
      inProgress += 1;
      most = Math.max(most, inProgress);
      await sleep(2);
      inProgress -= 1;
      return completed;
    },
    { pollMs: 60_000 },
  );
  await reach({ completed: 30 });
  await worker.stop(LONG);
  assert.ok(most > 1 && most <= 4, `${most} at once`);
  await empty();
});

test('a notification wakes a worker that has nothing to do, and so does the poll', async () => {
  let claims = 0;
  const watched = watchedDatabase(db, {
    after(text) {
      if (text.includes('with recursive')) claims += 1;
    },
  });
  const notified = start(async () => completed, { db: watched, pollMs: 60_000 });
  await until('a claim to find nothing', () => claims > 0);
  await store(db, payloadOf());
  notified.notify();
  await reach({ completed: 1 });
  await notified.stop(LONG);

  const polling = start(async () => completed);
  await store(db, payloadOf());
  await reach({ completed: 2 });
  await polling.stop(LONG);
  await empty();
});

test('a notification that comes while all slots are taken, or while a gate is asked, is not lost', async () => {
  const held = Promise.withResolvers<void>();
  let begun = 0;
  const asked: ((isOpen: boolean) => void)[] = [];
  const worker = start(
    async () => {
      begun += 1;
      if (begun === 1) await held.promise;
      return completed;
    },
    {
      slots: 1,
      // The poll would come too late for the test.
      pollMs: 60_000,
      mayClaim: () => new Promise<boolean>((resolve) => asked.push(resolve)),
    },
  );
  await store(db, payloadOf());
  await until('the gate to be asked', () => asked.length === 1);
  asked[0]?.(true);
  await until('the first job', () => begun === 1);
  await store(db, payloadOf());
  worker.notify();
  held.resolve();
  await until('the gate to be asked for the second job', () => asked.length === 2);
  asked[1]?.(true);
  await reach({ completed: 2 });

  await until('the gate to be asked once more', () => asked.length === 3);
  await store(db, payloadOf());
  worker.notify();
  asked[2]?.(false);
  await until('the gate to be asked again at once', () => asked.length === 4);
  asked[3]?.(true);
  await reach({ completed: 3 });
  await until('the last question', () => asked.length === 5);
  asked[4]?.(false);
  await worker.stop(LONG);
  await empty();
});

test('nothing is claimed while it may not be, and a look that fails is as any failure of a claim', async () => {
  await storeMany(2);
  const state = { may: false, looks: 0 };
  const lines: Line[] = [];
  const worker = start(async () => completed, {
    log: logTo(lines),
    mayClaim: async () => {
      state.looks += 1;
      if (state.looks === 1) throw new Error('the folder is gone');
      return state.may;
    },
  });
  await until('the failure', () => lines.some(({ msg }) => msg === CLAIM_FAILED));
  await until('two looks more', () => state.looks >= 3);
  assert.deepEqual(await statuses(), { pending: 2 });
  state.may = true;
  await reach({ completed: 2 });
  await worker.stop(LONG);
  await empty();
});

test('an exception fails its job, and the worker goes on', async () => {
  const [bad, good] = [await store(db, payloadOf()), await store(db, payloadOf())];
  const worker = start(async (job) => {
    if (job.rawId === bad) throw new Error('boom');
    return completed;
  });
  await reach({ completed: 1, failed: 1 });
  await worker.stop(LONG);
  const row = await rawRecord(db, bad);
  assert.equal(row.status, 'failed');
  assert.equal(row.error?.code, 'internal_error');
  assert.ok(!row.error?.message.includes('boom'), 'the inside stays in the log');
  assert.equal((await rawRecord(db, good)).status, 'completed');
  await empty();
});

test('a database that fails for a while does not end the worker', async () => {
  await store(db, payloadOf());
  await db.schema.alterTable('raw_data').renameTo('raw_data_away').execute();
  const lines: Line[] = [];
  const worker = start(async () => completed, { log: logTo(lines) });
  await until('a claim to fail', () => lines.some(({ msg }) => msg === CLAIM_FAILED));
  await db.schema.alterTable('raw_data_away').renameTo('raw_data').execute();
  await reach({ completed: 1 });
  await worker.stop(LONG);
  await empty();
});

test('a word ends the pause after failed claims: nobody waits for a database that is back', async () => {
  await storeMany(1);
  const state = { isAway: true, claims: 0 };
  const flaky = watchedDatabase(db, {
    before(text) {
      if (!text.includes('with recursive')) return;
      state.claims += 1;
      if (state.isAway) throw new Error('away');
    },
  });
  const worker = start(async () => completed, { db: flaky, pollMs: 1_000_000 });
  await until('a claim to fail', () => state.claims > 0);
  for (let words = 0; words < 200; words += 1) worker.notify();
  await until('another one', () => state.claims > 1);
  state.isAway = false;
  worker.notify();
  await reach({ completed: 1 });
  assert.ok(state.claims < 20, `${state.claims} claims: many words at once are one`);
  await worker.stop(LONG);
  await empty();
});
