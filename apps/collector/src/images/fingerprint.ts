import sharp from 'sharp';
import { SHARP_OPTIONS } from './decoding.ts';

/** Comparisons a side, of neighbouring pixels. */
const SIDE = 8;

/** Differences of brightness up to this are noise, of 255. */
const NOISE = 2;

/**
 * Returns a difference hash of an image: for each of 8 × 8 places, whether it is darker there than to the right. A copy
 * in another size or quality differs in a few bits; 0 is a blank image. Each run of sixteen bits has places from all
 * over the image: near hashes are found by runs (`fingerprint_parts`), and a white sky would make one meaningless.
 * Call it within `decodeInTurn`.
 * @returns As PostgreSQL writes a `bigint`: JavaScript's numbers do not hold it.
 * @throws The error of sharp for bytes that are no image.
 */
export async function fingerprint(content: Uint8Array): Promise<string> {
  const pixels = await sharp(await shrink(content))
    .autoOrient()
    .flatten({ background: 'white' })
    .greyscale()
    .resize(SIDE + 1, SIDE, { fit: 'fill' })
    .raw()
    .toBuffer();
  let bits = 0n;
  for (let place = 0; place < SIDE * SIDE; place += 1) {
    const left = Math.floor(place / SIDE) * (SIDE + 1) + (place % SIDE);
    const rise = (pixels[left + 1] ?? 0) - (pixels[left] ?? 0);
    if (rise > NOISE) bits |= 1n << BigInt(position(place));
  }
  return BigInt.asIntN(64, bits).toString();
}

/** A small square, not turned upright: to turn an image it has to be in memory as a whole; this reads it by lines. */
function shrink(content: Uint8Array): Promise<Buffer> {
  const side = SIDE * SIDE;
  return sharp(content, SHARP_OPTIONS)
    .resize(side, side, { fit: 'fill' })
    .keepExif()
    .png()
    .toBuffer();
}

/** Deals places out to the four runs, each row beginning with the next. */
function position(place: number): number {
  const run = (place + Math.floor(place / SIDE)) % 4;
  return run * 16 + Math.floor(place / 4);
}

/**
 * Images whose fingerprints differ in at most so many bits are copies; others differ in some thirty. Up to three bits
 * one of the four runs is the same, so those are always found; with four bits nine in ten are, with five three in four.
 */
export const COPY_BITS = 5;

/** Returns in how many bits two fingerprints differ. */
export function hammingDistance(one: bigint, other: bigint): number {
  let distance = 0;
  for (let rest = BigInt.asUintN(64, one ^ other); rest !== 0n; rest &= rest - 1n) distance += 1;
  return distance;
}
