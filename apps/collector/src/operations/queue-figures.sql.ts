import { type Kysely, sql } from 'kysely';
import type { Tables } from '../database.ts';

/** What is still to be done. */
export type Backlog = {
  counts: { pending: number; processing: number };
  /** Null while nothing is pending. */
  oldestPendingSeconds: number | null;
};

/** What is done. */
export type Ended = {
  counts: { completed: number; invalid: number; failed: number };
  /** Jobs that ended, whatever the end, in a minute; over the last five. */
  finishedPerMinute: number;
};

/** How to read either from the database; each figure is read off partial indexes. */
export type QueueReads = { backlog: () => Promise<Backlog>; ended: () => Promise<Ended> };

/** The two queries on how the queue stands. */
export function queueReads(db: Kysely<Tables>): QueueReads {
  return { backlog: () => readBacklog(db), ended: () => readEnded(db) };
}

/**
 * Each source's oldest claimable payload is looked at, and each listing's oldest that waits for one that
 * is being processed: whatever else is pending is behind one of these.
 */
async function readBacklog(db: Kysely<Tables>): Promise<Backlog> {
  const { rows } = await sql<{ pending: number; processing: number; oldest: number | null }>`
    with recursive
    source as (
      (select source_slug from raw_data where status = 'pending' and not waits
        order by source_slug limit 1)
      union all
      select next.source_slug from source cross join lateral (
        select source_slug from raw_data
        where status = 'pending' and not waits and source_slug > source.source_slug
        order by source_slug limit 1) as next),
    oldest (created_at) as (
      select first.created_at from source cross join lateral (
        select created_at from raw_data
        where status = 'pending' and not waits and source_slug = source.source_slug
        order by id + 0 limit 1) as first
      union all
      select first.created_at from raw_data as current cross join lateral (
        select created_at from raw_data
        where status = 'pending'
          and source_slug = current.source_slug and external_id = current.external_id
        order by id + 0 limit 1) as first
      where current.status = 'processing')
    select
      (select count(*) from raw_data where status = 'pending') as pending,
      (select count(*) from raw_data where status = 'processing') as processing,
      (select extract(epoch from now() - min(created_at))::double precision from oldest) as oldest`.execute(
    db,
  );
  const { pending = 0, processing = 0, oldest = null } = rows[0] ?? {};
  return { counts: { pending, processing }, oldestPendingSeconds: oldest };
}

async function readEnded(db: Kysely<Tables>): Promise<Ended> {
  const { rows } = await sql<{ counts: Partial<Ended['counts']>; finished_per_minute: number }>`
    select
      (select coalesce(jsonb_object_agg(status, count), '{}') from (
        select status, count(*) as count from raw_data
        where status in ('completed', 'invalid', 'failed') group by status) as by_status
      ) as counts,
      (select count(*) / 5.0 from raw_data
        where status in ('completed', 'invalid', 'failed')
          and updated_at > now() - interval '5 minutes') as finished_per_minute`.execute(db);
  const row = rows[0];
  return {
    counts: { completed: 0, invalid: 0, failed: 0, ...row?.counts },
    finishedPerMinute: row?.finished_per_minute ?? 0,
  };
}
