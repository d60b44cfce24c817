import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import sharp, { type Sharp } from 'sharp';
import { COPY_BITS, fingerprint, hammingDistance } from '../../src/images/fingerprint.ts';

/** A room, more or less: rectangles of different greys, other ones for each seed. */
function room(seed: number, { width = 640, height = 480 } = {}): Sharp {
  let state = seed;
  const next = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return (state >> 8) % below;
  };
  const shapes = Array.from({ length: 24 }, () => {
    const grey = next(256);
    return `<rect x="${next(100)}%" y="${next(100)}%" width="${10 + next(40)}%" height="${10 + next(40)}%"
      fill="rgb(${grey},${grey},${next(256)})"/>`;
  });
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">
    <rect width="100%" height="100%" fill="#999"/>${shapes.join('')}</svg>`;
  return sharp(Buffer.from(svg));
}

const hashOf = async (picture: Sharp | Uint8Array) =>
  BigInt(
    await fingerprint(picture instanceof Uint8Array ? picture : await picture.png().toBuffer()),
  );

const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8];

test('a copy in another size, format or quality looks the same', async () => {
  for (const seed of SEEDS) {
    const original = await hashOf(room(seed));
    const copies = [
      room(seed).resize(320).jpeg({ quality: 50 }),
      room(seed).resize(1600).webp({ quality: 60 }),
      room(seed).modulate({ brightness: 1.05 }).jpeg({ quality: 80 }),
    ];
    for (const copy of copies) {
      const distance = hammingDistance(original, await hashOf(await copy.toBuffer()));
      assert.ok(distance <= COPY_BITS, `seed ${seed}: ${distance} bits`);
    }
  }
});

test('a picture that its camera marks as lying looks as it is shown', async () => {
  const upright = await hashOf(room(1));
  const lying = await room(1).rotate(-90).jpeg().withMetadata({ orientation: 6 }).toBuffer();
  assert.ok(hammingDistance(upright, await hashOf(lying)) <= COPY_BITS);
});

test('other pictures look different', async () => {
  const hashes = await Promise.all(SEEDS.map((seed) => hashOf(room(seed))));
  for (const [nth, one] of hashes.entries()) {
    for (const other of hashes.slice(nth + 1))
      assert.ok(hammingDistance(one, other) > 2 * COPY_BITS);
  }
});

test('there is nothing to see on a picture of one colour', async () => {
  for (const background of ['white', 'black', 'grey', 'transparent']) {
    const blank = sharp({ create: { width: 64, height: 64, channels: 4, background } });
    assert.equal(await hashOf(blank), 0n);
  }
});

test('it is a bigint of PostgreSQL, of which each bit counts once', () => {
  const hashes = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
  fc.assert(
    fc.property(hashes, fc.uniqueArray(fc.integer({ min: 0, max: 63 })), (hash, bits) => {
      const other = bits.reduce((sum, bit) => sum ^ (1n << BigInt(bit)), hash);
      assert.equal(hammingDistance(hash, BigInt.asIntN(64, other)), bits.length);
    }),
  );
});
