import { type Kysely, sql } from 'kysely';
import { Gauge, type Registry } from 'prom-client';
import { createMeasure } from '../metrics.ts';
import type { Tables } from '../tables.ts';

const ENDED = ['completed', 'invalid', 'failed'] as const;
type EndedStatus = (typeof ENDED)[number];

/** The state of the queue at one moment. */
export type QueueFigures = {
  /** Number of payloads by status. Null if there are more than 100,000 and this process has not counted them yet. */
  counts: { pending: number; processing: number } & Record<EndedStatus, number | null>;
  /** Age of the oldest count in seconds; null if a count is missing. */
  ended_age_seconds: number | null;
  /** Time since the oldest pending payload was queued; null if none is pending. */
  oldest_pending_seconds: number | null;
  /** Finished jobs per minute, averaged over five minutes. */
  finished_per_minute: number;
};

/** Reads the state of the queue. */
export type ReadQueue = () => Promise<QueueFigures>;

/** Maximum number of payloads that each read counts, which takes about 50 ms. */
const MAX_COUNTED = 100_000;

/** Minimum interval between background counts. */
const COUNT_AGAIN_MS = 60_000;

/**
 * Creates the figures of the queue. A status in which more than 100,000 payloads
 * have ended is counted in the background, once a minute at most.
 * @param deps.onError Called when a count in the background fails; the last one is kept.
 */
export function createQueueFigures(deps: {
  db: Kysely<Tables>;
  onError: (error: unknown) => void;
  maxCounted?: number;
}): { read: ReadQueue; close: () => Promise<void> } {
  const { db, onError, maxCounted = MAX_COUNTED } = deps;
  const known = new Map<EndedStatus, { count: number; asOf: number }>();
  let counting: Promise<void> | undefined;
  let notBefore = -Infinity;
  let closed = false;

  async function countAll(statuses: readonly EndedStatus[]): Promise<void> {
    try {
      for (const status of statuses) {
        const asOf = performance.now();
        const { rows } = await sql<{ n: number }>`
          select count(*) as n from raw_data where ${endedAs(status)}`.execute(db);
        known.set(status, { count: rows[0]?.n ?? 0, asOf });
        if (closed) return;
      }
    } catch (error) {
      if (!closed) onError(error);
    } finally {
      notBefore = performance.now() + COUNT_AGAIN_MS;
      counting = undefined;
    }
  }

  const countOf = (status: EndedStatus) => known.get(status)?.count ?? null;

  async function read(): Promise<QueueFigures> {
    const asOf = performance.now();
    const { rows } = await selectFigures(maxCounted).execute(db);
    const [row] = rows;
    if (row === undefined) throw new Error('A query of single values gave none');
    const many = ENDED.filter((status) => row.ended[status] > maxCounted);
    for (const status of ENDED) {
      if (!many.includes(status)) known.set(status, { count: row.ended[status], asOf });
    }
    if (many.length > 0 && performance.now() >= notBefore && !closed) counting ??= countAll(many);
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
  }

  return {
    read,
    async close() {
      closed = true;
      await counting;
    },
  };
}

/** Literals instead of parameters, so that the partial indexes match. */
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

/**
 * Reads partial indexes only, in one statement, so that a job that ends meanwhile is in one count. The oldest pending
 * payload is the first of a source, or the first of a listing behind one that is being processed.
 */
const selectFigures = (maxCounted: number) => sql<{
  pending: number;
  processing: number;
  oldest: number | null;
  ended: Record<EndedStatus, number>;
  ended_lately: number;
}>`
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
 * Registers the queue's gauges. They are read from the database, so every process shows the one queue; an unknown
 * count is left out. Contract 4, Metrics.
 * @param onError Called when the database does not answer; the other metrics are served all the same.
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
