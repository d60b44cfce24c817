import { readFile } from 'node:fs/promises';
import sharp from 'sharp';
import { decodeInTurn, MAX_PIXELS, SHARP_OPTIONS } from './decoding.ts';
import { fingerprint } from './fingerprint.ts';
import { ImageError } from './image-error.ts';

/** The longest side of what the vision model sees. Specification 001, Limits. */
export const VISION_SIDE = 1024;

/** The accepted types of images. Contract 4, Images. */
export type MediaType = 'image/jpeg' | 'image/png' | 'image/webp' | 'image/avif' | 'image/gif';

/** A decoded image; its sides in pixels are those of the upright image. */
export type Decoded = {
  mediaType: MediaType;
  width: number;
  height: number;
  /** See `fingerprint`. */
  fingerprint: string;
};

/**
 * Decodes an image to its end, so that a broken one is found now.
 * @throws ImageError for content that is of none of the types, broken, or larger than 50 megapixels; errors of the file
 *   system, which say nothing of the image.
 */
export function inspectImage(path: string): Promise<Decoded> {
  return decodeInTurn(async () => {
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
 * `decodeInTurn`.
 * @throws ImageError where the content is broken; the error of sharp for want of memory or disk.
 */
export async function toJpeg(content: Uint8Array, side: number): Promise<Buffer> {
  try {
    return await sharp(content, SHARP_OPTIONS)
      .autoOrient()
      .resize({ width: side, height: side, fit: 'inside', withoutEnlargement: true })
      .flatten({ background: 'white' })
      .jpeg({ quality: 85 })
      .toBuffer();
  } catch (cause) {
    const isWhole = await fingerprint(content).then(
      () => true,
      () => false,
    );
    if (isWhole) throw cause;
    throw new ImageError('It is broken in the image store: it could not be decoded to its end', {
      cause,
    });
  }
}

/** So much of a file tells its type. */
const START_BYTES = 256;

/** Returns an image's type by its first bytes. Nothing else is decoded: SVG can refer to other files. */
export function detectMediaType(content: Buffer): MediaType | undefined {
  const start = content.toString('latin1', 0, START_BYTES);
  if (start.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  if (start.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png';
  if (/^GIF8[79]a/.test(start)) return 'image/gif';
  if (/^RIFF[^]{4}WEBP/.test(start)) return 'image/webp';
  if (start.startsWith('ftyp', 4) && isAvif(start.slice(8, content.readUInt32BE()))) {
    return 'image/avif';
  }
  return undefined;
}

/** Tells whether AVIF is among the brands of an ISO media file, four characters each. */
const isAvif = (brands: string): boolean => /^(?:[^]{4})*?avi[fs]/.test(brands);

/** The size of the control image, in pixels. */
export const CONTROL_SIZE = { width: 256, height: 256 } as const;

let control: Buffer | undefined;

/** Returns a plain grey JPEG, which no model has a reason to fail on. */
export async function controlImage(): Promise<Buffer> {
  const grey = { ...CONTROL_SIZE, channels: 3, background: 'grey' } as const;
  control ??= await sharp({ create: grey }).jpeg().toBuffer();
  return control;
}
