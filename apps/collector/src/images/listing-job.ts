import type { ModelCallEvent } from '@oselya/model';
import type { Fence } from '../queue/index.ts';

/** The work on one listing's pictures. */
export type ListingJob = {
  listingId: number;
  fence: Fence;
  signal: AbortSignal;
  /** Told of each request to the model. */
  observe?: (event: ModelCallEvent) => void;
};

/**
 * How many pictures of one listing are stored, or described, at once: those that are fetched, and those that
 * came along. Specification 001, Limits.
 */
export const AT_ONCE = { remote: 3, uploaded: 1 } as const;
