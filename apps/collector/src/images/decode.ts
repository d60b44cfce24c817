import { readFile } from 'node:fs/promises';
import sharp from 'sharp';
import { decodeInTurn, MAX_PIXELS, OPTIONS } from './decoding.ts';
import { fingerprint } from './fingerprint.ts';
import { ImageError } from './image-error.ts';
import { detectMediaType, type MediaType } from './media-type.ts';

/** The longest side of what the vision model sees. Specification 001, Limits. */
export const VISION_SIDE = 1024;

/** A picture that was read to its end; sides in pixels as it is seen, turned upright. */
export type Picture = {
  mediaType: MediaType;
  width: number;
  height: number;
  /** See `fingerprint`. */
  fingerprint: string;
};

/**
 * Reads a picture to its end when its turn comes, so that a broken one is found now and not by whoever
 * looks at it.
 * @throws ImageError where the content is none of the types, broken, or has more than 50 megapixels;
 *   what the file system throws, which says nothing of the picture.
 */
export function inspectPicture(path: string): Promise<Picture> {
  return decodeInTurn(() => inspect(path));
}

async function inspect(path: string): Promise<Picture> {
  // Read here and not by sharp, whose errors do not tell a broken picture from a file out of reach.
  const content = await readFile(path);
  const mediaType = detectMediaType(content);
  if (mediaType === undefined) throw new ImageError('It is no JPEG, PNG, WebP, AVIF or GIF');
  try {
    const { autoOrient } = await sharp(content, OPTIONS).metadata();
    // All lines are read for that.
    return { mediaType, ...autoOrient, fingerprint: await fingerprint(content) };
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

/**
 * Within its turn: a JPEG of a picture, upright, on white, no side longer than `side` pixels, without its
 * metadata.
 * @throws ImageError where the content is broken: what is in the store was whole when it came; what sharp throws
 *   where it can be read after all, for want of memory or disk, which says nothing of the picture.
 */
export async function toJpeg(content: Uint8Array, side: number): Promise<Buffer> {
  try {
    return await sharp(content, OPTIONS)
      .autoOrient()
      .resize({ width: side, height: side, fit: 'inside', withoutEnlargement: true })
      .flatten({ background: 'white' })
      .jpeg({ quality: 85 })
      .toBuffer();
  } catch (cause) {
    if (await isWhole(content)) throw cause;
    throw new ImageError('It is broken in the image store: it could not be decoded to its end', {
      cause,
    });
  }
}

/** Whether all lines of a picture can be read. */
function isWhole(content: Uint8Array): Promise<boolean> {
  return fingerprint(content).then(
    () => true,
    () => false,
  );
}
