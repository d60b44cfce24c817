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
 * Writes of the holder are fenced: their condition includes the holder or the attempt, so stale writes update no row.
 * The queue shares only the SQL fragments and the error, because it renews and ends many leases in one statement.
 */

/** Pause after a failed renewal. Short enough for several retries before the lease expires. */
const RENEW_RETRY_MS = 1000;

/**
 * Returns the SQL expression for the expiry time of a lease that starts now.
 * @param durationMs Number or SQL expression.
 */
export function leaseExpiry(durationMs: number | RawBuilder<number>): RawBuilder<Date> {
  return sql<Date>`now() + (${durationMs})::float8 * interval '1 millisecond'`;
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
  return sql<boolean>`(not ${isLeaseFree(column)})`;
}

/** Expires all held leases of a table. Only safe for a database that no other process can open. */
export async function expireLeases<Schema>(db: Kysely<Schema>, table: string): Promise<void> {
  await sql`
    update ${sql.table(table)} set holder = null, lease_until = null
    where holder is not null`.execute(db);
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
type LeaseHandle = {
  durationMs: number;
  renew: () => Promise<boolean>;
  release: () => Promise<void>;
};

/**
 * Runs a function under an acquired lease. Renews the lease after each third of its duration, and releases it at the
 * end unless it is lost. Failed renewals are retried until the lease expires; a failed release is ignored, because the
 * lease expires.
 * @param work Function whose signal is aborted with a {@link LeaseLostError} if the lease is lost.
 * @param signal Signal that also aborts the signal of `work`.
 * @throws The error of `work`.
 */
export async function runUnderLease<Result>(
  lease: LeaseHandle,
  work: (signal: AbortSignal) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  const lossController = new AbortController();
  const endController = new AbortController();
  const renewalLoop = renewRepeatedly(lease, lossController, endController.signal);
  const signals = signal === undefined ? [lossController.signal] : [lossController.signal, signal];
  try {
    return await work(AbortSignal.any(signals));
  } finally {
    endController.abort();
    await renewalLoop;
    if (!lossController.signal.aborted) await lease.release().catch(() => undefined);
  }
}

async function renewRepeatedly(
  { durationMs, renew }: LeaseHandle,
  lossController: AbortController,
  endSignal: AbortSignal,
): Promise<void> {
  let failure: unknown;
  // Use a timer, because a renewal that hangs may take longer than the lease.
  const scheduleExpiry = (ms: number) =>
    setTimeout(() => lossController.abort(new LeaseLostError(failure)), Math.max(0, ms)).unref();
  let expiryTimer = scheduleExpiry(durationMs);
  const stopSignal = AbortSignal.any([endSignal, lossController.signal]);
  for (let pauseMs = durationMs / 3; ;) {
    await sleep(pauseMs, undefined, { signal: stopSignal, ref: false }).catch(() => undefined);
    if (stopSignal.aborted) break;
    const startedAt = performance.now();
    try {
      if (!(await renew())) {
        lossController.abort(new LeaseLostError());
        break;
      }
      clearTimeout(expiryTimer);
      expiryTimer = scheduleExpiry(durationMs - (performance.now() - startedAt));
      pauseMs = durationMs / 3;
    } catch (error) {
      failure = error;
      pauseMs = Math.min(RENEW_RETRY_MS, durationMs / 3);
    }
  }
  clearTimeout(expiryTimer);
}

/**
 * Acquires the lease of a row, runs a function under it, and releases it.
 * @param row Primary key of a row with the columns `holder text` and `lease_until timestamptz`. A missing row is
 *   inserted.
 * @param options.everyMs Time from a success until the work is due again. 0 by default.
 * @param options.retryMs Time from a failure until the work is due again. 0 by default.
 * @returns Whether this call ran the function. False if another caller holds the lease, or if the work is not due.
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
  row: { table: string; key: Readonly<Record<string, string | number | boolean>> },
  options: { durationMs: number; everyMs?: number; retryMs?: number; signal?: AbortSignal },
  work: (signal: AbortSignal) => Promise<void>,
): Promise<boolean> {
  const { durationMs, everyMs = 0, retryMs = 0, signal } = options;
  const holder = randomUUID();
  const table = sql.table(row.table);
  const columns = Object.keys(row.key).map((column) => sql.ref(column));
  const values = Object.values(row.key);
  const acquisition = await sql`
    insert into ${table} (${sql.join(columns)}, holder, lease_until)
    values (${sql.join(values)}, ${holder}, ${leaseExpiry(durationMs)})
    on conflict (${sql.join(columns)}) do update
      set holder = excluded.holder, lease_until = excluded.lease_until
      where ${isLeaseFree(`${row.table}.lease_until`)}
    returning holder`.execute(db);
  if (acquisition.rows.length === 0) return false;

  const isHeld = sql`(${sql.join(columns)}) = (${sql.join(values)}) and holder = ${holder}`;
  let freeAfterMs = retryMs;
  const lease: LeaseHandle = {
    durationMs,
    async renew() {
      const { numAffectedRows } = await sql`
        update ${table} set lease_until = ${leaseExpiry(durationMs)} where ${isHeld}`.execute(db);
      return numAffectedRows === 1n;
    },
    async release() {
      await sql`
        update ${table} set holder = null, lease_until = ${leaseExpiry(freeAfterMs)}
        where ${isHeld}`.execute(db);
    },
  };
  await runUnderLease(
    lease,
    async (leaseSignal) => {
      await work(leaseSignal);
      freeAfterMs = everyMs;
    },
    signal,
  );
  return true;
}
