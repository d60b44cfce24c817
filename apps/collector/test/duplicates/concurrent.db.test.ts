import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { sql } from 'kysely';
import { components, type Edge, lockGroupsForWriting } from '../../src/duplicates/groups.ts';
import { updatePairs, claimMarks } from '../../src/duplicates/duplicates.ts';
import { until } from '@oselya/testing';
import { openDatabase } from '../support/pipeline.ts';
import { addListing, FLAT, groupsOf, pairsOf } from './harness.ts';

const { db, engine } = await openDatabase();

/** Listings are one flat where their areas are neighbours here. */
const AREAS = [54.3, 54.5, 54.7, 54.9];
const LISTINGS = 6;
const LOOKERS = 4;
const EPISODES = engine === 'pglite' ? 5 : 40;

/** Numbers that are the same in each run. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return (state >> 8) % below;
  };
}

/** Which listings are pairs by what they are now. */
async function expectedPairs(): Promise<Edge[]> {
  const rows = await db
    .selectFrom('property_listings')
    .select(['id', 'area_total'])
    .where('archived_at', 'is', null)
    .orderBy('id')
    .execute();
  return rows.flatMap((one, nth) =>
    rows
      .slice(nth + 1)
      .filter((other) => Math.abs((one.area_total ?? 0) - (other.area_total ?? 0)) < 0.25)
      .map((other): Edge => [one.id, other.id]),
  );
}

test('whatever changes while many look, pairs and groups end right, and no change is undone', async () => {
  const ids: number[] = [];
  for (let nth = 0; nth < LISTINGS; nth += 1) ids.push(await addListing(db));
  const ended = new AbortController();
  let looks = 0;

  async function lookOn(): Promise<void> {
    while (!ended.signal.aborted) {
      // The embedded engine leaves nobody else a turn by itself.
      await setImmediate();
      // A failed look's mark can be claimed again soon, and slow ones are made twice.
      const claimed = await claimMarks(db, { limit: 1, settledMs: 0, leaseMs: 50 });
      for (const marked of claimed) {
        looks += 1;
        await updatePairs(db, marked).catch(() => undefined);
      }
    }
  }

  const lookers = Array.from({ length: LOOKERS }, lookOn);
  try {
    const next = numbers(1);
    for (let episode = 0; episode < EPISODES; episode += 1) {
      for (let changes = 1 + next(4); changes > 0; changes -= 1) {
        // Two in one statement, in any order, as jobs that end together do.
        const two = [ids[next(LISTINGS)] ?? 0, ids[next(LISTINGS)] ?? 0];
        await sql`
          update property_listings set area_total = ${AREAS[next(AREAS.length)]},
            archived_at = case when ${next(4) === 0} then now() end
          where id = any(${two}::bigint[])`.execute(db);
      }
      await until('all are looked at', async () => {
        const left = await db.selectFrom('duplicate_marks').select('id').limit(1).execute();
        return left.length === 0;
      });
      const pairs = await expectedPairs();
      assert.deepEqual(await pairsOf(db), pairs, `episode ${episode}`);
      assert.deepEqual(await groupsOf(db), components(ids, pairs), `episode ${episode}`);
    }
  } finally {
    ended.abort();
    await Promise.all(lookers);
  }
  assert.ok(looks >= EPISODES);
});

test('a look waits for one that is writing: what that read may be old by then', async () => {
  await sql`truncate property_listings, duplicate_marks cascade`.execute(db);
  const [one, other] = [await addListing(db), await addListing(db, { ...FLAT, floor: 4 })];
  const [claimed] = await claimMarks(db, { limit: 1, settledMs: 0, leaseMs: 60_000 });
  assert.equal(claimed?.listingId, other);
  let looking: Promise<void> | undefined;
  let hasEnded = false;
  await db.transaction().execute(async (trx) => {
    await lockGroupsForWriting(trx);
    looking = updatePairs(db, claimed).finally(() => {
      hasEnded = true;
    });
    // The embedded engine has one connection: there the look waits for that.
    await until('the look waits', async () => {
      const { rows } = await sql`select from pg_locks
        where locktype = 'advisory' and not granted`.execute(trx);
      return engine === 'pglite' || hasEnded || rows.length > 0;
    });
    // It compared the two while they were on one floor.
    await sql`insert into duplicate_pairs (low_id, high_id, score, reasons)
      values (${one}, ${other}, 1, '[]')`.execute(trx);
    await sql`update property_listings set duplicate_group = ${one}::bigint`.execute(trx);
  });
  await looking;
  assert.deepEqual(await pairsOf(db), []);
  assert.deepEqual([...(await groupsOf(db)).values()], [null, null]);
});

test('a look gives way to a job that holds one of its listings, and is made again', async () => {
  await sql`truncate property_listings, duplicate_marks cascade`.execute(db);
  const [one, other] = [await addListing(db), await addListing(db)];
  const [claimed] = await claimMarks(db, { limit: 1, settledMs: 0, leaseMs: 60_000 });
  assert.equal(claimed?.listingId, other);
  if (engine === 'postgres') {
    await db.transaction().execute(async (trx) => {
      await sql`select from property_listings where id = ${one} for share`.execute(trx);
      await assert.rejects(updatePairs(db, claimed), /lock timeout/);
    });
    assert.deepEqual(await pairsOf(db), []);
  }
  await updatePairs(db, claimed);
  assert.deepEqual(await pairsOf(db), [[one, other]]);
});
