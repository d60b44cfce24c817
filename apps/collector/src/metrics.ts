import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { boundedNames } from './bounded-names.ts';

/** Queries are quick, calls to a model are not: one scale for both, in seconds. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];

/** Past so many sources a process counts further ones together, as `other`: senders may make them up. */
const MAX_SOURCE_LABELS = 1000;

/** What the collector counts and measures; parts of it take the ones that they tell of. */
export type Metrics = ReturnType<typeof createMetrics>;

/**
 * The collector's metrics, registered. Those of the queue, the model's breaker, the disk and the duplicates are
 * each beside what they measure. Contract 4, Metrics.
 */
export function createMetrics(registry: Registry) {
  const registers = [registry];
  return {
    ingestRequests: createIngestRequests(registers),
    jobs: new Counter({
      name: 'collector_jobs_total',
      help: 'Claimed jobs, by how the claim ended.',
      labelNames: ['outcome'],
      registers,
    }),
    stageDuration: new Histogram({
      name: 'collector_stage_duration_seconds',
      help: 'Time that a stage of the pipeline took.',
      labelNames: ['stage', 'outcome'],
      buckets: SECONDS,
      registers,
    }),
    modelRequests: new Counter({
      name: 'collector_model_requests_total',
      help: 'Requests to the model server, each attempt counted.',
      labelNames: ['operation', 'outcome'],
      registers,
    }),
    modelRequestDuration: new Histogram({
      name: 'collector_model_request_duration_seconds',
      help: 'Time of one request to the model server.',
      labelNames: ['operation'],
      buckets: SECONDS,
      registers,
    }),
    modelTokens: new Counter({
      name: 'collector_model_tokens_total',
      help: 'Tokens that the model server counted, in ("input") and out ("output").',
      labelNames: ['operation', 'direction'],
      registers,
    }),
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
    archiveChecks: new Counter({
      name: 'collector_archive_checks_total',
      help: 'Addresses of listings that were asked, by what came of it.',
      labelNames: ['outcome'],
      registers,
    }),
    rawDeleted: new Counter({
      name: 'collector_raw_deleted_total',
      help: 'Old completed payloads that were removed.',
      registers,
    }),
    duplicateLooks: new Counter({
      name: 'collector_duplicate_looks_total',
      help: 'Looks for duplicates of a listing, by what came of it; one that failed is made again.',
      labelNames: ['outcome'],
      registers,
    }),
    images: new Counter({
      name: 'collector_images_total',
      help: 'Pictures of listings, by what became of them.',
      labelNames: ['outcome'],
      registers,
    }),
    searchDuration: new Histogram({
      name: 'collector_search_duration_seconds',
      help: 'Time of one search.',
      labelNames: ['kind'],
      buckets: SECONDS,
      registers,
    }),
  };
}

function createIngestRequests(registers: Registry[]) {
  const counter = new Counter({
    name: 'collector_ingest_requests_total',
    help: `Payloads sent, by what became of the request; refused ones have the source "unknown", and those of a source of which this process has accepted nothing, or beyond the first ${MAX_SOURCE_LABELS}, have "other".`,
    labelNames: ['source', 'outcome'],
    registers,
  });
  const sources = boundedNames(MAX_SOURCE_LABELS);
  const labelOf = (source: string, outcome: string) =>
    outcome === 'accepted' ? sources.take(source) : sources.find(source);
  return {
    /** @param source Undefined where none was found valid. */
    inc({ source, outcome }: { source: string | undefined; outcome: string }): void {
      const label = source === undefined ? 'unknown' : labelOf(source, outcome);
      counter.inc({ source: label, outcome });
    },
  };
}
