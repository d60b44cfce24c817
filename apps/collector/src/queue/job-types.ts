import type { RawError, StageRecord } from '../tables.ts';
import type { ModelCostCounter } from '../model.ts';

/** Identifies a claim of a raw record. Each write of the job requires this claim. Contract 4, Stages. */
export type Fence = { rawId: number; attempt: number };

/** Identifies a listing, whose payloads are processed one after another. */
export type ListingKey = { sourceSlug: string; externalId: string };

export type Job = Fence &
  ListingKey & {
    contentHash: string;
    /** ID of the request that delivered the payload. */
    requestId?: string | null | undefined;
  };

export type FinalJobOutcome = {
  status: 'completed' | 'invalid' | 'failed';
  error: RawError | null;
  stages: readonly StageRecord[];
  listingId: number | null;
};

/** Outcome of processing. `postponed` returns the job to the queue without using an attempt. */
export type JobOutcome =
  | FinalJobOutcome
  | { status: 'postponed'; error?: RawError | undefined; retryMs?: number | undefined };

/** @typeParam Input Additional input of the pipeline. Workers pass none. */
export type JobOptions<Input = never> = {
  /** Aborted when the claim is lost or the process ends. */
  signal: AbortSignal;
  /** Receives a record of each finished stage. */
  stages?: StageRecord[] | undefined;
  /** Counts the requests to the model. */
  cost?: ModelCostCounter | undefined;
  input?: Input | undefined;
};

/** Processes a job, but does not store its status. */
export type ProcessJob<Input = never> = (
  job: Job,
  options: JobOptions<Input>,
) => Promise<JobOutcome>;

/** Status at the end of a claim. `returned`: back in the queue. `lost`: another worker may own the job. */
export type JobOutcomeStatus = JobOutcome['status'] | 'returned' | 'lost';

/** Returns the fields of a job's log lines. */
export function getJobLogFields(job: Omit<Job, 'contentHash'>) {
  const { rawId, sourceSlug, attempt, requestId } = job;
  return {
    raw_id: rawId,
    source: sourceSlug,
    attempt,
    ...(requestId != null && { request_id: requestId }),
  };
}

/** Thrown if a newer payload has updated the listing. */
export class SupersededError extends Error {
  override readonly name = 'SupersededError';

  constructor({ rawId }: Fence) {
    super(`A payload newer than raw record ${rawId} has updated the listing`);
  }
}

/** Thrown if the claim is lost. The job must not write any more. */
export class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError';

  constructor({ rawId, attempt }: Fence) {
    super(`The claim of raw record ${rawId}, attempt ${attempt}, was lost`);
  }
}
