import type { RawError, StageRecord } from '../tables.ts';
import type { ModelCostCounter } from '../model.ts';

/** A claim of a raw record. Every write of the job is conditional on both. Contract 4, Stages. */
export type Fence = { rawId: number; attempt: number };

/** Identifies a listing; its payloads are processed one after another. */
export type ListingKey = { sourceSlug: string; externalId: string };

/** A claimed job. */
export type Job = Fence &
  ListingKey & {
    contentHash: string;
    /** The request that brought the payload, for the log. */
    requestId?: string | null | undefined;
  };

/** How a job ended. */
export type FinalJobOutcome = {
  status: 'completed' | 'invalid' | 'failed';
  error: RawError | null;
  stages: readonly StageRecord[];
  listingId: number | null;
};

/** The result of a job; `postponed` returns it to the queue at no cost, for `error`, to be claimed after `retryMs`. */
export type JobOutcome =
  | FinalJobOutcome
  | { status: 'postponed'; error?: RawError | undefined; retryMs?: number | undefined };

/** @typeParam Input Passed on to the pipeline; a worker passes none. */
export type JobOptions<Input = never> = {
  /** Aborted when the claim is lost or the worker ends. */
  signal: AbortSignal;
  /** Receives the stages as they end. */
  stages?: StageRecord[] | undefined;
  /** Counts the requests to the model. */
  cost?: ModelCostCounter | undefined;
  input?: Input | undefined;
};

/** Does the work of a job. It does not write the job's status. */
export type ProcessJob<Input = never> = (
  job: Job,
  options: JobOptions<Input>,
) => Promise<JobOutcome>;

/** How a claim ended; a `returned` job went back to the queue, and of a `lost` one nothing was written here. */
export type JobOutcomeStatus = JobOutcome['status'] | 'returned' | 'lost';

/** Returns the fields that every log line of a job carries. */
export function getJobLogFields({
  rawId,
  sourceSlug,
  attempt,
  requestId,
}: Pick<Job, 'rawId' | 'sourceSlug' | 'attempt' | 'requestId'>) {
  const request = requestId == null ? {} : { request_id: requestId };
  return { raw_id: rawId, source: sourceSlug, attempt, ...request };
}

/** A newer payload of the listing was processed meanwhile. */
export class SupersededError extends Error {
  override readonly name = 'SupersededError';

  constructor({ rawId }: Fence) {
    super(`A newer payload than raw record ${rawId} made the listing`);
  }
}

/** The claim is lost: nothing of the job may be written any more. */
export class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError';

  constructor({ rawId, attempt }: Fence) {
    super(`The claim of raw record ${rawId}, attempt ${attempt}, was lost`);
  }
}
