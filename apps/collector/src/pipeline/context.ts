import type { Logger } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import type { TextEmbedding } from '../embeddings/batches.ts';
import type { ImageService } from '../images/image-service.ts';
import type { UploadedFile } from '../images/temporary.ts';
import type { Corrections } from '../listing/corrections.ts';
import type { Provenance } from '../listing/provenance.ts';
import type { ModelUsageCounter } from '../model.ts';
import type { PlaceColumns } from '../places/listing-place.ts';
import type { Payload } from '../ingest/payload.ts';
import type { Job, JobOutcome } from '../queue/job-types.ts';
import type { StageOutcome } from '../schemas.ts';
import type { ExtractionRecord } from './extraction.ts';
import type { Facts } from './merge.ts';

/** Model client of one job. It adds the usage of each request to that of the job. */
export type JobModel = Pick<ModelClient, 'generateObject' | 'chatModel' | 'embeddingModel'> & {
  /** Embeds text. One request may embed the texts of several jobs. */
  embed(text: string, signal: AbortSignal): Promise<TextEmbedding>;
  observe: ModelUsageCounter['observe'];
};

export type StageDeps = {
  db: Kysely<Tables>;
  model: JobModel;
  images: Pick<ImageService, 'processRemote' | 'processUploaded' | 'describeAll'>;
  log: Logger;
};

/** Outputs of the stages. */
type StageOutputs = {
  /** Set by `load`. */
  payload: Payload;
  /** Set by `load`: whether the payload came with uploaded images. */
  hasUploads: boolean;
  /** Set by `load`: the extraction of an earlier attempt with the same prompt and model. */
  savedExtraction: ExtractionRecord;
  /** Set by `validate`. */
  extractionRecord: ExtractionRecord;
  /** Set by `normalize`. */
  facts: Facts;
  /** Set by `load`, and by `upsert` after a change: the stored corrections of the listing. */
  storedCorrections: Corrections;
  /** Set by `normalize`: the corrections with the values that they replace now. */
  corrections: Corrections;
  /** Set by `normalize`. */
  provenance: Provenance;
  /** Set by `normalize`. */
  place: PlaceColumns;
  /** Set by `load` or `upsert`. */
  listingId: number;
  /** Set by `load` if only images need processing: some are missing or undescribed, or they are described again. */
  isImagesOnly: true;
};

export type JobInput = {
  /** Uploaded images, which replace the image URLs of the payload. */
  readonly uploads?: readonly UploadedFile[] | undefined;
  /** Whether an outage of the model or the image store requeues the job instead of failing it. True by default. */
  readonly canWait?: boolean | undefined;
  /**
   * Extraction to use instead of a call to the model, even if the listing already reflects the payload. The listing
   * keeps its images.
   */
  readonly extractionRecord?: ExtractionRecord | undefined;
  /**
   * Called with the error of each failed stage, even if the job is postponed. Not called for aborts, lost claims and
   * database outages.
   */
  readonly onFailure?: ((error: unknown) => void) | undefined;
  /** Whether the job only describes outdated images again. */
  readonly shouldDescribeAgain?: boolean | undefined;
};

/** Inputs of a job, and the outputs of its stages. */
export type JobContext = JobInput & {
  readonly job: Job;
  readonly outputs: Partial<StageOutputs>;
};

/** Returns the output of an earlier stage. Throws an Error if no stage has produced it. */
export function requireOutput<Key extends keyof StageOutputs>(
  { outputs }: JobContext,
  key: Key,
): StageOutputs[Key] {
  const value = outputs[key];
  if (value === undefined) throw new Error(`No stage has produced "${key}" yet`);
  return value;
}

/** Names of the stages. Contract 4, Stages. */
export type StageName =
  | 'load'
  | 'validate'
  | 'normalize'
  | 'upsert'
  | 'snapshot'
  | 'images'
  | 'enrich'
  | 'embed';

/** Outcome of a stage, and of the job if the stage ends the job. */
export type StageResult = { outcome: StageOutcome; jobOutcome?: JobOutcome };

/**
 * Runs a stage. Stages are idempotent. Each write, except that of a new image, requires that the job still holds its
 * claim.
 * @throws LeaseLostError, ModelError, StoreOutageError, ProblemError `disk_low`, `signal.reason`; database errors.
 */
export type StageRun = (
  context: JobContext,
  deps: StageDeps,
  signal: AbortSignal,
) => Promise<StageResult>;

/** Stage with the timeout of one attempt and the maximum number of attempts. */
export type Stage = { name: StageName; run: StageRun; timeoutMs: number; attempts: number };
