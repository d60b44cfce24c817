import { readFile } from 'node:fs/promises';
import pLimit from 'p-limit';
import sharp, { type SharpOptions } from 'sharp';

/** Contract 4, Images. */
const MAX_PIXELS = 50_000_000;

/**
 * Limits decoding to two concurrent images, because each takes up to 200 MB. Read the bytes within the limit, so that
 * waiting images use no memory, and do not nest calls.
 */
export const limitDecoding = pLimit(2);

/** Separate limit for HTTP requests, so that they do not wait for jobs. */
export const limitRequestDecoding = pLimit(1);

/** Reads only the first frame of an animation, and rejects truncated files but not minor defects. */
const SHARP_OPTIONS: SharpOptions = {
  limitInputPixels: MAX_PIXELS,
  pages: 1,
  failOn: 'truncated',
};

// Each input is read once, so a cache would only waste memory.
sharp.cache(false);

type ImageErrorOptions = ErrorOptions & { retryable?: boolean; retryAt?: Date | undefined };

/** Thrown for an image that is unusable because of its URL, host or content. The message may be shown to users. */
export class ImageError extends Error {
  override readonly name = 'ImageError';
  /** Whether the same download may succeed later. */
  readonly retryable: boolean;
  /** Retry time that the host requested, if any. */
  readonly retryAt: Date | undefined;

  constructor(message: string, { retryable = false, retryAt, ...options }: ImageErrorOptions = {}) {
    super(message, options);
    this.retryable = retryable;
    this.retryAt = retryAt;
  }
}

/** The width and height are those of the upright image, in pixels. */
type DecodedImage = { mediaType: string; width: number; height: number; fingerprint: string };

/**
 * Decodes a whole image to detect corruption.
 * @throws ImageError if the image has an unsupported type, is corrupt, or exceeds 50 megapixels; file system
 *   errors.
 */
export function inspectImage(path: string): Promise<DecodedImage> {
  return limitDecoding(async () => {
    // A sharp error does not say whether the file is unreadable or the image is corrupt.
    const content = await readFile(path);
    const mediaType = detectMediaType(content);
    if (mediaType === undefined)
      throw new ImageError('The file is not a JPEG, PNG, WebP, AVIF or GIF image');
    try {
      const { autoOrient } = await sharp(content, SHARP_OPTIONS).metadata();
      return { mediaType, ...autoOrient, fingerprint: await computeFingerprint(content) };
    } catch (cause) {
      throw new ImageError(
        /pixel limit/i.test(String(cause))
          ? `The image has more than ${MAX_PIXELS / 1_000_000} megapixels`
          : 'The image is corrupt: it could not be decoded to its end',
        { cause },
      );
    }
  });
}

/**
 * Converts an image to an upright JPEG on white, without metadata, with sides of at most `side` pixels. Call it within
 * a decoding limit.
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
    throw new ImageError(
      'The image in the image store is corrupt: it could not be decoded to its end',
      {
        cause,
      },
    );
  }
}

/** The first bytes of a file identify its type. */
const HEADER_BYTES = 256;

/** Detects the type by the first bytes. Other formats are not decoded, because SVG can refer to other files. */
function detectMediaType(content: Buffer): string | undefined {
  const header = content.toString('latin1', 0, HEADER_BYTES);
  if (header.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  if (header.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png';
  if (/^GIF8[79]a/.test(header)) return 'image/gif';
  if (/^RIFF[^]{4}WEBP/.test(header)) return 'image/webp';
  // The header of an ISO media file lists its brands, four characters each.
  const brands = header.startsWith('ftyp', 4) ? header.slice(8, content.readUInt32BE()) : '';
  return /^(?:[^]{4})*?avi[fs]/.test(brands) ? 'image/avif' : undefined;
}

/** Control image size in pixels. */
export const CONTROL_SIZE = { width: 256, height: 256 } as const;

let controlImage: Buffer | undefined;

/** Returns a plain grey JPEG, which a working vision model can always describe. */
export async function getControlImage(): Promise<Buffer> {
  const greyFill = { ...CONTROL_SIZE, channels: 3, background: 'grey' } as const;
  controlImage ??= await sharp({ create: greyFill }).jpeg().toBuffer();
  return controlImage;
}

/** Compared pixels per row and column of the reduced image. */
const GRID_SIZE = 8;

/** Brightness differences up to this value are noise, on a scale of 255. */
const MAX_NOISE_LEVEL = 2;

/**
 * Computes the difference hash of an image: one bit for each pixel of a small copy that is darker than its right
 * neighbour. Copies in other sizes or qualities differ in a few bits; 0 is a blank image. The pixels form four
 * runs of 16 bits, by which `fingerprint_parts` finds near hashes: adjacent pixels are often equal.
 * @returns A PostgreSQL `bigint`, which a JavaScript number cannot hold.
 * @throws A sharp error if the bytes are not an image.
 */
export async function computeFingerprint(content: Uint8Array): Promise<string> {
  // Scale before rotating, because sharp scales row by row but rotates in memory.
  const scaledSize = GRID_SIZE * GRID_SIZE;
  const scaledImage = sharp(content, SHARP_OPTIONS).resize(scaledSize, scaledSize, { fit: 'fill' });
  const pixels = await sharp(await scaledImage.keepExif().png().toBuffer())
    .autoOrient()
    .flatten({ background: 'white' })
    .greyscale()
    .resize(GRID_SIZE + 1, GRID_SIZE, { fit: 'fill' })
    .raw()
    .toBuffer();
  let bits = 0n;
  for (let index = 0; index < GRID_SIZE * GRID_SIZE; index += 1) {
    const row = Math.floor(index / GRID_SIZE);
    const pixelIndex = row * (GRID_SIZE + 1) + (index % GRID_SIZE);
    const difference = (pixels[pixelIndex + 1] ?? 0) - (pixels[pixelIndex] ?? 0);
    const bit = ((index + row) % 4) * 16 + Math.floor(index / 4);
    if (difference > MAX_NOISE_LEVEL) bits |= 1n << BigInt(bit);
  }
  return BigInt.asIntN(64, bits).toString();
}

/**
 * Maximum number of bits by which fingerprints of copies differ; other images differ in about thirty. With up to three
 * different bits, one of the four runs is identical, so every copy is found. With five bits, three of four copies are
 * found.
 */
export const MAX_COPY_DISTANCE = 5;

/** Returns the number of bits in which two fingerprints differ. */
export function getHammingDistance(a: bigint, b: bigint): number {
  let distance = 0;
  for (
    let remainingBits = BigInt.asUintN(64, a ^ b);
    remainingBits !== 0n;
    remainingBits &= remainingBits - 1n
  )
    distance += 1;
  return distance;
}
