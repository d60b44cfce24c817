import type { Payload } from '../payload/schema.ts';
import type { SharedFact } from '../listings/facts.ts';
import type { Origins, Provenance } from '../listings/provenance.ts';

/**
 * What is known about a listing beside what only its source may say; a fact that nobody named is
 * missing.
 */
export type Facts = Partial<Pick<Payload, SharedFact>> & {
  summary?: string;
  language?: string;
  features: string[];
};

/** Facts that a payload has made a listing of, and how they came about. */
export type Made = {
  facts: Facts;
  provenance: Provenance;
  /** Whether that was since the payload came to the queue last: one that is put back is read anew. */
  sinceQueued: boolean;
};

/** Facts, and where each comes from. */
export type Merged = { facts: Facts; origins: Origins };
