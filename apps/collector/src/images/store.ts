import type { Logger } from '@oselya/kit';
import { Gauge, type Registry } from 'prom-client';
import { waitWithTimeout, rejectOnAbort, pause } from '../async/wait.ts';
import type { Config } from '../config.ts';
import { isDiskLow } from '../free-disk-space.ts';
import { type ImageBackend, isNotFoundError, openBucket, openLocalFolder } from './backends.ts';

/** Store of images by the SHA-256 of their bytes, so that duplicates share a file. */
export type ImageStore = OpenStore['store'];

export type StoreState = OpenStore['state'];

type OpenStore = ReturnType<typeof createImageStore>;

/** Maximum sides of thumbnails in pixels: for lists, and for detail views and the vision model. */
export const THUMBNAIL_SIDES = [320, 1024] as const;

/** Thrown if the image store failed. All errors of one outage share the same `outage` object. */
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
const MIN_PAUSE_MS = 500;
const MAX_PAUSE_MS = 5000;
const PROBE_TIMEOUT_MS = 10_000;

const PROBE_KEY = 'probe';
const PROBE_CONTENT = 'Written to see whether images can be stored.';

/**
 * Opens the configured image store. Contract 1, IMAGE_STORE.
 * @param options.folder Local store folder.
 * @param options.getTemporaryFolder Returns the folder of incomplete files, on the same file system.
 */
export async function openImageStore(
  config: Config,
  options: {
    folder: string;
    getTemporaryFolder: () => string;
    log: Pick<Logger, 'warn' | 'info'>;
  },
): Promise<OpenStore> {
  const { folder, getTemporaryFolder, log } = options;
  const isLocal = config.IMAGE_STORE === 'file';
  const backend = isLocal ? openLocalFolder(folder, getTemporaryFolder) : await openBucket(config);
  return createImageStore(backend, { log });
}

/**
 * Creates an image store on a folder or a bucket. Every failure except a missing object and a full disk starts an
 * outage. The outage ends when a probe can be written and read, because in many outages only writes fail.
 * @param options.minPauseMs Delay between the first two probes, in milliseconds.
 */
export function createImageStore(
  backend: ImageBackend,
  options: { log: Pick<Logger, 'warn' | 'info'>; minPauseMs?: number },
) {
  const { log, minPauseMs = MIN_PAUSE_MS } = options;
  const closeController = new AbortController();
  let outage: object | undefined;

  async function probe(): Promise<boolean> {
    const probeResult = backend.put(PROBE_KEY, PROBE_CONTENT).then(() => backend.read(PROBE_KEY));
    return waitWithTimeout(probeResult, PROBE_TIMEOUT_MS).catch(() => false);
  }

  async function endOutageWhenUsable(): Promise<void> {
    const startedAt = performance.now();
    for (let pauseMs = minPauseMs; !(await probe()); pauseMs *= 2) {
      await pause(Math.min(pauseMs, MAX_PAUSE_MS), closeController.signal);
      if (closeController.signal.aborted) return;
    }
    outage = undefined;
    const durationMs = Math.round(performance.now() - startedAt);
    log.info({ lasted_ms: durationMs }, 'the image store can be used again');
  }

  function toOutageError(error: unknown): unknown {
    if (error instanceof StoreOutageError || isNotFoundError(error) || isDiskLow(error))
      return error;
    if (outage === undefined) {
      outage = {};
      log.warn({ err: error }, 'the image store failed: no job is claimed until it can be used');
      void endOutageWhenUsable();
    }
    return new StoreOutageError(outage, error);
  }

  async function detectOutage<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      throw toOutageError(error);
    }
  }

  const store = {
    /** Stores a copy of a file, unless the store has this hash. Returns whether the image is new. */
    put: (sha256: string, path: string): Promise<boolean> =>
      detectOutage(async () => {
        const key = getImageKey(sha256);
        if (await backend.exists(key)) return false;
        await backend.putFile(key, path);
        return true;
      }),
    has: (sha256: string) => detectOutage(() => backend.exists(getImageKey(sha256))),
    /** Reads a whole image. Call this within a decoding limit, so that few images are in memory. */
    read: (sha256: string) => detectOutage(() => backend.read(getImageKey(sha256))),
    openStream: (sha256: string) => detectOutage(() => backend.openStream(getImageKey(sha256))),
    /** Reads a thumbnail; undefined if it is not stored. */
    readThumbnail: (sha256: string, side: number): Promise<Buffer | undefined> =>
      detectOutage(() =>
        backend.read(getThumbnailKey(sha256, side)).catch((error: unknown) => {
          if (isNotFoundError(error)) return undefined;
          throw error;
        }),
      ),
    /** Stores a thumbnail, unless its image has been removed in the meantime. */
    putThumbnail: (sha256: string, side: number, bytes: Uint8Array): Promise<void> =>
      detectOutage(async () => {
        const key = getThumbnailKey(sha256, side);
        await backend.put(key, bytes);
        // No later cleanup would find the thumbnail of a removed image.
        if (!(await backend.exists(getImageKey(sha256)))) await backend.remove(key);
      }),
    /** Removes an image and then its thumbnails, so that `putThumbnail` detects a concurrent removal. */
    remove: (sha256: string): Promise<void> =>
      detectOutage(async () => {
        await backend.remove(getImageKey(sha256));
        for (const side of THUMBNAIL_SIDES) await backend.remove(getThumbnailKey(sha256, side));
      }),
  };

  const state = {
    /** Whether an outage is in progress. During an outage, this process claims no job. */
    get isUnavailable(): boolean {
      return outage !== undefined;
    },
    /** Returns whether no outage is in progress and the store responds before the signal aborts. */
    async isReachable(signal: AbortSignal): Promise<boolean> {
      if (outage !== undefined) return false;
      const response = detectOutage(() => backend.exists(PROBE_KEY)).then(() => true);
      return rejectOnAbort(signal, response).catch(() => false);
    },
    /** Converts an error to a StoreOutageError and starts an outage, unless a file is missing or the disk is full. */
    toOutageError,
  };

  /** Stops probes and closes connections. */
  const close = () => {
    closeController.abort();
    backend.close();
  };
  return { store, state, close };
}

function getImageKey(sha256: string): string {
  return `${sha256.slice(0, 2)}/${sha256.slice(2, 4)}/${sha256}`;
}

function getThumbnailKey(sha256: string, side: number): string {
  return `thumbnails/${side}/${getImageKey(sha256)}`;
}

/** Registers the gauge that shows whether this process can use the image store. */
export function registerStoreMetrics(
  registry: Registry,
  { imageStore }: { imageStore: Pick<StoreState, 'isUnavailable'> },
): void {
  const gauge = new Gauge({
    name: 'collector_image_store_away',
    help: '1 while the image store cannot be used. No payload is claimed then.',
    registers: [registry],
    collect() {
      gauge.set(imageStore.isUnavailable ? 1 : 0);
    },
  });
}
