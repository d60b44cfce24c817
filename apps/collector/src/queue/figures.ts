import { type Kysely, sql } from 'kysely';
import { Gauge, type Registry } from 'prom-client';
import { createMeasure } from '../metrics.ts';
import type { Tables } from '../tables.ts';

const ENDED = ['completed', 'invalid', 'failed'] as const;
type EndedStatus = (typeof ENDED)[number];

/** Maximum number of ended payloads per status that each read counts, which takes about 50 ms. */
const MAX_COUNTED = 100_000;

/** Minimum pause between counts in the background. */
const COUNT_PAUSE_MS = 60_000;

/** Reads the state of the queue. */
export type ReadQueue = ReturnType<typeof createQueueFigures>;

/**
 * Creates the function that reads the state of the queue, as `GET /admin/queue` documents it. It counts a status with
 * more than 100,000 ended payloads in the background.
 * @param deps.onError Called when a count in the background fails. The last count is kept.
 */
export function createQueueFigures(deps: {
  db: Kysely<Tables>;
  onError: (error: unknown) => void;
  maxCounted?: number;
}) {
  const { db, onError, maxCounted = MAX_COUNTED } = deps;
  const known = new Map<EndedStatus, { count: number; asOf: number }>();
  let countableAt = -Infinity;

  async function countAll(statuses: readonly EndedStatus[]): Promise<void> {
    countableAt = Infinity;
    const asOf = performance.now();
    try {
      const counts = statuses.map(
        (status) => sql<number>`
        (select count(*) from raw_data where ${endedAs(status)})`,
      );
      const { rows } = await sql<{ counts: number[] }>`
        select json_build_array(${sql.join(counts)}) as counts`.execute(db);
      for (const [nth, count] of rows[0]?.counts.entries() ?? []) {
        const status = statuses[nth];
        if (status !== undefined) known.set(status, { count, asOf });
      }
    } catch (error) {
      onError(error);
    }
    countableAt = performance.now() + COUNT_PAUSE_MS;
  }

  const countOf = (status: EndedStatus) => known.get(status)?.count ?? null;

  return async () => {
    const asOf = performance.now();
    const [row] = (await selectFigures(maxCounted).execute(db)).rows;
    if (row === undefined) throw new Error('The query for the queue returned no row');
    const large = ENDED.filter((status) => row.ended[status] > maxCounted);
    for (const status of ENDED) {
      if (!large.includes(status)) known.set(status, { count: row.ended[status], asOf });
    }
    if (large.length > 0 && asOf >= countableAt) void countAll(large);
    const oldest = Math.min(...ENDED.map((status) => known.get(status)?.asOf ?? -Infinity));
    return {
      counts: {
        pending: row.pending,
        processing: row.processing,
        completed: countOf('completed'),
        invalid: countOf('invalid'),
        failed: countOf('failed'),
      },
      ended_age_seconds: Number.isFinite(oldest) ? (performance.now() - oldest) / 1000 : null,
      oldest_pending_seconds: row.oldest,
      finished_per_minute: row.ended_lately / 5,
    };
  };
}

/** A condition with literals instead of parameters, so that the partial indexes match. */
const endedAs = (status: EndedStatus) =>
  sql`status in ('completed', 'invalid', 'failed') and status = ${sql.lit(status)}`;

const countEnded = (status: EndedStatus, maxCounted: number) => sql`
  (select count(*) from (
    select from raw_data where ${endedAs(status)}
    order by updated_at, id limit ${maxCounted + 1}) as counted)`;

const countEndedLately = (status: EndedStatus) => sql`
  (select count(*) from raw_data
    where ${endedAs(status)} and updated_at > now() - interval '5 minutes')`;

const since = sql`coalesce(queued_at, created_at) as since`;

type Figures = {
  pending: number;
  processing: number;
  oldest: number | null;
  ended: Record<EndedStatus, number>;
  ended_lately: number;
};

/**
 * Reads partial indexes only, in one statement, so that it counts each payload once. The oldest pending payload is the
 * first one of a source, or of a listing with a job in progress.
 */
const selectFigures = (maxCounted: number) => sql<Figures>`
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
      select ${since} from raw_data
      where status = 'pending' and not waits and source_slug = source.source_slug
      order by id + 0 limit 1) as first
    union all
    select first.since from raw_data as current cross join lateral (
      select ${since} from raw_data
      where status = 'pending'
        and source_slug = current.source_slug and external_id = current.external_id
      order by id + 0 limit 1) as first
    where current.status = 'processing')
  select
    (select count(*) from raw_data where status = 'pending') as pending,
    (select count(*) from raw_data where status = 'processing') as processing,
    (select extract(epoch from now() - min(since))::double precision from oldest) as oldest,
    jsonb_build_object(${sql.join(ENDED.map((status) => sql`${sql.lit(status)}, ${countEnded(status, maxCounted)}`))})
      as ended,
    ${sql.join(ENDED.map(countEndedLately), sql` + `)} as ended_lately`;

/**
 * Registers the gauges of the queue, without unknown counts. Contract 4, Metrics.
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
        if (count !== null) jobs.set({ status }, count);
      }
      oldest.set(seconds ?? 0);
    },
    forget() {
      jobs.reset();
      oldest.remove();
    },
    onError,
  });
  const oldest = new Gauge({
    name: 'collector_queue_oldest_pending_seconds',
    help: 'Age of the oldest pending payload, since it came or was put back; 0 while there is none.',
    registers: [registry],
    collect,
  });
  const jobs = new Gauge({
    name: 'collector_queue_jobs',
    help: 'Payloads by status; those that have ended, where more than 100000 have, as they were counted last.',
    labelNames: ['status'],
    registers: [registry],
    collect,
  });
}
