import sharp from 'sharp';
import { OPTIONS } from './decoding.ts';

/** So many comparisons a side: of neighbours, one more pixel across. */
const SIDE = 8;

/** Pixels as bright as their neighbours within so much are noise, of 255. */
const NOISE = 2;

/**
 * What a picture looks like, in 64 bits (a difference hash): of 8 × 8 places, whether it is darker there
 * than to the right. A copy in another size or quality has the same but for a few bits. 0 is a picture on
 * which nothing is to be seen.
 *
 * The bits are laid out so that each run of sixteen has places from all over the picture: runs are what
 * near ones are found by (`fingerprint_parts`), and a white sky would make one of them say nothing.
 *
 * It is worked out within a turn (see `decodeInTurn`).
 * @returns As PostgreSQL writes a `bigint`: JavaScript's numbers do not hold it.
 * @throws What sharp throws for bytes that are no picture.
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

/**
 * A small square of the picture, not turned upright yet: to turn one it has to be in memory as a whole,
 * and this one is read line by line, to its end.
 */
function shrink(content: Uint8Array): Promise<Buffer> {
  const side = SIDE * SIDE;
  return sharp(content, OPTIONS).resize(side, side, { fit: 'fill' }).keepExif().png().toBuffer();
}

/** Places go to the four runs in turn, each row beginning with the next. */
function position(place: number): number {
  const run = (place + Math.floor(place / SIDE)) % 4;
  return run * 16 + Math.floor(place / 4);
}

/**
 * Pictures whose fingerprints differ in so many bits are copies of one; others differ in some thirty. Those
 * that differ in three or fewer are always found, because one of the four runs is then the same; with four
 * bits nine in ten are, with five three in four. To find all of them would take six runs, so short that each
 * look had many times as many pictures to compare.
 */
export const COPY_BITS = 5;

/** In how many bits two fingerprints differ. */
export function hammingDistance(one: bigint, other: bigint): number {
  let distance = 0;
  for (let rest = BigInt.asUintN(64, one ^ other); rest !== 0n; rest &= rest - 1n) distance += 1;
  return distance;
}
