import { type Kysely, sql } from 'kysely';
import type { ModelUsage, RawStatus, StageRecord, Tables } from '../tables.ts';
import { lockHeld } from './fence.sql.ts';
import type { Fence, Job } from './job.ts';
import { release } from './release.sql.ts';
import { rescued, stagesWith } from './transitions.sql.ts';

/** A job whose lease is renewed, how far it has come, and what that cost. */
export type InProgress = Fence & { stages: readonly StageRecord[]; usage: ModelUsage };

/**
 * Renews the leases of jobs in progress, all in one statement, and notes the stages that each has been
 * through and what it has asked the model: should its worker be lost, that is what is known of it. Gives those
 * that are still held.
 */
export async function renewLeases(
  db: Kysely<Tables>,
  jobs: readonly InProgress[],
  leaseMs: number,
): Promise<Fence[]> {
  const items = jobs.map(({ rawId, attempt, stages, usage }) => ({
    id: rawId,
    attempt,
    stages,
    usage,
  }));
  const { rows } = await sql<Fence>`
    with job as materialized (
      select * from jsonb_to_recordset(${JSON.stringify(items)}::jsonb)
        as job (id bigint, attempt integer, stages jsonb, usage jsonb)),
    held as materialized (${lockHeld})
    update raw_data set
      lease_expires_at = now() + ${leaseMs} * interval '1 millisecond',
      stages = ${stagesWith(sql`job.stages`)},
      attempt_usage = job.usage
    from job join held using (id)
    where raw_data.id = job.id
    returning raw_data.id as "rawId", raw_data.attempt`.execute(db);
  return rows;
}

/** A job whose worker has gone, and what became of it. */
export type Rescued = Pick<Job, 'rawId' | 'attempt' | 'sourceSlug' | 'externalId' | 'requestId'> & {
  status: RawStatus;
};

/**
 * Gives jobs whose worker has gone back to the queue; one whose attempts are spent is `failed`, and so is
 * one whose pictures came with its request, and are gone with its process. What waited for those that failed is let go.
 * Contract 4, Queue.
 */
export async function rescueJobs(db: Kysely<Tables>, maxAttempts: number): Promise<Rescued[]> {
  const { rows } = await sql<Rescued>`
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
  await release(
    db,
    rows.filter(({ status }) => status === 'failed'),
  );
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
