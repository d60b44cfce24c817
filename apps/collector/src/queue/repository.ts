import { type Kysely, sql } from 'kysely';
import type { ModelUsage, RawError, RawStatus, StageRecord, Tables } from '../database.ts';
import type { Fence, Job } from './job.ts';
import { release } from './release.sql.ts';

/** Renews the leases of jobs in progress, all in one statement. Gives those that are still held. */
export async function renewLeases(
  db: Kysely<Tables>,
  jobs: readonly Fence[],
  leaseMs: number,
): Promise<Fence[]> {
  const inOrder = jobs.toSorted((one, other) => one.rawId - other.rawId);
  const { rows } = await sql<Fence>`
    update raw_data set lease_expires_at = now() + ${leaseMs} * interval '1 millisecond'
    from unnest(${inOrder.map((job) => job.rawId)}::bigint[],
                ${inOrder.map((job) => job.attempt)}::integer[]) as job (id, attempt)
    where raw_data.id = job.id and raw_data.attempt = job.attempt
      and raw_data.status = 'processing'
    returning raw_data.id as "rawId", raw_data.attempt`.execute(db);
  return rows;
}

const leaseLost: RawError = {
  code: 'lease_lost',
  message: 'Each worker that took this payload ended before it was done.',
};

const uploadsLost: RawError = {
  code: 'lease_lost',
  message:
    'The process that took this payload and its pictures ended before it was done. Send it again.',
};

const interrupted: RawError = {
  code: 'interrupted',
  message:
    'The model or the disk was not available, or the process was stopped. The pictures are gone: send the payload again.',
};

/**
 * Gives jobs whose worker has gone back to the queue; one whose attempts are spent is `failed`, and so is
 * an inline one, whose pictures are gone with its process. Contract 4, Queue.
 */
export async function rescueJobs(
  db: Kysely<Tables>,
  maxAttempts: number,
): Promise<{ rawId: number; status: RawStatus }[]> {
  const spent = sql`(inline or attempts >= ${maxAttempts})`;
  const { rows } = await sql<{ rawId: number; status: RawStatus }>`
    update raw_data set
      status = case when ${spent} then 'failed' else 'pending' end,
      error = case
        when inline then ${JSON.stringify(uploadsLost)}::jsonb
        when ${spent} then ${JSON.stringify(leaseLost)}::jsonb end,
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

/**
 * Puts a claimed job back as if it had not been claimed: its attempt does not count. An inline one has
 * failed, because its pictures will be gone. Either way the listing's next payload may have waited for it.
 */
export async function returnJob(db: Kysely<Tables>, { rawId, attempt }: Fence): Promise<boolean> {
  const returned = await db
    .updateTable('raw_data')
    .set({
      status: sql<RawStatus>`case when inline then 'failed' else 'pending' end`,
      error: sql`case when inline then ${JSON.stringify(interrupted)}::jsonb end`,
      attempts: sql<number>`case when inline then attempts else attempts - 1 end`,
      claimed_by: null,
      lease_expires_at: null,
      updated_at: sql<Date>`now()`,
    })
    .where('id', '=', rawId)
    .where('attempt', '=', attempt)
    .where('status', '=', 'processing')
    .returning(['source_slug as sourceSlug', 'external_id as externalId'])
    .executeTakeFirst();
  if (returned === undefined) return false;
  await release(db, [returned]);
  return true;
}

export type JobResult = {
  status: 'completed' | 'invalid' | 'failed';
  error: RawError | null;
  stages: readonly StageRecord[];
  listingId: number | null;
  /** What it cost of the model; not there where none could be asked. */
  modelUsage?: ModelUsage;
};

/** A job and how it ended. */
export type Ending = { job: Job; result: JobResult };

/**
 * Writes how jobs ended. An inline one that is completed has its pictures stored, and is as any other
 * from then on. What attempts cost of the model is added up. A listing whose payload went through every stage remembers the payload's hash in the
 * same statement: the same payload then needs no model.
 * @returns For each, in order, whether it was written: not where the claim was lost.
 */
export async function finishJobs(
  db: Kysely<Tables>,
  endings: readonly Ending[],
): Promise<boolean[]> {
  const written = endings.map(({ job, result }) => ({
    id: job.rawId,
    attempt: job.attempt,
    status: result.status,
    error: result.error,
    stages: result.stages,
    listing_id: result.listingId,
    model_usage: result.modelUsage,
  }));
  // In the order of their ids, as leases are renewed: two statements that met in another order could
  // wait for one another.
  written.sort((one, other) => one.id - other.id);
  const { rows } = await sql<{ id: number }>`
    with ending as materialized (
      select * from jsonb_to_recordset(${JSON.stringify(written)}::jsonb) as ending (
        id bigint, attempt integer, status text, error jsonb, stages jsonb, listing_id bigint,
        model_usage jsonb)),
    job as (
      update raw_data set
        status = ending.status,
        error = ending.error,
        stages = ending.stages,
        listing_id = coalesce(ending.listing_id, raw_data.listing_id),
        model_usage = coalesce(
          (select jsonb_object_agg(
              key, value::bigint + coalesce((raw_data.model_usage ->> key)::bigint, 0))
            from jsonb_each_text(ending.model_usage)),
          raw_data.model_usage),
        inline = raw_data.inline and ending.status <> 'completed',
        claimed_by = null, lease_expires_at = null, updated_at = now()
      from ending
      where raw_data.id = ending.id and raw_data.attempt = ending.attempt
        and raw_data.status = 'processing'
      returning raw_data.id, raw_data.listing_id, raw_data.content_hash, raw_data.status),
    listing as (
      update property_listings set completed_hash = job.content_hash
      from job
      where job.status = 'completed'
        and property_listings.id = job.listing_id and property_listings.raw_id = job.id)
    select id from job`.execute(db);
  const finished = new Set(rows.map(({ id }) => id));
  return endings.map(({ job }) => finished.has(job.rawId));
}
