import pLimit from 'p-limit';
import { problem } from '../errors.ts';
import { toJpeg } from './decode.ts';
import type { ImageStore } from './store/store.ts';

/** How many pictures are made smaller at once: each takes up to some 200 MB while it is unpacked. */
const PARALLEL = 2;

/** How many may wait for their turn before requests are refused; a wait is a few seconds then. */
const MAX_WAITING = 32;

export type Resizes = {
  /** A JPEG of a stored picture, no side longer than `side` pixels, when its turn comes. */
  make(sha256: string, side: number): Promise<Buffer>;
  /**
   * The same for a request, which had better come later than wait behind many.
   * @throws ProblemError `unavailable`, with `Retry-After`.
   */
  makeSoon(sha256: string, side: number): Promise<Buffer>;
};

/**
 * Makes stored pictures smaller, a few at once in the whole process, equal ones once for all who want
 * them at the time. What was made is stored, so that it is made once. The bytes are read only when a
 * turn comes, so what waits holds no memory.
 * @param onError Told of a copy that could not be stored: it is used, and made again the next time.
 */
export function createResizes(
  store: Pick<ImageStore, 'read' | 'readThumbnail' | 'putThumbnail'>,
  onError: (error: unknown) => void,
): Resizes {
  const inProgress = new Map<string, Promise<Buffer>>();
  const inTurn = pLimit(PARALLEL);

  async function make(sha256: string, side: number): Promise<Buffer> {
    const bytes = await toJpeg(await store.read(sha256), side);
    await store.putThumbnail(sha256, side, bytes).catch(onError);
    return bytes;
  }

  async function find(sha256: string, side: number, refuse: () => void): Promise<Buffer> {
    const stored = await store.readThumbnail(sha256, side);
    if (stored !== undefined) return stored;
    const key = `${sha256}-${side}`;
    const known = inProgress.get(key);
    if (known !== undefined) return known;
    refuse();
    const made = inTurn(make, sha256, side).finally(() => inProgress.delete(key));
    inProgress.set(key, made);
    return made;
  }

  return {
    make: (sha256, side) => find(sha256, side, () => undefined),
    makeSoon: (sha256, side) => find(sha256, side, () => refuseBehind(inTurn.pendingCount)),
  };
}

function refuseBehind(waiting: number): void {
  if (waiting < MAX_WAITING) return;
  throw problem('unavailable', {
    detail: 'Too many pictures are being made smaller. Try again in a moment.',
    headers: { 'retry-after': '2' },
  });
}
