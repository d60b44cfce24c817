import { rm } from 'node:fs/promises';
import type { Disk } from '../disk/disk.ts';
import { inspectPicture } from './decode.ts';
import type { Download } from './download.ts';
import { ImageError } from './image-error.ts';
import type { Result } from './listing-picture.ts';
import type { HostPatience } from './patience.ts';
import { missOf, type StoredImage } from './repository.ts';
import { retryTime } from './retry-time.ts';
import type { StoreState } from './store/outage.ts';
import type { ImageStore } from './store/store.ts';
import type { TemporaryFile } from './temporary-file.ts';

/** Stores pictures, one at a time. A bad picture is a result; anything else that fails is a failure. */
export type Gather = {
  /** Stores the bytes that an address gives, while there is patience with it. */
  fetch(url: string, options: { signal: AbortSignal; patience: HostPatience }): Promise<Result>;
  /** Stores a file's bytes; the file stays. */
  keep(file: TemporaryFile): Promise<Result>;
};

/**
 * Makes it over the store, with room on the disk asked for before each download. A failure of this machine on a
 * picture's way to the store counts as one of the store. Contract 4, Images.
 */
export function createGather(deps: {
  store: Pick<ImageStore, 'put'>;
  storeState: Pick<StoreState, 'toOutage'>;
  disk: Pick<Disk, 'need'>;
  download: Download;
}): Gather {
  const { store, storeState, disk, download } = deps;

  async function keep({ path, sha256, bytes }: TemporaryFile): Promise<StoredImage> {
    const { mediaType, ...seen } = await inspectPicture(path);
    await store.put(sha256, path);
    return { sha256, media_type: mediaType, bytes, ...seen };
  }

  async function fetchAndKeep(
    url: string,
    { signal, patience }: { signal: AbortSignal; patience: HostPatience },
  ): Promise<StoredImage> {
    patience.check(url);
    await disk.need().catch((error: unknown) => {
      throw storeState.toOutage(error);
    });
    const file = await download(url, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      if (!(error instanceof ImageError)) throw storeState.toOutage(error);
      patience.note(url, error);
      throw error;
    });
    try {
      return await keep(file);
    } finally {
      await rm(file.path, { force: true }).catch((error: unknown) => {
        throw storeState.toOutage(error);
      });
    }
  }

  return {
    fetch: (url, options) => unlessBad(fetchAndKeep(url, options)),
    keep: (file) => unlessBad(keep(file)),
  };
}

async function unlessBad(work: Promise<StoredImage>): Promise<Result> {
  try {
    return { image: await work };
  } catch (error) {
    if (!(error instanceof ImageError)) throw error;
    return missOf(error.message, retryTime(error));
  }
}
