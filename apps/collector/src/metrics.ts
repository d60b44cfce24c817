import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { waitWithTimeout } from './async/wait.ts';

/** Histogram buckets in seconds, for quick queries and slow calls to a model. */
const BUCKETS_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];

/** Maximum number of sources with a separate label, because clients may invent sources. */
const MAX_SOURCE_LABELS = 1000;

export type Metrics = ReturnType<typeof createMetrics>;

/** Creates and registers the collector's counters, histograms and worker gauges. Contract 4, Metrics. */
export function createMetrics(registry: Registry) {
  const registers = [registry];
  const createCounter = <Label extends string>(
    name: string,
    help: string,
    ...labelNames: Label[]
  ) => new Counter({ name, help, labelNames, registers });
  const createHistogram = <Label extends string>(
    name: string,
    help: string,
    ...labelNames: Label[]
  ) => new Histogram({ name, help, labelNames, buckets: BUCKETS_SECONDS, registers });
  return {
    ingestRequests: createIngestRequestCounter(registers),
    jobs: createCounter(
      'collector_jobs_total',
      'Claimed jobs, by outcome of the claim.',
      'outcome',
    ),
    stageDuration: createHistogram(
      'collector_stage_duration_seconds',
      'Duration of a stage of the pipeline.',
      'stage',
      'outcome',
    ),
    modelRequests: createCounter(
      'collector_model_requests_total',
      'Requests to the model server, including retries.',
      'operation',
      'outcome',
    ),
    modelRequestDuration: createHistogram(
      'collector_model_request_duration_seconds',
      'Duration of one request to the model server.',
      'operation',
    ),
    modelTokens: createCounter(
      'collector_model_tokens_total',
      'Tokens that the model server counted, by direction: "input" or "output".',
      'operation',
      'direction',
    ),
    workerSlots: new Gauge({
      name: 'collector_worker_slots',
      help: 'Maximum number of jobs in progress in the worker of this process; 0 without a worker.',
      registers,
    }),
    workerJobs: new Gauge({
      name: 'collector_worker_jobs',
      help: 'Number of jobs in progress in the worker of this process.',
      registers,
    }),
    workerLastClaim: new Gauge({
      name: 'collector_worker_last_claim_timestamp_seconds',
      help: 'Time at which the worker of this process last claimed a job; 0 before the first claim.',
      registers,
    }),
    archiveChecks: createCounter(
      'collector_archive_checks_total',
      'Requested URLs of listings, by outcome.',
      'outcome',
    ),
    rawDeleted: createCounter(
      'collector_raw_deleted_total',
      'Old completed payloads that were removed.',
    ),
    duplicateLooks: createCounter(
      'collector_duplicate_looks_total',
      'Searches for duplicates of a listing, by outcome; a failed search is repeated.',
      'outcome',
    ),
    images: createCounter('collector_images_total', 'Images of listings, by outcome.', 'outcome'),
    searchDuration: createHistogram(
      'collector_search_duration_seconds',
      'Duration of one search.',
      'kind',
    ),
  };
}

function createIngestRequestCounter(registers: Registry[]) {
  const counter = new Counter({
    name: 'collector_ingest_requests_total',
    help: `Requests with payloads, by outcome. Requests with an invalid payload have the source "unknown". Sources without an accepted payload in this process, and sources beyond the first ${MAX_SOURCE_LABELS}, have "other".`,
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
    /** Counts a request. `source` is undefined if the payload was rejected or not read. */
    inc({ source, outcome }: { source: string | undefined; outcome: string }): void {
      const label = source === undefined ? 'unknown' : getSourceLabel(source, outcome);
      counter.inc({ source: label, outcome });
    },
  };
}

/** Maximum time that a scrape waits for one measurement. Prometheus gives up after 10 s by default. */
const MAX_WAIT_MS = 2000;

/** Maximum age of a value. Prometheus also drops values after five minutes by default. */
const MAX_AGE_MS = 300_000;

/**
 * Creates the `collect` function of gauges whose values come from a database or disk that may hang. A scrape waits at
 * most 2 s. A later value appears in the next scrape. Until then, the old value stays for at most five minutes.
 * @param options.update Sets the gauges.
 * @param options.reset Removes the values of the gauges.
 * @param options.onError Called when `read` or `update` fails.
 * @param options.clock A monotonic clock in milliseconds.
 */
export function createGaugeCollector<Value>(options: {
  read: () => Promise<Value>;
  update: (value: Value) => void;
  reset: () => void;
  onError: (error: unknown) => void;
  clock?: () => number;
}): () => Promise<void> {
  const { read, update, reset, onError, clock = () => performance.now() } = options;
  let currentRead: Promise<void> | undefined;
  let updatedAt: number | undefined;

  async function readAndUpdate(): Promise<void> {
    try {
      update(await read());
      updatedAt = clock();
    } catch (error) {
      onError(error);
    } finally {
      currentRead = undefined;
    }
  }

  return async () => {
    currentRead ??= readAndUpdate();
    await waitWithTimeout(currentRead, MAX_WAIT_MS);
    if (updatedAt === undefined || clock() - updatedAt > MAX_AGE_MS) reset();
  };
}
