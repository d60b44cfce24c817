import { readFile } from 'node:fs/promises';
import pLimit from 'p-limit';
import sharp, { type SharpOptions } from 'sharp';

/** Maximum number of pixels of an image. Contract 4, Images. */
const MAX_PIXELS = 50_000_000;

/**
 * Limits decoding to two concurrent images, because each takes up to 200 MB. Read the bytes inside the limited call, so
 * that waiting images use no memory. Nested calls may deadlock.
 */
export const limitDecoding = pLimit(2);

/** Separate limit for the thumbnails of HTTP requests, which must not wait for jobs. */
export const limitRequestDecoding = pLimit(1);

/** Options that read only the first frame, and reject truncated files and too many pixels but not minor defects. */
const SHARP_OPTIONS: SharpOptions = {
  limitInputPixels: MAX_PIXELS,
  pages: 1,
  failOn: 'truncated',
};

// Inputs rarely repeat, so a cache would only waste memory.
sharp.cache(false);

type ImageErrorOptions = ErrorOptions & { retryable?: boolean; retryAt?: Date | undefined };

/**
 * Thrown for an image that cannot be fetched or decoded, or that is missing from the image store. The message may be
 * shown to users.
 */
export class ImageError extends Error {
  override readonly name = 'ImageError';
  /** Whether the same download may succeed later. */
  readonly retryable: boolean;
  /** Earliest time of a retry that the host requested, if any. */
  readonly retryAt: Date | undefined;

  constructor(message: string, { retryable = false, retryAt, ...options }: ImageErrorOptions = {}) {
    super(message, options);
    this.retryable = retryable;
    this.retryAt = retryAt;
  }
}

/** Metadata of an image. The width and height are those of the upright image, in pixels. */
type DecodedImage = { mediaType: string; width: number; height: number; fingerprint: string };

/**
 * Returns the metadata of an image. Decodes the whole image to detect corruption.
 * @throws ImageError if the image has an unsupported type, is corrupt, or exceeds 50 megapixels; file system
 *   errors.
 */
export function inspectImage(path: string): Promise<DecodedImage> {
  return limitDecoding(async () => {
    // Read the file first: a sharp error does not say whether the file is unreadable or the image is corrupt.
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
 * Converts an image to an upright JPEG on white, without metadata, with sides of at most `side` pixels. Call this
 * within a decoding limit.
 * @throws ImageError if the image cannot be decoded.
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

/** Number of bytes at the beginning of a file that identify its type. */
const HEADER_BYTES = 256;

/** Detects a supported media type by the first bytes. Other formats are not decoded: an SVG may refer to files. */
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

/** Size of the control image in pixels. */
export const CONTROL_SIZE = { width: 256, height: 256 } as const;

let controlImage: Buffer | undefined;

/** Returns a plain grey JPEG, which a working vision model can always describe. */
export async function getControlImage(): Promise<Buffer> {
  const greyFill = { ...CONTROL_SIZE, channels: 3, background: 'grey' } as const;
  controlImage ??= await sharp({ create: greyFill }).jpeg().toBuffer();
  return controlImage;
}

/** Number of pixel comparisons per row and per column of the reduced image. */
const GRID_SIZE = 8;

/** Maximum brightness difference that counts as noise, on a scale from 0 to 255. */
const MAX_NOISE_LEVEL = 2;

/**
 * Computes the difference hash of an image: one bit for each pixel of a small copy that is darker than its right
 * neighbour. Copies in other sizes or qualities differ in a few bits. A blank image has the hash 0. The bits form four
 * runs of 16, by which `fingerprint_parts` finds similar hashes. Adjacent pixels, which are often equal, are in
 * different runs.
 * @returns A PostgreSQL `bigint` as text, because a JavaScript number cannot hold it.
 * @throws A sharp error if the image cannot be decoded.
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
 * different bits, one of the four runs is identical, so every copy is found. With five different bits, three of four
 * copies are found.
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
