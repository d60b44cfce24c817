import { prepared, retryConflicts } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { createGroupCommit } from '../async/group-commit.ts';
import type { ModelUsage, RawError, RawStatus, StageRecord, Tables } from '../tables.ts';
import { release } from './claim.ts';
import { selectHeldClaimsForUpdate } from './fence.ts';
import type { Fence, Job, FinalJobOutcome, ListingKey } from './job-types.ts';
import { ended, rescued, returned, stagesWith } from './transitions.ts';

/** A job in progress: the stages that it has been through, and what it has cost of the model. */
export type InProgress = Fence & { stages: readonly StageRecord[]; modelUsage: ModelUsage };

/**
 * Renews the leases of jobs in one statement, and records their stages and costs in case their worker is lost.
 * @returns The claims that are still held.
 */
export async function renewLeases(
  db: Kysely<Tables>,
  jobs: readonly InProgress[],
  leaseMs: number,
): Promise<Fence[]> {
  const items = jobs.map(({ rawId, attempt, stages, modelUsage }) => ({
    id: rawId,
    attempt,
    stages,
    usage: modelUsage,
  }));
  const { rows } = await retryConflicts(() =>
    sql<Fence>`
      with job as materialized (
        select * from jsonb_to_recordset(${JSON.stringify(items)}::jsonb)
          as job (id bigint, attempt integer, stages jsonb, usage jsonb)),
      held as materialized (${selectHeldClaimsForUpdate})
      update raw_data set
        lease_expires_at = now() + ${leaseMs} * interval '1 millisecond',
        stages = ${stagesWith(sql`job.stages`)},
        attempt_usage = job.usage
      from job join held using (id)
      where raw_data.id = job.id
      returning raw_data.id as "rawId", raw_data.attempt`.execute(db),
  );
  return rows;
}

/** How a job ended, and what its attempt cost of the model. */
export type FinishedJob = { job: Job; result: FinalJobOutcome; modelUsage?: ModelUsage };

/**
 * Writes how jobs ended. The listing of a completed payload remembers its hash in the same statement, so that the
 * same payload needs no model then.
 * @returns For each ending whether it was written; false where the claim was lost.
 */
export async function finishJobs(
  db: Kysely<Tables>,
  finishedJobs: readonly FinishedJob[],
): Promise<boolean[]> {
  const items = finishedJobs.map(({ job, result, modelUsage }) => ({
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
      select * from jsonb_to_recordset(${JSON.stringify(items)}::jsonb) as job (
        id bigint, attempt integer, status text, error jsonb, stages jsonb, listing_id bigint,
        model_usage jsonb)),
    held as materialized (${selectHeldClaimsForUpdate}),
    written as (
      update raw_data set ${ended}
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
  const finished = new Set(rows.map(({ id }) => id));
  return finishedJobs.map(({ job }) => finished.has(job.rawId));
}

/** Most jobs whose ends one statement writes, and most of these statements at once. */
const GROUP = { maxItems: 100, maxInFlight: 2 };

/**
 * Creates the function that writes a job's end, in one statement with those of other jobs, and then releases the
 * payloads that waited for it. The release is a statement of its own: it has to see what was stored meanwhile.
 * @returns Resolves to false where the claim was lost.
 */
export function createJobFinisher({
  db,
  log,
}: {
  db: Kysely<Tables>;
  log: Pick<Logger, 'warn'>;
}): (ending: FinishedJob) => Promise<boolean> {
  return createGroupCommit<FinishedJob, boolean>({
    ...GROUP,
    async write(finishedJobs) {
      const written = await retryConflicts(() => finishJobs(db, finishedJobs));
      const listings = finishedJobs.map(({ job }) => job);
      await release(db, listings).catch((error: unknown) =>
        log.warn({ err: error }, 'payloads behind ended jobs wait for the next sweep'),
      );
      return written;
    },
  });
}

/** A job that goes back to the queue. */
export type ReturnedJob = Fence & {
  stages?: readonly StageRecord[] | undefined;
  modelUsage?: ModelUsage | undefined;
  /** Why it goes back. */
  error?: RawError | undefined;
  /** How long it is not claimed again. */
  retryMs?: number | undefined;
};

/**
 * Returns claimed jobs to the queue at no cost of attempts. One whose images came with its request fails, since they
 * will be gone.
 * @returns The ids of the jobs whose claims still held.
 */
export async function returnJobs(
  db: Kysely<Tables>,
  jobs: readonly ReturnedJob[],
): Promise<ReadonlySet<number>> {
  if (jobs.length === 0) return new Set();
  const items = jobs.map(({ rawId, attempt, stages = [], modelUsage, error, retryMs }) => ({
    id: rawId,
    attempt,
    stages,
    model_usage: modelUsage?.calls ? modelUsage : null,
    error,
    retry_ms: retryMs,
  }));
  return returnAll(
    db,
    sql`select * from jsonb_to_recordset(${JSON.stringify(items)}::jsonb) as job (
      id bigint, attempt integer, stages jsonb, model_usage jsonb, error jsonb, retry_ms integer)`,
  );
}

/** Returns the jobs that a worker has claimed, except those that it knows of: it lost the others in an outage. */
export function returnStrays(
  db: Kysely<Tables>,
  worker: string,
  known: readonly number[],
): Promise<ReadonlySet<number>> {
  return returnAll(
    db,
    sql`select id, attempt, '[]'::jsonb as stages, attempt_usage as model_usage,
        null::jsonb as error, null::integer as retry_ms
      from raw_data
      where status = 'processing' and claimed_by = ${worker} and id <> all (${known}::bigint[])`,
  );
}

/** @param jobs Rows with `id`, `attempt`, and what {@link returned} reads. */
async function returnAll(
  db: Kysely<Tables>,
  jobs: RawBuilder<unknown>,
): Promise<ReadonlySet<number>> {
  const { rows } = await retryConflicts(() =>
    sql<ListingKey & { rawId: number }>`
      with job as materialized (${jobs}),
      held as materialized (${selectHeldClaimsForUpdate})
      update raw_data set ${returned}
      from job as back join held using (id)
      where raw_data.id = back.id
      returning raw_data.id as "rawId", raw_data.source_slug as "sourceSlug",
        raw_data.external_id as "externalId"`.execute(db),
  );
  await release(db, rows);
  return new Set(rows.map(({ rawId }) => rawId));
}

/** A job whose worker is gone, and its status now. */
export type RescuedJob = Omit<Job, 'contentHash'> & { status: RawStatus };

/**
 * Returns jobs whose leases have expired to the queue. One whose attempts are spent fails, and so does one whose
 * images came with its request. Contract 4, Queue.
 */
export async function rescueJobs(db: Kysely<Tables>, maxAttempts: number): Promise<RescuedJob[]> {
  const { rows } = await sql<RescuedJob>`
    with back as (
      update raw_data set ${rescued(maxAttempts)}
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
  await release(db, rows);
  return rows;
}

/** Expires every lease, in a database that no other process can have open. */
export async function expireLeases(db: Kysely<Tables>): Promise<void> {
  await db
    .updateTable('raw_data')
    .set({ lease_expires_at: sql<Date>`now() - interval '1 second'` })
    .where('status', '=', 'processing')
    .execute();
}
