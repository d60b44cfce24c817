import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Kysely, type RawBuilder, sql } from 'kysely';

/*
 * A lease gives work to one process for a limited time, and no connection is held meanwhile. It is a moment in a row:
 *
 *   free ──acquire──▶ held ──release──▶ free
 *                     │  ▲
 *                     └──┘ renew; without renewals it expires, and the next process acquires it
 *
 * A holder that was slow learns it from its fence: each of its writes names the holder or the attempt, and finds no row.
 */

/** Pause after a failed renewal, so that several fit into the rest of a lease. */
const RENEW_RETRY_MS = 1000;

/** Returns the SQL moment at which a lease expires that begins now. */
export function leaseUntil(durationMs: number): RawBuilder<Date> {
  return sql<Date>`now() + ${durationMs}::float8 * interval '1 millisecond'`;
}

/**
 * Returns the SQL condition that a lease can be acquired: nobody holds it, or it expired.
 * @param column Of type `timestamptz`; with the alias of its table where the statement has several.
 * @example
 * sql`update listing_checks set claimed_until = ${leaseUntil(300_000)}
 *   where ${leaseIsFree('claimed_until')} returning listing_id`
 */
export function leaseIsFree(column: string): RawBuilder<boolean> {
  const until = sql.ref(column);
  return sql<boolean>`(${until} is null or ${until} <= now())`;
}

/** Returns the SQL condition that a lease is held: the opposite of {@link leaseIsFree}, and never null. */
export function leaseIsHeld(column: string): RawBuilder<boolean> {
  const until = sql.ref(column);
  return sql<boolean>`(${until} is not null and ${until} > now())`;
}

/** A row that carries a lease in the columns `holder text` and `lease_until timestamptz`, both null at first. */
export type LeaseRow = {
  table: string;
  /** Primary key of the row, which is inserted when it is missing. */
  key: Readonly<Record<string, string | number | boolean>>;
};

/** An acquired lease. `holder` is unique to this acquisition, and fences the writes of its holder. */
export type Lease = LeaseRow & { holder: string };

/**
 * Acquires the lease of a row.
 * @returns Undefined while another process holds it, or until the time that its last release asked for.
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
    values (${sql.join(Object.values(row.key))}, ${holder}, ${leaseUntil(durationMs)})
    on conflict (${columns}) do update
      set holder = excluded.holder, lease_until = excluded.lease_until
      where ${leaseIsFree(`${row.table}.lease_until`)}
    returning holder`.execute(db);
  return rows.length === 0 ? undefined : { ...row, holder };
}

/**
 * Renews a lease from now on.
 * @returns False where it is lost: it expired, and another process acquired it.
 */
export async function renewLease<Schema>(
  db: Kysely<Schema>,
  lease: Lease,
  durationMs: number,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update ${sql.table(lease.table)} set lease_until = ${leaseUntil(durationMs)}
    where ${isHeldBy(lease)}`.execute(db);
  return numAffectedRows === 1n;
}

/**
 * Releases a lease, unless another process holds it by now.
 * @param freeAfterMs How long nobody can acquire it: periodic work is due again after that.
 */
export async function releaseLease<Schema>(
  db: Kysely<Schema>,
  lease: Lease,
  freeAfterMs = 0,
): Promise<void> {
  await sql`
    update ${sql.table(lease.table)} set holder = null, lease_until = ${leaseUntil(freeAfterMs)}
    where ${isHeldBy(lease)}`.execute(db);
}

/** Expires all held leases of a table, for a database that no other process can have open. */
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

/** A lease was lost, or could not be renewed before it expired: another process may do the same work. */
export class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError';
  readonly code = 'LEASE_LOST';

  constructor(cause?: unknown) {
    super('The lease was lost: another process may do the same work', { cause });
  }
}

/** Renewal and release of an acquired lease; `renew` returns false where the lease is lost. */
export type HeldLease = {
  durationMs: number;
  renew: () => Promise<boolean>;
  release: () => Promise<void>;
};

/**
 * Does work under an acquired lease: renews it at a third of its duration, and releases it at the end. A failed release
 * is left to the expiry. Renewals that fail are repeated until the lease would expire.
 * @param work Gets a signal that is aborted with a {@link LeaseLostError} when the lease is lost.
 * @param signal Also aborts the signal of the work, with its own reason.
 * @throws What the work throws.
 * @example
 * const lease = await acquireLease(db, { table: 'collector_feed', key: { id: true } }, 120_000);
 * if (lease === undefined) return;
 * await holdLease(
 *   {
 *     durationMs: 120_000,
 *     renew: () => renewLease(db, lease, 120_000),
 *     release: () => releaseLease(db, lease),
 *   },
 *   (signal) => readFeed(lease.holder, signal),
 * );
 */
export async function holdLease<Result>(
  lease: HeldLease,
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
  { durationMs, renew }: HeldLease,
  lost: AbortController,
  ended: AbortSignal,
): Promise<void> {
  let failure: unknown;
  // A timer, since a renewal that hangs would outlast the lease.
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
 * Acquires the lease of a row, does work under it and releases it.
 * @param options.everyMs How long after success nobody does it again; at once unless given.
 * @param options.retryMs How long after failure nobody does it again; at once unless given.
 * @returns Whether this process did the work: not while another one does, or before it is due.
 * @throws What the work throws.
 * @example
 * // Once a day, by whichever process; ten minutes later where it failed.
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
  await holdLease(
    held,
    async (until) => {
      await work(until);
      freeAfterMs = everyMs;
    },
    signal,
  );
  return true;
}
