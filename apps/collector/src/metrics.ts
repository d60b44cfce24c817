import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { settlesWithin } from './async/wait.ts';

/** Buckets in seconds, for quick queries and slow calls to a model. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];

/** Maximum number of sources with their own label, since clients may invent sources. */
const MAX_SOURCE_LABELS = 1000;

/** The collector's metrics. */
export type Metrics = ReturnType<typeof createMetrics>;

/** Creates and registers the collector's counters, histograms and worker gauges. Contract 4, Metrics. */
export function createMetrics(registry: Registry) {
  const registers = [registry];
  const counter = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Counter({ name, help, labelNames, registers });
  const histogram = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Histogram({ name, help, labelNames, buckets: SECONDS, registers });
  return {
    ingestRequests: createIngestRequests(registers),
    jobs: counter('collector_jobs_total', 'Claimed jobs, by how the claim ended.', 'outcome'),
    stageDuration: histogram(
      'collector_stage_duration_seconds',
      'Time that a stage of the pipeline took.',
      'stage',
      'outcome',
    ),
    modelRequests: counter(
      'collector_model_requests_total',
      'Requests to the model server, each attempt counted.',
      'operation',
      'outcome',
    ),
    modelRequestDuration: histogram(
      'collector_model_request_duration_seconds',
      'Time of one request to the model server.',
      'operation',
    ),
    modelTokens: counter(
      'collector_model_tokens_total',
      'Tokens that the model server counted, in ("input") and out ("output").',
      'operation',
      'direction',
    ),
    workerSlots: new Gauge({
      name: 'collector_worker_slots',
      help: 'Jobs that the worker of this process has in progress at most; 0 without a worker.',
      registers,
    }),
    workerJobs: new Gauge({
      name: 'collector_worker_jobs',
      help: 'Jobs that the worker of this process has in progress.',
      registers,
    }),
    workerLastClaim: new Gauge({
      name: 'collector_worker_last_claim_timestamp_seconds',
      help: 'When the worker of this process last took a job; 0 before the first.',
      registers,
    }),
    archiveChecks: counter(
      'collector_archive_checks_total',
      'Requested addresses of listings, by outcome.',
      'outcome',
    ),
    rawDeleted: counter('collector_raw_deleted_total', 'Old completed payloads that were removed.'),
    duplicateLooks: counter(
      'collector_duplicate_looks_total',
      'Searches for duplicates of a listing, by outcome; a failed one is repeated.',
      'outcome',
    ),
    images: counter('collector_images_total', 'Images of listings, by outcome.', 'outcome'),
    searchDuration: histogram('collector_search_duration_seconds', 'Time of one search.', 'kind'),
  };
}

function createIngestRequests(registers: Registry[]) {
  const counter = new Counter({
    name: 'collector_ingest_requests_total',
    help: `Requests with payloads, by outcome; rejected ones have the source "unknown", and those of a source of which this process has accepted nothing, or beyond the first ${MAX_SOURCE_LABELS}, have "other".`,
    labelNames: ['source', 'outcome'],
    registers,
  });
  // Each label creates a time series, which stays until the process ends.
  const sources = new Set<string>();
  const getSourceLabel = (source: string, outcome: string) => {
    if (outcome === 'accepted' && sources.size < MAX_SOURCE_LABELS) sources.add(source);
    return sources.has(source) ? source : 'other';
  };
  return {
    /** @param source Undefined unless the payload is valid. */
    inc({ source, outcome }: { source: string | undefined; outcome: string }): void {
      const label = source === undefined ? 'unknown' : getSourceLabel(source, outcome);
      counter.inc({ source: label, outcome });
    },
  };
}

/** Maximum time that a scrape waits for one measure. Prometheus gives up after 10 s. */
const WAIT_MS = 2000;

/** Time until an old value is removed, as in Prometheus. */
const STALE_MS = 300_000;

/**
 * Creates the `collect` of gauges whose value comes from a database or disk that may hang. A scrape waits at most 2 s.
 * A later value appears in the next scrape; until then the old value stays for at most five minutes.
 * @param options.show Sets the gauges.
 * @param options.forget Removes the values of the gauges.
 * @param options.onError Called when `read` fails.
 * @param options.clock A monotonic clock in milliseconds.
 */
export function createMeasure<Value>(options: {
  read: () => Promise<Value>;
  show: (value: Value) => void;
  forget: () => void;
  onError: (error: unknown) => void;
  clock?: () => number;
}): () => Promise<void> {
  const { read, show, forget, onError, clock = () => performance.now() } = options;
  let reading: Promise<void> | undefined;
  let shownAt: number | undefined;

  async function readAndShow(): Promise<void> {
    try {
      show(await read());
      shownAt = clock();
    } catch (error) {
      onError(error);
    } finally {
      reading = undefined;
    }
  }

  return async () => {
    reading ??= readAndShow();
    await settlesWithin(reading, WAIT_MS);
    if (shownAt === undefined || clock() - shownAt > STALE_MS) forget();
  };
}
