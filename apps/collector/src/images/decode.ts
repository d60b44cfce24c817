import { readFile } from 'node:fs/promises';
import pLimit from 'p-limit';
import sharp, { type SharpOptions } from 'sharp';

/** Contract 4, Images. */
const MAX_PIXELS = 50_000_000;

/**
 * Limits decoding to two images at once, over all jobs: each takes up to some 200 MB. Read the bytes within it,
 * so that
 * waiting images hold no memory, and do not nest it.
 */
export const limitDecoding = pLimit(2);

/** Separate limit for HTTP requests, so that they do not wait for jobs. */
export const limitRequestDecoding = pLimit(1);

/** Reads the first frame of an animation; a file that ends early is an error, oddities are not. */
const SHARP_OPTIONS: SharpOptions = {
  limitInputPixels: MAX_PIXELS,
  pages: 1,
  failOn: 'truncated',
};

/** Inputs are read once, so a cache would only waste memory. */
sharp.cache(false);

/** An image cannot be used because of its URL, its host or its content. The message is public. */
export class ImageError extends Error {
  override readonly name = 'ImageError';
  /** Whether the same download may succeed later. */
  readonly retryable: boolean;
  /** Retry time that the host requested, if any. */
  readonly retryAt: Date | undefined;

  constructor(
    message: string,
    options: { retryable?: boolean; retryAt?: Date | undefined; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.retryable = options.retryable ?? false;
    this.retryAt = options.retryAt;
  }
}

/** A decoded image; its sides in pixels are those of the upright image. */
export type DecodedImage = {
  mediaType: string;
  width: number;
  height: number;
  fingerprint: string;
};

/**
 * Decodes a whole image to detect corruption.
 * @throws ImageError for content that is of no accepted type, broken, or larger than 50 megapixels; errors of the
 *   file
 *   system.
 */
export function inspectImage(path: string): Promise<DecodedImage> {
  return limitDecoding(async () => {
    // sharp's own errors do not tell a broken image from a file that cannot be read.
    const content = await readFile(path);
    const mediaType = detectMediaType(content);
    if (mediaType === undefined) throw new ImageError('It is no JPEG, PNG, WebP, AVIF or GIF');
    try {
      const { autoOrient } = await sharp(content, SHARP_OPTIONS).metadata();
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
  });
}

/**
 * Returns a JPEG of an image, upright, on white, no side longer than `side` pixels, without metadata. Call it within
 * `limitDecoding`.
 * @throws ImageError
 */
export async function convertToJpeg(content: Uint8Array, side: number): Promise<Buffer> {
  try {
    return await sharp(content, SHARP_OPTIONS)
      .autoOrient()
      .resize({ width: side, height: side, fit: 'inside', withoutEnlargement: true })
      .flatten({ background: 'white' })
      .jpeg({ quality: 85 })
      .toBuffer();
  } catch (cause) {
    throw new ImageError('It is broken in the image store: it could not be decoded to its end', {
      cause,
    });
  }
}

/** The first bytes of a file, which tell its type. */
const START_BYTES = 256;

/** Returns an image's type by its first bytes. Nothing else is decoded: SVG can refer to other files. */
function detectMediaType(content: Buffer): string | undefined {
  const start = content.toString('latin1', 0, START_BYTES);
  if (start.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  if (start.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png';
  if (/^GIF8[79]a/.test(start)) return 'image/gif';
  if (/^RIFF[^]{4}WEBP/.test(start)) return 'image/webp';
  // AVIF is among the brands of an ISO media file, four characters each.
  const brands = start.startsWith('ftyp', 4) ? start.slice(8, content.readUInt32BE()) : '';
  return /^(?:[^]{4})*?avi[fs]/.test(brands) ? 'image/avif' : undefined;
}

/** The size of the control image, in pixels. */
export const CONTROL_SIZE = { width: 256, height: 256 } as const;

let control: Buffer | undefined;

/** Returns a plain grey JPEG, which no model has a reason to fail on. */
export async function getControlImage(): Promise<Buffer> {
  const grey = { ...CONTROL_SIZE, channels: 3, background: 'grey' } as const;
  control ??= await sharp({ create: grey }).jpeg().toBuffer();
  return control;
}

/** Comparisons a side, of neighbouring pixels. */
const SIDE = 8;

/** Differences of brightness up to this are noise, of 255. */
const NOISE = 2;

/**
 * Returns a difference hash of an image: for each of 8 × 8 places, whether it is darker there than to the right.
 * A copy
 * in another size or quality differs in a few bits; 0 is a blank image. Each run of sixteen bits has places from all
 * over the image: near hashes are found by runs (`fingerprint_parts`), and a white sky would make one meaningless.
 * @returns As PostgreSQL writes a `bigint`: JavaScript's numbers do not hold it.
 * @throws The error of sharp for bytes that are no image.
 */
export async function fingerprint(content: Uint8Array): Promise<string> {
  // Turned upright only when it is small: sharp shrinks an image by lines, and turns it in memory.
  const side = SIDE * SIDE;
  const small = sharp(content, SHARP_OPTIONS).resize(side, side, { fit: 'fill' });
  const pixels = await sharp(await small.keepExif().png().toBuffer())
    .autoOrient()
    .flatten({ background: 'white' })
    .greyscale()
    .resize(SIDE + 1, SIDE, { fit: 'fill' })
    .raw()
    .toBuffer();
  let bits = 0n;
  for (let place = 0; place < SIDE * SIDE; place += 1) {
    const row = Math.floor(place / SIDE);
    const left = row * (SIDE + 1) + (place % SIDE);
    const rise = (pixels[left + 1] ?? 0) - (pixels[left] ?? 0);
    // Deals places out to the four runs, each row beginning with the next.
    const bit = ((place + row) % 4) * 16 + Math.floor(place / 4);
    if (rise > NOISE) bits |= 1n << BigInt(bit);
  }
  return BigInt.asIntN(64, bits).toString();
}

/**
 * Maximum number of different bits in the fingerprints of copies; other images differ in some thirty. Up to three bits
 * one of the four runs is the same, so those are always found; with four bits nine in ten are, with five three in
 * four.
 */
export const MAX_COPY_DISTANCE = 5;

/** Returns in how many bits two fingerprints differ. */
export function hammingDistance(one: bigint, other: bigint): number {
  let distance = 0;
  for (let rest = BigInt.asUintN(64, one ^ other); rest !== 0n; rest &= rest - 1n) distance += 1;
  return distance;
}
