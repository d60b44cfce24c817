import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import type { CheckOptions } from '../../src/operations/archive/check.ts';
import { takeTurn } from '../../src/operations/turns.sql.ts';
import { startUpkeep } from '../../src/operations/upkeep.ts';
import { openDatabase } from '../support/database.ts';
import { log } from '../support/pipeline.ts';
import { until } from '../support/until.ts';

const { db } = await openDatabase();

test('of many that take a turn at once it is one that gets it, and again when it is time', async () => {
  const take = () => takeTurn(db, 'dishes', 60);
  const turns = await Promise.all(Array.from({ length: 10 }, take));
  assert.equal(turns.filter(Boolean).length, 1);
  assert.equal(await take(), false);
  await sql`update upkeep_turns set taken_at = taken_at - interval '1 minute'`.execute(db);
  assert.equal(await take(), true);
});

/** Upkeep that keeps what it was asked for. */
function upkeepOf(hours: number, days: number, check?: (options: CheckOptions) => Promise<void>) {
  const calls: unknown[] = [];
  const upkeep = startUpkeep({
    db,
    log,
    async archiveCheck({ signal, ...options }) {
      calls.push(options);
      await check?.({ ...options, ...(signal === undefined ? {} : { signal }) });
      return { checked: 1, archived: 0, unreachable: 0 };
    },
    rawCleanup({ olderThanDays }) {
      calls.push({ olderThanDays });
      return Promise.resolve(1);
    },
    config: { COLLECTOR_ARCHIVE_CHECK_HOURS: hours, COLLECTOR_RAW_RETENTION_DAYS: days },
    intervalMs: 5,
  });
  return { calls, upkeep };
}

test('nothing is done unless the configuration says so', async () => {
  const { calls, upkeep } = upkeepOf(0, 0);
  await upkeep.close();
  assert.deepEqual(calls, []);
});

test('what is due is done by one of the processes, and again after a failure', async () => {
  await sql`delete from upkeep_turns`.execute(db);
  let failures = 0;
  const two = [0, 1].map(() =>
    upkeepOf(24, 90, () => {
      failures += 1;
      return failures === 1 ? Promise.reject(new Error('no database')) : Promise.resolve();
    }),
  );
  const calls = () => two.flatMap((one) => one.calls);
  await until('both kinds of work', () => calls().length === 2);
  await sql`delete from upkeep_turns`.execute(db);
  await until('their next turns', () => calls().length === 4);
  await Promise.all(two.map(({ upkeep }) => upkeep.close()));
  assert.deepEqual(
    calls().filter((call) => Object.hasOwn(Object(call), 'olderThanDays')),
    [{ olderThanDays: 90 }, { olderThanDays: 90 }],
  );
  assert.deepEqual(
    calls().find((call) => !Object.hasOwn(Object(call), 'olderThanDays')),
    { limit: 1000, notWithinHours: 24, minIntervalSeconds: 3600 },
  );
  assert.equal(failures, 2);
});

test('a run in progress ends with the process', async () => {
  await sql`delete from upkeep_turns`.execute(db);
  const begun = Promise.withResolvers<void>();
  const { upkeep } = upkeepOf(24, 0, ({ signal }) => {
    begun.resolve();
    return new Promise((resolve) => {
      signal?.addEventListener('abort', () => resolve(), { once: true });
    });
  });
  await begun.promise;
  await upkeep.close();
});
