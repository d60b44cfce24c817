import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openTestDatabase } from '@oselya/testing/database';
import { readFigures } from '../../src/pipeline/jobs.ts';

const { pool } = await openTestDatabase();
// Columns of the collector's table that the figures use.
await pool.query(`create table raw_data (
  id bigint, status text, updated_at timestamptz, stages jsonb, model_usage jsonb)`);

const at = (ms: number) => new Date(Date.UTC(2026, 0, 1) + ms).toISOString();

/** A job of two stages, the end of which was written some time after it had left its slot. */
async function keep(id: number, times: { from: number; to: number; written: number }) {
  const { from, to, written } = times;
  const half = (to - from) / 2;
  const stages = [from, from + half].map((ms) => ({ started_at: at(ms), duration_ms: half }));
  await pool.query(`insert into raw_data values ($1, 'completed', $2, $3, '{"calls": 2}')`, [
    id,
    at(written),
    JSON.stringify(stages),
  ]);
}

async function figures(count: number, slots: number) {
  const client = await pool.connect();
  try {
    return await readFigures(client, count, slots);
  } finally {
    client.release();
  }
}

test('a slot whose next job has begun before the last one was written is busy once', async () => {
  for (const id of [0, 1, 2, 3]) {
    await keep(id, { from: 100 * id, to: 100 * id + 100, written: 100 * id + 180 });
  }
  assert.deepEqual(await figures(4, 1), {
    completed: 4,
    others: 0,
    seconds: 0.48,
    busy: 1,
    calls: 8,
  });
  await keep(4, { from: 440, to: 500, written: 501 });
  // The last of two: 40 ms of the 140 until the last one began had no job.
  const { busy } = await figures(2, 1);
  assert.equal(busy.toFixed(3), (100 / 140).toFixed(3));
});
