import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import type { ArchiveCheckOptions } from '../../src/operations/archive-check.ts';
import { startUpkeep } from '../../src/operations/upkeep.ts';
import { until } from '@oselya/testing';
import { openDatabase, log } from '../support/pipeline.ts';

const { db } = await openDatabase();

/** Lets time pass for all leases. */
async function pass(interval: string): Promise<void> {
  await sql`update upkeep_turns set lease_until = lease_until - ${interval}::interval`.execute(db);
}

const released = (name: string) =>
  until(`${name} to be released`, async () => {
    const { rows } = await sql`select from upkeep_turns
      where name = ${name} and holder is null and lease_until is not null`.execute(db);
    return rows.length === 1;
  });

/** Starts the upkeep, and records its calls and failures. */
function openUpkeep(
  options: {
    hours?: number;
    days?: number;
    imageDays?: number;
    check?: (options: ArchiveCheckOptions) => Promise<void>;
    cleanup?: () => Promise<number>;
  } = {},
) {
  const calls: unknown[] = [];
  const failed: unknown[] = [];
  const { hours = 0, days = 0, imageDays = 0, check, cleanup = () => Promise.resolve(1) } = options;
  const upkeep = startUpkeep({
    db,
    log: Object.assign(Object.create(log), {
      warn: ({ work }: { work: string }) => failed.push(work),
    }),
    async archiveCheck({ signal, ...choice }) {
      calls.push(choice);
      await check?.({ ...choice, ...(signal === undefined ? {} : { signal }) });
      return { checked: 1, archived: 0, unreachable: 0 };
    },
    rawCleanup({ olderThanDays }) {
      calls.push({ olderThanDays });
      return cleanup();
    },
    images: {
      cleanUp({ olderThanDays }) {
        calls.push({ imagesOlderThanDays: olderThanDays });
        return Promise.resolve(1);
      },
    },
    config: {
      COLLECTOR_ARCHIVE_CHECK_HOURS: hours,
      COLLECTOR_RAW_RETENTION_DAYS: days,
      COLLECTOR_IMAGE_RETENTION_DAYS: imageDays,
    },
    intervalMs: 5,
  });
  return { calls, failed, upkeep };
}

test('One process does each kind of work and repeats it when due', async () => {
  await sql`delete from upkeep_turns`.execute(db);
  const two = [0, 1].map(() => openUpkeep({ hours: 24, days: 90, imageDays: 30 }));
  const calls = () => two.flatMap((one) => one.calls);
  const names = ['archive_check', 'raw_cleanup', 'image_cleanup'];
  await Promise.all(names.map(released));
  assert.equal(calls().length, 3);
  await pass('1 day');
  await until('the next runs', () => calls().length >= 6);
  await Promise.all(two.map(({ upkeep }) => upkeep.close()));
  const expected = [
    { limit: 1000, notWithinHours: 24, minIntervalSeconds: 3600 },
    { olderThanDays: 90 },
    { imagesOlderThanDays: 30 },
  ];
  const sorted = (all: unknown[]) => all.map((call) => JSON.stringify(call)).toSorted();
  assert.deepEqual(sorted(calls()), sorted([...expected, ...expected]));
});

test('A failed removal is repeated within minutes, and a successful removal after a day', async () => {
  await sql`delete from upkeep_turns`.execute(db);
  let fails = true;
  const { calls, failed, upkeep } = openUpkeep({
    days: 90,
    cleanup: () => (fails ? Promise.reject(new Error('no database')) : Promise.resolve(1)),
  });
  await until('the failure', () => failed.length === 1);
  fails = false;
  await released('raw_cleanup');
  await pass('10 minutes');
  await until('the next run', () => calls.length === 2);
  await released('raw_cleanup');
  const { rows } = await sql<{ hours: number }>`
    select round(extract(epoch from lease_until - now()) / 3600)::integer as hours
    from upkeep_turns where name = 'raw_cleanup'`.execute(db);
  assert.deepEqual(rows, [{ hours: 24 }]);
  await upkeep.close();
});

test('A run in progress ends with its process and is soon due again', async () => {
  await sql`delete from upkeep_turns`.execute(db);
  const begun = Promise.withResolvers<void>();
  const { upkeep } = openUpkeep({
    hours: 24,
    check: ({ signal }) => {
      begun.resolve();
      return new Promise((resolve) => {
        signal?.addEventListener('abort', () => resolve(), { once: true });
      });
    },
  });
  await begun.promise;
  await upkeep.close();
  const next = openUpkeep({ hours: 24 });
  await pass('1 minute');
  await until('the next run', () => next.calls.length === 1);
  await next.upkeep.close();
});

test('By default only the change feed is maintained: settled every minute, removed after a month', async () => {
  await sql`delete from upkeep_turns`.execute(db);
  await sql`insert into listing_changes (listing_id, source_slug, kind, created_at)
    select nth, 'doshka', 'new', now() - nth * interval '10 days' - interval '1 hour'
    from generate_series(1, 4) as nth`.execute(db);
  const { calls, upkeep } = openUpkeep();
  await until('the removal', async () => {
    const { rows } = await sql<{ ids: number[]; settled: boolean }>`
      select array_agg(listing_id::integer order by listing_id) as ids,
        bool_and(position is not null) as settled from listing_changes`.execute(db);
    return rows[0]?.settled === true && rows[0].ids.join() === '1,2';
  });
  await upkeep.close();
  assert.deepEqual(calls, []);
});
