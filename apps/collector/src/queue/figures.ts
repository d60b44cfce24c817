import { type Kysely, sql } from 'kysely';
import { Gauge, type Registry } from 'prom-client';
import { createMeasure } from '../metrics.ts';
import type { Tables } from '../tables.ts';

const ENDED_STATUSES = ['completed', 'invalid', 'failed'] as const;
type EndedStatus = (typeof ENDED_STATUSES)[number];

/** Maximum number of ended payloads per status that each read counts, which takes about 50 ms. */
const MAX_COUNTED_PAYLOADS = 100_000;

/** Minimum pause between counts in the background. */
const COUNT_PAUSE_MS = 60_000;

export type ReadQueue = ReturnType<typeof createQueueFigures>;

/**
 * Creates a reader of the queue state for `GET /admin/queue`. It counts a status with more than 100,000 ended payloads
 * in the background.
 * @param deps.onError Called when a count in the background fails. The last count remains.
 */
export function createQueueFigures(deps: {
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
      const countQueries = statuses.map(
        (status) => sql<number>`
        (select count(*) from raw_data where ${hasEndedAs(status)})`,
      );
      const { rows } = await sql<{ counts: number[] }>`
        select json_build_array(${sql.join(countQueries)}) as counts`.execute(db);
      for (const [index, count] of rows[0]?.counts.entries() ?? []) {
        const status = statuses[index];
        if (status !== undefined) lastCounts.set(status, { count, asOf });
      }
    } catch (error) {
      onError(error);
    }
    nextCountAt = performance.now() + COUNT_PAUSE_MS;
  }

  const getCount = (status: EndedStatus) => lastCounts.get(status)?.count ?? null;

  return async () => {
    const asOf = performance.now();
    const [figures] = (await selectFigures(maxCounted).execute(db)).rows;
    if (figures === undefined) throw new Error('The query for the queue returned no row');
    const largeStatuses = ENDED_STATUSES.filter((status) => figures.ended[status] > maxCounted);
    for (const status of ENDED_STATUSES) {
      if (!largeStatuses.includes(status))
        lastCounts.set(status, { count: figures.ended[status], asOf });
    }
    if (largeStatuses.length > 0 && asOf >= nextCountAt) void countInBackground(largeStatuses);
    const oldestCountAt = Math.min(
      ...ENDED_STATUSES.map((status) => lastCounts.get(status)?.asOf ?? -Infinity),
    );
    return {
      counts: {
        pending: figures.pending,
        processing: figures.processing,
        completed: getCount('completed'),
        invalid: getCount('invalid'),
        failed: getCount('failed'),
      },
      ended_age_seconds: Number.isFinite(oldestCountAt)
        ? (performance.now() - oldestCountAt) / 1000
        : null,
      oldest_pending_seconds: figures.oldest,
      finished_per_minute: figures.ended_lately / 5,
    };
  };
}

/** Uses literals instead of parameters, because only literals match the partial indexes. */
const hasEndedAs = (status: EndedStatus) =>
  sql`status in ('completed', 'invalid', 'failed') and status = ${sql.lit(status)}`;

const selectEndedCount = (status: EndedStatus, maxCounted: number) => sql`
  (select count(*) from (
    select from raw_data where ${hasEndedAs(status)}
    order by updated_at, id limit ${maxCounted + 1}) as counted)`;

const selectRecentEndedCount = (status: EndedStatus) => sql`
  (select count(*) from raw_data
    where ${hasEndedAs(status)} and updated_at > now() - interval '5 minutes')`;

const waitingSince = sql`coalesce(queued_at, created_at) as since`;

type FigureRow = {
  pending: number;
  processing: number;
  oldest: number | null;
  ended: Record<EndedStatus, number>;
  ended_lately: number;
};

/**
 * Reads only partial indexes, in one statement, because two statements could count a payload twice. The oldest pending
 * payload is the first payload of a source, or of a listing with a job in progress.
 */
const selectFigures = (maxCounted: number) => sql<FigureRow>`
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
    (select extract(epoch from now() - min(since))::double precision from oldest) as oldest,
    jsonb_build_object(${sql.join(ENDED_STATUSES.map((status) => sql`${sql.lit(status)}, ${selectEndedCount(status, maxCounted)}`))})
      as ended,
    ${sql.join(ENDED_STATUSES.map(selectRecentEndedCount), sql` + `)} as ended_lately`;

/**
 * Registers the queue gauges, without unknown counts. Contract 4, Metrics.
 * @param onError Called when the database does not answer. The other metrics are still served.
 */
export function registerQueueMetrics(
  registry: Registry,
  { readQueue, onError }: { readQueue: ReadQueue; onError: (error: unknown) => void },
): void {
  const collect = createMeasure({
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
    help: 'Age of the oldest pending payload, since it came or was put back; 0 while there is none.',
    registers: [registry],
    collect,
  });
  const jobsGauge = new Gauge({
    name: 'collector_queue_jobs',
    help: 'Payloads by status; those that have ended, where more than 100000 have, as they were counted last.',
    labelNames: ['status'],
    registers: [registry],
    collect,
  });
}
