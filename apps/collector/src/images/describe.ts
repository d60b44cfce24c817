import type { Logger } from '@oselya/kit';
import {
  imageDescription,
  type ModelCallEvent,
  type ModelClient,
  ModelError,
  type ModelErrorCode,
} from '@oselya/model';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { mapParallel } from '../async/concurrency.ts';
import type { DescribeError, Tables } from '../tables.ts';
import { createOutageCounter, readPrompt } from '../model.ts';
import { writeWithClaim } from '../queue/fence.ts';
import type { FencingToken } from '../queue/job-types.ts';
import { cleanText, truncateText, toStorableMessage } from '../text.ts';
import { CONTROL_SIZE, getControlImage, ImageError } from './decode.ts';
import { THUMBNAIL_SIDES } from './store.ts';
import type { Thumbnails } from './thumbnails.ts';

/** Context of a job that processes listing images. */
export type ListingJob = {
  listingId: number;
  fence: FencingToken;
  signal: AbortSignal;
  /** Called for each request to the model. */
  observe?: (event: ModelCallEvent) => void;
};

export const descriptionPrompt = readPrompt('image-description.v2', import.meta.url);

const MAX_DESCRIPTION_LENGTH = 2000;

/** Number of outages after which an image is recorded as their cause. */
const MAX_OUTAGES = 3;
/** Number of rate-limit errors after which an image is recorded as their cause. */
const MAX_RATE_LIMITS = 5;

/** Error code of an image that is missing from the store or corrupt. */
const UNREADABLE_CODE = 'IMAGE_UNREADABLE';

/** Codes of errors that a single image can cause. */
const IMAGE_SPECIFIC_CODES: ReadonlySet<ModelErrorCode> = new Set([
  'MODEL_REFUSED',
  'MODEL_INVALID_OUTPUT',
  'MODEL_TRUNCATED',
  'MODEL_UNSUPPORTED',
  'MODEL_INPUT_TOO_LARGE',
]);

/** HTTP statuses that reject the content of a request, as opposed to a wrong key or URL. */
const CONTENT_REJECTION_STATUSES: ReadonlySet<number | undefined> = new Set([400, 413, 415, 422]);

/** Codes of errors that time, new settings or a new copy of the image can resolve. */
const TRANSIENT_CODES: readonly string[] = [
  'MODEL_RATE_LIMITED',
  'MODEL_UNSUPPORTED',
  UNREADABLE_CODE,
] satisfies (ModelErrorCode | typeof UNREADABLE_CODE)[];

export type DescriberVersion = Pick<DescribeError, 'requested_model' | 'prompt_version'>;

export type VisionClient = Pick<ModelClient, 'generateObject' | 'visionModel'>;

type DescribeOptions = {
  /**
   * Images to describe. `new`: without a description, and without an error of the same model and prompt other than
   * `IMAGE_UNREADABLE`. `undescribed`: without a description. `outdated`: see `isOutdated`.
   */
  selection: 'new' | 'undescribed' | 'outdated';
  concurrency: number;
  /** Whether the job may return to the queue during an outage. */
  canWait: boolean;
  /** File names of uploads, which have no URL, by position. */
  fileNames?: readonly string[];
};

/**
 * Creates a function that describes stored listing images and returns the number of selected images. An error that one
 * image causes is recorded with that image. Every other failure, such as ModelError, StoreOutageError, LeaseLostError
 * or `signal.reason`, propagates, and the next attempt continues with the remaining images. Contract 4, Images;
 * docs/adr/0017-undescribed-images.md.
 * @param deps.onUndescribed Called for each image that could not be described.
 */
export function createImageDescriber(deps: {
  db: Kysely<Tables>;
  thumbnails: Pick<Thumbnails, 'makeForJob'>;
  model: Pick<VisionClient, 'generateObject'>;
  version: DescriberVersion;
  log: Pick<Logger, 'warn'>;
  onUndescribed: () => void;
}) {
  const { db, thumbnails, model, version, log, onUndescribed } = deps;
  const outages = createOutageCounter<string>();

  function sendImage({ signal, observe }: ListingJob, bytes: Uint8Array, data: object) {
    signal.throwIfAborted();
    return model.generateObject({
      operation: imageDescription.schemaName,
      ...imageDescription,
      system: descriptionPrompt.text,
      data,
      image: { bytes, mediaType: 'image/jpeg' },
      signal,
      ...(observe && { observe }),
    });
  }

  /** Sends the control image. Its completion ends the outage, so that the next failure counts as a new outage. */
  async function sendControlImage(job: ListingJob): Promise<void> {
    await sendImage(job, await getControlImage(), CONTROL_SIZE).catch((error: unknown) => {
      if (!isCausedByImage(error)) throw error;
    });
  }

  async function requestDescription(job: ListingJob, image: ListingImage, canWait: boolean) {
    const { sha256, name, width, height } = image;
    const bytes = await thumbnails.makeForJob(sha256, THUMBNAIL_SIDES[1]);
    for (;;) {
      if (outages.has(sha256)) await sendControlImage(job);
      try {
        const completion = await sendImage(job, bytes, { hint: name, width, height });
        outages.reset(sha256);
        return completion;
      } catch (error) {
        if (!(error instanceof ModelError) || error.outage === undefined) throw error;
        const isRateLimit = error.code === 'MODEL_RATE_LIMITED';
        const maxFailures = isRateLimit ? MAX_RATE_LIMITS : MAX_OUTAGES;
        if (outages.isCause(sha256, error.outage, maxFailures)) {
          throw new RepeatedOutageError(
            error.code,
            `The model server failed on the image ${maxFailures} times, but described another image in between: ${error.message}`,
            { cause: error },
          );
        }
        if (canWait || isRateLimit) throw error;
      }
    }
  }

  async function describeImage(job: ListingJob, image: ListingImage, canWait: boolean) {
    const { listingId, fence, signal } = job;
    const { sha256 } = image;
    signal.throwIfAborted();
    try {
      const { value, model: describedBy } = await requestDescription(job, image, canWait);
      const description = truncateText(cleanText(value.description), MAX_DESCRIPTION_LENGTH);
      await writeWithClaim(
        db,
        fence,
        sql`update images set description = ${description}, room_type = ${value.room_type},
            quality = ${value.quality}, described_by = ${describedBy},
            prompt_version = ${version.prompt_version}, requested_model = ${version.requested_model},
            describe_error = null
          from claim where sha256 = ${sha256}`,
      );
    } catch (error) {
      if (!(error instanceof ImageError || isCausedByImage(error))) throw error;
      const failure: DescribeError = {
        code: error instanceof ImageError ? UNREADABLE_CODE : error.code,
        message: toStorableMessage(error.message),
        ...version,
        failed_at: new Date().toISOString(),
      };
      // Records no error if another job has described the image in the meantime.
      await writeWithClaim(
        db,
        fence,
        sql`update images set describe_error = ${JSON.stringify(failure)}::jsonb
          from claim where sha256 = ${sha256} and ${isOutdated(version)}`,
      );
      onUndescribed();
      log.warn(
        { err: error, raw_id: fence.rawId, listing_id: listingId, sha256 },
        'an image could not be described',
      );
    }
  }

  return async (
    job: ListingJob,
    { selection, concurrency, canWait, fileNames = [] }: DescribeOptions,
  ): Promise<number> => {
    const condition = {
      new: isNew(version),
      undescribed: sql<boolean>`described_by is null`,
      outdated: isOutdated(version),
    }[selection];
    const rows = await listImages(db, job.listingId, condition);
    // An image that crashes the server makes concurrent requests fail too, so send one image at a time.
    const hasOutages = rows.some(({ sha256 }) => outages.has(sha256));
    await mapParallel(rows, hasOutages ? 1 : concurrency, ({ url, position, ...image }) =>
      describeImage(job, { ...image, name: url ?? fileNames[position] }, canWait),
    );
    return rows.length;
  };
}

/** An image, and its URL or file name as a hint for the model. */
type ListingImage = { sha256: string; width: number; height: number; name: string | undefined };

/** Thrown for an image that caused several outages of the model server. */
class RepeatedOutageError extends ModelError {}

function isCausedByImage(error: unknown): error is ModelError {
  return (
    error instanceof RepeatedOutageError ||
    (error instanceof ModelError &&
      (IMAGE_SPECIFIC_CODES.has(error.code) ||
        (error.code === 'MODEL_REJECTED' && CONTENT_REJECTION_STATUSES.has(error.status))))
  );
}

/** Returns a listing's images that meet a condition. An image that appears twice has its first position. */
function listImages(db: Kysely<Tables>, listingId: number, condition: RawBuilder<boolean>) {
  return db
    .selectFrom('listing_images')
    .innerJoin('images', 'images.sha256', 'listing_images.sha256')
    .distinctOn('images.sha256')
    .select(['images.sha256', 'width', 'height', 'url', 'position'])
    .where('listing_id', '=', listingId)
    .where(condition)
    .orderBy('images.sha256')
    .orderBy('position')
    .execute();
}

function isNew({ requested_model, prompt_version }: DescriberVersion): RawBuilder<boolean> {
  return sql`(described_by is null and (
    describe_error ->> 'requested_model' is distinct from ${requested_model}
    or describe_error ->> 'prompt_version' is distinct from ${prompt_version}
    or describe_error ->> 'code' = ${UNREADABLE_CODE}))`;
}

/**
 * Returns the SQL condition that a row of `images` has neither a description nor a lasting error of this model and
 * prompt.
 */
export function isOutdated({
  requested_model,
  prompt_version,
}: DescriberVersion): RawBuilder<boolean> {
  const version = JSON.stringify({ requested_model, prompt_version });
  return sql<boolean>`(
    (images.prompt_version is distinct from ${prompt_version}
      or coalesce(images.requested_model, images.described_by) is distinct from ${requested_model})
    and not coalesce(images.describe_error @> ${version}::jsonb
      and images.describe_error ->> 'code' <> all (${TRANSIENT_CODES}::text[]), false))`;
}
