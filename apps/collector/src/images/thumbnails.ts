import type { LimitFunction } from 'p-limit';
import { problem } from '../errors.ts';
import { toJpeg } from './decode.ts';
import { decodeInTurn, decodeSoon } from './decoding.ts';
import { ImageError } from './image-error.ts';
import type { ImageStore } from './store.ts';
import { isMissing } from './temporary.ts';

/** Most thumbnails that are made or wait for requests, which is a wait of a few seconds. */
const MAX_FOR_REQUESTS = 32;

/** Thumbnails of stored images. */
export type Thumbnails = {
  /**
   * Returns a JPEG of a stored image, no side longer than `side` pixels.
   * @throws ImageError where the image is not in the store any more, or is broken there.
   */
  make(sha256: string, side: number): Promise<Buffer>;
  /**
   * Does the same for a request, which does not wait behind jobs.
   * @throws ProblemError `unavailable` where too many wait.
   */
  makeSoon(sha256: string, side: number): Promise<Buffer>;
};

/**
 * Creates the thumbnails of a process. Each is stored, so that it is made once.
 * @param onError Called when a thumbnail could not be stored: it is used, and made again the next time.
 */
export function createThumbnails(
  store: Pick<ImageStore, 'has' | 'read' | 'readThumbnail' | 'putThumbnail' | 'removeThumbnail'>,
  onError: (error: unknown) => void,
): Thumbnails {
  async function keep(sha256: string, side: number, bytes: Buffer): Promise<void> {
    await store.putThumbnail(sha256, side, bytes);
    // The image was removed meanwhile: nobody would remove its thumbnail.
    if (!(await store.has(sha256))) await store.removeThumbnail(sha256, side);
  }

  async function read(sha256: string): Promise<Buffer> {
    try {
      return await store.read(sha256);
    } catch (cause) {
      if (!isMissing(cause)) throw cause;
      throw new ImageError('It is not in the image store any more', { cause });
    }
  }

  /** Callers that want the same thumbnail at one time share it. */
  function createMaker(limit: LimitFunction, maxInProgress: number) {
    const inProgress = new Map<string, Promise<Buffer>>();

    async function make(sha256: string, side: number): Promise<Buffer> {
      const bytes = await limit(async () => toJpeg(await read(sha256), side));
      await keep(sha256, side, bytes).catch(onError);
      return bytes;
    }

    return async (sha256: string, side: number): Promise<Buffer> => {
      const stored = await store.readThumbnail(sha256, side);
      if (stored !== undefined) return stored;
      const key = `${sha256}-${side}`;
      const known = inProgress.get(key);
      if (known !== undefined) return known;
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
    make: createMaker(decodeInTurn, Infinity),
    makeSoon: createMaker(decodeSoon, MAX_FOR_REQUESTS),
  };
}
