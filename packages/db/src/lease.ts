import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Kysely, type RawBuilder, sql } from 'kysely';

/*
 * A lease reserves work for one process for a limited time, without keeping a connection. It is a timestamp in a row:
 *
 *   free ──acquire──▶ held ──release──▶ free
 *                     │  ▲
 *                     └──┘ renew; without renewals it expires, and another process can acquire it
 *
 * Writes of the holder are fenced: their condition includes the holder or the attempt, so a stale one updates no row.
 */

/** Pause after a failed renewal. Short enough for several retries before the lease expires. */
const RENEW_RETRY_MS = 1000;

/** Returns the SQL expression for the expiry of a lease that starts now. */
export function leaseExpiry(durationMs: number): RawBuilder<Date> {
  return sql<Date>`now() + ${durationMs}::float8 * interval '1 millisecond'`;
}

/**
 * Returns the SQL condition that a lease can be acquired: it is not held, or it has expired.
 * @param column Column of type `timestamptz`, with a table alias if the statement has several tables.
 * @example
 * sql`update listing_checks set claimed_until = ${leaseExpiry(300_000)}
 *   where ${isLeaseFree('claimed_until')} returning listing_id`
 */
export function isLeaseFree(column: string): RawBuilder<boolean> {
  const until = sql.ref(column);
  return sql<boolean>`(${until} is null or ${until} <= now())`;
}

/** Returns the SQL condition that a lease is held: the opposite of {@link isLeaseFree}, and never null. */
export function isLeaseHeld(column: string): RawBuilder<boolean> {
  const until = sql.ref(column);
  return sql<boolean>`(${until} is not null and ${until} > now())`;
}

/** Row with a lease in the columns `holder text` and `lease_until timestamptz`, which are initially null. */
export type LeaseRow = {
  table: string;
  /** Primary key of the row. The row is inserted if it does not exist. */
  key: Readonly<Record<string, string | number | boolean>>;
};

/** Acquired lease. `holder` is unique for each acquisition, and fences the writes of the holder. */
export type Lease = LeaseRow & { holder: string };

/**
 * Acquires the lease of a row.
 * @returns The lease, or undefined while another process holds it or while it is not due.
 * @throws DatabaseError DATABASE_UNREACHABLE.
 */
export async function acquireLease<Schema>(
  db: Kysely<Schema>,
  row: LeaseRow,
  durationMs: number,
): Promise<Lease | undefined> {
  const holder = randomUUID();
  const columns = sql.join(Object.keys(row.key).map((column) => sql.ref(column)));
  const { rows } = await sql`
    insert into ${sql.table(row.table)} (${columns}, holder, lease_until)
    values (${sql.join(Object.values(row.key))}, ${holder}, ${leaseExpiry(durationMs)})
    on conflict (${columns}) do update
      set holder = excluded.holder, lease_until = excluded.lease_until
      where ${isLeaseFree(`${row.table}.lease_until`)}
    returning holder`.execute(db);
  return rows.length === 0 ? undefined : { ...row, holder };
}

/**
 * Extends a lease.
 * @param durationMs New duration, starting now.
 * @returns False if the lease is lost: it expired, and another process acquired it.
 */
export async function renewLease<Schema>(
  db: Kysely<Schema>,
  lease: Lease,
  durationMs: number,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update ${sql.table(lease.table)} set lease_until = ${leaseExpiry(durationMs)}
    where ${isHeldBy(lease)}`.execute(db);
  return numAffectedRows === 1n;
}

/**
 * Releases a lease, unless another process has acquired it.
 * @param freeAfterMs Time until the lease can be acquired again, for periodic work.
 */
export async function releaseLease<Schema>(
  db: Kysely<Schema>,
  lease: Lease,
  freeAfterMs = 0,
): Promise<void> {
  await sql`
    update ${sql.table(lease.table)} set holder = null, lease_until = ${leaseExpiry(freeAfterMs)}
    where ${isHeldBy(lease)}`.execute(db);
}

/** Expires all held leases of a table. Only safe for a database that no other process can open. */
export async function expireLeases<Schema>(db: Kysely<Schema>, table: string): Promise<void> {
  await sql`
    update ${sql.table(table)} set holder = null, lease_until = null
    where holder is not null`.execute(db);
}

function isHeldBy({ key, holder }: Lease): RawBuilder<boolean> {
  const conditions = Object.entries(key).map(
    ([column, value]) => sql`${sql.ref(column)} = ${value}`,
  );
  return sql<boolean>`${sql.join(conditions, sql` and `)} and holder = ${holder}`;
}

/** Error of a lease that was lost or could not be renewed in time. Another process may do the same work. */
export class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError';
  readonly code = 'LEASE_LOST';

  constructor(cause?: unknown) {
    super('The lease was lost: another process may do the same work', { cause });
  }
}

/** Functions to renew and release an acquired lease. `renew` returns false if the lease is lost. */
export type LeaseHandle = {
  durationMs: number;
  renew: () => Promise<boolean>;
  release: () => Promise<void>;
};

/**
 * Runs a function under an acquired lease. Renews the lease after each third of its duration, and releases it at the
 * end. Failed renewals are retried until the lease expires; a failed release is ignored, because the lease expires.
 * @param work Function whose signal is aborted with a {@link LeaseLostError} if the lease is lost.
 * @param signal Signal that also aborts the signal of `work`.
 * @throws The error of `work`.
 * @example
 * const lease = await acquireLease(db, { table: 'collector_feed', key: { id: true } }, 120_000);
 * if (lease === undefined) return;
 * await runUnderLease(
 *   {
 *     durationMs: 120_000,
 *     renew: () => renewLease(db, lease, 120_000),
 *     release: () => releaseLease(db, lease),
 *   },
 *   (signal) => readFeed(lease.holder, signal),
 * );
 */
export async function runUnderLease<Result>(
  lease: LeaseHandle,
  work: (signal: AbortSignal) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  const lost = new AbortController();
  const ended = new AbortController();
  const renewing = keepRenewing(lease, lost, ended.signal);
  const signals = signal === undefined ? [lost.signal] : [lost.signal, signal];
  try {
    return await work(AbortSignal.any(signals));
  } finally {
    ended.abort();
    await renewing;
    if (!lost.signal.aborted) await lease.release().catch(() => undefined);
  }
}

async function keepRenewing(
  { durationMs, renew }: LeaseHandle,
  lost: AbortController,
  ended: AbortSignal,
): Promise<void> {
  let failure: unknown;
  // A timer, because a renewal that hangs may take longer than the lease.
  const expireIn = (ms: number) =>
    setTimeout(() => lost.abort(new LeaseLostError(failure)), Math.max(0, ms)).unref();
  let expiry = expireIn(durationMs);
  const until = AbortSignal.any([ended, lost.signal]);
  for (let pauseMs = durationMs / 3; ;) {
    await sleep(pauseMs, undefined, { signal: until, ref: false }).catch(() => undefined);
    if (until.aborted) break;
    const startedAt = performance.now();
    try {
      if (!(await renew())) {
        lost.abort(new LeaseLostError());
        break;
      }
      clearTimeout(expiry);
      expiry = expireIn(durationMs - (performance.now() - startedAt));
      pauseMs = durationMs / 3;
    } catch (error) {
      failure = error;
      pauseMs = Math.min(RENEW_RETRY_MS, durationMs / 3);
    }
  }
  clearTimeout(expiry);
}

/**
 * Acquires the lease of a row, runs a function under it, and releases it.
 * @param options.everyMs Time from a success until the work is due again. 0 by default.
 * @param options.retryMs Time from a failure until the work is due again. 0 by default.
 * @returns Whether this process ran the function. False if another process holds the lease, or if the work is not due.
 * @throws The error of `work`.
 * @example
 * // Runs once a day in one of the processes, and ten minutes after a failure.
 * await withLease(
 *   db,
 *   { table: 'upkeep_turns', key: { name: 'raw_cleanup' } },
 *   { durationMs: 60_000, everyMs: 86_400_000, retryMs: 600_000 },
 *   (signal) => removeOldPayloads(db, signal),
 * );
 */
export async function withLease<Schema>(
  db: Kysely<Schema>,
  row: LeaseRow,
  options: { durationMs: number; everyMs?: number; retryMs?: number; signal?: AbortSignal },
  work: (signal: AbortSignal) => Promise<void>,
): Promise<boolean> {
  const { durationMs, everyMs = 0, retryMs = 0, signal } = options;
  const lease = await acquireLease(db, row, durationMs);
  if (lease === undefined) return false;
  let freeAfterMs = retryMs;
  const held = {
    durationMs,
    renew: () => renewLease(db, lease, durationMs),
    release: () => releaseLease(db, lease, freeAfterMs),
  };
  await runUnderLease(
    held,
    async (until) => {
      await work(until);
      freeAfterMs = everyMs;
    },
    signal,
  );
  return true;
}
