import { rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import type { ModelCallEvent } from '@oselya/model';
import type { Kysely } from 'kysely';
import type { Tables } from '../database/tables.ts';
import type { Disk } from '../disk/disk.ts';
import type { Fence } from '../queue/job.ts';
import type { SafeFetch } from '../safe-fetch/index.ts';
import { cleanUpImages, type CleanupOptions } from './cleanup.ts';
import { inspectPicture } from './decode.ts';
import { describeImages, type Describer } from './describe.ts';
import { createDownload, type DownloadLimits } from './download.ts';
import { fingerprintStored } from './fingerprint-stored.ts';
import { ImageError } from './image-error.ts';
import { mapParallel } from '../async/map-parallel.ts';
import type { ImageEvent, ImageOutcome } from './outcome.ts';
import { eventOf, type Place, type Result, toOutcomes } from './places.ts';
import {
  findFetched,
  findImages,
  hasUploads,
  missOf,
  replaceImages,
  RETRY_AFTER_MS,
  type StoredImage,
  takeDue,
} from './repository.ts';
import { createResizes } from './resizes.ts';
import type { ImageStore } from './store/store.ts';
import type { TemporaryFile, UploadedFile } from './temporary-file.ts';

/**
 * How many pictures of one listing are stored, or described, at once: those that are fetched, and those that
 * came along. Specification 001, Limits.
 */
const AT_ONCE = { remote: 3, uploaded: 1 } as const;

/**
 * How often the pictures of a listing are gathered: again only where one of them was removed just then, as
 * one that no listing shows.
 */
const MAX_TURNS = 3;

/** A picture to be sent. */
export type OpenImage = { mediaType: string; content: Readable | Buffer };

type Job = {
  listingId: number;
  fence: Fence;
  signal: AbortSignal;
  /** Told of each request to the model. */
  observe?: (event: ModelCallEvent) => void;
};

export type Images = {
  /**
   * Fetches, stores and describes the pictures of a listing, which then has these and no others. An
   * address that the listing had before is not fetched again. A picture that cannot be used is recorded
   * with its reason. Where the payload's pictures came along when it was sent, the listing keeps those.
   * Contract 4, Images.
   * @throws LeaseLostError, ModelError (see `describeImages`), ProblemError `disk_low`, `signal.reason`.
   */
  processRemote(
    job: Job & {
      urls: readonly string[];
      /**
       * Leaves addresses that failed before as they are, but for those that may be asked again by now: for
       * a payload that names the ones which the listing has. Without it each that failed is asked again.
       */
      onlyDue?: boolean;
    },
  ): Promise<ImageOutcome[]>;
  /**
   * The same with uploaded files, stored one after another and then described one after another. The files
   * stay: whoever received them removes them. Specification 001, Behaviour rules, 3, and Limits.
   */
  processUploaded(job: Job & { files: readonly UploadedFile[] }): Promise<ImageOutcome[]>;
  /** See `fingerprintStored`. */
  fingerprintStored(
    options: Parameters<typeof fingerprintStored>[1],
  ): ReturnType<typeof fingerprintStored>;
  /** See `cleanUpImages`. */
  cleanUp(options: CleanupOptions): Promise<number>;
  /**
   * Opens stored bytes as they came, or as a JPEG with no side longer than `side` pixels.
   * @returns Undefined for an unknown hash.
   * @throws ProblemError `unavailable` where too many wait for a smaller copy.
   */
  open(sha256: string, side?: number): Promise<OpenImage | undefined>;
};

export type ImagesOptions = {
  db: Kysely<Tables>;
  store: ImageStore;
  /** Gives where temporary files go. */
  temporary: () => string;
  disk: Disk;
  fetch: SafeFetch;
  model: Describer;
  /** Told of what failed without doing harm. */
  onError: (error: unknown) => void;
  observe?: (event: ImageEvent) => void;
  limits?: Partial<DownloadLimits>;
};

/** The pictures of listings. No connection of the database is held during a download or a model call. */
export function createImages(options: ImagesOptions): Images {
  const { db, store, temporary, disk, fetch, model, limits } = options;
  const { onError, observe = () => undefined } = options;
  const resizes = createResizes(store, onError);
  const download = createDownload({ fetch, folder: temporary, limits });

  /** Stores a file's bytes, if they are a picture. */
  async function keep({ path, sha256, bytes }: TemporaryFile): Promise<StoredImage> {
    const { mediaType, ...seen } = await inspectPicture(path);
    await store.put(sha256, path);
    return { sha256, media_type: mediaType, bytes, ...seen };
  }

  async function fetchAndKeep(url: string, signal: AbortSignal): Promise<StoredImage> {
    await disk.need();
    const file = await download(url, signal);
    try {
      return await keep(file);
    } finally {
      await rm(file.path, { force: true });
    }
  }

  /**
   * Records what became of a listing's pictures, and has the new ones described. From then on none of them
   * is removed; one that was removed between its look-up and that moment is gathered again.
   * @param gather Stores the pictures, unless they are stored already.
   */
  async function record(
    job: Job,
    gather: () => Promise<readonly Place[]>,
    { cameAlong }: { cameAlong: boolean },
  ): Promise<ImageOutcome[]> {
    const { listingId, fence } = job;
    const parallel = cameAlong ? AT_ONCE.uploaded : AT_ONCE.remote;
    let before: ReadonlySet<string> | undefined;
    for (let turn = 1; turn <= MAX_TURNS; turn += 1) {
      const places = await gather();
      const stored = places.flatMap(({ result }) => ('image' in result ? [result.image] : []));
      const hashes = [...new Set(stored.map(({ sha256 }) => sha256))];
      before ??= new Set((await findImages(db, hashes)).keys());
      const outcomes = toOutcomes(places, before);
      await replaceImages(db, { listingId, outcomes, stored, fence, cameAlong });
      const found = await mapParallel(hashes, parallel, (sha256) => store.has(sha256));
      if (!found.every(Boolean)) continue;
      for (const [index, outcome] of outcomes.entries()) observe(eventOf(outcome, places[index]));
      await describe(job, places, parallel);
      return outcomes;
    }
    throw new Error('Pictures were removed again and again while they were recorded');
  }

  async function describe(job: Job, places: readonly Place[], parallel: number): Promise<void> {
    const { fence, signal, observe: onModelCall } = job;
    // Equal bytes go by their first name, which is set last.
    const hints = new Map(
      places
        .toReversed()
        .flatMap(({ name, result }) => ('image' in result ? [[result.image.sha256, name]] : [])),
    );
    await describeImages(
      { db, resizes, model, parallel },
      { hints, fence, signal, observe: onModelCall },
    );
  }

  return {
    async processRemote({ urls, onlyDue = false, ...job }) {
      if (await hasUploads(db, job.fence)) return [];
      const due = onlyDue ? await takeDue(db, job.listingId, job.fence) : new Set(urls);
      const gather = async () => {
        const fetched = await findFetched(db, job.listingId);
        const known = await findImages(db, [...fetched.hashes.values()]);
        const unique = [...new Set(urls)];
        const results = await mapParallel(unique, AT_ONCE.remote, async (url): Promise<Result> => {
          job.signal.throwIfAborted();
          const image = known.get(fetched.hashes.get(url) ?? '');
          if (image !== undefined && (await store.has(image.sha256)))
            return { image, isReused: true };
          const miss = fetched.misses.get(url);
          if (miss !== undefined && !due.has(url)) return miss;
          return unlessBad(fetchAndKeep(url, job.signal));
        });
        const byUrl = new Map(unique.map((url, index) => [url, results[index]]));
        return urls.flatMap((url) => {
          const result = byUrl.get(url);
          return result === undefined ? [] : [{ url, name: url, result }];
        });
      };
      return record(job, gather, { cameAlong: false });
    },

    async processUploaded({ files, ...job }) {
      const gather = () =>
        mapParallel(files, AT_ONCE.uploaded, async (file): Promise<Place> => {
          job.signal.throwIfAborted();
          return { url: null, name: file.name, result: await unlessBad(keep(file)) };
        });
      return record(job, gather, { cameAlong: true });
    },

    fingerprintStored: (turn) => fingerprintStored({ db, store }, turn),

    cleanUp: (turn) => cleanUpImages({ db, store }, turn),

    async open(sha256, side) {
      const image = (await findImages(db, [sha256])).get(sha256);
      if (image === undefined || !(await store.has(sha256))) return undefined;
      if (side === undefined) {
        return { mediaType: image.media_type, content: await store.stream(sha256) };
      }
      return { mediaType: 'image/jpeg', content: await resizes.makeSoon(sha256, side) };
    },
  };
}

/** A bad picture is a result; anything else that fails is a failure. */
async function unlessBad(work: Promise<StoredImage>): Promise<Result> {
  try {
    return { image: await work };
  } catch (error) {
    if (!(error instanceof ImageError)) throw error;
    return missOf(error.message, error.retryable ? new Date(Date.now() + RETRY_AFTER_MS) : null);
  }
}
