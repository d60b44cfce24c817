import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';

/** How payloads end. */
export const ENDED = ['completed', 'invalid', 'failed'] as const;
export type EndedStatus = (typeof ENDED)[number];

/** How the queue stands at one moment: a job that ends meanwhile is in one of the counts, and only in one. */
export type Standing = {
  counts: { pending: number; processing: number };
  /** Null where there are more of a status than are counted each time. */
  ended: Record<EndedStatus, number | null>;
  /** Since it came, or was put back; null while nothing is pending. */
  oldestPendingSeconds: number | null;
  /** Jobs that ended, whatever the end, in a minute; over the last five. */
  finishedPerMinute: number;
};

/** Up to where payloads of a status were counted, in the order of their last change. */
export type Place = { at: string; id: number };

/** How to read the queue's figures from the database, off partial indexes. */
export type QueueReads = {
  /** However much has ended, no more of it is read than is counted each time, and what ended just now. */
  standing: () => Promise<Standing>;
  /**
   * Counts on among what has ended so: as many as are counted each time, at most.
   * @returns Where to go on; undefined where none are left.
   */
  countOn: (
    status: EndedStatus,
    after: Place | undefined,
  ) => Promise<{ count: number; next: Place | undefined }>;
};

/** How many payloads of a status are counted at a time: that takes some 50 ms. */
const MOST_COUNTED = 100_000;

type StandingRow = {
  pending: number;
  processing: number;
  oldest: number | null;
  ended: Record<EndedStatus, number>;
  ended_lately: number;
};

/**
 * The queries on how the queue stands.
 * @param mostCounted Of one status, at a time.
 */
export function queueReads(db: Kysely<Tables>, mostCounted: number = MOST_COUNTED): QueueReads {
  const orMore = (count: number) => (count > mostCounted ? null : count);
  return {
    async standing() {
      const { rows } = await selectStanding(mostCounted).execute(db);
      const [row] = rows;
      if (row === undefined) throw new Error('A query of single values gave none');
      const { completed, invalid, failed } = row.ended;
      return {
        counts: { pending: row.pending, processing: row.processing },
        ended: { completed: orMore(completed), invalid: orMore(invalid), failed: orMore(failed) },
        oldestPendingSeconds: row.oldest,
        finishedPerMinute: row.ended_lately / 5,
      };
    },
    async countOn(status, after) {
      const { rows } = await sql<{ count: number } & Place>`
        select nth as count, updated_at::text as at, id
        from (
          select row_number() over (order by updated_at, id) as nth, updated_at, id
          from raw_data
          where ${endedAs(status)}
            and ${after === undefined ? sql`true` : sql`(updated_at, id) > (${after.at}::timestamptz, ${after.id}::bigint)`}
          order by updated_at, id limit ${mostCounted}) as piece
        order by nth desc limit 1`.execute(db);
      const { count, ...last } = rows[0] ?? { count: 0, at: '', id: 0 };
      return { count, next: count < mostCounted ? undefined : last };
    },
  };
}

/** Literals, not parameters: else no partial index is known to have all of them. */
const endedAs = (status: EndedStatus) =>
  sql`status in ('completed', 'invalid', 'failed') and status = ${sql.lit(status)}`;

const isThereSince = sql`coalesce(queued_at, created_at) as since`;

/**
 * Each source's oldest claimable payload is looked at, and each listing's oldest that waits for one that
 * is being processed: whatever else is pending comes after one of these. It may have waited longer than one that was put
 * back, and is seen once that is taken. What has ended is read status by status:
 * with a range of times the index that begins with the status is of use only so.
 */
const selectStanding = (mostCounted: number) => sql<StandingRow>`
  with recursive
  source as (
    (select source_slug from raw_data where status = 'pending' and not waits
      order by source_slug limit 1)
    union all
    select next.source_slug from source cross join lateral (
      select source_slug from raw_data
      where status = 'pending' and not waits and source_slug > source.source_slug
      order by source_slug limit 1) as next),
  oldest (since) as (
    select first.since from source cross join lateral (
      select ${isThereSince} from raw_data
      where status = 'pending' and not waits and source_slug = source.source_slug
      order by id + 0 limit 1) as first
    union all
    select first.since from raw_data as current cross join lateral (
      select ${isThereSince} from raw_data
      where status = 'pending'
        and source_slug = current.source_slug and external_id = current.external_id
      order by id + 0 limit 1) as first
    where current.status = 'processing')
  select
    (select count(*) from raw_data where status = 'pending') as pending,
    (select count(*) from raw_data where status = 'processing') as processing,
    (select extract(epoch from now() - min(since))::double precision from oldest) as oldest,
    jsonb_build_object(${sql.join(ENDED.map((status) => sql`${sql.lit(status)}, ${countEnded(status, mostCounted)}`))})
      as ended,
    ${sql.join(ENDED.map(countEndedLately), sql` + `)} as ended_lately`;

/**
 * One more than are to be counted, where there are so many. The order has them read off the index that begins with
 * the status: the planner might else take that of all sources, and read past all that has ended otherwise.
 */
const countEnded = (status: EndedStatus, mostCounted: number) => sql`
  (select count(*) from (
    select from raw_data where ${endedAs(status)}
    order by updated_at, id limit ${mostCounted + 1}) as counted)`;

const countEndedLately = (status: EndedStatus) => sql`
  (select count(*) from raw_data
    where ${endedAs(status)} and updated_at > now() - interval '5 minutes')`;
