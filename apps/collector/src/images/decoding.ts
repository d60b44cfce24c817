import pLimit from 'p-limit';
import sharp, { type SharpOptions } from 'sharp';

/** Contract 4, Images. */
export const MAX_PIXELS = 50_000_000;

/**
 * Limits decoding to two images at once, over all jobs and upkeep: each takes up to some 200 MB. Read the bytes within
 * it, so that waiting ones hold no memory, and do not nest it.
 */
export const decodeInTurn = pLimit(2);

/** The limit of requests, which do not wait behind jobs. */
export const decodeSoon = pLimit(1);

/** Reads the first frame of an animation; a file that ends early is an error, oddities are not. */
export const SHARP_OPTIONS: SharpOptions = {
  limitInputPixels: MAX_PIXELS,
  pages: 1,
  failOn: 'truncated',
};

/** Every input is read once: a cache would only hold memory and open files. */
sharp.cache(false);
