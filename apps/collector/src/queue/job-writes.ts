import { leaseExpiry, prepared, retryConflicts } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { createGroupCommit } from '../async/group-commit.ts';
import type { ModelUsage, RawStatus, StageRecord, Tables } from '../tables.ts';
import { selectJobColumns, unblockPayloads } from './claim.ts';
import {
  type ClaimResult,
  type FencingToken,
  getJobLogFields,
  type Job,
  type JobOutcome,
  type ListingKey,
} from './job-types.ts';
import { createRescueTransition, endTransition, mergeStages } from './transitions.ts';

type JobDeps = { db: Kysely<Tables>; log: Pick<Logger, 'warn'> };

/** Running job with its finished stages and its model usage. */
type JobProgress = FencingToken & { stages: readonly StageRecord[]; modelUsage: ModelUsage };

/** Job at the end of its claim. */
export type EndedJob = JobProgress & ListingKey & JobOutcome;

/** Returns a query that locks the records of the jobs whose claims are still held, in ID order, with their `index`. */
function selectHeldJobs(jobs: readonly (JobProgress & Partial<JobOutcome>)[]): RawBuilder<unknown> {
  const rows = jobs.map(({ rawId, listingId, modelUsage, retryDelayMs, ...job }, index) => ({
    index,
    id: rawId,
    attempt: job.attempt,
    status: job.status,
    error: job.error,
    stages: job.stages,
    listing_id: listingId,
    model_usage: modelUsage,
    retry_delay_ms: retryDelayMs,
  }));
  return sql`
    select job.* from raw_data
    join jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as job (
      index integer, id bigint, attempt integer, status text, error jsonb, stages jsonb, listing_id bigint,
      model_usage jsonb, retry_delay_ms integer) using (id)
    where raw_data.attempt = job.attempt and raw_data.status = 'processing'
    order by raw_data.id for update of raw_data`;
}

/**
 * Renews the leases of jobs, and records their stages and model usage, so that a rescue keeps them.
 * @returns The jobs whose claims are lost.
 */
export async function renewLeases<Progress extends JobProgress>(
  db: Kysely<Tables>,
  jobs: readonly Progress[],
  leaseMs: number,
): Promise<Progress[]> {
  const { rows } = await retryConflicts(() =>
    sql<{ index: number }>`
      with held as materialized (${selectHeldJobs(jobs)})
      update raw_data set
        lease_expires_at = ${leaseExpiry(leaseMs)},
        stages = ${mergeStages(sql`held.stages`)},
        attempt_usage = held.model_usage
      from held where raw_data.id = held.id
      returning index`.execute(db),
  );
  const heldIndexes = new Set(rows.map(({ index }) => index));
  return jobs.filter((_, index) => !heldIndexes.has(index));
}

/**
 * Ends the claims of jobs, and stores the content hashes of completed payloads, so that unchanged payloads can skip the
 * model. A returned job with uploads fails, because its images are deleted with the request.
 * @returns The results of the claims, in order.
 */
export async function endJobs(
  db: Kysely<Tables>,
  jobs: readonly EndedJob[],
): Promise<ClaimResult[]> {
  const { rows } = await sql<{ index: number; result: ClaimResult }>`${prepared}
    with ending as materialized (${selectHeldJobs(jobs)}),
    ended as (
      update raw_data set ${endTransition}
      from ending where raw_data.id = ending.id
      returning index, raw_data.id, source_slug, external_id, content_hash, raw_data.status),
    deleted_extractions as (
      delete from raw_readings using ended
      where raw_readings.raw_id = ended.id and ended.status <> 'pending'),
    updated_hashes as (
      update listing_payloads as current set completed_hash = ended.content_hash
      from ended
      where ended.status = 'completed'
        and current.source_slug = ended.source_slug
        and current.external_id = ended.external_id and current.raw_id = ended.id
        and current.completed_hash is distinct from ended.content_hash)
    select index, case status when 'pending' then 'returned' else status end as result
    from ended`.execute(db);
  const results = new Map(rows.map(({ index, result }) => [index, result]));
  return jobs.map((_, index) => results.get(index) ?? 'lost');
}

/**
 * Creates a function that ends jobs in batches and then unblocks the next payloads of their listings. Unblocking is a
 * separate statement, because it must see concurrent inserts.
 */
export function createJobEnder({ db, log }: JobDeps): (job: EndedJob) => Promise<ClaimResult> {
  return createGroupCommit<EndedJob, ClaimResult>({
    maxItems: 100,
    maxInFlight: 2,
    async write(jobs) {
      const results = await retryConflicts(() => endJobs(db, jobs));
      await unblockPayloads(db, jobs).catch((error: unknown) =>
        log.warn({ err: error }, 'payloads could not be unblocked; the next sweep retries'),
      );
      return results;
    },
  });
}

/** Returns jobs that the worker holds but does not run, because an outage hid their claim or their outcome. */
export async function findOrphanedJobs(
  db: Kysely<Tables>,
  worker: string,
  knownIds: readonly number[],
): Promise<Job[]> {
  const { rows } = await sql<Job>`
    select ${selectJobColumns(sql`raw_data`)} from raw_data
    where status = 'processing' and claimed_by = ${worker} and id <> all (${knownIds}::bigint[])`.execute(
    db,
  );
  return rows;
}

/**
 * Requeues jobs with expired leases. Fails jobs without remaining attempts and jobs with uploads. Contract 4, Queue.
 * @param options.runningIds Raw record IDs of the caller's jobs, which are never rescued.
 * @param options.isExclusive Whether no other process uses the database, so that all other jobs are rescued.
 */
export async function rescueJobs(
  { db, log }: JobDeps,
  options: { maxAttempts: number; runningIds?: readonly number[]; isExclusive?: boolean },
): Promise<void> {
  const { maxAttempts, runningIds = [], isExclusive = false } = options;
  const { rows } = await sql<Job & { status: RawStatus }>`
    with rescued as (
      update raw_data set ${createRescueTransition(maxAttempts)}
      where id in (
        select id from raw_data
        where status = 'processing' and id <> all (${runningIds}::bigint[])
          and ${isExclusive ? sql`true` : sql`lease_expires_at < now()`}
        for update skip locked)
      returning *),
    deleted_extractions as (
      delete from raw_readings using rescued
      where raw_readings.raw_id = rescued.id and rescued.status = 'failed')
    select ${selectJobColumns(sql`rescued`)}, status from rescued`.execute(db);
  for (const { status, ...job } of rows) {
    log.warn({ ...getJobLogFields(job), status }, 'the worker of a job was lost');
  }
  await unblockPayloads(db, rows);
}
