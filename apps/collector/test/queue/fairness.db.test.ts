import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { sql } from 'kysely';
import { claimJobs, type ClaimOptions, claimStatement } from '../../src/queue/claim.sql.ts';
import { openDatabase, store } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';

const { db } = await openDatabase();

const asked = { worker: 'test', leaseMs: 60_000 };
const claim = (options: Omit<ClaimOptions, 'worker' | 'leaseMs'>) =>
  claimJobs(db, { ...asked, ...options });

/** The sources of a claim's jobs, in their order. */
const sources = async (count: number, lastSource?: string) =>
  (await claim({ count, lastSource })).map(({ sourceSlug }) => sourceSlug).join('');

/** Pending payloads of a source, past everything that an ingest does. */
async function fill(source: string, count: number, { sameListing = false } = {}): Promise<void> {
  await sql`insert into sources (slug) values (${source}) on conflict do nothing`.execute(db);
  await sql`insert into raw_data (source_slug, external_id, payload, content_hash, waits)
    select ${source}, case when ${sameListing} then 'same' else n::text end, '{}', '',
      ${sameListing} and n > 1
    from generate_series(1, ${count}::integer) as n`.execute(db);
}

type Plan = {
  'Node Type': string;
  'Relation Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: Plan[];
};

/** How many rows of payloads a claim has looked at. It claims, as explaining runs it. */
async function rowsLookedAt(options: Omit<ClaimOptions, 'worker' | 'leaseMs'>): Promise<number> {
  const statement = claimStatement({ ...asked, ...options });
  const { rows } = await sql<{ 'QUERY PLAN': [{ Plan: Plan }] }>`
    explain (analyze, format json) ${statement}`.execute(db);
  const count = (plan: Plan): number => {
    const own =
      plan['Relation Name'] === 'raw_data'
        ? (plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0)) * plan['Actual Loops']
        : 0;
    return (plan.Plans ?? []).reduce((sum, inner) => sum + count(inner), own);
  };
  const plan = rows[0]?.['QUERY PLAN'][0].Plan;
  assert.ok(plan);
  return count(plan);
}

afterEach(async () => {
  await sql`truncate raw_data cascade`.execute(db);
});

test('100,000 pending payloads of one source do not hold up the one of another', async () => {
  await fill('large', 100_000);
  await sql`analyze raw_data`.execute(db);
  const [before] = await claim({ count: 1 });
  assert.equal(before?.sourceSlug, 'large');
  const single = await store(db, payloadOf({ source_slug: 'small' }));
  const [next] = await claim({ count: 1, lastSource: 'large' });
  assert.equal(next?.rawId, single);
  const [then] = await claim({ count: 1, lastSource: 'small' });
  assert.equal(then?.sourceSlug, 'large', 'the round begins again');
  assert.ok((await rowsLookedAt({ count: 4, lastSource: 'large' })) < 100);
});

test('a claim takes equal shares, the oldest of each source first, and goes round', async () => {
  for (const source of ['a', 'b', 'c']) await fill(source, 10);
  await fill('d', 1);
  assert.equal(await sources(8), 'aabbccd');
  assert.equal(await sources(4, 'd'), 'aabb');
  assert.equal(await sources(1, 'b'), 'c');
  assert.equal(await sources(2, 'c'), 'ab');
  assert.equal(await sources(3, 'b'), 'cab');
  assert.equal(await sources(100, 'b'), 'c'.repeat(6) + 'a'.repeat(4) + 'b'.repeat(4));
  assert.equal(await sources(1), '');
  const { rows } = await sql<{ ok: boolean }>`
    select bool_and(claimed_by = 'test') as ok from raw_data`.execute(db);
  assert.equal(rows[0]?.ok, true);
});

test('20,000 pending payloads of one listing are not walked through', async () => {
  await fill('repeating', 20_000, { sameListing: true });
  await fill('other', 5);
  await sql`analyze raw_data`.execute(db);
  assert.ok((await rowsLookedAt({ count: 1 })) < 100);
  const [job] = await claim({ count: 1, lastSource: 'other' });
  assert.equal(job?.externalId, 'same');
  assert.ok((await rowsLookedAt({ count: 4, lastSource: 'other' })) < 100);
  assert.equal((await claim({ count: 10 })).length, 0);
});

test('a source of which nothing can be claimed does not hide the next one', async () => {
  // Neither of the two waits, as when both came at the same moment.
  await fill('blocked', 1, { sameListing: true });
  await fill('blocked', 1, { sameListing: true });
  const [first] = await claim({ count: 1 });
  assert.equal(first?.sourceSlug, 'blocked');
  await fill('free', 1);
  assert.equal((await claim({ count: 1 }))[0]?.sourceSlug, 'free');
  assert.deepEqual(await claim({ count: 1 }), []);
});

test('of claims of several workers at once each job goes to one', async () => {
  for (const source of ['a', 'b', 'c']) await fill(source, 100);
  const claimed: number[] = [];
  const work = async () => {
    for (let jobs = await claim({ count: 7 }); jobs.length > 0; jobs = await claim({ count: 7 })) {
      claimed.push(...jobs.map(({ rawId }) => rawId));
    }
  };
  await Promise.all(Array.from({ length: 6 }, work));
  // Who met only rows that others held came back with nothing, as a worker's next look would not.
  await work();
  assert.equal(claimed.length, 300);
  assert.equal(new Set(claimed).size, 300);
});
