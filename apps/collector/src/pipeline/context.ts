import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import type { Embedded } from '../embeddings/batches.ts';
import type { Images, UploadedFile } from '../images/index.ts';
import type { Payload } from '../ingest/payload.ts';
import type { Job } from '../queue/index.ts';
import type { Extracted } from './extraction.ts';
import type { Facts, Made } from './merge.ts';
import type { JobModel } from './job-model.ts';
import type { Provenance } from '../listing/provenance.ts';

/** What stages work with. */
export type StageDeps = {
  db: Kysely<Tables>;
  model: JobModel;
  images: Pick<Images, 'processRemote' | 'processUploaded' | 'takeDue' | 'describeAll'>;
  log: Logger;
};

/** What stages hand on, each key by the stage in its comment. */
export type Products = {
  /** load */
  payload: Payload;
  /** load: whether pictures came along with the payload, with this attempt or an earlier one */
  hasUploads: boolean;
  /** load: what an earlier attempt has read out of the payload, by the same prompt and model */
  kept: Extracted;
  /** load: what an earlier attempt has made the payload's listing of */
  made: Made;
  /** validate, unless the listing stays as it was made */
  extracted: Extracted;
  /** normalize, or validate where the listing stays as it was made */
  facts: Facts;
  /** the same */
  provenance: Provenance;
  /** load or upsert */
  listingId: number;
  /** load: the payload says nothing new, but some of its pictures are not had yet */
  onlyPictures: true;
};

/** What a job may bring along, beside what is stored of it. */
export type JobInput = {
  /** Pictures that came with the payload, in place of the addresses that it names. */
  readonly uploads?: readonly UploadedFile[] | undefined;
  /**
   * Whether the job may go back to the queue where the model or the image store is away; it may, unless told. One
   * whose end somebody waits for fails instead.
   */
  readonly canWait?: boolean | undefined;
  /** Whether a payload that the listing was made from already is processed again. */
  readonly force?: boolean | undefined;
  /** What the model has read out of the payload before: it is not asked, and the pictures stay. */
  readonly extracted?: Extracted | undefined;
  /** The embedding of the text that the listing will have, where it was made before. */
  readonly embedded?: (Embedded & { hash: string }) | undefined;
  /** Told of what makes a stage fail, whatever becomes of the job. */
  readonly onFailure?: ((error: unknown) => void) | undefined;
  /** Whether nothing is done but to have the listing's outdated pictures described again. */
  readonly describesAgain?: boolean | undefined;
};

/** What all stages of one job share. */
export type Context = JobInput & {
  readonly job: Job;
  readonly products: Partial<Products>;
};

/** What an earlier stage made. */
export function product<Key extends keyof Products>(
  { products }: Context,
  key: Key,
): Products[Key] {
  const value = products[key];
  if (value === undefined) throw new Error(`No stage has made "${key}" yet`);
  return value;
}
