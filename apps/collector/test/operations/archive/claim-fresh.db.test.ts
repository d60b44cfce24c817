import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { claimFresh, LOOKED_THROUGH } from '../../../src/operations/archive/claim-fresh.sql.ts';
import { openDatabase } from '../../support/database.ts';

const { db } = await openDatabase();

/** More than two looks go through. */
const LISTINGS = 2 * LOOKED_THROUGH + 300;

/** The listings' ids, in their order; every other id is missing, as ids are that an upsert did not need. */
const ids = await fill();
const idAt = (nth: number) => ids.at(nth) ?? assert.fail();

async function fill(): Promise<number[]> {
  await sql`insert into sources (slug) values ('doshka'), ('other')`.execute(db);
  const { rows } = await sql<{ id: number }>`
    with listing as (
      insert into property_listings (id, source_slug, external_id, url, description, search_text)
        overriding system value
      select 2 * n, case when n = 20 then 'other' else 'doshka' end, n::text, 'https://a.test/' || n, 'Квартира', ''
      from generate_series(1, ${LISTINGS}) as n
      returning id, source_slug, external_id),
    payload as (
      insert into listing_payloads (source_slug, external_id, raw_id)
      select source_slug, external_id, 1 from listing)
    select id from listing order by id`.execute(db);
  return rows.map(({ id }) => id);
}

/** All were asked but these. */
async function allBut(...fresh: number[]): Promise<void> {
  await sql`delete from listing_checks`.execute(db);
  await sql`insert into listing_checks (listing_id, checked_at)
    select id, now() from property_listings where id <> all (${fresh}::bigint[])`.execute(db);
}

/** Claims as one process does, run after run, and gives what each run got. */
async function runs(count: number, limit = 100): Promise<number[][]> {
  const claimed: number[][] = [];
  for (let [run, from] = [0, 0]; run < count; run += 1) {
    const { claims, next } = await claimFresh(db, { limit }, from);
    claimed.push(claims.map(({ listingId }) => listingId));
    from = next;
  }
  return claimed;
}

test('listings that came last are claimed at once, those that were passed by in a round', async () => {
  const [early, middle, late] = [idAt(10), idAt(LOOKED_THROUGH + 10), idAt(2 * LOOKED_THROUGH)];
  await allBut(early, middle, late, idAt(-2), idAt(-1));
  assert.deepEqual(await runs(3), [[idAt(-2), idAt(-1), early], [middle], [late]]);
  await allBut(early);
  assert.deepEqual(await runs(4), [[early], [], [], []], 'each once');
  await allBut(middle);
  const { next } = await claimFresh(db, { limit: 1 }, idAt(-300));
  assert.equal(next, 0, 'after the last the round begins anew');
});

test('a run that has all that it may goes on where it ended', async () => {
  const fresh = [3, 4, 5, LOOKED_THROUGH + 1].map(idAt);
  await allBut(...fresh);
  assert.deepEqual(await runs(5, 2), [fresh.slice(0, 2), [fresh[2], fresh[3]], [], [], []]);
});

test('as many as were never asked are claimed, run after run, whoever claims them', async () => {
  await sql`delete from listing_checks`.execute(db);
  const claimed = (await runs(4, 900)).flat();
  assert.deepEqual(claimed, ids);
});

test('a source of its own is looked through in one run', async () => {
  const [other, own] = [idAt(19), idAt(LOOKED_THROUGH + 500)];
  await allBut(other, own);
  const choice = { limit: 10, source: 'doshka' };
  const { claims, next } = await claimFresh(db, choice, 7);
  assert.deepEqual([claims.map(({ listingId }) => listingId), next], [[own], 7]);
  const { claims: others } = await claimFresh(db, { limit: 10 }, 0);
  assert.deepEqual(
    others.map(({ listingId, url, rawId }) => [listingId, url, rawId]),
    [[other, 'https://a.test/20', 1]],
  );
});

test('what came into being just now is left for later, and is not passed by', async () => {
  await allBut(idAt(-1));
  const choice = { limit: 10, notWithinHours: 24 };
  assert.deepEqual((await claimFresh(db, choice, 0)).claims, []);
  await sql`update property_listings set created_at = now() - interval '25 hours'
    where id = ${idAt(-1)}`.execute(db);
  const { claims } = await claimFresh(db, choice, 0);
  assert.deepEqual(
    claims.map(({ listingId }) => listingId),
    [idAt(-1)],
  );
});
