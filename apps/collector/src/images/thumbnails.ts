import type { LimitFunction } from 'p-limit';
import { problem } from '../errors.ts';
import { toJpeg } from './decode.ts';
import { decodeInTurn, decodeSoon } from './decoding.ts';
import { ImageError } from './image-error.ts';
import { isNotThere } from './missing.ts';
import type { ImageStore } from './store/store.ts';

/**
 * How many smaller copies for requests may be made or wait before further ones are refused; a wait is a few
 * seconds then.
 */
const MAX_FOR_REQUESTS = 32;

/** Smaller copies of stored pictures, for the model and for whoever asks. */
export type Thumbnails = {
  /**
   * A JPEG of a stored picture, no side longer than `side` pixels, when its turn comes.
   * @throws ImageError where the picture is not in the store any more, or is broken there.
   */
  make(sha256: string, side: number): Promise<Buffer>;
  /**
   * The same for a request, which does not wait for jobs, and had better come later than wait behind many.
   * @throws ProblemError `unavailable`, with `Retry-After`.
   */
  makeSoon(sha256: string, side: number): Promise<Buffer>;
};

/**
 * Makes stored pictures smaller, each when its turn comes (see `decodeInTurn`), equal ones once for all jobs,
 * and once for all requests, that want them at the time. What was made is stored, so that it is made once.
 * @param onError Told of a copy that could not be stored: it is used, and made again the next time.
 */
export function createThumbnails(
  store: Pick<ImageStore, 'has' | 'read' | 'readThumbnail' | 'putThumbnail' | 'removeThumbnail'>,
  onError: (error: unknown) => void,
): Thumbnails {
  return {
    make: createMaker(decodeInTurn),
    makeSoon: createMaker(decodeSoon, refuseBehind),
  };

  /** Of a picture that was removed meanwhile nobody would look for a smaller copy any more. */
  async function keep(sha256: string, side: number, bytes: Buffer): Promise<void> {
    await store.putThumbnail(sha256, side, bytes);
    if (!(await store.has(sha256))) await store.removeThumbnail(sha256, side);
  }

  /** A store may be an older copy of itself, in which pictures are missing that the database knows. */
  async function read(sha256: string): Promise<Buffer> {
    try {
      return await store.read(sha256);
    } catch (cause) {
      if (!isNotThere(cause)) throw cause;
      throw new ImageError('It is not in the image store any more', { cause });
    }
  }

  function createMaker(inTurn: LimitFunction, refuse?: (inProgress: number) => void) {
    const inProgress = new Map<string, Promise<Buffer>>();

    async function make(sha256: string, side: number): Promise<Buffer> {
      const bytes = await inTurn(async () => toJpeg(await read(sha256), side));
      await keep(sha256, side, bytes).catch(onError);
      return bytes;
    }

    return async (sha256: string, side: number): Promise<Buffer> => {
      const stored = await store.readThumbnail(sha256, side);
      if (stored !== undefined) return stored;
      const key = `${sha256}-${side}`;
      const known = inProgress.get(key);
      if (known !== undefined) return known;
      refuse?.(inProgress.size);
      const made = make(sha256, side).finally(() => inProgress.delete(key));
      inProgress.set(key, made);
      return made;
    };
  }
}

function refuseBehind(inProgress: number): void {
  if (inProgress < MAX_FOR_REQUESTS) return;
  throw problem('unavailable', {
    detail: 'Too many pictures are being made smaller. Try again in a moment.',
    headers: { 'retry-after': '2' },
  });
}
