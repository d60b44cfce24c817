import type { Readable } from 'node:stream';
import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { mapParallel } from '../async/map-parallel.ts';
import type { Tables } from '../tables.ts';
import type { Disk } from '../disk/disk.ts';
import type { SafeFetch } from '../safe-fetch/index.ts';
import { cleanUpImages, type CleanupOptions } from './cleanup.ts';
import { createDescribe, type Describe } from './describe.ts';
import type { Describer } from './describe-one.ts';
import { createDownload, DOWNLOAD_LIMITS, type DownloadLimits } from './download.ts';
import { fingerprintStored } from './fingerprint-stored.ts';
import { createGather } from './gather.ts';
import { AT_ONCE, type ListingJob } from './listing-job.ts';
import type { ListingPicture, Result } from './listing-picture.ts';
import type { ImageEvent, ImageOutcome } from './outcome.ts';
import { createPatience } from './patience.ts';
import { createRecordPictures } from './record.ts';
import { findFetched, findImages, type StoredImage, takeDue } from './repository.ts';
import type { StoreState } from './store/outage.ts';
import type { ImageStore } from './store/store.ts';
import type { UploadedFile } from './temporary-file.ts';
import { createThumbnails } from './thumbnails.ts';

/** A picture to be sent. */
export type OpenImage = { mediaType: string; content: Readable | Buffer };

/** The pictures of listings, for the stages of the pipeline, the API, the upkeep and the commands. */
export type Images = {
  /**
   * Fetches, stores and describes the pictures of a listing, which then has these and no others. An
   * address that the listing had before is not fetched again. A picture that cannot be used is recorded
   * with its reason. Contract 4, Images.
   * @throws LeaseLostError, ModelError (see `Describe`), StoreOutageError, ProblemError `disk_low`,
   *   `signal.reason`.
   */
  processRemote(
    job: ListingJob & {
      urls: readonly string[];
      /** Which of the addresses that failed before are asked again; each, unless told. */
      mayAsk?: ReadonlySet<string> | undefined;
    },
  ): Promise<ImageOutcome[]>;
  /**
   * For a payload that names the addresses which the listing has: takes those that failed and may be asked
   * again by now. Its next attempt gets them too, unless `processRemote` has recorded what became of them.
   */
  takeDue(job: Pick<ListingJob, 'listingId' | 'fence'>): Promise<ReadonlySet<string>>;
  /**
   * The same with uploaded files, stored one after another and then described one after another. The files
   * stay: whoever received them removes them. Specification 001, Behaviour rules, 3, and Limits.
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
  /** Whether there are stored bytes with this hash. */
  has(sha256: string): Promise<boolean>;
  /**
   * Opens stored bytes as they came, or as a JPEG with no side longer than `side` pixels.
   * @returns Undefined for an unknown hash.
   * @throws ProblemError `unavailable` where too many wait for a smaller copy; StoreOutageError.
   */
  open(sha256: string, side?: number): Promise<OpenImage | undefined>;
};

/** What the service works with. Contract 4, Images. */
export type ImagesOptions = {
  db: Kysely<Tables>;
  store: ImageStore;
  storeState: Pick<StoreState, 'toOutage'>;
  /** Gives where temporary files go. */
  temporary: () => string;
  disk: Disk;
  fetch: SafeFetch;
  model: Describer;
  /** The deadline of one call to the model. */
  modelTimeoutMs: number;
  /** How long a picture that met a limit of the model's server waits at least; a minute unless told. */
  limitPauseMs?: number | undefined;
  log: Pick<Logger, 'warn'>;
  /** Told of what failed without doing harm. */
  onError: (error: unknown) => void;
  observe?: (event: ImageEvent) => void;
  limits?: Partial<DownloadLimits>;
};

/**
 * The pictures of listings. No connection of the database is held during a download, a model call or an access
 * to the store, but while a picture is removed (see `removeUnreferenced`).
 */
export function createImages(options: ImagesOptions): Images {
  const { db, store, storeState, temporary, disk, fetch, model, log, limits } = options;
  const { modelTimeoutMs, limitPauseMs, onError, observe = () => undefined } = options;
  const { listingMs } = { ...DOWNLOAD_LIMITS, ...limits };
  const thumbnails = createThumbnails(store, onError);
  const download = createDownload({ fetch, folder: temporary, limits });
  const gather = createGather({ store, storeState, disk, download });
  const describe = createDescribe({
    db,
    thumbnails,
    model,
    modelTimeoutMs,
    limitPauseMs,
    log,
    observe,
  });
  const record = createRecordPictures({ db, store, describe, observe });

  /** Gives what an address gave before, where it is still there, or else asks it. */
  async function gatherRemote(
    { listingId, signal }: ListingJob,
    urls: readonly string[],
    mayAsk: ReadonlySet<string>,
  ): Promise<ListingPicture[]> {
    const fetched = await findFetched(db, listingId);
    const known = await findImages(db, [...fetched.hashes.values()]);
    const unique = [...new Set(urls)];
    const patience = createPatience(listingMs);
    const results = await mapParallel(unique, AT_ONCE.remote, async (url): Promise<Result> => {
      signal.throwIfAborted();
      const image = known.get(fetched.hashes.get(url) ?? '');
      if (image !== undefined && (await store.has(image.sha256))) return { image, isReused: true };
      const miss = fetched.misses.get(url);
      if (miss !== undefined && !mayAsk.has(url)) return miss;
      return gather.fetch(url, { signal, patience });
    });
    const byUrl = new Map(unique.map((url, index) => [url, results[index]]));
    return urls.flatMap((url) => {
      const result = byUrl.get(url);
      return result === undefined ? [] : [{ url, name: url, result }];
    });
  }

  async function findStored(sha256: string): Promise<StoredImage | undefined> {
    const image = (await findImages(db, [sha256])).get(sha256);
    return image !== undefined && (await store.has(sha256)) ? image : undefined;
  }

  return {
    processRemote({ urls, mayAsk = new Set(urls), ...job }) {
      return record(job, () => gatherRemote(job, urls, mayAsk), { cameAlong: false });
    },

    takeDue: ({ listingId, fence }) => takeDue(db, listingId, fence),

    processUploaded({ files, ...job }) {
      const gatherFiles = () =>
        mapParallel(files, AT_ONCE.uploaded, async (file): Promise<ListingPicture> => {
          job.signal.throwIfAborted();
          return { url: null, name: file.name, result: await gather.keep(file) };
        });
      return record(job, gatherFiles, { cameAlong: true });
    },

    describeAll: (job, choice) => describe.allOf(job, choice),

    describedWith: describe.asked,

    fingerprintStored: (turn) => fingerprintStored({ db, store }, turn),

    cleanUp: (turn) => cleanUpImages({ db, store }, turn),

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
