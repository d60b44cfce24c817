import { type Kysely, sql } from 'kysely';
import type { Tables } from '../database.ts';
import type { Job } from './job.ts';

export type ClaimOptions = {
  /** Who claims, for whoever looks at the table. */
  worker: string;
  leaseMs: number;
  /** Prefer jobs after this id: the next probe of a failing model is then not the same job again. */
  after?: number | undefined;
};

/**
 * Claims the oldest pending job whose listing has none before it that is unfinished, so that the
 * payloads of a listing are taken in the order in which they came. One statement: two workers never
 * get one job. Specification 001, Raw data status; Contract 4, Queue.
 */
export async function claimJob(
  db: Kysely<Tables>,
  { worker, leaseMs, after }: ClaimOptions,
): Promise<Job | undefined> {
  // Where nothing is preferred the order is the partial index's, and the first rows are enough.
  const order = after === undefined ? sql`id` : sql`id <= ${after}, id`;
  const { rows } = await sql<Job>`
    update raw_data set
      status = 'processing',
      attempt = attempt + 1,
      attempts = attempts + 1,
      claimed_by = ${worker},
      lease_expires_at = now() + ${leaseMs} * interval '1 millisecond',
      error = null,
      stages = '[]',
      updated_at = now()
    where id = (
      select id from raw_data as candidate
      where status = 'pending'
        and not exists (
          select from raw_data as other
          where other.source_slug = candidate.source_slug
            and other.external_id = candidate.external_id
            and other.status in ('pending', 'processing')
            and (other.id < candidate.id or other.status = 'processing'))
      order by ${order}
      limit 1
      for update skip locked)
    returning id as "rawId", attempt, source_slug as "sourceSlug", external_id as "externalId",
      content_hash as "contentHash"`.execute(db);
  return rows[0];
}
