import type { Logger } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import type { Kysely } from 'kysely';
import type { RawError, Tables } from '../tables.ts';
import type { TextEmbedding } from '../embeddings/batches.ts';
import type { ImageService } from '../images/image-service.ts';
import type { UploadedFile } from '../images/temporary.ts';
import type { Provenance } from '../listing/provenance.ts';
import type { ModelCostCounter } from '../model.ts';
import type { Payload } from '../ingest/payload.ts';
import type { Job } from '../queue/job-types.ts';
import type { StageOutcome } from '../schemas.ts';
import type { ExtractionRecord } from './extraction.ts';
import type { Facts } from './merge.ts';

/** The model as one job uses it: what each request costs is summed for the job. */
export type JobModel = Pick<ModelClient, 'generateObject' | 'chatModel' | 'embeddingModel'> & {
  /** Embeds a text, perhaps in one request with those of other jobs. */
  embed(text: string, signal: AbortSignal): Promise<TextEmbedding>;
  observe: ModelCostCounter['observe'];
};

/** The dependencies of stages. */
export type StageDeps = {
  db: Kysely<Tables>;
  model: JobModel;
  images: Pick<ImageService, 'processRemote' | 'processUploaded' | 'describeAll'>;
  log: Logger;
};

/** What stages hand on; each key names the stage that makes it. */
export type StageOutputs = {
  /** load */
  payload: Payload;
  /** load: whether images came along with the payload, with this attempt or an earlier one */
  hasUploads: boolean;
  /** load: what an earlier attempt has read out of the payload, by the same prompt and model */
  savedExtraction: ExtractionRecord;
  /** validate */
  extracted: ExtractionRecord;
  /** normalize */
  facts: Facts;
  /** normalize */
  provenance: Provenance;
  /** load or upsert */
  listingId: number;
  /** load: the payload says nothing new, but some of its images are missing */
  onlyImages: true;
};

/** The input of a job beside its record. */
export type JobInput = {
  /** Images that came with the payload, in place of the addresses that it names. */
  readonly uploads?: readonly UploadedFile[] | undefined;
  /** Whether the job may go back to the queue in an outage; true by default. Otherwise it fails. */
  readonly canWait?: boolean | undefined;
  /** Whether a payload is processed again that the listing was made from already. */
  readonly force?: boolean | undefined;
  /** An earlier reading of the payload: the model is not asked, and the images stay. */
  readonly extracted?: ExtractionRecord | undefined;
  /** Called with the error of a stage that fails, whatever becomes of the job. */
  readonly onFailure?: ((error: unknown) => void) | undefined;
  /** Whether only the listing's outdated images are described again. */
  readonly describesAgain?: boolean | undefined;
};

/** The state that all stages of a job share. */
export type Context = JobInput & {
  readonly job: Job;
  readonly outputs: Partial<StageOutputs>;
};

/** Returns the requireOutput of an earlier stage. */
export function requireOutput<Key extends keyof StageOutputs>(
  { outputs }: Context,
  key: Key,
): StageOutputs[Key] {
  const value = outputs[key];
  if (value === undefined) throw new Error(`No stage has made "${key}" yet`);
  return value;
}

/** The stages, in their order. Contract 4, Stages. */
export type StageName =
  | 'load'
  | 'validate'
  | 'normalize'
  | 'upsert'
  | 'snapshot'
  | 'images'
  | 'enrich'
  | 'embed';

/** How a job ends. `postponed` returns it to the queue, to be claimed after `retryMs`. */
export type PipelineOutcome =
  | { status: 'completed'; error: null }
  | { status: 'invalid' | 'failed'; error: RawError }
  | { status: 'postponed'; error?: RawError; retryMs: number };

/** How a stage ended, and the job's jobOutcome where it ends the job. */
export type StageResult = { outcome: StageOutcome; jobOutcome?: PipelineOutcome };

/**
 * A stage. It may run twice for one job without harm, and all that it writes is conditional on the job's claim.
 * @throws LeaseLostError, ModelError, StoreOutageError.
 */
export type StageRun = (
  context: Context,
  deps: StageDeps,
  signal: AbortSignal,
) => Promise<StageResult>;

/** A stage, the time of one try in milliseconds, and how often it is tried. */
export type Stage = { name: StageName; run: StageRun; timeoutMs: number; attempts: number };
