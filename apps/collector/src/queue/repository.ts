import { type Kysely, sql } from 'kysely';
import type { RawError, RawStatus, StageRecord, Tables } from '../database.ts';
import type { Fence } from './job.ts';

/** Renews the leases of jobs in progress, all in one statement. Gives those that are still held. */
export async function renewLeases(
  db: Kysely<Tables>,
  jobs: readonly Fence[],
  leaseMs: number,
): Promise<Fence[]> {
  const { rows } = await sql<Fence>`
    update raw_data set lease_expires_at = now() + ${leaseMs} * interval '1 millisecond'
    from unnest(${jobs.map((job) => job.rawId)}::bigint[],
                ${jobs.map((job) => job.attempt)}::integer[]) as job (id, attempt)
    where raw_data.id = job.id and raw_data.attempt = job.attempt
      and raw_data.status = 'processing'
    returning raw_data.id as "rawId", raw_data.attempt`.execute(db);
  return rows;
}

const leaseLost: RawError = {
  code: 'lease_lost',
  message: 'Each worker that took this payload ended before it was done.',
};

/**
 * Gives jobs whose worker has gone back to the queue; one whose attempts are spent is `failed`.
 * Contract 4, Queue.
 */
export async function rescueJobs(
  db: Kysely<Tables>,
  maxAttempts: number,
): Promise<{ rawId: number; status: RawStatus }[]> {
  const spent = sql`attempts >= ${maxAttempts}`;
  const { rows } = await sql<{ rawId: number; status: RawStatus }>`
    update raw_data set
      status = case when ${spent} then 'failed' else 'pending' end,
      error = case when ${spent} then ${JSON.stringify(leaseLost)}::jsonb end,
      claimed_by = null, lease_expires_at = null, updated_at = now()
    where id in (
      select id from raw_data
      where status = 'processing' and lease_expires_at < now()
      for update skip locked)
    returning id as "rawId", status`.execute(db);
  return rows;
}

/** Ends every lease: for a database that no other process can have open, so that no worker holds one. */
export async function expireLeases(db: Kysely<Tables>): Promise<void> {
  await db
    .updateTable('raw_data')
    .set({ lease_expires_at: sql<Date>`now() - interval '1 second'` })
    .where('status', '=', 'processing')
    .execute();
}

/** Puts a claimed job back as if it had not been claimed: its attempt does not count. */
export async function returnJob(db: Kysely<Tables>, { rawId, attempt }: Fence): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('raw_data')
    .set({
      status: 'pending',
      attempts: sql<number>`attempts - 1`,
      claimed_by: null,
      lease_expires_at: null,
      updated_at: sql<Date>`now()`,
    })
    .where('id', '=', rawId)
    .where('attempt', '=', attempt)
    .where('status', '=', 'processing')
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

export type JobResult = {
  status: 'completed' | 'invalid' | 'failed';
  error: RawError | null;
  stages: readonly StageRecord[];
  listingId: number | null;
};

/**
 * Writes how a job ended. A listing whose payload went through every stage remembers the payload's
 * hash in the same statement: the same payload then needs no model.
 * @returns False where the claim was lost, and nothing was written.
 */
export async function finishJob(
  db: Kysely<Tables>,
  { rawId, attempt }: Fence,
  result: JobResult,
): Promise<boolean> {
  const { rows } = await sql<{ finished: boolean }>`
    with job as (
      update raw_data set
        status = ${result.status},
        error = ${result.error === null ? null : JSON.stringify(result.error)}::jsonb,
        stages = ${JSON.stringify(result.stages)}::jsonb,
        listing_id = coalesce(${result.listingId}::bigint, listing_id),
        claimed_by = null, lease_expires_at = null, updated_at = now()
      where id = ${rawId} and attempt = ${attempt} and status = 'processing'
      returning id, listing_id, content_hash, status),
    listing as (
      update property_listings set completed_hash = job.content_hash
      from job
      where job.status = 'completed'
        and property_listings.id = job.listing_id and property_listings.raw_id = job.id)
    select exists (select from job) as finished`.execute(db);
  return rows[0]?.finished ?? false;
}
