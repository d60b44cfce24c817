import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import type { ProcessResult } from '../../src/queue/run-job.ts';
import { rawRecord, store } from '../support/database.ts';
import { lossyDatabase } from '../support/lossy-database.ts';
import { payloadOf } from '../support/payload.ts';
import { until } from '../support/until.ts';
import { completed, type Line, logTo, LONG, NO_WAIT, openQueue } from './harness.ts';

const { db, empty, reach, start } = await openQueue();

test('what is said of jobs that nobody runs any more leads to their requests too', async () => {
  const lost = await store(db, payloadOf());
  await sql`update raw_data set status = 'processing', attempt = 1, attempts = 1,
    lease_expires_at = now() - interval '1 second', request_id = 'lost'`.execute(db);
  const lines: Line[] = [];
  const line = (wanted: string) =>
    until(wanted, () => lines.find(({ msg }) => msg === wanted)).then(
      ({ raw_id, request_id, source, attempt }) => [raw_id, request_id, source, attempt],
    );
  const { promise: aborted, resolve: letGo } = Promise.withResolvers<ProcessResult>();
  const worker = start(
    (_, { signal }) => {
      signal.addEventListener('abort', () => letGo(completed));
      return aborted;
    },
    { log: logTo(lines) },
  );
  assert.deepEqual(await line('the worker of a job was lost'), [lost, 'lost', 'doshka', 1]);

  await reach({ processing: 1 });
  await sql`create function refuse() returns trigger language plpgsql as $$
    begin raise exception 'no'; end $$`.execute(db);
  await sql`create trigger refuse before update on raw_data
    for each row when (new.status = 'pending') execute function refuse()`.execute(db);
  await worker.stop(NO_WAIT);
  assert.deepEqual(await line('a job could not be returned'), [lost, 'lost', 'doshka', 2]);
  await sql`drop trigger refuse on raw_data`.execute(db);
  await empty();
});

/** Long enough that a busy machine renews it in time. */
const LEASE_MS = 1500;

test('a heartbeat keeps the lease for as long as the job takes', async () => {
  const id = await store(db, payloadOf());
  const { promise, resolve } = Promise.withResolvers<ProcessResult>();
  const worker = start(() => promise, { leaseMs: LEASE_MS });
  await reach({ processing: 1 });
  const rival = start(async () => completed, { leaseMs: LEASE_MS });
  const first = (await rawRecord(db, id)).lease_expires_at;
  await until('three renewals', async () => {
    const { lease_expires_at: lease } = await rawRecord(db, id);
    return lease !== null && first !== null && lease.getTime() > first.getTime() + LEASE_MS;
  });
  resolve(completed);
  await reach({ completed: 1 });
  await Promise.all([worker.stop(LONG), rival.stop(LONG)]);
  assert.equal((await rawRecord(db, id)).attempts, 1);
  await empty();
});

test('the jobs of a worker that is gone are rescued at the start of another', async () => {
  const id = await store(db, payloadOf());
  await db
    .updateTable('raw_data')
    .set({ status: 'processing', attempt: 1, attempts: 1, lease_expires_at: new Date(0) })
    .where('id', '=', id)
    .execute();
  const worker = start(async () => completed);
  await reach({ completed: 1 });
  await worker.stop(LONG);
  assert.equal((await rawRecord(db, id)).attempts, 2);
  await empty();
});

test('a job whose claim was taken away is given up', async () => {
  const id = await store(db, payloadOf());
  let reason: unknown;
  const worker = start(
    async (_, { signal }) => {
      await new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      reason = signal.reason;
      return completed;
    },
    { leaseMs: 60 },
  );
  await reach({ processing: 1 });
  await db
    .updateTable('raw_data')
    .set({ status: 'failed', attempt: 7 })
    .where('id', '=', id)
    .execute();
  await until('the work to be ended', () => reason !== undefined);
  await worker.stop(LONG);
  assert.equal((reason as Error).name, 'LeaseLostError');
  assert.equal((await rawRecord(db, id)).status, 'failed');
  await empty();
});

test('an outage over the end of a job costs it nothing, and what waits for it is let go', async () => {
  for (const when of ['before', 'after'] as const) {
    const same = { external_id: `same-${when}` };
    const [first, second] = [await store(db, payloadOf(same)), await store(db, payloadOf(same))];
    const lossy = lossyDatabase(db);
    lossy.lose({ statement: 'set completed_hash =', when, times: 2 });
    let runs = 0;
    const worker = start(
      async () => {
        runs += 1;
        return completed;
      },
      { db: lossy.db, maxAttempts: 1, pollMs: 20 },
    );
    await reach({ completed: 2 });
    await worker.stop(LONG);
    assert.ok(lossy.isOver());
    assert.equal(runs, 2, 'the work is not thrown away');
    for (const id of [first, second]) {
      const { attempt, attempts, waits } = await rawRecord(db, id);
      assert.deepEqual([attempt, attempts, waits], [1, 1, false]);
    }
    await empty();
  }
});

test('what was claimed without the worker hearing of it is returned, and taken again', async () => {
  const id = await store(db, payloadOf());
  const lossy = lossyDatabase(db);
  lossy.lose({ statement: 'with recursive', when: 'after', times: 1 });
  const lines: Line[] = [];
  const worker = start(async () => completed, { db: lossy.db, maxAttempts: 1, log: logTo(lines) });
  await reach({ completed: 1 });
  await worker.stop(LONG);
  const { attempt, attempts } = await rawRecord(db, id);
  assert.deepEqual([attempt, attempts], [2, 1], 'at no cost');
  assert.ok(lines.some(({ msg }) => msg === 'jobs of a lost claim were returned'));
  await empty();
});
