import type { Logger } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import type { Kysely } from 'kysely';
import type { Tables } from '../database.ts';
import type { Images } from '../images/index.ts';
import type { Payload } from '../ingest/schemas.ts';
import type { Job } from '../queue/job.ts';
import type { Extraction } from './extraction.ts';
import type { Facts, Provenance } from './merge.ts';
import type { StageResult } from './outcome.ts';

/** What stages work with. */
export type PipelineDeps = {
  db: Kysely<Tables>;
  model: Pick<ModelClient, 'generateObject' | 'embed' | 'embeddingModel'>;
  images: Pick<Images, 'processRemote'>;
  log: Logger;
};

/** What stages hand on, each key by the stage in its comment. */
export type Products = {
  /** load */
  payload: Payload;
  /** validate */
  extraction: Extraction;
  /** validate: the name of the model that answered. */
  extractedBy: string;
  /** normalize */
  facts: Facts;
  /** normalize */
  provenance: Provenance;
  /** load or upsert */
  listingId: number;
};

/** What all stages of one job share. */
export type Context = {
  readonly job: Job;
  readonly products: Partial<Products>;
};

/**
 * One stage. It may run twice for the same job without harm, and everything that it writes is
 * conditional on the job's claim.
 * @throws LeaseLostError where the claim is lost, ModelError where the model fails.
 */
export type StageRun = (
  context: Context,
  deps: PipelineDeps,
  signal: AbortSignal,
) => Promise<StageResult>;

export type StageName =
  | 'load'
  | 'validate'
  | 'normalize'
  | 'upsert'
  | 'snapshot'
  | 'images'
  | 'enrich'
  | 'embed';

export type Stage = { name: StageName; run: StageRun; timeoutMs: number; attempts: number };

/** What an earlier stage made. */
export function product<Key extends keyof Products>(
  { products }: Context,
  key: Key,
): Products[Key] {
  const value = products[key];
  if (value === undefined) throw new Error(`No stage has made "${key}" yet`);
  return value;
}
