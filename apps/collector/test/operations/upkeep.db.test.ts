import assert from 'node:assert/strict';
import { once } from 'node:events';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import type { ArchiveCheckOptions } from '../../src/operations/archive-check.ts';
import { startUpkeep } from '../../src/operations/upkeep.ts';
import { until } from '@oselya/testing';
import { openDatabase, log } from '../support/pipeline.ts';

const { db } = await openDatabase();

beforeEach(() => sql`delete from upkeep_turns`.execute(db));

/** Backdates all leases by an interval. */
async function passTime(interval: string): Promise<void> {
  await sql`update upkeep_turns set lease_until = lease_until - ${interval}::interval`.execute(db);
}

const waitUntilReleased = (name: string) =>
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
  const failures: unknown[] = [];
  const { hours = 0, days = 0, imageDays = 0, check, cleanup = () => Promise.resolve(1) } = options;
  const upkeep = startUpkeep({
    db,
    log: Object.assign(Object.create(log), {
      warn: ({ work }: { work: string }) => failures.push(work),
    }),
    async archiveCheck(checkOptions) {
      const { signal: _signal, ...filter } = checkOptions;
      calls.push(filter);
      await check?.(checkOptions);
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
  return { calls, failures, upkeep };
}

test('One process does each kind of work and repeats it when due', async () => {
  const upkeeps = [0, 1].map(() => openUpkeep({ hours: 24, days: 90, imageDays: 30 }));
  const getCalls = () => upkeeps.flatMap(({ calls }) => calls);
  const names = ['archive_check', 'raw_cleanup', 'image_cleanup'];
  await Promise.all(names.map(waitUntilReleased));
  assert.equal(getCalls().length, 3);
  await passTime('1 day');
  await until('the next runs', () => getCalls().length >= 6);
  await Promise.all(upkeeps.map(({ upkeep }) => upkeep.close()));
  const expected = [
    { limit: 1000, notWithinHours: 24, minIntervalSeconds: 3600 },
    { olderThanDays: 90 },
    { imagesOlderThanDays: 30 },
  ];
  const sortCalls = (calls: unknown[]) => calls.map((call) => JSON.stringify(call)).toSorted();
  assert.deepEqual(sortCalls(getCalls()), sortCalls([...expected, ...expected]));
});

test('A failed removal is repeated within minutes, and a successful removal after a day', async () => {
  let shouldFail = true;
  const { calls, failures, upkeep } = openUpkeep({
    days: 90,
    cleanup: () => (shouldFail ? Promise.reject(new Error('no database')) : Promise.resolve(1)),
  });
  await until('the failure', () => failures.length === 1);
  shouldFail = false;
  await waitUntilReleased('raw_cleanup');
  await passTime('10 minutes');
  await until('the next run', () => calls.length === 2);
  await waitUntilReleased('raw_cleanup');
  const { rows } = await sql<{ hours: number }>`
    select round(extract(epoch from lease_until - now()) / 3600)::integer as hours
    from upkeep_turns where name = 'raw_cleanup'`.execute(db);
  assert.deepEqual(rows, [{ hours: 24 }]);
  await upkeep.close();
});

test('A run in progress ends with its process and is soon due again', async () => {
  const checkStarted = Promise.withResolvers<void>();
  const { upkeep } = openUpkeep({
    hours: 24,
    check: async ({ signal }) => {
      checkStarted.resolve();
      if (signal !== undefined) await once(signal, 'abort');
    },
  });
  await checkStarted.promise;
  await upkeep.close();
  const nextUpkeep = openUpkeep({ hours: 24 });
  await passTime('1 minute');
  await until('the next run', () => nextUpkeep.calls.length === 1);
  await nextUpkeep.upkeep.close();
});

test('Property types that are stored as written are resolved in batches, and the words are kept', async () => {
  await sql`insert into sources (slug) values ('doshka') on conflict do nothing`.execute(db);
  const words = ['квартира', 'Замок', 'land', null, ...Array.from({ length: 600 }, () => 'дача')];
  const rows = words.map((property_type, index) => ({
    source_slug: 'doshka',
    external_id: `typed-${index}`,
    description: 'Оселя',
    search_text: 'оселя',
    place_status: 'unknown' as const,
    property_type,
    attributes: '{}',
    phones: [],
    features: [],
  }));
  await db.insertInto('property_listings').values(rows).execute();
  const { upkeep } = openUpkeep();
  const countTypes = async () => {
    const { rows: counts } = await sql<{ type: string; word: string; text: string; n: number }>`
      select property_type as type, property_type_text as word, search_text as text,
        count(*)::integer as n
      from property_listings group by 1, 2, 3 order by n, type nulls last, word nulls last`.execute(
      db,
    );
    return counts.map(({ type, word, text, n }) => [type, word, text, n]);
  };
  await until('the types to be resolved', async () => {
    const [type, , , count] = (await countTypes()).at(-1) ?? [];
    return type === 'house' && count === 600;
  });
  await upkeep.close();
  assert.deepEqual(await countTypes(), [
    ['apartment', 'квартира', 'оселя apartment', 1],
    ['land', null, 'оселя', 1],
    [null, 'Замок', 'оселя', 1],
    [null, null, 'оселя', 1],
    ['house', 'дача', 'оселя house', 600],
  ]);
  await db.deleteFrom('property_listings').execute();
  await db.deleteFrom('listing_changes').execute();
});

test('By default only the change feed is maintained: ordered every minute, removed after a month', async () => {
  await sql`insert into listing_changes (listing_id, source_slug, kind, created_at)
    select n, 'doshka', 'new', now() - n * interval '10 days' - interval '1 hour'
    from generate_series(1, 4) as n`.execute(db);
  const { calls, upkeep } = openUpkeep();
  await until('the removal', async () => {
    const { rows } = await sql<{ ids: number[]; isOrdered: boolean }>`
      select array_agg(listing_id::integer order by listing_id) as ids,
        bool_and(position is not null) as "isOrdered" from listing_changes`.execute(db);
    return rows[0]?.isOrdered === true && rows[0].ids.join() === '1,2';
  });
  await upkeep.close();
  assert.deepEqual(calls, []);
});
