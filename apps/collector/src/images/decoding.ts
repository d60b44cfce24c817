import pLimit from 'p-limit';
import sharp, { type SharpOptions } from 'sharp';

/** Contract 4, Images. */
export const MAX_PIXELS = 50_000_000;

/**
 * Runs what unpacks a picture when its turn comes: jobs and upkeep share two turns, however many of them there
 * are. A picture takes up to some 200 MB meanwhile. Read the bytes within the turn, so that what waits holds
 * no memory. A turn must not wait for another one.
 */
export const decodeInTurn = pLimit(2);

/** The same for requests: a turn of their own, so that somebody who looks does not wait behind the jobs. */
export const decodeSoon = pLimit(1);

/** Only the first frame of an animation is read; a file that ends early is an error, oddities are not. */
export const OPTIONS: SharpOptions = {
  limitInputPixels: MAX_PIXELS,
  pages: 1,
  failOn: 'truncated',
};

/** Every input is read once: a cache would only hold memory and open files. */
sharp.cache(false);
