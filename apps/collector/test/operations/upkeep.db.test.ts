import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import type { CheckOptions } from '../../src/operations/archive/check.ts';
import { endTurn, takeTurn } from '../../src/turns/recurring.sql.ts';
import { startUpkeep } from '../../src/operations/upkeep.ts';
import { openDatabase } from '../support/database.ts';
import { log } from '../support/pipeline.ts';
import { until } from '../support/until.ts';

const { db } = await openDatabase();

/** Lets time pass for all turns. */
async function pass(interval: string): Promise<void> {
  await sql`update upkeep_turns set taken_at = taken_at - ${interval}::interval,
    done_at = done_at - ${interval}::interval`.execute(db);
}

test('of many that take a turn at once it is one that gets it, and again when it is time', async () => {
  const take = () => takeTurn(db, 'dishes', { everySeconds: 3600, retrySeconds: 60 });
  const turns = await Promise.all(Array.from({ length: 10 }, take));
  assert.equal(turns.filter(Boolean).length, 1);
  await endTurn(db, 'dishes');
  await pass('59 minutes');
  assert.equal(await take(), false);
  await pass('1 minute');
  assert.equal(await take(), true);
});

test('what was begun and not done is begun again soon', async () => {
  const rhythm = { everySeconds: 3600, retrySeconds: 60 };
  assert.equal(await takeTurn(db, 'windows', rhythm), true);
  await pass('59 seconds');
  assert.equal(await takeTurn(db, 'windows', rhythm), false);
  await pass('1 second');
  assert.equal(await takeTurn(db, 'windows', rhythm), true);
});

/** Waits until a run has ended: what it still writes would undo time that is let pass. */
async function untilDone(name: string): Promise<void> {
  await until(`${name} to be done`, async () => {
    const turn = db.selectFrom('upkeep_turns').select('done_at').where('name', '=', name);
    return (await turn.executeTakeFirst())?.done_at != null;
  });
}

/** Upkeep that keeps what it was asked for, and what of it failed. */
function upkeepOf(
  hours: number,
  days: number,
  check?: (options: CheckOptions) => Promise<void>,
  cleanup: () => Promise<number> = () => Promise.resolve(1),
  imageDays = 0,
) {
  const calls: unknown[] = [];
  const failed: unknown[] = [];
  const upkeep = startUpkeep({
    db,
    log: Object.assign(Object.create(log), {
      warn: ({ work }: { work: string }) => failed.push(work),
    }),
    async archiveCheck({ signal, ...options }) {
      calls.push(options);
      await check?.({ ...options, ...(signal === undefined ? {} : { signal }) });
      return { checked: 1, archived: 0, unreachable: 0 };
    },
    rawCleanup({ olderThanDays }) {
      calls.push({ olderThanDays });
      return cleanup();
    },
    images: {
      cleanUp({ olderThanDays }) {
        calls.push({ picturesOlderThanDays: olderThanDays });
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

test('a removal that failed is made again within minutes, one that did not a day later', async () => {
  await sql`delete from upkeep_turns`.execute(db);
  let fails = true;
  const { calls, failed, upkeep } = upkeepOf(0, 90, undefined, () =>
    fails ? Promise.reject(new Error('no database')) : Promise.resolve(1),
  );
  await until('the run that fails, and its last renewal', () => failed.length === 1);
  fails = false;
  await pass('10 minutes');
  await until('the next run', () => calls.length === 2);
  await untilDone('raw_cleanup');
  await pass('23 hours');
  assert.equal(
    await takeTurn(db, 'raw_cleanup', { everySeconds: 86_400, retrySeconds: 600 }),
    false,
  );
  await pass('1 hour');
  await until('the run of the next day', () => calls.length === 3);
  await upkeep.close();
});

test('a run that takes longer than others wait is not begun twice', async () => {
  await sql`delete from upkeep_turns`.execute(db);
  const held = Promise.withResolvers<number>();
  const two = [0, 1].map(() => upkeepOf(0, 90, undefined, () => held.promise));
  const calls = () => two.flatMap((one) => one.calls);
  await until('the run', () => calls().length === 1);
  for (let nth = 0; nth < 3; nth += 1) {
    await pass('9 minutes');
    await until('the turn to be renewed', async () => {
      const { rows } = await sql`select from upkeep_turns
        where name = 'raw_cleanup' and taken_at > now() - interval '1 minute'`.execute(db);
      return rows.length === 1;
    });
  }
  held.resolve(1);
  await Promise.all(two.map(({ upkeep }) => upkeep.close()));
  assert.equal(calls().length, 1);
});

test('pictures that no listing shows are looked for once a day', async () => {
  await sql`delete from upkeep_turns`.execute(db);
  const { calls, upkeep } = upkeepOf(0, 0, undefined, undefined, 30);
  await until('the first run', () => calls.length === 1);
  await untilDone('image_cleanup');
  await pass('1 day');
  await until('the next run', () => calls.length === 2);
  await upkeep.close();
  assert.deepEqual(
    calls,
    Array.from({ length: 2 }, () => ({ picturesOlderThanDays: 30 })),
  );
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

test('changes of listings that are older than a month are removed, whatever is configured', async () => {
  await sql`delete from upkeep_turns`.execute(db);
  await sql`insert into listing_changes (listing_id, source_slug, kind, created_at)
    select nth, 'doshka', 'new', now() - nth * interval '10 days' - interval '1 hour'
    from generate_series(1, 4) as nth`.execute(db);
  const { upkeep } = upkeepOf(0, 0);
  const kept = () =>
    db.selectFrom('listing_changes').select('listing_id').orderBy('listing_id').execute();
  const left = await until('the removal', async () => {
    const rows = await kept();
    return rows.length < 4 && rows;
  });
  await upkeep.close();
  assert.deepEqual(
    left.map(({ listing_id }) => listing_id),
    [1, 2],
  );
});

test('changes of listings get their places in the feed each minute, whoever reads it', async () => {
  await sql`delete from upkeep_turns`.execute(db);
  const { upkeep } = upkeepOf(0, 0);
  for (const listing of [5, 6]) {
    await sql`insert into listing_changes (listing_id, source_slug, kind)
      values (${listing}, 'doshka', 'new')`.execute(db);
    await until('the places', async () => {
      await pass('1 minute');
      const left = await db
        .selectFrom('listing_changes')
        .select('id')
        .where('position', 'is', null)
        .execute();
      return left.length === 0;
    });
  }
  await upkeep.close();
});
