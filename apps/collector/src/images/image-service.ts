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
  type DescriberVersion,
  createImageDescriber,
  type VisionClient,
  descriptionPrompt,
  type ListingJob,
} from './describe.ts';
import {
  createDownloader,
  DOWNLOAD_LIMITS,
  type DownloadLimits,
  getEarliestRetry,
} from './download.ts';
import {
  findDownloadResults,
  findImages,
  hasImages,
  findHashesStoredBefore,
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

/** Maximum number of concurrent images per listing. Specification 001, Limits. */
const IMAGE_CONCURRENCY = { remote: 3, uploaded: 1 } as const;

export type ImageEvent = 'stored' | 'duplicate' | 'reused' | 'failed' | 'undescribed';

/** Content of an image, with its length in bytes. */
export type ImageContent = { mediaType: string; content: Readable | Buffer; length: number };

type ImageResult = { image: StoredImage; isNew?: boolean; isReused?: boolean } | ImageFailure;

/** Service that stores, describes and serves listing images. */
export type ImageService = ReturnType<typeof createImageService>;

/** Dependencies and limits of the image service. Contract 4, Images. */
export type ImageServiceOptions = {
  db: Kysely<Tables>;
  store: ImageStore;
  storeState: Pick<StoreState, 'toOutageError'>;
  /** Returns the folder of temporary files. */
  getTemporaryFolder: () => string;
  disk: Disk;
  fetch: SafeFetch;
  model: VisionClient;
  log: Pick<Logger, 'warn'>;
  observe?: (event: ImageEvent) => void;
  limits?: Partial<DownloadLimits>;
};

/**
 * Creates the image service of a process. The service holds no database connection during I/O with hosts, the model or
 * the store, except in cleanup.ts.
 */
export function createImageService(options: ImageServiceOptions) {
  const { db, store, storeState, disk, fetch, model, log, observe, limits } = options;
  const { listingMs } = { ...DOWNLOAD_LIMITS, ...limits };
  const thumbnails = createThumbnails(store, (error) =>
    log.warn({ err: error }, 'a thumbnail could not be stored'),
  );
  const download = createDownloader({ fetch, getFolder: options.getTemporaryFolder, limits });
  const version: DescriberVersion | undefined =
    model.visionModel === undefined
      ? undefined
      : { requested_model: model.visionModel, prompt_version: descriptionPrompt.version };
  const onUndescribed = () => observe?.('undescribed');
  const describe =
    version && createImageDescriber({ db, thumbnails, model, version, log, onUndescribed });

  /** Inserts the row before it stores the file, because the cleanup finds images by row. */
  async function storeFile({ path, sha256, bytes }: TemporaryFile): Promise<ImageResult> {
    const { mediaType, ...decoded } = await inspectImage(path);
    const image = { sha256, media_type: mediaType, bytes, ...decoded };
    await recordImages(db, [image]);
    return { image, isNew: await store.put(sha256, path) };
  }

  async function fetchImage(url: string, signal: AbortSignal): Promise<ImageResult> {
    try {
      await disk.requireFree();
      const file = await download(url, signal);
      try {
        return await storeFile(file);
      } finally {
        await rm(file.path, { force: true });
      }
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ImageError || isDatabaseOutage(error)) throw error;
      // A local error, such as a failed mount, is a store outage.
      throw storeState.toOutageError(error);
    }
  }

  async function fetchImages(
    { listingId, signal }: ListingJob,
    urls: readonly string[],
    isDueOnly: boolean,
  ): Promise<Map<string, ImageResult>> {
    const { hashes, failures } = await findDownloadResults(db, listingId);
    const knownImages = await findImages(db, [...hashes.values()]);
    const endsAt = performance.now() + listingMs;
    const results = await mapParallel(
      [...new Set(urls)],
      IMAGE_CONCURRENCY.remote,
      async (url): Promise<[url: string, ImageResult]> => {
        signal.throwIfAborted();
        const image = knownImages.get(hashes.get(url) ?? '');
        if (image !== undefined && (await store.has(image.sha256))) {
          return [url, { image, isReused: true }];
        }
        const failure = failures.get(url);
        if (isDueOnly && failure !== undefined && !isDue(failure)) return [url, failure];
        if (performance.now() < endsAt) return [url, await toResult(fetchImage(url, signal))];
        const error = new ImageError('The images before it took too long', { retryable: true });
        return [url, toFailure(error)];
      },
    );
    return new Map(results);
  }

  async function recordAndDescribe(
    job: ListingJob,
    results: readonly ImageResult[],
    source: { urls: readonly string[] } | { fileNames: readonly string[] },
  ): Promise<ImageOutcome[]> {
    const { listingId, fence } = job;
    const areUploads = 'fileNames' in source;
    const concurrency = areUploads ? IMAGE_CONCURRENCY.uploaded : IMAGE_CONCURRENCY.remote;
    const storedImages = results.flatMap((result) => ('image' in result ? [result.image] : []));
    const hashes = [...new Set(storedImages.map(({ sha256 }) => sha256))];
    const knownHashes = await findHashesStoredBefore(db, hashes, fence);
    // The row of a new image is older than its file if an earlier job could not store the file.
    for (const result of results) {
      if ('image' in result && result.isNew === true) knownHashes.delete(result.image.sha256);
    }
    const outcomes = results.map((result, position): ImageOutcome => {
      const url = areUploads ? null : (source.urls[position] ?? null);
      if ('error' in result) return { position, url, ...result };
      const { sha256, width, height } = result.image;
      const duplicate = knownHashes.has(sha256);
      knownHashes.add(sha256);
      return { position, url, sha256, width, height, duplicate };
    });
    await replaceImages(db, { listingId, outcomes, storedImages, fence, areUploads });
    const areStored = await mapParallel(hashes, concurrency, (sha256) => store.has(sha256));
    // The error makes the pipeline retry the stage, which stores the image again.
    if (!areStored.every(Boolean)) throw new Error('An image was removed while it was recorded');
    for (const [position, outcome] of outcomes.entries()) {
      observe?.(toImageEvent(outcome, results[position]));
    }
    await describe?.(job, {
      selection: 'new',
      concurrency,
      canWait: !areUploads,
      fileNames: areUploads ? source.fileNames : [],
    });
    return outcomes;
  }

  async function findStoredImage(sha256: string): Promise<StoredImage | undefined> {
    const image = (await findImages(db, [sha256])).get(sha256);
    return image !== undefined && (await store.has(sha256)) ? image : undefined;
  }

  return {
    /**
     * Downloads and describes the images of a listing, and replaces its previous images. Does not fetch a URL again
     * whose image is stored. An unusable image is recorded with its reason. Contract 4, Images.
     * @param job.isDueOnly Whether to skip failed URLs until their retry is due.
     * @throws LeaseLostError, SupersededError, ModelError, StoreOutageError, ProblemError `disk_low`, `signal.reason`;
     *   an Error if a cleanup removed an image in the meantime.
     */
    async processRemote({
      urls,
      isDueOnly = false,
      ...job
    }: ListingJob & { urls: readonly string[]; isDueOnly?: boolean | undefined }) {
      if (urls.length === 0 && !(await hasImages(db, job.listingId))) return [];
      const results = await fetchImages(job, urls, isDueOnly);
      const orderedResults = urls.map(
        (url) => results.get(url) ?? { error: 'The image was not fetched' },
      );
      return recordAndDescribe(job, orderedResults, { urls });
    },

    /**
     * Stores and describes uploaded files one at a time, and replaces the previous images of the listing. The caller
     * removes the files. Specification 001, Behaviour rules, 3, and Limits.
     * @throws The errors of `processRemote`, except `disk_low`.
     */
    async processUploaded({ files, ...job }: ListingJob & { files: readonly UploadedFile[] }) {
      const results = await mapParallel(files, IMAGE_CONCURRENCY.uploaded, async (file) => {
        job.signal.throwIfAborted();
        return toResult(storeFile(file));
      });
      return recordAndDescribe(job, results, { fileNames: files.map(({ name }) => name) });
    },

    /** Describes images of a listing: undescribed ones, or outdated ones if `outdated` is set. Returns their number. */
    describeAll: async (job: ListingJob, { outdated } = { outdated: false }): Promise<number> =>
      (await describe?.(job, {
        selection: outdated ? 'outdated' : 'undescribed',
        concurrency: IMAGE_CONCURRENCY.remote,
        canWait: true,
      })) ?? 0,

    /** Model and prompt of descriptions; undefined with `MODEL_VISION=off`. */
    descriptionVersion: version,

    cleanUp: (cleanup: CleanupOptions) => cleanUpImages({ db, store }, cleanup),

    /** Returns whether an image with this hash is stored. */
    has: async (sha256: string) => (await findStoredImage(sha256)) !== undefined,

    /**
     * Opens a stored image, or its JPEG thumbnail with sides of at most `side` pixels.
     * @returns The content, or undefined if the image is not stored.
     * @throws ProblemError `unavailable` if too many requests wait for thumbnails; ImageError if no thumbnail can be
     *   made of the image; StoreOutageError.
     */
    async open(sha256: string, side?: number): Promise<ImageContent | undefined> {
      const image = await findStoredImage(sha256);
      if (image === undefined) return undefined;
      if (side === undefined) {
        const content = await store.openStream(sha256);
        return { mediaType: image.media_type, content, length: image.bytes };
      }
      const content = await thumbnails.makeForRequest(sha256, side);
      return { mediaType: 'image/jpeg', content, length: content.length };
    },
  };
}

const isDue = ({ retry_at: retryAt }: ImageFailure) =>
  retryAt !== undefined && Date.parse(retryAt) <= Date.now();

const toFailure = (error: ImageError) => createImageFailure(error.message, getEarliestRetry(error));

async function toResult(work: Promise<ImageResult>): Promise<ImageResult> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof ImageError)) throw error;
    return toFailure(error);
  }
}

function toImageEvent(outcome: ImageOutcome, result: ImageResult | undefined): ImageEvent {
  if ('error' in outcome) return 'failed';
  if (result !== undefined && 'image' in result && result.isReused) return 'reused';
  return outcome.duplicate ? 'duplicate' : 'stored';
}
