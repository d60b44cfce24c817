import type { LimitFunction } from 'p-limit';
import { problem } from '../errors.ts';
import { limitDecoding, limitRequestDecoding, ImageError, convertToJpeg } from './decode.ts';
import { isMissing } from './disks.ts';
import type { ImageStore } from './store.ts';

/** Maximum thumbnails in progress for requests. The last one waits a few seconds. */
const MAX_FOR_REQUESTS = 32;

/** JPEG copies of stored images with sides of at most `side` pixels. */
export type Thumbnails = ReturnType<typeof createThumbnails>;

/**
 * Creates the thumbnails of a process. Each thumbnail is created once and stored.
 * @param onError Called if a thumbnail could not be stored; it is still returned.
 */
export function createThumbnails(
  store: Pick<ImageStore, 'read' | 'readThumbnail' | 'putThumbnail'>,
  onError: (error: unknown) => void,
) {
  async function read(sha256: string): Promise<Buffer> {
    try {
      return await store.read(sha256);
    } catch (cause) {
      if (!isMissing(cause)) throw cause;
      throw new ImageError('It is not in the image store any more', { cause });
    }
  }

  function createMaker(limit: LimitFunction, maxInProgress: number) {
    const inProgress = new Map<string, Promise<Buffer>>();

    async function make(sha256: string, side: number): Promise<Buffer> {
      const bytes = await limit(async () => convertToJpeg(await read(sha256), side));
      await store.putThumbnail(sha256, side, bytes).catch(onError);
      return bytes;
    }

    return async (sha256: string, side: number): Promise<Buffer> => {
      const stored = await store.readThumbnail(sha256, side);
      if (stored !== undefined) return stored;
      const key = `${sha256}-${side}`;
      const shared = inProgress.get(key);
      if (shared !== undefined) return shared;
      if (inProgress.size >= maxInProgress) {
        throw problem('unavailable', {
          detail: 'Too many images are being scaled. Try again in a moment.',
          headers: { 'retry-after': '2' },
        });
      }
      const made = make(sha256, side).finally(() => inProgress.delete(key));
      inProgress.set(key, made);
      return made;
    };
  }

  return {
    /** @throws ImageError if the stored image is missing or corrupt. */
    makeForJob: createMaker(limitDecoding, Infinity),
    /** @throws ImageError like `makeForJob`; ProblemError `unavailable` if too many requests wait. */
    makeForRequest: createMaker(limitRequestDecoding, MAX_FOR_REQUESTS),
  };
}
