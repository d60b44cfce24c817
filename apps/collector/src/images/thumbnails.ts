import type { LimitFunction } from 'p-limit';
import { problem } from '../errors.ts';
import { limitDecoding, limitRequestDecoding, ImageError, convertToJpeg } from './decode.ts';
import { type ImageStore, isMissing } from './store.ts';

/** Thumbnails in progress or waiting for requests, which is a wait of a few seconds. */
const MAX_FOR_REQUESTS = 32;

/** JPEGs of stored images, no side longer than `side` pixels. */
export type Thumbnails = ReturnType<typeof createThumbnails>;

/**
 * Creates the thumbnails of a process. Each is stored, so that it is made once.
 * @param onError Called when a thumbnail could not be stored: it is used, and made again the next time.
 */
export function createThumbnails(
  store: Pick<ImageStore, 'has' | 'read' | 'readThumbnail' | 'putThumbnail' | 'removeThumbnail'>,
  onError: (error: unknown) => void,
) {
  async function keep(sha256: string, side: number, bytes: Buffer): Promise<void> {
    await store.putThumbnail(sha256, side, bytes);
    // A thumbnail of an image that was removed meanwhile would stay for ever.
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
      const bytes = await limit(async () => convertToJpeg(await read(sha256), side));
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
    /** @throws ImageError where the image is gone from the store, or broken there. */
    make: createMaker(limitDecoding, Infinity),
    /**
     * Makes one for a request, which does not wait behind jobs.
     * @throws ProblemError `unavailable` where too many wait.
     */
    makeSoon: createMaker(limitRequestDecoding, MAX_FOR_REQUESTS),
  };
}
