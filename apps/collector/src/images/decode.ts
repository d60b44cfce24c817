import { readFile } from 'node:fs/promises';
import sharp, { type SharpOptions } from 'sharp';
import { ImageError } from './image-error.ts';
import { detectMediaType, type MediaType } from './media-type.ts';

/** Contract 4, Images. */
const MAX_PIXELS = 50_000_000;

/** The longest side of what the vision model sees. Specification 001, Limits. */
export const VISION_SIDE = 1024;

/** Only the first frame of an animation is read; a file that ends early is an error, oddities are not. */
const OPTIONS: SharpOptions = { limitInputPixels: MAX_PIXELS, pages: 1, failOn: 'truncated' };

/** Every input is read once: a cache would only hold memory and open files. */
sharp.cache(false);

/** A picture that was read to its end; sides in pixels as it is seen, turned upright. */
export type Picture = { mediaType: MediaType; width: number; height: number };

/**
 * Reads a picture to its end, so that a broken one is found now and not by whoever looks at it.
 * @throws ImageError where the content is none of the types, broken, or has more than 50 megapixels;
 *   what the file system throws, which says nothing of the picture.
 */
export async function inspectPicture(path: string): Promise<Picture> {
  // Read here and not by sharp, whose errors do not tell a broken picture from a file out of reach.
  const content = await readFile(path);
  const mediaType = detectMediaType(content);
  if (mediaType === undefined) throw new ImageError('It is no JPEG, PNG, WebP, AVIF or GIF');
  try {
    const { autoOrient } = await sharp(content, OPTIONS).metadata();
    // All lines are read for the smallest result too.
    await sharp(content, OPTIONS).resize(1).raw().toBuffer();
    return { mediaType, ...autoOrient };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ImageError(
      /pixel limit/i.test(reason)
        ? `It has more than ${MAX_PIXELS / 1_000_000} megapixels`
        : 'It is broken: it could not be decoded to its end',
      { cause },
    );
  }
}

/** A JPEG of a picture, upright, on white, no side longer than `side` pixels, without its metadata. */
export function toJpeg(content: Uint8Array, side: number): Promise<Buffer> {
  return sharp(content, OPTIONS)
    .autoOrient()
    .resize({ width: side, height: side, fit: 'inside', withoutEnlargement: true })
    .flatten({ background: 'white' })
    .jpeg({ quality: 85 })
    .toBuffer();
}
