import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openTestDatabase } from '@oselya/testing/database';
import { sql } from 'kysely';
import {
  acquireLease,
  expireLeases,
  runUnderLease,
  type Lease,
  isLeaseFree,
  isLeaseHeld,
  LeaseLostError,
  leaseExpiry,
  releaseLease,
  renewLease,
  withLease,
} from '../src/index.ts';

const { db, pool } = await openTestDatabase();
await pool.query(`
  create table works (name text primary key, holder text, lease_until timestamptz);
  create table checks (id int primary key, claimed_until timestamptz);
  insert into checks values (1, null), (2, now() - interval '1 s'), (3, now() + interval '1 h')`);

const HOUR_MS = 3_600_000;
const row = (name: string) => ({ table: 'works', key: { name } });

/** Acquires a lease as soon as the one before it has expired. */
async function acquired(name: string): Promise<Lease> {
  for (let tries = 0; tries < 500; tries += 1) {
    const lease = await acquireLease(db, row(name), HOUR_MS);
    if (lease !== undefined) return lease;
    await sleep(20);
  }
  throw new Error('The lease never became free');
}

/** Resolves with the reason once a signal is aborted. */
function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    signal.addEventListener('abort', () => resolve(signal.reason));
  });
}

test('one of many callers acquires a lease, and the next one after its release', async () => {
  const all = await Promise.all(
    Array.from({ length: 20 }, () => acquireLease(db, row('one'), HOUR_MS)),
  );
  const [lease, ...others] = all.filter((found) => found !== undefined);
  assert.ok(lease);
  assert.equal(others.length, 0);
  await releaseLease(db, lease);
  assert.ok(await acquireLease(db, row('one'), HOUR_MS));
});

test('an expired lease goes to the next caller, and its earlier holder can change nothing', async () => {
  const late = await acquireLease(db, row('late'), 1);
  assert.ok(late);
  const next = await acquired('late');
  assert.equal(await renewLease(db, late, HOUR_MS), false);
  await releaseLease(db, late);
  assert.equal(await acquireLease(db, row('late'), HOUR_MS), undefined);
  assert.equal(await renewLease(db, next, HOUR_MS), true);
});

test('a release can keep periodic work from being acquired until it is due', async () => {
  await releaseLease(db, await acquired('due'), HOUR_MS);
  assert.equal(await acquireLease(db, row('due'), HOUR_MS), undefined);
  await releaseLease(db, await acquired('soon'), 1);
  await acquired('soon');
});

test('leases of processes that cannot run any more expire at once, and due times stay', async () => {
  await acquired('killed');
  await releaseLease(db, await acquired('tomorrow'), HOUR_MS);
  await expireLeases(db, 'works');
  assert.ok(await acquireLease(db, row('killed'), HOUR_MS));
  assert.equal(await acquireLease(db, row('tomorrow'), HOUR_MS), undefined);
});

test('fragments acquire the lease of any column', async () => {
  const held = () =>
    sql<{ id: number }>`
      select id from checks as c where ${isLeaseHeld('c.claimed_until')} order by id`.execute(db);
  assert.deepEqual((await held()).rows, [{ id: 3 }]);
  const claimed = await sql<{ id: number }>`
    update checks set claimed_until = ${leaseExpiry(HOUR_MS)}
    where ${isLeaseFree('claimed_until')} returning id`.execute(db);
  assert.equal(claimed.rows.length, 2);
  assert.equal((await held()).rows.length, 3);
});

test('a held lease is renewed while the work takes longer than it lasts, and then released', async () => {
  let renewals = 0;
  let releases = 0;
  let renewed: (() => void) | undefined;
  const lease = {
    durationMs: 300,
    renew: () => {
      renewals += 1;
      if (renewals === 5) renewed?.();
      return Promise.resolve(true);
    },
    release: () => {
      releases += 1;
      return Promise.reject(new Error('The lease expires by itself'));
    },
  };
  const result = await runUnderLease(lease, async (signal) => {
    await new Promise<void>((resolve) => (renewed = resolve));
    return signal.aborted;
  });
  assert.equal(result, false);
  assert.equal(releases, 1);
});

test('work learns that its lease is lost, and does not release what another holds', async () => {
  let releases = 0;
  const release = () => {
    releases += 1;
    return Promise.resolve();
  };
  const losses = {
    'another process holds it': () => Promise.resolve(false),
    'renewals fail': () => Promise.reject(new Error('no connection')),
    'renewals hang': () => sleep(300, true),
  };
  for (const [name, renew] of Object.entries(losses)) {
    const reason = await runUnderLease({ durationMs: 60, renew, release }, aborted);
    assert.ok(reason instanceof LeaseLostError, name);
    assert.equal(reason.code, 'LEASE_LOST');
  }
  assert.equal(releases, 0);
});

test('work that the caller aborts releases its lease', async () => {
  const caller = new AbortController();
  const work = withLease(
    db,
    row('aborted'),
    { durationMs: HOUR_MS, signal: caller.signal },
    async (signal) => {
      caller.abort(new Error('The process stops'));
      throw await aborted(signal);
    },
  );
  await assert.rejects(work, { message: 'The process stops' });
  assert.ok(await acquireLease(db, row('aborted'), HOUR_MS));
});

test('periodic work is done by one process, again when due, and sooner after a failure', async () => {
  const options = { durationMs: HOUR_MS, everyMs: HOUR_MS };
  let done = 0;
  const work = () => {
    done += 1;
    return Promise.resolve();
  };
  const results = await Promise.all(
    Array.from({ length: 5 }, () => withLease(db, row('periodic'), options, work)),
  );
  assert.deepEqual([done, results.filter(Boolean).length], [1, 1]);

  const failed = withLease(db, row('failing'), options, () =>
    Promise.reject(new Error('a full disk')),
  );
  await assert.rejects(failed, { message: 'a full disk' });
  assert.equal(await withLease(db, row('failing'), options, work), true);
  assert.equal(await withLease(db, row('failing'), options, work), false);
});
