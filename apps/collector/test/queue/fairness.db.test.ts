import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { sql } from 'kysely';
import { claimJobs, type ClaimOptions, claimStatement } from '../../src/queue/claim.sql.ts';
import { openDatabase, store } from '../support/database.ts';
import { payloadOf } from '../support/payload.ts';
import { fill } from './harness.ts';

const { db, engine } = await openDatabase();

/** To store rows takes the embedded database longest; of 100,000 it has a test in newcomer.db.test.ts. */
const MANY = engine === 'postgres' ? 100_000 : 10_000;

const asked = { worker: 'test', leaseMs: 60_000 };
const claim = (options: Omit<ClaimOptions, 'worker' | 'leaseMs'>) =>
  claimJobs(db, { ...asked, ...options });

/** The sources of a claim's jobs, in their order. */
const sources = async (count: number, lastSource?: string) =>
  (await claim({ count, lastSource })).map(({ sourceSlug }) => sourceSlug).join('');

/** Ends whatever is in progress. */
async function endAll(): Promise<void> {
  await sql`update raw_data set status = 'completed' where status = 'processing'`.execute(db);
}

/** The same for jobs that then end. */
async function sourcesToEnd(count: number, lastSource?: string): Promise<string> {
  const taken = await sources(count, lastSource);
  await endAll();
  return taken;
}

type Plan = {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: Plan[];
};

/** What a claim did. It claims, as explaining runs it. */
async function explained(options: Omit<ClaimOptions, 'worker' | 'leaseMs'>): Promise<Plan> {
  const statement = claimStatement({ ...asked, ...options });
  const { rows } = await sql<{ 'QUERY PLAN': [{ Plan: Plan }] }>`
    explain (analyze, format json) ${statement}`.execute(db);
  const plan = rows[0]?.['QUERY PLAN'][0].Plan;
  assert.ok(plan);
  return plan;
}

/** How many rows of payloads a claim has looked at. */
async function rowsLookedAt(options: Omit<ClaimOptions, 'worker' | 'leaseMs'>): Promise<number> {
  const count = (plan: Plan): number => {
    const own =
      plan['Relation Name'] === 'raw_data'
        ? (plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0)) * plan['Actual Loops']
        : 0;
    return (plan.Plans ?? []).reduce((sum, inner) => sum + count(inner), own);
  };
  return count(await explained(options));
}

/** The one node that reads an index. */
function scanOf(plan: Plan, index: string): Plan {
  const scans = (node: Plan): Plan[] => [
    ...(node['Index Name'] === index ? [node] : []),
    ...(node.Plans ?? []).flatMap(scans),
  ];
  const [scan, ...others] = scans(plan);
  assert.ok(scan !== undefined && others.length === 0);
  return scan;
}

/** The indexes that a plan reads. */
function indexesOf({ 'Index Name': own, Plans = [] }: Plan): string[] {
  return [...(own === undefined ? [] : [own]), ...Plans.flatMap(indexesOf)];
}

// With statistics that change amidst a test the planner may look elsewhere.
await sql`alter table raw_data set (autovacuum_enabled = false)`.execute(db);

afterEach(async () => {
  await sql`truncate raw_data cascade`.execute(db);
});

test(`${MANY} pending payloads of one source do not hold up the one of another`, async () => {
  await fill(db, 'large', MANY);
  await sql`analyze raw_data`.execute(db);
  const [before] = await claim({ count: 1 });
  assert.equal(before?.sourceSlug, 'large');
  const single = await store(db, payloadOf({ source_slug: 'small' }));
  const [next] = await claim({ count: 1, lastSource: 'small' });
  assert.equal(next?.rawId, single, 'whatever its turn: it has nothing in progress');
  const [then] = await claim({ count: 1, lastSource: 'large' });
  assert.equal(then?.sourceSlug, 'large', 'the round begins again');
  assert.ok((await rowsLookedAt({ count: 4, lastSource: 'large' })) < 100);
});

test('a claim takes equal shares, the oldest of each source first, and goes round', async () => {
  for (const source of ['a', 'b', 'c']) await fill(db, source, 10);
  await fill(db, 'd', 1);
  assert.equal(await sourcesToEnd(8), 'aabbccd');
  assert.equal(await sourcesToEnd(4, 'd'), 'aabb');
  assert.equal(await sourcesToEnd(1, 'b'), 'c');
  assert.equal(await sourcesToEnd(2, 'c'), 'ab');
  assert.equal(await sourcesToEnd(3, 'b'), 'cab');
  assert.equal(await sourcesToEnd(100, 'b'), 'c'.repeat(6) + 'a'.repeat(4) + 'b'.repeat(4));
  assert.equal(await sourcesToEnd(1), '');
  const { rows } = await sql<{ ok: boolean }>`
    select bool_and(claimed_by = 'test') as ok from raw_data`.execute(db);
  assert.equal(rows[0]?.ok, true);
});

test('a claim levels out what is in progress, whoever has it', async () => {
  await fill(db, 'a', 20);
  assert.equal(await sources(6), 'aaaaaa');
  for (const source of ['b', 'c']) await fill(db, source, 20);
  // 6, 0, 0: the two that have nothing come first, and then have as much.
  assert.equal(await sources(2), 'bc');
  assert.equal(await sources(3, 'a'), 'bbc');
  assert.equal(await sources(1, 'b'), 'c', 'the one that has the fewest now');
  assert.equal(await sources(6), 'bbbccc');
  // 6 each.
  assert.equal(await sources(3, 'a'), 'bca');
  await endAll();
  assert.equal(await sources(3, 'a'), 'bca', 'what has ended counts for nobody');
});

test('of newcomers a claim takes one job each, and none of who has something in progress', async () => {
  for (const source of ['a', 'b', 'c', 'd']) await fill(db, source, 10);
  assert.equal(await sources(2, 'a'), 'bc');
  const newcomers = { count: 6, lastSource: 'c', ofNewcomers: true };
  assert.deepEqual(await claim(newcomers), [], 'nobody has more than one job');
  // As another process would hold it.
  await sql`update raw_data set status = 'processing', claimed_by = 'elsewhere', attempts = 1,
    lease_expires_at = now() + interval '1 hour'
    where id = (select max(id) from raw_data where source_slug = 'b')`.execute(db);
  const jobs = await claim(newcomers);
  assert.deepEqual(
    jobs.map(({ sourceSlug }) => sourceSlug),
    ['d', 'a'],
  );
  assert.deepEqual(await claim(newcomers), []);
});

test('with 200 sources that all have a backlog a claim looks at those that it takes from, and what is in progress', async () => {
  for (let nth = 0; nth < 200; nth += 1) await fill(db, `source-${nth}`, 20);
  await sql`analyze raw_data`.execute(db);
  for (let worker = 0; worker < 10; worker += 1) {
    assert.equal((await claim({ count: 4, lastSource: `source-${worker}` })).length, 4);
  }
  assert.ok((await rowsLookedAt({ count: 4, lastSource: 'source-1' })) < 200);
});

test('what ended since the last vacuum costs a claim one look: it reads what is in progress in order', async () => {
  for (let nth = 0; nth < 40; nth += 1) await fill(db, `source-${nth}`, 1000);
  await sql`update raw_data set updated_at = now()`.execute(db);
  // The planner now takes the index of what is in progress for empty, and so for the cheapest way to all of it.
  await sql`analyze raw_data`.execute(db);
  for (let round = 0; round < 5; round += 1) {
    await claim({ count: 100 });
    await endAll();
  }
  const plan = await explained({ count: 100 });
  assert.deepEqual([...new Set(indexesOf(plan))].toSorted(), [
    'raw_data_claimable',
    'raw_data_in_progress',
    'raw_data_pkey',
    'raw_data_unfinished',
  ]);
  const { 'Node Type': kind, 'Actual Loops': loops } = scanOf(plan, 'raw_data_in_progress');
  // A scan that reads the index in its order, unlike one that makes a bitmap, marks what is dead for those after it.
  assert.deepEqual([kind, loops], ['Index Only Scan', 1]);
});

test('a claim spreads over some sources, and the next one goes on with others', async () => {
  const names = Array.from({ length: 40 }, (_, n) => `source-${String(n).padStart(2, '0')}`);
  for (const name of names) await fill(db, name, 10);
  const spread: string[][] = [];
  let lastSource: string | undefined;
  for (let nth = 0; nth < 3; nth += 1) {
    const jobs = await claim({ count: 64, lastSource });
    assert.equal(jobs.length, 64);
    lastSource = jobs.at(-1)?.sourceSlug;
    spread.push([...new Set(jobs.map(({ sourceSlug }) => sourceSlug))]);
  }
  assert.deepEqual(spread, [
    names.slice(0, 16),
    names.slice(16, 32),
    [...names.slice(32), ...names.slice(0, 8)],
  ]);
});

test('20,000 pending payloads of one listing are not walked through', async () => {
  await fill(db, 'repeating', 20_000, { sameListing: true });
  await fill(db, 'other', 5);
  await sql`analyze raw_data`.execute(db);
  assert.ok((await rowsLookedAt({ count: 1 })) < 100);
  const [job] = await claim({ count: 1, lastSource: 'other' });
  assert.equal(job?.externalId, 'same');
  assert.ok((await rowsLookedAt({ count: 4, lastSource: 'other' })) < 100);
  assert.equal((await claim({ count: 10 })).length, 0);
});

test('a source of which nothing can be claimed does not hide the next one', async () => {
  // Neither of the two waits, as when both came at the same moment.
  await fill(db, 'blocked', 1, { sameListing: true });
  await fill(db, 'blocked', 1, { sameListing: true });
  const [first] = await claim({ count: 1 });
  assert.equal(first?.sourceSlug, 'blocked');
  await fill(db, 'free', 1);
  assert.equal((await claim({ count: 1 }))[0]?.sourceSlug, 'free');
  assert.deepEqual(await claim({ count: 1 }), []);
});

test('of claims of several workers at once each job goes to one', async () => {
  for (const source of ['a', 'b', 'c']) await fill(db, source, 100);
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
