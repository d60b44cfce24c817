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
import type { Fence } from '../queue/job-types.ts';
import { cleanText, cutText, storableMessage } from '../text.ts';
import { CONTROL_SIZE, getControlImage, ImageError } from './decode.ts';
import { THUMBNAIL_SIDES } from './store.ts';
import type { Thumbnails } from './thumbnails.ts';

/** Context of a job that processes the images of a listing. */
export type ListingJob = {
  listingId: number;
  fence: Fence;
  signal: AbortSignal;
  /** Called for each request to the model. */
  observe?: (event: ModelCallEvent) => void;
};

/** Maximum concurrent images per listing, for remote and uploaded images. Specification 001, Limits. */
export const IMAGE_CONCURRENCY = { remote: 3, uploaded: 1 } as const;

/** The prompt; its version is recorded with every description. */
export const descriptionPrompt = readPrompt('image-description.v2', import.meta.url);

const MAX_DESCRIPTION = 2000;

/** An image that failed in so many outages, each after the server had answered the control image, is recorded. */
const MAX_OUTAGES = 3;
/** The same for a rate limit, which may end by itself. */
const MAX_RATE_LIMIT_OUTAGES = 5;

/** Error code for an image that is missing or corrupt in the store. */
const UNREADABLE = 'IMAGE_UNREADABLE';

/** Statuses of a server that speaks of the request itself: malformed, too large, of an unsupported type. */
const REQUEST_STATUSES: ReadonlySet<number | undefined> = new Set([400, 413, 415, 422]);

/** Reasons that may pass with the settings, or once the store has the image again. */
const TRANSIENT_CODES: readonly string[] = [
  'MODEL_RATE_LIMITED',
  'MODEL_UNSUPPORTED',
  UNREADABLE,
] satisfies (ModelErrorCode | typeof UNREADABLE)[];

/** The model and prompt that images are described with. */
export type Asked = Pick<DescribeError, 'requested_model' | 'prompt_version'>;

/** The parts of the model client that describe images. */
export type VisionClient = Pick<ModelClient, 'generateObject' | 'visionModel'>;

/** An image without a description. */
type UndescribedImage = { sha256: string; width: number; height: number; name?: string | null };

/**
 * Creates the descriptions of a process: the vision model describes stored images, each for all listings that
 * show it.
 * An image at fault is recorded with its reason. Every other failure of the model propagates, and the next
 * attempt goes
 * on with the rest. Specification 001, Errors; Contract 4, Images; docs/adr/0017-undescribed-images.md.
 * @param deps.onUndescribed Called for each image that is recorded without a description.
 */
export function createImageDescriber(deps: {
  db: Kysely<Tables>;
  thumbnails: Pick<Thumbnails, 'make'>;
  model: Pick<VisionClient, 'generateObject'>;
  asked: Asked;
  log: Pick<Logger, 'warn'>;
  onUndescribed: () => void;
}) {
  const { db, thumbnails, model, asked, log, onUndescribed } = deps;
  const outages = createOutageCounter<string>();

  function show({ signal, observe }: ListingJob, bytes: Uint8Array, data: object) {
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

  /** Shows the control image: the answer ends an outage, and tells that the next failure is of an image. */
  async function showControl(job: ListingJob): Promise<void> {
    await show(job, await getControlImage(), CONTROL_SIZE).catch((error: unknown) => {
      // A rejection of the control is an answer too.
      if (!isImageFault(error)) throw error;
    });
  }

  /** @throws ImageError, ModelError; one that is the image's fault is caught by the caller. */
  async function ask(
    job: ListingJob,
    { sha256, width, height, name }: UndescribedImage,
    canWait: boolean,
  ) {
    const bytes = await thumbnails.make(sha256, THUMBNAIL_SIDES[1]);
    for (;;) {
      if (outages.has(sha256)) await showControl(job);
      try {
        const answer = await show(job, bytes, { hint: name ?? undefined, width, height });
        outages.forget(sha256);
        return answer;
      } catch (error) {
        if (!(error instanceof ModelError) || error.outage === undefined) throw error;
        const isLimit = error.code === 'MODEL_RATE_LIMITED';
        const count = outages.add(sha256, error.outage);
        if (count >= (isLimit ? MAX_RATE_LIMIT_OUTAGES : MAX_OUTAGES)) {
          outages.forget(sha256);
          throw new PoisonImageError(error, count);
        }
        if (canWait || isLimit) throw error;
      }
    }
  }

  async function describeOne(
    job: ListingJob,
    image: UndescribedImage,
    canWait: boolean,
  ): Promise<void> {
    const { listingId, fence, signal } = job;
    const { sha256 } = image;
    signal.throwIfAborted();
    try {
      const { value, model: describedBy } = await ask(job, image, canWait);
      const description = cutText(cleanText(value.description), MAX_DESCRIPTION);
      await writeWithClaim(
        db,
        fence,
        sql`update images set description = ${description}, room_type = ${value.room_type},
            quality = ${value.quality}, described_by = ${describedBy},
            prompt_version = ${asked.prompt_version}, requested_model = ${asked.requested_model},
            describe_error = null
          from claim where sha256 = ${sha256}`,
      );
    } catch (error) {
      if (!(error instanceof ImageError || isImageFault(error))) throw error;
      const failure: DescribeError = {
        code: error instanceof ImageError ? UNREADABLE : error.code,
        message: storableMessage(error.message),
        ...asked,
        failed_at: new Date().toISOString(),
      };
      // Another job may have described it meanwhile.
      await writeWithClaim(
        db,
        fence,
        sql`update images set describe_error = ${JSON.stringify(failure)}::jsonb
          from claim where sha256 = ${sha256} and ${isOutdated(asked)}`,
      );
      onUndescribed();
      log.warn(
        { err: error, raw_id: fence.rawId, listing_id: listingId, sha256 },
        'an image could not be described',
      );
    }
  }

  /** Describes images; one by one where the server has failed on any, which may fail it for the others. */
  async function describeSome(
    job: ListingJob,
    images: readonly UndescribedImage[],
    { parallel, canWait }: { parallel: number; canWait: boolean },
  ): Promise<void> {
    const hasSuspect = images.some(({ sha256 }) => outages.has(sha256));
    await mapParallel(images, hasSuspect ? 1 : parallel, (image) =>
      describeOne(job, image, canWait),
    );
  }

  return {
    /**
     * Describes the images that have no description, except those on which the same model and prompt failed.
     * @param names File name or address by hash.
     * @param options.canWait Whether the job may go back to the queue in an outage.
     * @throws ModelError, LeaseLostError, `signal.reason`.
     */
    async images(
      job: ListingJob,
      names: ReadonlyMap<string, string>,
      options: { parallel: number; canWait: boolean },
    ): Promise<void> {
      const undescribed = await findUndescribed(db, [...names.keys()], asked);
      const named = undescribed.map((image) => ({
        ...image,
        name: names.get(image.sha256) ?? null,
      }));
      await describeSome(job, named, options);
    },
    /**
     * Describes all of a listing's images that have no description, or with `outdated` those that another model or
     * prompt described, or none.
     * @returns How many.
     * @throws ModelError, LeaseLostError, `signal.reason`.
     */
    async allOf(job: ListingJob, { outdated } = { outdated: false }): Promise<number> {
      const images = selectImages(db, job.listingId);
      const undescribed = await (
        outdated ? images.where(isOutdated(asked)) : images.where('described_by', 'is', null)
      ).execute();
      await describeSome(job, undescribed, { parallel: IMAGE_CONCURRENCY.remote, canWait: true });
      return undescribed.length;
    },
  };
}

/** A server failure that an image causes. */
class PoisonImageError extends ModelError {
  constructor(cause: ModelError, count: number) {
    const { code, message, status } = cause;
    super(
      code,
      `The model server failed on it ${count} times, though it answered another image in between: ${message}`,
      { ...(status !== undefined && { status }), cause },
    );
  }
}

/** Returns whether the image caused the error. */
function isImageFault(error: unknown): error is ModelError {
  if (!(error instanceof ModelError)) return false;
  const { code, status } = error;
  return (
    error instanceof PoisonImageError ||
    code === 'MODEL_REFUSED' ||
    code === 'MODEL_INVALID_OUTPUT' ||
    code === 'MODEL_TRUNCATED' ||
    code === 'MODEL_UNSUPPORTED' ||
    code === 'MODEL_INPUT_TOO_LARGE' ||
    (code === 'MODEL_REJECTED' && REQUEST_STATUSES.has(status))
  );
}

const failedWith = (key: keyof DescribeError) => sql<string | null>`describe_error ->> ${key}`;

function findUndescribed(
  db: Kysely<Tables>,
  hashes: readonly string[],
  asked: Asked,
): Promise<UndescribedImage[]> {
  if (hashes.length === 0) return Promise.resolve([]);
  return db
    .selectFrom('images')
    .select(['sha256', 'width', 'height'])
    .where('sha256', 'in', hashes)
    .where('described_by', 'is', null)
    .where((eb) =>
      eb.or([
        eb(failedWith('requested_model'), 'is distinct from', asked.requested_model),
        eb(failedWith('prompt_version'), 'is distinct from', asked.prompt_version),
        eb(failedWith('code'), '=', UNREADABLE),
      ]),
    )
    .execute();
}

function selectImages(db: Kysely<Tables>, listingId: number) {
  return db
    .selectFrom('listing_images')
    .innerJoin('images', 'images.sha256', 'listing_images.sha256')
    .distinctOn('images.sha256')
    .select(['images.sha256', 'width', 'height', 'url as name'])
    .where('listing_id', '=', listingId)
    .orderBy('images.sha256')
    .orderBy('position');
}

/**
 * Tells whether a row of `images` was described by another prompt or model, or not at all. One that this model and
 * prompt failed on is not outdated, unless the reason may pass.
 */
export function isOutdated(asked: Asked): RawBuilder<boolean> {
  const { requested_model: model, prompt_version: version } = asked;
  return sql<boolean>`(
    (images.prompt_version is distinct from ${version}
      or coalesce(images.requested_model, images.described_by) is distinct from ${model})
    and not coalesce(images.describe_error @> ${JSON.stringify({ requested_model: model, prompt_version: version })}::jsonb
      and images.describe_error ->> 'code' <> all (${TRANSIENT_CODES}::text[]), false))`;
}
