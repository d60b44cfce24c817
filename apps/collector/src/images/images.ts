import { rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { mapParallel } from '../async/concurrency.ts';
import type { Tables } from '../tables.ts';
import type { Disk } from '../disk.ts';
import type { SafeFetch } from '../safe-fetch/fetch.ts';
import { cleanUpImages, type CleanupOptions, fingerprintStored } from './cleanup.ts';
import { inspectImage } from './decode.ts';
import {
  AT_ONCE,
  createDescribe,
  type Describe,
  type Describer,
  type ListingJob,
} from './describe.ts';
import { createDownload, DOWNLOAD_LIMITS, type DownloadLimits } from './download.ts';
import { ImageError, retryTime } from './image-error.ts';
import {
  findFetched,
  findImages,
  findStoredBefore,
  type ImageOutcome,
  type Miss,
  missOf,
  replaceImages,
  type StoredImage,
} from './repository.ts';
import type { ImageStore, StoreState } from './store.ts';
import type { TemporaryFile, UploadedFile } from './temporary.ts';
import { createThumbnails } from './thumbnails.ts';

/** How often the images of a listing are gathered: again only where one was removed meanwhile. */
const MAX_ROUNDS = 3;

/**
 * The outcome of an image for metrics: new bytes, known ones, an address that was not fetched again, a bad image, and a
 * stored one that could not be described.
 */
export type ImageEvent = 'stored' | 'duplicate' | 'reused' | 'failed' | 'undescribed';

/** An image to be sent. */
export type OpenImage = { mediaType: string; content: Readable | Buffer };

/** Stored bytes, or the reason why an image cannot be used. */
type Result = { image: StoredImage; isReused?: boolean } | Miss;

/** An image of a listing: its address, null for an upload, and its address or file name. */
type ListingImage = { url: string | null; name: string; result: Result };

/** The images of listings. */
export type Images = {
  /**
   * Fetches, stores and describes the images of a listing, which then has these and no others. An address that the
   * listing had before is not fetched again. An image that cannot be used is recorded with its reason. Contract 4,
   * Images.
   * @throws LeaseLostError, ModelError (see `Describe`), StoreOutageError, ProblemError `disk_low`, `signal.reason`.
   */
  processRemote(
    job: ListingJob & {
      urls: readonly string[];
      /** Whether addresses that failed before are asked again only once they are due. */
      onlyDue?: boolean | undefined;
    },
  ): Promise<ImageOutcome[]>;
  /**
   * Does the same with uploaded files, one after another; their owner removes them. Specification 001, Behaviour
   * rules, 3, and Limits.
   */
  processUploaded(job: ListingJob & { files: readonly UploadedFile[] }): Promise<ImageOutcome[]>;
  /** See `Describe.allOf`. */
  describeAll: Describe['allOf'];
  /** See `Describe.asked`. */
  readonly describedWith: Describe['asked'];
  /** See `fingerprintStored`. */
  fingerprintStored(
    options: Parameters<typeof fingerprintStored>[1],
  ): ReturnType<typeof fingerprintStored>;
  /** See `cleanUpImages`. */
  cleanUp(options: CleanupOptions): Promise<number>;
  /** Tells whether there are stored bytes with this hash. */
  has(sha256: string): Promise<boolean>;
  /**
   * Opens stored bytes as they came, or as a JPEG with no side longer than `side` pixels.
   * @returns Undefined for an unknown hash.
   * @throws ProblemError `unavailable` where too many wait for a thumbnail; StoreOutageError.
   */
  open(sha256: string, side?: number): Promise<OpenImage | undefined>;
};

/** The dependencies of images. Contract 4, Images. */
export type ImagesOptions = {
  db: Kysely<Tables>;
  store: ImageStore;
  storeState: Pick<StoreState, 'toOutage'>;
  /** Returns the folder of temporary files. */
  temporary: () => string;
  disk: Disk;
  fetch: SafeFetch;
  model: Describer;
  log: Pick<Logger, 'warn'>;
  observe?: (event: ImageEvent) => void;
  limits?: Partial<DownloadLimits>;
};

/**
 * Creates the images of a process. No database connection is held during a download, a call to the model or to the
 * store, except while an image is removed (see cleanup.ts).
 */
export function createImages(options: ImagesOptions): Images {
  const { db, store, storeState, temporary, disk, fetch, model, log, limits } = options;
  const { observe = () => undefined } = options;
  const { listingMs } = { ...DOWNLOAD_LIMITS, ...limits };
  const thumbnails = createThumbnails(store, (error) =>
    log.warn({ err: error }, 'a thumbnail could not be stored'),
  );
  const download = createDownload({ fetch, folder: temporary, limits });
  const onUndescribed = () => observe('undescribed');
  const describe = createDescribe({ db, thumbnails, model, log, onUndescribed });

  /** Stores a file's bytes. The failure of this machine on the way counts as one of the store. */
  async function keep({ path, sha256, bytes }: TemporaryFile): Promise<StoredImage> {
    const { mediaType, ...seen } = await inspectImage(path);
    await store.put(sha256, path);
    return { sha256, media_type: mediaType, bytes, ...seen };
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
      throw error instanceof ImageError ? error : storeState.toOutage(error);
    }
  }

  async function gatherRemote(
    { listingId, signal }: ListingJob,
    urls: readonly string[],
    onlyDue: boolean,
  ): Promise<ListingImage[]> {
    const { hashes, misses } = await findFetched(db, listingId);
    const known = await findImages(db, [...hashes.values()]);
    const endsAt = performance.now() + listingMs;
    const unique = [...new Set(urls)];
    const results = await mapParallel(unique, AT_ONCE.remote, async (url): Promise<Result> => {
      signal.throwIfAborted();
      const image = known.get(hashes.get(url) ?? '');
      if (image !== undefined && (await store.has(image.sha256))) return { image, isReused: true };
      const miss = misses.get(url);
      if (miss !== undefined && onlyDue && !isDue(miss)) return miss;
      if (performance.now() >= endsAt) {
        const late = new ImageError('The images before it took too long', { retryable: true });
        return missOf(late.message, retryTime(late));
      }
      return unlessBad(fetchOne(url, signal));
    });
    const byUrl = new Map(unique.map((url, index) => [url, results[index]]));
    return urls.flatMap((url) => {
      const result = byUrl.get(url);
      return result === undefined ? [] : [{ url, name: url, result }];
    });
  }

  /**
   * Records the images of a listing, and has the new ones described. One that a cleanup removed before it was recorded
   * is gathered again.
   */
  async function record(
    job: ListingJob,
    gather: () => Promise<readonly ListingImage[]>,
    areUploads: boolean,
  ): Promise<ImageOutcome[]> {
    const { listingId, fence } = job;
    const parallel = areUploads ? AT_ONCE.uploaded : AT_ONCE.remote;
    for (let round = 1; round <= MAX_ROUNDS; round += 1) {
      const images = await gather();
      const stored = images.flatMap(({ result }) => ('image' in result ? [result.image] : []));
      const hashes = [...new Set(stored.map(({ sha256 }) => sha256))];
      const outcomes = toOutcomes(images, await findStoredBefore(db, hashes, fence));
      await replaceImages(db, { listingId, outcomes, stored, fence, areUploads });
      const found = await mapParallel(hashes, parallel, (sha256) => store.has(sha256));
      if (!found.every(Boolean)) continue;
      for (const [index, outcome] of outcomes.entries()) observe(eventOf(outcome, images[index]));
      await describe.images(job, namesOf(images), { parallel, mayWait: !areUploads });
      return outcomes;
    }
    throw new Error('Images were removed again and again while they were recorded');
  }

  async function findStored(sha256: string): Promise<StoredImage | undefined> {
    const image = (await findImages(db, [sha256])).get(sha256);
    return image !== undefined && (await store.has(sha256)) ? image : undefined;
  }

  return {
    processRemote: ({ urls, onlyDue = false, ...job }) =>
      record(job, () => gatherRemote(job, urls, onlyDue), false),

    processUploaded({ files, ...job }) {
      const gather = () =>
        mapParallel(files, AT_ONCE.uploaded, async (file): Promise<ListingImage> => {
          job.signal.throwIfAborted();
          return { url: null, name: file.name, result: await unlessBad(keep(file)) };
        });
      return record(job, gather, true);
    },

    describeAll: (job, choice) => describe.allOf(job, choice),
    describedWith: describe.asked,
    fingerprintStored: (round) => fingerprintStored({ db, store }, round),
    cleanUp: (cleanup) => cleanUpImages({ db, store }, cleanup),
    has: async (sha256) => (await findStored(sha256)) !== undefined,

    async open(sha256, side) {
      const image = await findStored(sha256);
      if (image === undefined) return undefined;
      if (side === undefined) {
        return { mediaType: image.media_type, content: await store.stream(sha256) };
      }
      return { mediaType: 'image/jpeg', content: await thumbnails.makeSoon(sha256, side) };
    },
  };
}

const isDue = ({ retry_at: at }: Miss) => at !== undefined && Date.parse(at) <= Date.now();

async function unlessBad(work: Promise<StoredImage>): Promise<Result> {
  try {
    return { image: await work };
  } catch (error) {
    if (!(error instanceof ImageError)) throw error;
    return missOf(error.message, retryTime(error));
  }
}

/** @param before Hashes of images that were stored before. */
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

function eventOf(outcome: ImageOutcome, image: ListingImage | undefined): ImageEvent {
  if ('error' in outcome) return 'failed';
  if (image !== undefined && 'image' in image.result && image.result.isReused) return 'reused';
  return outcome.duplicate ? 'duplicate' : 'stored';
}

/** Returns the names of images by hash: equal bytes go by their first name. */
function namesOf(images: readonly ListingImage[]): Map<string, string> {
  return new Map(
    images
      .toReversed()
      .flatMap(({ name, result }) => ('image' in result ? [[result.image.sha256, name]] : [])),
  );
}
