import type { RawError, StageRecord } from '../tables.ts';

/**
 * A claim of a raw record: which one, and the attempt that this claim is. Every write for the job names
 * both, so that a worker which lost its lease changes nothing. Contract 4, Stages.
 */
export type Fence = { rawId: number; attempt: number };

/** A claimed job. */
export type Job = Fence & {
  sourceSlug: string;
  externalId: string;
  contentHash: string;
  /** The request that brought the payload, for the log. */
  requestId?: string | null | undefined;
};

/** How a job ended. */
export type JobResult = {
  status: 'completed' | 'invalid' | 'failed';
  error: RawError | null;
  stages: readonly StageRecord[];
  listingId: number | null;
};

/** What every line of a job carries: it leads to the request that brought the payload, and to its record. */
export function logFieldsOf({
  rawId,
  sourceSlug,
  attempt,
  requestId,
}: Pick<Job, 'rawId' | 'sourceSlug' | 'attempt' | 'requestId'>) {
  const request = requestId == null ? {} : { request_id: requestId };
  return { raw_id: rawId, source: sourceSlug, attempt, ...request };
}

/** What tells a listing from all others; its payloads are processed one after another. */
export type ListingKey = Pick<Job, 'sourceSlug' | 'externalId'>;

/** The listing was made from a newer payload meanwhile: the job has nothing more to add to it. */
export class SupersededError extends Error {
  override readonly name = 'SupersededError';

  constructor({ rawId }: Fence) {
    super(`The listing of raw record ${rawId} was made from a newer payload meanwhile`);
  }
}

/** The claim is no longer this worker's: whatever the job still wanted to write must not be written. */
export class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError';

  constructor({ rawId, attempt }: Fence) {
    super(`The claim of raw record ${rawId}, attempt ${attempt}, was lost`);
  }
}

/** The job went back to the queue while it was in progress: its worker ends. */
export class ReturnedError extends Error {
  override readonly name = 'ReturnedError';

  constructor({ rawId, attempt }: Fence) {
    super(
      `Raw record ${rawId}, attempt ${attempt}, went back to the queue: the worker is shutting down`,
    );
  }
}
