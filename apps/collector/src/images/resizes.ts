import { problem } from '../errors.ts';
import { toJpeg } from './decode.ts';
import type { ImageStore } from './store.ts';

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
 * them at the time. The bytes are read only when a turn comes, so what waits holds no memory.
 */
export function createResizes(store: Pick<ImageStore, 'read'>): Resizes {
  const inProgress = new Map<string, Promise<Buffer>>();
  const waiting: (() => void)[] = [];
  let free = PARALLEL;

  async function inTurn(sha256: string, side: number): Promise<Buffer> {
    if (free > 0) free -= 1;
    // Whoever ends hands the turn on, so nobody who comes between can take it.
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await toJpeg(await store.read(sha256), side);
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  }

  function make(sha256: string, side: number): Promise<Buffer> {
    const key = `${sha256}-${side}`;
    const known = inProgress.get(key);
    if (known !== undefined) return known;
    const made = inTurn(sha256, side).finally(() => inProgress.delete(key));
    inProgress.set(key, made);
    return made;
  }

  return {
    make,
    async makeSoon(sha256, side) {
      if (waiting.length >= MAX_WAITING && !inProgress.has(`${sha256}-${side}`)) {
        throw problem('unavailable', {
          detail: 'Too many pictures are being made smaller. Try again in a moment.',
          headers: { 'retry-after': '2' },
        });
      }
      return make(sha256, side);
    },
  };
}
