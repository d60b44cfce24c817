import { type Kysely, sql } from 'kysely';
import type { Tables } from '../database/tables.ts';

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

/** How to read them from the database; each figure is read off partial indexes. */
export type QueueReads = {
  /** All of one moment: a job that ends meanwhile is in one of the two, and only in one. */
  all: () => Promise<{ backlog: Backlog; ended: Ended }>;
  /** Without counting what is done. */
  backlog: () => Promise<Backlog>;
};

type BacklogRow = { pending: number; processing: number; oldest: number | null };
type EndedRow = { counts: Partial<Ended['counts']>; finished_per_minute: number };

/** The queries on how the queue stands. */
export function queueReads(db: Kysely<Tables>): QueueReads {
  return {
    async all() {
      const { rows } = await sql<BacklogRow & EndedRow>`
        select * from (${selectBacklog}) as backlog cross join (${selectEnded}) as ended`.execute(
        db,
      );
      return { backlog: toBacklog(rows[0]), ended: toEnded(rows[0]) };
    },
    async backlog() {
      return toBacklog((await selectBacklog.execute(db)).rows[0]);
    },
  };
}

/**
 * Each source's oldest claimable payload is looked at, and each listing's oldest that waits for one that
 * is being processed: whatever else is pending is behind one of these.
 */
const selectBacklog = sql<BacklogRow>`
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
    (select extract(epoch from now() - min(created_at))::double precision from oldest) as oldest`;

const selectEnded = sql<EndedRow>`
  select
    (select coalesce(jsonb_object_agg(status, count), '{}') from (
      select status, count(*) as count from raw_data
      where status in ('completed', 'invalid', 'failed') group by status) as by_status
    ) as counts,
    (select count(*) / 5.0 from raw_data
      where status in ('completed', 'invalid', 'failed')
        and updated_at > now() - interval '5 minutes') as finished_per_minute`;

function toBacklog({
  pending = 0,
  processing = 0,
  oldest = null,
}: Partial<BacklogRow> = {}): Backlog {
  return { counts: { pending, processing }, oldestPendingSeconds: oldest };
}

function toEnded({ counts, finished_per_minute = 0 }: Partial<EndedRow> = {}): Ended {
  return {
    counts: { completed: 0, invalid: 0, failed: 0, ...counts },
    finishedPerMinute: finished_per_minute,
  };
}
