import { type Kysely, sql } from 'kysely';
import type { RawStatus, Tables } from '../database.ts';

export type QueueFigures = {
  counts: Record<RawStatus, number>;
  /** Null while nothing is pending. */
  oldestPendingSeconds: number | null;
  /** Jobs that ended, whatever the end, in a minute; over the last five. */
  finishedPerMinute: number;
};

/** How the queue stands. Each figure is read off a partial index, so the payloads are not touched. */
export async function readQueueFigures(db: Kysely<Tables>): Promise<QueueFigures> {
  const { rows } = await sql<{
    counts: Partial<Record<RawStatus, number>>;
    oldest_pending_seconds: number | null;
    finished_per_minute: number;
  }>`
    select
      (select coalesce(jsonb_object_agg(status, count), '{}') from (
        select 'pending' as status, count(*) as count from raw_data where status = 'pending'
        union all
        select 'processing', count(*) from raw_data where status = 'processing'
        union all
        select status, count(*) from raw_data
        where status in ('completed', 'invalid', 'failed') group by status) as by_status
      ) as counts,
      (select extract(epoch from now() - created_at)::double precision from raw_data
        where status = 'pending' order by id limit 1) as oldest_pending_seconds,
      (select count(*) / 5.0 from raw_data
        where status in ('completed', 'invalid', 'failed')
          and updated_at > now() - interval '5 minutes') as finished_per_minute`.execute(db);
  const row = rows[0];
  return {
    counts: { pending: 0, processing: 0, completed: 0, invalid: 0, failed: 0, ...row?.counts },
    oldestPendingSeconds: row?.oldest_pending_seconds ?? null,
    finishedPerMinute: row?.finished_per_minute ?? 0,
  };
}
