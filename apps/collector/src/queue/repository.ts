import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { ModelUsage, RawError, RawStatus, StageRecord, Tables } from '../database/tables.ts';
import type { Fence, Job, ListingKey } from './job.ts';
import { release } from './release.sql.ts';
import { ended, rescued, returned } from './transitions.sql.ts';

/**
 * The records of those jobs, rows of `job` with `id` and `attempt`, whose claims still hold. They are
 * locked in the order of their ids, by whoever writes several: two statements that met them in another
 * order would wait for one another.
 */
const lockHeld: RawBuilder<{ id: number }> = sql`
  select raw_data.id from raw_data join job using (id)
  where raw_data.attempt = job.attempt and raw_data.status = 'processing'
  order by raw_data.id for update of raw_data`;

/** A job whose lease is renewed, and how far it has come. */
export type InProgress = Fence & { stages: readonly StageRecord[] };

/**
 * Renews the leases of jobs in progress, all in one statement, and notes the stages that each has been
 * through: should its worker be lost, that is what is known of it. Gives those that are still held.
 */
export async function renewLeases(
  db: Kysely<Tables>,
  jobs: readonly InProgress[],
  leaseMs: number,
): Promise<Fence[]> {
  const items = jobs.map(({ rawId, attempt, stages }) => ({ id: rawId, attempt, stages }));
  const { rows } = await sql<Fence>`
    with job as materialized (
      select * from jsonb_to_recordset(${JSON.stringify(items)}::jsonb)
        as job (id bigint, attempt integer, stages jsonb)),
    held as materialized (${lockHeld})
    update raw_data set
      lease_expires_at = now() + ${leaseMs} * interval '1 millisecond',
      stages = job.stages
    from job join held using (id)
    where raw_data.id = job.id
    returning raw_data.id as "rawId", raw_data.attempt`.execute(db);
  return rows;
}

/** A job whose worker has gone, and what became of it. */
export type Rescued = Pick<Job, 'rawId' | 'attempt' | 'sourceSlug' | 'requestId'> & {
  status: RawStatus;
};

/**
 * Gives jobs whose worker has gone back to the queue; one whose attempts are spent is `failed`, and so is
 * an inline one, whose pictures are gone with its process. Contract 4, Queue.
 */
export async function rescueJobs(db: Kysely<Tables>, maxAttempts: number): Promise<Rescued[]> {
  const { rows } = await sql<Rescued>`
    update raw_data set ${rescued(maxAttempts)}
    where id in (
      select id from raw_data
      where status = 'processing' and lease_expires_at < now()
      for update skip locked)
    returning id as "rawId", attempt, source_slug as "sourceSlug", request_id as "requestId",
      status`.execute(db);
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
 * @param usage What it has cost of the model all the same.
 */
export async function returnJob(
  db: Kysely<Tables>,
  { rawId, attempt }: Fence,
  usage?: ModelUsage,
): Promise<boolean> {
  const { rows } = await sql<ListingKey>`
    update raw_data set ${returned(usage)}
    where id = ${rawId} and attempt = ${attempt} and status = 'processing'
    returning source_slug as "sourceSlug", external_id as "externalId"`.execute(db);
  await release(db, rows);
  return rows.length > 0;
}

export type JobResult = {
  status: 'completed' | 'invalid' | 'failed';
  error: RawError | null;
  stages: readonly StageRecord[];
  listingId: number | null;
};

/** A job, how it ended, and what it cost of the model; that is not there where none could be asked. */
export type Ending = { job: Job; result: JobResult; modelUsage?: ModelUsage };

/**
 * Writes how jobs ended. A listing whose payload went through every stage remembers the payload's hash in
 * the same statement: the same payload then needs no model.
 * @returns For each, in order, whether it was written: not where the claim was lost.
 */
export async function finishJobs(
  db: Kysely<Tables>,
  endings: readonly Ending[],
): Promise<boolean[]> {
  const items = endings.map(({ job, result, modelUsage }) => ({
    id: job.rawId,
    attempt: job.attempt,
    status: result.status,
    error: result.error,
    stages: result.stages,
    listing_id: result.listingId,
    model_usage: modelUsage,
  }));
  const { rows } = await sql<{ id: number }>`
    with job as materialized (
      select * from jsonb_to_recordset(${JSON.stringify(items)}::jsonb) as job (
        id bigint, attempt integer, status text, error jsonb, stages jsonb, listing_id bigint,
        model_usage jsonb)),
    held as materialized (${lockHeld}),
    written as (
      update raw_data set ${ended}
      from job as ending join held using (id)
      where raw_data.id = ending.id
      returning raw_data.id, raw_data.source_slug, raw_data.external_id, raw_data.content_hash,
        raw_data.status),
    completed as (
      update listing_payloads as current set completed_hash = written.content_hash
      from written
      where written.status = 'completed'
        and current.source_slug = written.source_slug
        and current.external_id = written.external_id and current.raw_id = written.id
        and current.completed_hash is distinct from written.content_hash)
    select id from written`.execute(db);
  const finished = new Set(rows.map(({ id }) => id));
  return endings.map(({ job }) => finished.has(job.rawId));
}
