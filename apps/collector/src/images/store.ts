import type { Logger } from '@oselya/kit';
import type { Disk as StoreDisk } from 'flydrive';
import { Gauge, type Registry } from 'prom-client';
import { settlesWithin, rejectOnAbort, pause } from '../async/wait.ts';
import type { Config } from '../config.ts';
import { isDiskLow } from '../free-disk-space.ts';
import { openLocalFolder } from './local-folder.ts';
import { openBucket } from './s3-bucket.ts';

/** Stores images by the SHA-256 of their bytes, so that duplicates share a file. */
export type ImageStore = OpenStore['store'];

/** Availability of the image store. */
export type StoreState = OpenStore['state'];

/** An image store, its availability, and a function that closes its connections. */
export type OpenStore = ReturnType<typeof createImageStore>;

/** Sides of thumbnails in pixels: for lists, and for detail views and the vision model. */
export const THUMBNAIL_SIDES = [320, 1024] as const;

/**
 * The image store failed. All errors of one outage share the same `outage` object.
 */
export class StoreOutageError extends Error {
  override readonly name = 'StoreOutageError';
  readonly retryable = true;
  readonly outage: object;

  constructor(outage: object, cause: unknown) {
    super('The image store failed', { cause });
    this.outage = outage;
  }
}

/** Initial and maximum delay between probes of an unavailable store. The delay doubles each time. */
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;
/** Timeout of one probe. */
const TRY_MS = 10_000;

/** Object that probes write and read. */
const PROBE_KEY = 'probe';
const PROBE = 'Written to see whether images can be stored.';

/**
 * Opens the configured image store. Contract 1, IMAGE_STORE.
 * @param options.folder The folder of a store on this machine.
 * @param options.temporary Returns a folder on the same file system for files that are not complete yet.
 */
export async function openImageStore(
  config: Config,
  options: { folder: string; temporary: () => string; log: Pick<Logger, 'warn' | 'info'> },
): Promise<OpenStore> {
  const { folder, temporary, log } = options;
  if (config.IMAGE_STORE === 'file') {
    return createImageStore(openLocalFolder(folder, temporary), { log });
  }
  const { disk, close } = await openBucket({
    endpoint: config.S3_ENDPOINT,
    region: config.S3_REGION,
    bucket: config.S3_BUCKET,
    accessKeyId: config.S3_ACCESS_KEY_ID,
    secretAccessKey: config.S3_SECRET_ACCESS_KEY,
    forcePathStyle: config.S3_FORCE_PATH_STYLE,
  });
  const opened = createImageStore(disk, { log });
  return {
    ...opened,
    close() {
      opened.close();
      close();
    },
  };
}

/**
 * Creates a store on a folder or a bucket: `ab/cd/abcd…`, and thumbnails in `thumbnails/320/ab/cd/abcd…`. Every
 * failure but a missing object and a full disk begins an outage, which ends when a small object could be written and
 * read: many outages are of writing alone.
 * @param options.firstPauseMs Delay between the first two probes, in milliseconds.
 */
export function createImageStore(
  disk: Pick<StoreDisk, 'put' | 'copyFromFs' | 'exists' | 'getBytes' | 'getStream' | 'delete'>,
  options: { log: Pick<Logger, 'warn' | 'info'>; firstPauseMs?: number },
) {
  const { log, firstPauseMs = FIRST_PAUSE_MS } = options;
  const closed = new AbortController();
  let outage: object | undefined;

  async function canBeUsed(): Promise<boolean> {
    const used = disk.put(PROBE_KEY, PROBE).then(() => disk.getBytes(PROBE_KEY));
    return settlesWithin(used, TRY_MS).catch(() => false);
  }

  async function untilUsable(): Promise<void> {
    const since = performance.now();
    for (let pauseMs = firstPauseMs; !(await canBeUsed()); pauseMs *= 2) {
      await pause(Math.min(pauseMs, LONGEST_PAUSE_MS), closed.signal);
      if (closed.signal.aborted) return;
    }
    outage = undefined;
    const lasted_ms = Math.round(performance.now() - since);
    log.info({ lasted_ms }, 'the image store can be used again');
  }

  function toOutage(error: unknown): unknown {
    if (error instanceof StoreOutageError || isMissing(error) || isDiskLow(error)) return error;
    if (outage === undefined) {
      outage = {};
      log.warn({ err: error }, 'the image store failed: nothing is claimed until it can be used');
      void untilUsable();
    }
    return new StoreOutageError(outage, error);
  }

  async function withOutageDetection<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      throw toOutage(error);
    }
  }

  async function read(key: string): Promise<Buffer> {
    const { buffer, byteOffset, byteLength } = await disk.getBytes(key);
    return Buffer.from(buffer, byteOffset, byteLength);
  }

  const store = {
    /** Stores a file's content, unless it is there; the file stays. */
    put: (sha256: string, path: string): Promise<void> =>
      withOutageDetection(async () => {
        const key = imageKey(sha256);
        if (!(await disk.exists(key))) await disk.copyFromFs(path, key);
      }),
    has: (sha256: string) => withOutageDetection(() => disk.exists(imageKey(sha256))),
    /** Reads the whole content. Call it within `limitDecoding`, so that few images are in memory at once. */
    read: (sha256: string) => withOutageDetection(() => read(imageKey(sha256))),
    stream: (sha256: string) => withOutageDetection(() => disk.getStream(imageKey(sha256))),
    /** Reads a stored thumbnail; undefined where there is none. */
    readThumbnail: (sha256: string, side: number): Promise<Buffer | undefined> =>
      withOutageDetection(async () => {
        const key = thumbnailKey(sha256, side);
        return (await disk.exists(key)) ? read(key) : undefined;
      }),
    putThumbnail: (sha256: string, side: number, bytes: Uint8Array) =>
      withOutageDetection(() => disk.put(thumbnailKey(sha256, side), bytes)),
    removeThumbnail: (sha256: string, side: number) =>
      withOutageDetection(() => disk.delete(thumbnailKey(sha256, side))),
    /** Removes the content and its thumbnails, if they are there. */
    remove: (sha256: string): Promise<void> =>
      withOutageDetection(async () => {
        const thumbnails = THUMBNAIL_SIDES.map((side) => thumbnailKey(sha256, side));
        // Thumbnails once more after the content: one may have been stored in between.
        for (const key of [...thumbnails, imageKey(sha256), ...thumbnails]) await disk.delete(key);
      }),
  };

  const state = {
    /** Whether an outage is in progress. During an outage, no job is claimed. */
    get isAway(): boolean {
      return outage !== undefined;
    },
    /** Resolves to whether the store responds before the signal aborts. */
    async answers(signal: AbortSignal): Promise<boolean> {
      if (outage !== undefined) return false;
      const answered = withOutageDetection(() => disk.exists(PROBE_KEY)).then(
        () => true,
        () => false,
      );
      return rejectOnAbort(signal, answered).catch(() => false);
    },
    /** Returns the error of an outage for a failure on an image's way to the store, unless it is a full disk. */
    toOutage,
  };

  return { store, state, close: () => closed.abort() };
}

function imageKey(sha256: string): string {
  return `${sha256.slice(0, 2)}/${sha256.slice(2, 4)}/${sha256}`;
}

function thumbnailKey(sha256: string, side: number): string {
  return `thumbnails/${side}/${imageKey(sha256)}`;
}

/** Tells whether an error, or its cause, says that a file or an object of the store is not there. */
export function isMissing(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const isCode = 'code' in error && error.code === 'ENOENT';
  return isCode || error.name === 'NoSuchKey' || isMissing(error.cause);
}

/** Registers the gauge that tells whether this process can use the image store. */
export function registerStoreMetrics(
  registry: Registry,
  { imageStore }: { imageStore: Pick<StoreState, 'isAway'> },
): void {
  const away = new Gauge({
    name: 'collector_image_store_away',
    help: '1 while the image store cannot be used: no payload is taken off the queue then.',
    registers: [registry],
    collect() {
      away.set(imageStore.isAway ? 1 : 0);
    },
  });
}
