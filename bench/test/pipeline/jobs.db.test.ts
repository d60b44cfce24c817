import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openTestDatabase } from '@oselya/testing/database';
import { readJobResults } from '../../src/pipeline/jobs.ts';

const { pool } = await openTestDatabase();
// Columns of the collector's table that the results use.
await pool.query(`create table raw_data (
  id bigint, status text, updated_at timestamptz, stages jsonb, model_usage jsonb)`);

const at = (ms: number) => new Date(Date.UTC(2026, 0, 1) + ms).toISOString();

/** Inserts a job with two stages. Its result is written some time after the job leaves its slot. */
async function insertJob(id: number, times: { from: number; to: number; written: number }) {
  const { from, to, written } = times;
  const half = (to - from) / 2;
  const stages = [from, from + half].map((ms) => ({ started_at: at(ms), duration_ms: half }));
  await pool.query(`insert into raw_data values ($1, 'completed', $2, $3, '{"calls": 2}')`, [
    id,
    at(written),
    JSON.stringify(stages),
  ]);
}

async function readResults(count: number, slots: number) {
  const client = await pool.connect();
  try {
    return await readJobResults(client, count, slots);
  } finally {
    client.release();
  }
}

test('a slot that starts a job before the previous result is written counts as busy once', async () => {
  for (const id of [0, 1, 2, 3]) {
    await insertJob(id, { from: 100 * id, to: 100 * id + 100, written: 100 * id + 180 });
  }
  assert.deepEqual(await readResults(4, 1), {
    completedCount: 4,
    incompleteCount: 0,
    seconds: 0.48,
    busy: 1,
    calls: 8,
  });
  await insertJob(4, { from: 440, to: 500, written: 501 });
  // Between the starts of the last two jobs, the slot was idle for 40 of 140 ms.
  const { busy } = await readResults(2, 1);
  assert.equal(busy.toFixed(3), (100 / 140).toFixed(3));
});
