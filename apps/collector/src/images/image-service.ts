import { rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { isDatabaseOutage } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { mapParallel } from '../async/concurrency.ts';
import type { Tables } from '../tables.ts';
import type { Disk } from '../free-disk-space.ts';
import type { SafeFetch } from '../safe-fetch/fetch.ts';
import { cleanUpImages, type CleanupOptions } from './cleanup.ts';
import { ImageError, inspectImage } from './decode.ts';
import {
  type Asked,
  IMAGE_CONCURRENCY,
  createImageDescriber,
  type VisionClient,
  descriptionPrompt,
  type ListingJob,
} from './describe.ts';
import { createDownload, DOWNLOAD_LIMITS, type DownloadLimits, earliestRetry } from './download.ts';
import {
  findDownloadResults,
  findImages,
  findStoredBefore,
  type ImageOutcome,
  type ImageFailure,
  createImageFailure,
  recordImages,
  replaceImages,
  type StoredImage,
} from './repository.ts';
import type { ImageStore, StoreState } from './store.ts';
import type { TemporaryFile, UploadedFile } from './temporary.ts';
import { createThumbnails } from './thumbnails.ts';

/**
 * Outcome of an image, for metrics.
 */
export type ImageEvent = 'stored' | 'duplicate' | 'reused' | 'failed' | 'undescribed';

/** Content of an image and its media type. */
export type OpenImage = { mediaType: string; content: Readable | Buffer };

/** A stored image, or the reason for its failure. */
type Result = { image: StoredImage; isReused?: boolean } | ImageFailure;

/** An image of a listing. `url` is null for uploads; `name` is the URL or the file name. */
type ListingImage = { url: string | null; name: string; result: Result };

/** Service that stores, describes and serves the images of listings. */
export type ImageService = ReturnType<typeof createImageService>;

/** Options of the image service. Contract 4, Images. */
export type ImageServiceOptions = {
  db: Kysely<Tables>;
  store: ImageStore;
  storeState: Pick<StoreState, 'toOutage'>;
  /** Returns the folder of temporary files. */
  temporary: () => string;
  disk: Disk;
  fetch: SafeFetch;
  model: VisionClient;
  log: Pick<Logger, 'warn'>;
  observe?: (event: ImageEvent) => void;
  limits?: Partial<DownloadLimits>;
};

/**
 * Creates the image service of a process. It holds no database connection during I/O with hosts, the model or the
 * store, except in cleanup.ts.
 */
export function createImageService(options: ImageServiceOptions) {
  const { db, store, storeState, temporary, disk, fetch, model, log, limits } = options;
  const { observe = () => undefined } = options;
  const { listingMs } = { ...DOWNLOAD_LIMITS, ...limits };
  const thumbnails = createThumbnails(store, (error) =>
    log.warn({ err: error }, 'a thumbnail could not be stored'),
  );
  const download = createDownload({ fetch, folder: temporary, limits });
  const asked: Asked | undefined =
    model.visionModel === undefined
      ? undefined
      : {
          requested_model: model.visionModel,
          prompt_version: descriptionPrompt.version,
        };
  const onUndescribed = () => observe('undescribed');
  const describe =
    asked && createImageDescriber({ db, thumbnails, model, asked, log, onUndescribed });

  /** Stores a file. The row is inserted first, because the cleanup finds images by row. */
  async function keep({ path, sha256, bytes }: TemporaryFile): Promise<StoredImage> {
    const { mediaType, ...decoded } = await inspectImage(path);
    const image = { sha256, media_type: mediaType, bytes, ...decoded };
    await recordImages(db, [image]);
    await store.put(sha256, path);
    return image;
  }

  async function fetchOne(url: string, signal: AbortSignal): Promise<StoredImage> {
    try {
      await disk.need();
      const file = await download(url, signal);
      try {
        return await keep(file);
      } finally {
        await rm(file.path, { force: true });
      }
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ImageError || isDatabaseOutage(error)) throw error;
      // Treat local errors as outages of the store.
      throw storeState.toOutage(error);
    }
  }

  async function gatherRemote(
    { listingId, signal }: ListingJob,
    urls: readonly string[],
    onlyDue: boolean,
  ): Promise<ListingImage[]> {
    const { hashes, failures } = await findDownloadResults(db, listingId);
    const known = await findImages(db, [...hashes.values()]);
    const endsAt = performance.now() + listingMs;
    const unique = [...new Set(urls)];
    const results = await mapParallel(
      unique,
      IMAGE_CONCURRENCY.remote,
      async (url): Promise<Result> => {
        signal.throwIfAborted();
        const image = known.get(hashes.get(url) ?? '');
        if (image !== undefined && (await store.has(image.sha256)))
          return { image, isReused: true };
        const miss = failures.get(url);
        if (miss !== undefined && onlyDue && !isDue(miss)) return miss;
        if (performance.now() >= endsAt) {
          const late = new ImageError('The images before it took too long', { retryable: true });
          return createImageFailure(late.message, earliestRetry(late));
        }
        return toResult(fetchOne(url, signal));
      },
    );
    const byUrl = new Map(unique.map((url, index) => [url, results[index]]));
    return urls.flatMap((url) => {
      const result = byUrl.get(url);
      return result === undefined ? [] : [{ url, name: url, result }];
    });
  }

  /** Records the images of a listing, and describes the new images. */
  async function record(
    job: ListingJob,
    images: readonly ListingImage[],
    areUploads: boolean,
  ): Promise<ImageOutcome[]> {
    const { listingId, fence } = job;
    const parallel = areUploads ? IMAGE_CONCURRENCY.uploaded : IMAGE_CONCURRENCY.remote;
    const stored = images.flatMap(({ result }) => ('image' in result ? [result.image] : []));
    const hashes = [...new Set(stored.map(({ sha256 }) => sha256))];
    const outcomes = toOutcomes(images, await findStoredBefore(db, hashes, fence));
    await replaceImages(db, { listingId, outcomes, stored, fence, areUploads });
    const found = await mapParallel(hashes, parallel, (sha256) => store.has(sha256));
    // The error makes the pipeline repeat the stage, which fetches the image again.
    if (!found.every(Boolean)) throw new Error('An image was removed while it was recorded');
    for (const [index, outcome] of outcomes.entries())
      observe(toImageEvent(outcome, images[index]));
    await describe?.images(job, collectNames(images), { parallel, canWait: !areUploads });
    return outcomes;
  }

  async function findStored(sha256: string): Promise<StoredImage | undefined> {
    const image = (await findImages(db, [sha256])).get(sha256);
    return image !== undefined && (await store.has(sha256)) ? image : undefined;
  }

  return {
    /**
     * Fetches, stores and describes the images of a listing, which then has these and no others. An address that the
     * listing had before is not fetched again. An image that cannot be used is recorded with its reason. Contract 4,
     * Images.
     * @param job.onlyDue Whether addresses that failed before are asked again only once they are due.
     * @throws LeaseLostError, ModelError (see `createImageDescriber`), StoreOutageError, ProblemError `disk_low`,
     *   `signal.reason`.
     */
    async processRemote({
      urls,
      onlyDue = false,
      ...job
    }: ListingJob & { urls: readonly string[]; onlyDue?: boolean | undefined }) {
      return record(job, await gatherRemote(job, urls, onlyDue), false);
    },

    /**
     * Does the same with uploaded files, one after another; their owner removes them. Specification 001, Behaviour
     * rules, 3, and Limits.
     */
    async processUploaded({ files, ...job }: ListingJob & { files: readonly UploadedFile[] }) {
      const images = await mapParallel(files, IMAGE_CONCURRENCY.uploaded, async (file) => {
        job.signal.throwIfAborted();
        return { url: null, name: file.name, result: await toResult(keep(file)) };
      });
      return record(job, images, true);
    },

    /** Describes a listing's images that have no description, or outdated ones. Returns how many. */
    describeAll: async (job: ListingJob, choice?: { outdated: boolean }): Promise<number> =>
      describe === undefined ? 0 : describe.allOf(job, choice),

    /** The model and prompt of descriptions; undefined with `MODEL_VISION=off`. */
    descriptionVersion: asked,

    /** See `cleanUpImages`. */
    cleanUp: (cleanup: CleanupOptions) => cleanUpImages({ db, store }, cleanup),

    /** Returns whether an image with this hash is stored. */
    has: async (sha256: string) => (await findStored(sha256)) !== undefined,

    /**
     * Opens a stored image, or its JPEG thumbnail with sides of at most `side` pixels.
     * @returns Undefined for an unknown hash.
     * @throws ProblemError `unavailable` if too many requests wait for thumbnails; StoreOutageError.
     */
    async open(sha256: string, side?: number): Promise<OpenImage | undefined> {
      const image = await findStored(sha256);
      if (image === undefined) return undefined;
      if (side === undefined) {
        return { mediaType: image.media_type, content: await store.stream(sha256) };
      }
      return { mediaType: 'image/jpeg', content: await thumbnails.makeSoon(sha256, side) };
    },
  };
}

const isDue = ({ retry_at: at }: ImageFailure) => at !== undefined && Date.parse(at) <= Date.now();

async function toResult(work: Promise<StoredImage>): Promise<Result> {
  try {
    return { image: await work };
  } catch (error) {
    if (!(error instanceof ImageError)) throw error;
    return createImageFailure(error.message, earliestRetry(error));
  }
}

/** @param before Hashes of images that were already stored. */
function toOutcomes(images: readonly ListingImage[], before: ReadonlySet<string>): ImageOutcome[] {
  const known = new Set(before);
  return images.map(({ url, result }, position) => {
    if ('error' in result) return { position, url, ...result };
    const { sha256, width, height } = result.image;
    const duplicate = known.has(sha256);
    known.add(sha256);
    return { position, url, sha256, width, height, duplicate };
  });
}

function toImageEvent(outcome: ImageOutcome, image: ListingImage | undefined): ImageEvent {
  if ('error' in outcome) return 'failed';
  if (image !== undefined && 'image' in image.result && image.result.isReused) return 'reused';
  return outcome.duplicate ? 'duplicate' : 'stored';
}

/** Returns the names of images by hash. Identical images use the first name. */
function collectNames(images: readonly ListingImage[]): Map<string, string> {
  return new Map(
    images
      .toReversed()
      .flatMap(({ name, result }) => ('image' in result ? [[result.image.sha256, name]] : [])),
  );
}
