import type { RawError, StageRecord } from '../tables.ts';
import type { ModelUsageCounter } from '../model.ts';

/** Identity of a claim on a raw record. Writes to the raw record and its listing require it. Contract 4, Stages. */
export type FencingToken = { rawId: number; attempt: number };

/** Worker of a claim, and duration of its lease. */
export type ClaimTerms = { worker: string; leaseMs: number };

/** Key of a listing. Workers process its payloads one after another. */
export type ListingKey = { sourceSlug: string; externalId: string };

/** Claimed payload. */
export type Job = FencingToken &
  ListingKey & {
    contentHash: string;
    /** ID of the request that delivered the payload. */
    requestId?: string | null | undefined;
  };

/** Outcome of processing. `returned` requeues the job without using an attempt, but fails a job with uploads. */
export type JobOutcome = {
  status: 'completed' | 'invalid' | 'failed' | 'returned';
  error?: RawError | undefined;
  listingId?: number | undefined;
  /** Minimum delay before the next claim of a returned job, in milliseconds. */
  retryDelayMs?: number | undefined;
};

/** Status at the end of a claim. `lost`: the claim was lost, or the outcome could not be stored. */
export type ClaimResult = JobOutcome['status'] | 'lost';

/** Resources of a running job. */
export type JobRun = {
  /** Aborted when the claim is lost or the process ends. */
  signal: AbortSignal;
  /** Receives a record of each finished stage. */
  stages: StageRecord[];
  /** Counts the requests to the model. */
  usage: ModelUsageCounter;
};

/** Processes a job, but does not store its status. */
export type JobHandler = (run: JobRun) => Promise<JobOutcome>;

/** Returns the fields of a job's log lines. */
export function getJobLogFields({ rawId, sourceSlug, attempt, requestId }: Job) {
  return {
    raw_id: rawId,
    source: sourceSlug,
    attempt,
    ...(requestId != null && { request_id: requestId }),
  };
}
