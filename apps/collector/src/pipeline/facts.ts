import type { Payload } from '../payload/schema.ts';
import type { SharedFact } from '../listings/facts.ts';
import type { Origins } from '../listings/provenance.ts';

/**
 * What is known about a listing beside what only its source may say; a fact that nobody named is
 * missing.
 */
export type Facts = Partial<Pick<Payload, SharedFact>> & {
  summary?: string;
  language?: string;
  features: string[];
};

/** Facts, and where each comes from. */
export type Merged = { facts: Facts; origins: Origins };
