import type { LimitFunction } from 'p-limit';
import { problem } from '../errors.ts';
import { limitDecoding, limitRequestDecoding, ImageError, convertToJpeg } from './decode.ts';
import { isNotFoundError } from './backends.ts';
import type { ImageStore } from './store.ts';

/** Maximum number of thumbnails in progress for requests. The last one already waits a few seconds. */
const MAX_REQUEST_THUMBNAILS = 32;

/** The thumbnail service. See {@link createThumbnails}. */
export type Thumbnails = ReturnType<typeof createThumbnails>;

/**
 * Creates the thumbnail service of a process, which creates and stores missing thumbnails. Thumbnails are JPEG copies
 * of stored images whose sides have at most `side` pixels.
 * @param onError Called if a thumbnail could not be stored; it is still returned.
 */
export function createThumbnails(
  store: Pick<ImageStore, 'read' | 'readThumbnail' | 'putThumbnail'>,
  onError: (error: unknown) => void,
) {
  async function readImage(sha256: string): Promise<Buffer> {
    try {
      return await store.read(sha256);
    } catch (cause) {
      if (!isNotFoundError(cause)) throw cause;
      throw new ImageError('The image is not in the image store any more', { cause });
    }
  }

  function createThumbnailMaker(limitConcurrency: LimitFunction, maxInProgress: number) {
    const inProgress = new Map<string, Promise<Buffer>>();

    async function make(sha256: string, side: number): Promise<Buffer> {
      const bytes = await limitConcurrency(async () =>
        convertToJpeg(await readImage(sha256), side),
      );
      await store.putThumbnail(sha256, side, bytes).catch(onError);
      return bytes;
    }

    return async (sha256: string, side: number): Promise<Buffer> => {
      const storedThumbnail = await store.readThumbnail(sha256, side);
      if (storedThumbnail !== undefined) return storedThumbnail;
      const key = `${sha256}-${side}`;
      const sharedThumbnail = inProgress.get(key);
      if (sharedThumbnail !== undefined) return sharedThumbnail;
      if (inProgress.size >= maxInProgress) {
        throw problem('unavailable', {
          detail: 'Too many images are being scaled. Try again in a moment.',
          headers: { 'retry-after': '2' },
        });
      }
      const thumbnail = make(sha256, side).finally(() => inProgress.delete(key));
      inProgress.set(key, thumbnail);
      return thumbnail;
    };
  }

  return {
    /** Returns a thumbnail for a job. Throws ImageError if the image is missing or corrupt, or StoreOutageError. */
    makeForJob: createThumbnailMaker(limitDecoding, Infinity),
    /** Returns a thumbnail for a request. Also throws ProblemError `unavailable` if too many are in progress. */
    makeForRequest: createThumbnailMaker(limitRequestDecoding, MAX_REQUEST_THUMBNAILS),
  };
}
