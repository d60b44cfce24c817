import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { openTestDatabase } from '@oselya/db/testing';
import { createRateLimit, ProblemError } from '@oselya/kit';
import type { Tables } from '../../src/tables.ts';

const { db, pool } = await openTestDatabase<Tables>([
  {
    component: 'collector',
    folder: join(import.meta.dirname, '../../migrations'),
    variables: { embedding_dimensions: 3 },
  },
]);

test('uses are counted for each key, together for all processes and at once', async () => {
  const processes = Array.from({ length: 3 }, () =>
    createRateLimit({ pool, table: 'rate_limits', name: 'shared', perMinute: 10 }),
  );
  const uses = processes.flatMap((limit) => Array.from({ length: 10 }, () => limit('a key')));
  const outcomes = await Promise.allSettled(uses);
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
  assert.equal(refused.length, 20);
  for (const { reason } of refused) assert.equal(reason.code, 'rate_limited');
  assert.equal((await processes[0]?.('another key'))?.['ratelimit-remaining'], '9');
});

test('limits of different names do not count together', async () => {
  await createRateLimit({ pool, table: 'rate_limits', name: 'one', perMinute: 1 })('key');
  await createRateLimit({ pool, table: 'rate_limits', name: 'two', perMinute: 1 })('key');
});

test('a refusal says when to come back, and then it works again', async () => {
  const limit = createRateLimit({ pool, table: 'rate_limits', name: 'return', perMinute: 1 });
  const headers = await limit('key');
  assert.deepEqual([headers['ratelimit-limit'], headers['ratelimit-remaining']], ['1', '0']);
  await assert.rejects(limit('key'), (error) => {
    assert.ok(error instanceof ProblemError);
    assert.equal(error.status, 429);
    assert.equal(error.headers['retry-after'], error.headers['ratelimit-reset']);
    assert.match(error.detail, /No more than 1 .* wait for \d+ s/);
    return true;
  });
  await db
    .updateTable('rate_limits')
    .set({ expire: Date.now() - 1 })
    .where('key', '=', 'return:key')
    .execute();
  assert.equal((await limit('key'))['ratelimit-remaining'], '0');
});

test('a limit may be for a day, and of something else than requests', async () => {
  const limit = createRateLimit({
    pool,
    table: 'rate_limits',
    name: 'daily',
    perDay: 1,
    what: 'new sources',
  });
  const headers = await limit('key');
  assert.equal(headers['ratelimit-limit'], '1');
  assert.ok(Number(headers['ratelimit-reset']) > 3600);
  await assert.rejects(limit('key'), /No more than 1 new sources a day: wait for \d+ s/);
});

test('0 is no limit and counts nothing', async () => {
  const limit = createRateLimit({ pool, table: 'rate_limits', name: 'unlimited', perMinute: 0 });
  for (let use = 0; use < 5; use += 1) assert.deepEqual(await limit('key'), {});
  const counted = await db
    .selectFrom('rate_limits')
    .selectAll()
    .where('key', 'like', 'unlimited:%')
    .execute();
  assert.deepEqual(counted, []);
});

test('a database that fails is an error, not a free pass', async () => {
  await db.schema.alterTable('rate_limits').renameTo('elsewhere').execute();
  const limit = createRateLimit({ pool, table: 'rate_limits', name: 'failing', perMinute: 1 });
  await assert.rejects(limit('key'), { code: 'unavailable', status: 503 });
  await db.schema.alterTable('elsewhere').renameTo('rate_limits').execute();
  await limit('key');
});
