import { prepared, retryConflicts } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { createGroupCommit } from '../async/group-commit.ts';
import type { ModelUsage, RawError, RawStatus, StageRecord, Tables } from '../tables.ts';
import { releaseListings } from './claim.ts';
import { selectHeldClaimsForUpdate } from './fence.ts';
import type { Fence, Job, FinalJobOutcome, ListingKey } from './job-types.ts';
import {
  createRescueTransition,
  endTransition,
  mergeStages,
  returnTransition,
} from './transitions.ts';

/** Running job with its finished stages and its model usage. */
type JobProgress = Fence & { stages: readonly StageRecord[]; modelUsage: ModelUsage };

/**
 * Renews the leases of jobs, and records their stages and model usage for a rescue.
 * @returns The jobs whose claims are lost.
 */
export async function renewLeases<Progress extends JobProgress>(
  db: Kysely<Tables>,
  jobs: readonly Progress[],
  leaseMs: number,
): Promise<Progress[]> {
  const jobRows = jobs.map(({ rawId, attempt, stages, modelUsage }) => ({
    id: rawId,
    attempt,
    stages,
    usage: modelUsage,
  }));
  const { rows } = await retryConflicts(() =>
    sql<{ claim: string }>`
      with job as materialized (
        select * from jsonb_to_recordset(${JSON.stringify(jobRows)}::jsonb)
          as job (id bigint, attempt integer, stages jsonb, usage jsonb)),
      held as materialized (${selectHeldClaimsForUpdate})
      update raw_data set
        lease_expires_at = now() + ${leaseMs} * interval '1 millisecond',
        stages = ${mergeStages(sql`job.stages`)},
        attempt_usage = job.usage
      from job join held using (id)
      where raw_data.id = job.id and raw_data.attempt = job.attempt
      returning raw_data.id || '/' || raw_data.attempt as claim`.execute(db),
  );
  const heldClaims = new Set(rows.map(({ claim }) => claim));
  return jobs.filter(({ rawId, attempt }) => !heldClaims.has(`${rawId}/${attempt}`));
}

/** Finished job with its outcome and the model usage of the attempt. */
type FinishedJob = { job: Job; result: FinalJobOutcome; modelUsage?: ModelUsage };

/**
 * Stores job outcomes, and the content hashes of completed payloads, because unchanged payloads skip the model.
 * @returns Whether each outcome was stored. False if the claim was lost.
 */
export async function finishJobs(
  db: Kysely<Tables>,
  finishedJobs: readonly FinishedJob[],
): Promise<boolean[]> {
  const jobRows = finishedJobs.map(({ job, result, modelUsage }) => ({
    id: job.rawId,
    attempt: job.attempt,
    status: result.status,
    error: result.error,
    stages: result.stages,
    listing_id: result.listingId,
    model_usage: modelUsage,
  }));
  const { rows } = await sql<{ id: number }>`${prepared}
    with job as materialized (
      select * from jsonb_to_recordset(${JSON.stringify(jobRows)}::jsonb) as job (
        id bigint, attempt integer, status text, error jsonb, stages jsonb, listing_id bigint,
        model_usage jsonb)),
    held as materialized (${selectHeldClaimsForUpdate}),
    written as (
      update raw_data set ${endTransition}
      from job as ending join held using (id)
      where raw_data.id = ending.id
      returning raw_data.id, raw_data.source_slug, raw_data.external_id, raw_data.content_hash,
        raw_data.status),
    forgotten as (
      delete from raw_readings using written where raw_readings.raw_id = written.id),
    completed as (
      update listing_payloads as current set completed_hash = written.content_hash
      from written
      where written.status = 'completed'
        and current.source_slug = written.source_slug
        and current.external_id = written.external_id and current.raw_id = written.id
        and current.completed_hash is distinct from written.content_hash)
    select id from written`.execute(db);
  const finishedIds = new Set(rows.map(({ id }) => id));
  return finishedJobs.map(({ job }) => finishedIds.has(job.rawId));
}

/**
 * Creates a function that stores job outcomes in batches and then releases waiting payloads. The release is a
 * separate statement, because it must see concurrent inserts.
 * @returns A function that resolves to false if the claim was lost.
 */
export function createJobFinisher(deps: {
  db: Kysely<Tables>;
  log: Pick<Logger, 'warn'>;
}): (job: FinishedJob) => Promise<boolean> {
  const { db, log } = deps;
  return createGroupCommit<FinishedJob, boolean>({
    maxItems: 100,
    maxInFlight: 2,
    async write(finishedJobs) {
      const results = await retryConflicts(() => finishJobs(db, finishedJobs));
      const listings = finishedJobs.map(({ job }) => job);
      await releaseListings(db, listings).catch((error: unknown) =>
        log.warn({ err: error }, 'payloads behind ended jobs wait for the next sweep'),
      );
      return results;
    },
  });
}

type ReturnedJob = Fence & {
  stages?: readonly StageRecord[] | undefined;
  modelUsage?: ModelUsage | undefined;
  error?: RawError | undefined;
  /** Minimum delay before the next claim, in milliseconds. */
  retryMs?: number | undefined;
};

/**
 * Returns claimed jobs to the queue without using an attempt. A job with uploads fails, since its images are
 * deleted with the request.
 * @returns The IDs of the jobs whose claims were still held.
 */
export async function returnJobs(
  db: Kysely<Tables>,
  jobs: readonly ReturnedJob[],
): Promise<ReadonlySet<number>> {
  if (jobs.length === 0) return new Set();
  const jobRows = jobs.map(({ rawId, attempt, stages = [], modelUsage, error, retryMs }) => ({
    id: rawId,
    attempt,
    stages,
    model_usage: modelUsage?.calls ? modelUsage : null,
    error,
    retry_ms: retryMs,
  }));
  return returnClaimedJobs(
    db,
    sql`select * from jsonb_to_recordset(${JSON.stringify(jobRows)}::jsonb) as job (
      id bigint, attempt integer, stages jsonb, model_usage jsonb, error jsonb, retry_ms integer)`,
  );
}

/** Returns to the queue the claimed jobs that a worker lost track of during an outage. */
export function returnStrays(
  db: Kysely<Tables>,
  worker: string,
  knownIds: readonly number[],
): Promise<ReadonlySet<number>> {
  return returnClaimedJobs(
    db,
    sql`select id, attempt, '[]'::jsonb as stages, attempt_usage as model_usage,
        null::jsonb as error, null::integer as retry_ms
      from raw_data
      where status = 'processing' and claimed_by = ${worker} and id <> all (${knownIds}::bigint[])`,
  );
}

/** @param jobs A query for `id`, `attempt` and the columns that {@link returnTransition} reads. */
async function returnClaimedJobs(
  db: Kysely<Tables>,
  jobs: RawBuilder<unknown>,
): Promise<ReadonlySet<number>> {
  const { rows } = await retryConflicts(() =>
    sql<ListingKey & { rawId: number }>`
      with job as materialized (${jobs}),
      held as materialized (${selectHeldClaimsForUpdate})
      update raw_data set ${returnTransition}
      from job as back join held using (id)
      where raw_data.id = back.id
      returning raw_data.id as "rawId", raw_data.source_slug as "sourceSlug",
        raw_data.external_id as "externalId"`.execute(db),
  );
  await releaseListings(db, rows);
  return new Set(rows.map(({ rawId }) => rawId));
}

/** Job of a lost worker, with its new status. */
type RescuedJob = Omit<Job, 'contentHash'> & { status: RawStatus };

/**
 * Returns jobs with expired leases to the queue. Fails jobs without remaining attempts and jobs with uploads.
 * Contract 4, Queue.
 */
export async function rescueJobs(db: Kysely<Tables>, maxAttempts: number): Promise<RescuedJob[]> {
  const { rows } = await sql<RescuedJob>`
    with back as (
      update raw_data set ${createRescueTransition(maxAttempts)}
      where id in (
        select id from raw_data
        where status = 'processing' and lease_expires_at < now()
        for update skip locked)
      returning id, attempt, source_slug, external_id, request_id, status),
    forgotten as (
      delete from raw_readings using back
      where raw_readings.raw_id = back.id and back.status = 'failed')
    select id as "rawId", attempt, source_slug as "sourceSlug",
      external_id as "externalId", request_id as "requestId", status
    from back`.execute(db);
  await releaseListings(db, rows);
  return rows;
}

/** Expires all leases. No other process may use the database. */
export async function expireLeases(db: Kysely<Tables>): Promise<void> {
  await sql`update raw_data set lease_expires_at = now() - interval '1 second'
    where status = 'processing'`.execute(db);
}
