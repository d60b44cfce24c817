import { prepared } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import type { ModelUsage, Tables } from '../tables.ts';
import { lockHeld } from './fence.sql.ts';
import type { Job, JobResult } from './job.ts';
import { ended } from './transitions.sql.ts';

/** A job, how it ended, and what it cost of the model; that is not there where none could be asked. */
export type JobEnding = { job: Job; result: JobResult; modelUsage?: ModelUsage };

/**
 * Writes how jobs ended. A listing whose payload went through every stage remembers the payload's hash in
 * the same statement: the same payload then needs no model. What an attempt that went back has read goes.
 * @returns For each, in order, whether it was written: not where the claim was lost.
 */
export async function finishJobs(
  db: Kysely<Tables>,
  endings: readonly JobEnding[],
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
  const { rows } = await sql<{ id: number }>`${prepared}
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
  return endings.map(({ job }) => finished.has(job.rawId));
}

/** Whether a job has ended so: for whoever wrote it and did not hear of it. */
export async function hasEnded(db: Kysely<Tables>, { job, result }: JobEnding): Promise<boolean> {
  const found = await db
    .selectFrom('raw_data')
    .select('id')
    .where('id', '=', job.rawId)
    .where('attempt', '=', job.attempt)
    .where('status', '=', result.status)
    .executeTakeFirst();
  return found !== undefined;
}
