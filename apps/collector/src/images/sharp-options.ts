import sharp, { type SharpOptions } from 'sharp';

/** Contract 4, Images. */
export const MAX_PIXELS = 50_000_000;

/** Only the first frame of an animation is read; a file that ends early is an error, oddities are not. */
export const OPTIONS: SharpOptions = {
  limitInputPixels: MAX_PIXELS,
  pages: 1,
  failOn: 'truncated',
};

/** Every input is read once: a cache would only hold memory and open files. */
sharp.cache(false);
