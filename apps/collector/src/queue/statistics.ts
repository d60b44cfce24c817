import { type Kysely, sql } from 'kysely';
import { Gauge, type Registry } from 'prom-client';
import { createGaugeCollector } from '../metrics.ts';
import type { Tables } from '../tables.ts';

const FINISHED_STATUSES = ['completed', 'invalid', 'failed'] as const;
type FinishedStatus = (typeof FINISHED_STATUSES)[number];

/** Maximum number of finished payloads per status that one read counts, which takes about 50 ms. */
const MAX_COUNTED_PAYLOADS = 100_000;

/** Minimum pause between background counts. */
const COUNT_PAUSE_MS = 60_000;

export type ReadQueue = ReturnType<typeof createQueueStatistics>;

/**
 * Creates a reader of the queue statistics for `GET /admin/queue`. A status with more than 100,000 finished payloads is
 * counted in the background.
 * @param deps.onError Called when a background count fails. The previous count is kept.
 */
export function createQueueStatistics(deps: {
  db: Kysely<Tables>;
  onError: (error: unknown) => void;
  maxCounted?: number;
}) {
  const { db, onError, maxCounted = MAX_COUNTED_PAYLOADS } = deps;
  const lastCounts = new Map<FinishedStatus, { count: number; asOf: number }>();
  let nextCountAt = -Infinity;

  async function countInBackground(statuses: readonly FinishedStatus[]): Promise<void> {
    nextCountAt = Infinity;
    const asOf = performance.now();
    try {
      const { rows } = await sql<{ status: FinishedStatus; count: number }>`${sql.join(
        statuses.map(
          (status) => sql`select ${sql.lit(status)} as status, count(*) as count
            from raw_data where ${hasFinishedAs(status)}`,
        ),
        sql` union all `,
      )}`.execute(db);
      for (const { status, count } of rows) lastCounts.set(status, { count, asOf });
    } catch (error) {
      onError(error);
    }
    nextCountAt = performance.now() + COUNT_PAUSE_MS;
  }

  const getCount = (status: FinishedStatus) => lastCounts.get(status)?.count ?? null;

  return async () => {
    const asOf = performance.now();
    const [statistics] = (await selectStatistics(maxCounted).execute(db)).rows;
    if (statistics === undefined) throw new Error('The query for the queue returned no row');
    const largeStatuses = FINISHED_STATUSES.filter(
      (status) => statistics.finishedCounts[status] > maxCounted,
    );
    for (const status of FINISHED_STATUSES) {
      if (!largeStatuses.includes(status))
        lastCounts.set(status, { count: statistics.finishedCounts[status], asOf });
    }
    if (largeStatuses.length > 0 && asOf >= nextCountAt) void countInBackground(largeStatuses);
    const oldestCountAt = Math.min(
      ...FINISHED_STATUSES.map((status) => lastCounts.get(status)?.asOf ?? -Infinity),
    );
    return {
      counts: {
        pending: statistics.pending,
        processing: statistics.processing,
        completed: getCount('completed'),
        invalid: getCount('invalid'),
        failed: getCount('failed'),
      },
      ended_age_seconds: Number.isFinite(oldestCountAt)
        ? (performance.now() - oldestCountAt) / 1000
        : null,
      oldest_pending_seconds: statistics.oldestSeconds,
      finished_per_minute: statistics.recentCount / 5,
    };
  };
}

/** Returns a condition with literals instead of parameters, because only literals match the partial indexes. */
const hasFinishedAs = (status: FinishedStatus) =>
  sql`status in ('completed', 'invalid', 'failed') and status = ${sql.lit(status)}`;

const selectFinishedCount = (status: FinishedStatus, maxCounted: number) => sql`
  (select count(*) from (
    select from raw_data where ${hasFinishedAs(status)}
    order by updated_at, id limit ${maxCounted + 1}) as counted)`;

const selectRecentFinishedCount = (status: FinishedStatus) => sql`
  (select count(*) from raw_data
    where ${hasFinishedAs(status)} and updated_at > now() - interval '5 minutes')`;

const waitingSince = sql`coalesce(queued_at, created_at) as since`;

type StatisticsRow = {
  pending: number;
  processing: number;
  oldestSeconds: number | null;
  finishedCounts: Record<FinishedStatus, number>;
  /** Number of payloads that finished in the last five minutes. */
  recentCount: number;
};

/**
 * Returns one statement, because two statements could count a payload twice. It reads only partial indexes. The oldest
 * pending payload is the first payload of a source, or of a listing with a job in progress.
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
      select ${waitingSince} from raw_data
      where status = 'pending' and not waits and source_slug = source.source_slug
      order by id + 0 limit 1) as first
    union all
    select first.since from raw_data as current cross join lateral (
      select ${waitingSince} from raw_data
      where status = 'pending'
        and source_slug = current.source_slug and external_id = current.external_id
      order by id + 0 limit 1) as first
    where current.status = 'processing')
  select
    (select count(*) from raw_data where status = 'pending') as pending,
    (select count(*) from raw_data where status = 'processing') as processing,
    (select extract(epoch from now() - min(since))::double precision from oldest) as "oldestSeconds",
    jsonb_build_object(${sql.join(FINISHED_STATUSES.map((status) => sql`${sql.lit(status)}, ${selectFinishedCount(status, maxCounted)}`))})
      as "finishedCounts",
    ${sql.join(FINISHED_STATUSES.map(selectRecentFinishedCount), sql` + `)} as "recentCount"`;

/**
 * Registers the queue gauges. An unknown count has no gauge value. Contract 4, Metrics.
 * @param onError Called when the database does not respond. The other metrics are still served.
 */
export function registerQueueMetrics(
  registry: Registry,
  { readQueue, onError }: { readQueue: ReadQueue; onError: (error: unknown) => void },
): void {
  const collect = createGaugeCollector({
    read: readQueue,
    show({ counts, oldest_pending_seconds: seconds }) {
      for (const [status, count] of Object.entries(counts)) {
        if (count !== null) jobsGauge.set({ status }, count);
      }
      oldestGauge.set(seconds ?? 0);
    },
    forget() {
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
