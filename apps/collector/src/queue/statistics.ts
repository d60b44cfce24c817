import { type Kysely, type RawBuilder, sql } from 'kysely';
import { Gauge, type Registry } from 'prom-client';
import { createGaugeCollector } from '../metrics.ts';
import type { Tables } from '../tables.ts';

const ENDED_STATUSES = ['completed', 'invalid', 'failed'] as const;
type EndedStatus = (typeof ENDED_STATUSES)[number];

/** Maximum number of ended payloads per status that one request counts; counting them takes about 50 ms. */
const MAX_COUNTED_PAYLOADS = 100_000;

/** Minimum pause between background counts. */
const MIN_COUNT_PAUSE_MS = 60_000;

export type ReadQueueStatistics = ReturnType<typeof createQueueStatisticsReader>;

/**
 * Creates a reader of the queue statistics for `GET /admin/queue` and the metrics. A status with more than 100,000
 * ended payloads is counted in the background.
 * @param deps.onError Called when a background count fails. The previous count is kept.
 */
export function createQueueStatisticsReader(deps: {
  db: Kysely<Tables>;
  onError: (error: unknown) => void;
  maxCounted?: number;
}) {
  const { db, onError, maxCounted = MAX_COUNTED_PAYLOADS } = deps;
  const lastCounts = new Map<EndedStatus, { count: number; asOf: number }>();
  let nextCountAt = -Infinity;

  async function countInBackground(statuses: readonly EndedStatus[]): Promise<void> {
    nextCountAt = Infinity;
    const asOf = performance.now();
    try {
      const { rows } = await sql<{ status: EndedStatus; count: number }>`
        select status, count(*) as count from raw_data
        where ${isEnded} and status = any (${statuses}::text[]) group by status`.execute(db);
      for (const { status, count } of rows) lastCounts.set(status, { count, asOf });
    } catch (error) {
      onError(error);
    }
    nextCountAt = performance.now() + MIN_COUNT_PAUSE_MS;
  }

  const getCount = (status: EndedStatus) => lastCounts.get(status)?.count ?? null;

  return async () => {
    const asOf = performance.now();
    const [statistics] = (await selectStatistics(maxCounted).execute(db)).rows;
    if (statistics === undefined) throw new Error('The queue statistics query returned no row');
    const largeStatuses: EndedStatus[] = [];
    for (const status of ENDED_STATUSES) {
      const count = statistics.endedCounts[status];
      if (count > maxCounted) largeStatuses.push(status);
      else lastCounts.set(status, { count, asOf });
    }
    if (largeStatuses.length > 0 && asOf >= nextCountAt) void countInBackground(largeStatuses);
    const countTimes = ENDED_STATUSES.map((status) => lastCounts.get(status)?.asOf ?? -Infinity);
    const oldestCountAgeSeconds = (performance.now() - Math.min(...countTimes)) / 1000;
    return {
      counts: {
        pending: statistics.pending,
        processing: statistics.processing,
        completed: getCount('completed'),
        invalid: getCount('invalid'),
        failed: getCount('failed'),
      },
      ended_age_seconds: Number.isFinite(oldestCountAgeSeconds) ? oldestCountAgeSeconds : null,
      oldest_pending_seconds: statistics.oldestPendingSeconds,
      finished_per_minute: statistics.recentCount / 5,
    };
  };
}

/** Predicate of the index `raw_data_ended`. */
export const isEnded = sql`status in ('completed', 'invalid', 'failed')`;

/** Returns a count subquery with the status as a literal, because parameters do not match the partial index. */
const selectEndedCount = (status: EndedStatus, maxCounted: number) => sql`
  (select count(*) from (
    select from raw_data where ${isEnded} and status = ${sql.lit(status)}
    order by updated_at, id limit ${maxCounted + 1}) as counted)`;

const selectWaitingSince = (condition: RawBuilder<unknown>) => sql`
  select coalesce(queued_at, created_at) as since from raw_data
  where status = 'pending' and ${condition}
  order by id + 0 limit 1`;

type StatisticsRow = {
  pending: number;
  processing: number;
  oldestPendingSeconds: number | null;
  endedCounts: Record<EndedStatus, number>;
  /** Number of payloads that ended in the last five minutes. */
  recentCount: number;
};

/**
 * Returns a single query, because two queries could count a payload twice. It reads only partial indexes. The oldest
 * pending payload is the first unblocked payload of a source, or the first of a listing with a job in progress.
 */
const selectStatistics = (maxCounted: number) => sql<StatisticsRow>`
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
      ${selectWaitingSince(sql`not waits and source_slug = source.source_slug`)}) as first
    union all
    select first.since from raw_data as current cross join lateral (
      ${selectWaitingSince(sql`source_slug = current.source_slug and external_id = current.external_id`)}) as first
    where current.status = 'processing')
  select
    (select count(*) from raw_data where status = 'pending') as pending,
    (select count(*) from raw_data where status = 'processing') as processing,
    (select extract(epoch from now() - min(since))::double precision from oldest) as "oldestPendingSeconds",
    jsonb_build_object(${sql.join(ENDED_STATUSES.map((status) => sql`${sql.lit(status)}, ${selectEndedCount(status, maxCounted)}`))})
      as "endedCounts",
    (select count(*) from raw_data
      where ${isEnded} and updated_at > now() - interval '5 minutes') as "recentCount"`;

/**
 * Registers the queue gauges. Unknown counts have no value. Contract 4, Metrics.
 * @param onError Called when the database does not respond. The other metrics are still served.
 */
export function registerQueueMetrics(
  registry: Registry,
  { readQueue, onError }: { readQueue: ReadQueueStatistics; onError: (error: unknown) => void },
): void {
  const collect = createGaugeCollector({
    read: readQueue,
    update({ counts, oldest_pending_seconds: seconds }) {
      for (const [status, count] of Object.entries(counts)) {
        if (count !== null) jobsGauge.set({ status }, count);
      }
      oldestGauge.set(seconds ?? 0);
    },
    reset() {
      jobsGauge.reset();
      oldestGauge.remove();
    },
    onError,
  });
  const oldestGauge = new Gauge({
    name: 'collector_queue_oldest_pending_seconds',
    help: 'Age of the oldest pending payload in seconds, since it arrived or returned to the queue; 0 if no payload is pending.',
    registers: [registry],
    collect,
  });
  const jobsGauge = new Gauge({
    name: 'collector_queue_jobs',
    help: 'Payloads by status. A status with more than 100000 finished payloads has the result of the last background count.',
    labelNames: ['status'],
    registers: [registry],
    collect,
  });
}
