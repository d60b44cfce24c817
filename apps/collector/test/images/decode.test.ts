import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { crc32, deflateSync } from 'node:zlib';
import { openFolder } from '@oselya/testing';
import sharp, { type Sharp } from 'sharp';
import {
  MAX_COPY_DISTANCE,
  limitDecoding,
  computeFingerprint,
  getHammingDistance,
  inspectImage,
  convertToJpeg,
} from '../../src/images/decode.ts';
import { createThumbnails } from '../../src/images/thumbnails.ts';
import { createImage, FORMATS } from '../support/images.ts';

const folder = await openFolder();

async function inspectBytes(bytes: Buffer) {
  const path = join(folder, 'file.jpg');
  await writeFile(path, bytes);
  return inspectImage(path);
}

/** Creates a noise image. Half of its file is about half of the image, because noise does not compress. */
function createNoiseImage(side: number) {
  const pixels = Buffer.alloc(side * side * 3);
  for (let index = 0, value = 1; index < pixels.length; index += 1) {
    value = (value * 1_103_515_245 + 12_345) % 2 ** 31;
    pixels[index] = value >> 16;
  }
  return sharp(pixels, { raw: { width: side, height: side, channels: 3 } });
}

test('The content of a file determines its type, and a truncated image is corrupt', async () => {
  for (const format of FORMATS) {
    const { fingerprint: _fingerprint, ...decoded } = await inspectBytes(await createImage(format));
    assert.deepEqual(decoded, { mediaType: `image/${format}`, width: 64, height: 48 });
    const wholeImage = await createNoiseImage(128).toFormat(format).toBuffer();
    const truncatedImage = wholeImage.subarray(0, wholeImage.length / 2);
    const expected = { name: 'ImageError', message: /corrupt/ };
    await assert.rejects(inspectBytes(truncatedImage), expected, format);
  }
  const avif = await createImage('avif');
  avif.write('mif1', 8, 'latin1');
  assert.equal((await inspectBytes(avif)).mediaType, 'image/avif', 'by a compatible brand');
});

test('A missing file is not a broken image, and the dimensions apply to the upright image', async () => {
  await assert.rejects(inspectImage(join(folder, 'missing.png')), { code: 'ENOENT' });
  const { width, height } = await inspectBytes(await createImage('jpeg', { orientation: 6 }));
  assert.deepEqual([width, height], [48, 64]);
});

test('Content of an unsupported type is rejected', async () => {
  const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect/></svg>';
  for (const [name, content] of [
    ['HTML', Buffer.from('<!doctype html><title>Not found</title>')],
    ['SVG', Buffer.from(svg)],
    ['TIFF', await createNoiseImage(8).tiff().toBuffer()],
    ['nothing', Buffer.alloc(0)],
    ['three bytes', Buffer.from([0xff, 0xd8])],
    ['AVIF after its brands', Buffer.from('\0\0\0\x14ftypheic\0\0\0\0heicavif', 'latin1')],
    ['HEVC in HEIF', Buffer.from('\0\0\0\x18ftypheic\0\0\0\0heicmif1', 'latin1')],
  ] as const) {
    const expected = { message: /not a JPEG, PNG, WebP, AVIF or GIF/ };
    await assert.rejects(inspectBytes(content), expected, name);
  }
});

function encodePngChunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  checksum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, checksum]);
}

/** Creates a small PNG file with a large size in its header, and pixels for the given number of lines. */
function createHugePng(width: number, height: number, lines = 1): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([1, 0], 8);
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    encodePngChunk('IHDR', header),
    encodePngChunk('IDAT', deflateSync(Buffer.alloc(lines * (1 + Math.ceil(width / 8))))),
    encodePngChunk('IEND', Buffer.alloc(0)),
  ]);
}

test('A small file of four gigapixels is rejected before it is decoded', async () => {
  const initialBytes = process.memoryUsage.rss();
  await assert.rejects(inspectBytes(createHugePng(65_000, 65_000)), {
    message: /more than 50 megapixels/,
  });
  assert.ok(process.memoryUsage.rss() - initialBytes < 100 * 1024 * 1024);
});

test('An image of 50 megapixels is read, and an image with one more line is not', async () => {
  const [width, height] = [10_000, 5000];
  const decodedImage = await inspectBytes(createHugePng(width, height, height));
  assert.partialDeepStrictEqual(decodedImage, { mediaType: 'image/png', width, height });
  const oversized = createHugePng(width, height + 1, height + 1);
  await assert.rejects(inspectBytes(oversized), { message: /more than 50 megapixels/ });
});

test('A JPEG is upright, scaled, on white, without metadata, and of the first frame', async () => {
  const wideImage = await createImage('jpeg', { width: 3000, height: 1500, orientation: 6 });
  const readJpeg = async (content: Buffer, side: number) =>
    sharp(await convertToJpeg(content, side));
  const { exif, orientation, ...metadata } = await (await readJpeg(wideImage, 1024)).metadata();
  assert.partialDeepStrictEqual(metadata, { format: 'jpeg', width: 512, height: 1024 });
  assert.deepEqual([exif, orientation], [undefined, undefined]);
  const smallMetadata = await (await readJpeg(await createImage('webp'), 1024)).metadata();
  assert.partialDeepStrictEqual(smallMetadata, { width: 64, height: 48 });
  const transparentPixels = { width: 8, height: 8, channels: 4, background: '#0000' } as const;
  const transparentImage = await sharp({ create: transparentPixels }).png().toBuffer();
  const { dominant } = await (await readJpeg(transparentImage, 320)).stats();
  assert.ok(dominant.r > 240 && dominant.g > 240 && dominant.b > 240);
  const animation = await sharp(await createNoiseImage(32).resize(32, 96).png().toBuffer())
    .gif({ delay: [10, 10, 10] })
    .toBuffer();
  const { height } = await inspectBytes(animation);
  assert.equal((await (await readJpeg(animation, 1024)).metadata()).height, height);
  await assert.rejects(convertToJpeg(wideImage.subarray(0, 2000), 320), { name: 'ImageError' });
});

suite('Fingerprints', () => {
  /** Draws a room: rectangles that differ by seed. */
  function drawRoom(seed: number): Sharp {
    let state = seed;
    const getRandom = (below: number) => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
      return (state >> 8) % below;
    };
    const shapes = Array.from({ length: 24 }, () => {
      const grey = getRandom(256);
      return `<rect x="${getRandom(100)}%" y="${getRandom(100)}%" width="${10 + getRandom(40)}%" height="${10 + getRandom(40)}%"
      fill="rgb(${grey},${grey},${getRandom(256)})"/>`;
    });
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="640" height="480">
    <rect width="100%" height="100%" fill="#999"/>${shapes.join('')}</svg>`;
    return sharp(Buffer.from(svg));
  }

  const computeHash = async (image: Sharp) =>
    BigInt(await computeFingerprint(await image.toBuffer()));

  const SEEDS = [1, 2, 3, 4, 5];

  test('Copies in another size, format, quality or orientation are near; other images are far', async () => {
    const originals = await Promise.all(SEEDS.map((seed) => computeHash(drawRoom(seed).png())));
    for (const [index, seed] of SEEDS.entries()) {
      const original = originals[index] ?? 0n;
      for (const copy of [
        drawRoom(seed).resize(320).jpeg({ quality: 50 }),
        drawRoom(seed).resize(1600).webp({ quality: 60 }),
        drawRoom(seed).modulate({ brightness: 1.05 }).jpeg({ quality: 80 }),
        drawRoom(seed).rotate(-90).jpeg().withMetadata({ orientation: 6 }),
      ]) {
        const distance = getHammingDistance(original, await computeHash(copy));
        assert.ok(distance <= MAX_COPY_DISTANCE, `seed ${seed}: ${distance} bits`);
      }
      for (const otherHash of originals.slice(index + 1))
        assert.ok(getHammingDistance(original, otherHash) > 2 * MAX_COPY_DISTANCE);
    }
  });

  test('An image of one colour has the fingerprint 0', async () => {
    for (const background of ['white', 'black', 'grey', 'transparent']) {
      const blankImage = sharp({ create: { width: 64, height: 64, channels: 4, background } });
      assert.equal(await computeHash(blankImage.png()), 0n);
    }
  });
});

suite('Thumbnails', async () => {
  const bytes = await createImage('png', { width: 800, height: 400 });

  /** Creates the thumbnail functions of a store whose reads wait until `openStore` is called. */
  function createClosedStore() {
    const { promise: storeOpened, resolve: openStore } = Promise.withResolvers<void>();
    const readHashes: string[] = [];
    const storedThumbnails = new Map<string, Buffer>();
    const errors: unknown[] = [];
    const diskState = { isFull: false };
    const store = {
      async read(sha256: string) {
        readHashes.push(sha256);
        await storeOpened;
        if (sha256 === 'bad') throw new Error('gone');
        return bytes;
      },
      readThumbnail: async (sha256: string, side: number) =>
        storedThumbnails.get(`${sha256}-${side}`),
      async putThumbnail(sha256: string, side: number, thumbnail: Uint8Array) {
        if (diskState.isFull) throw new Error('the disk is full');
        storedThumbnails.set(`${sha256}-${side}`, Buffer.from(thumbnail));
      },
    };
    const thumbnails = createThumbnails(store, (error) => errors.push(error));
    return { ...thumbnails, store, storedThumbnails, errors, readHashes, openStore, diskState };
  }

  const readWidth = async (thumbnail: Buffer) => (await sharp(thumbnail).metadata()).width;

  test('Two images of jobs and one of a request are decoded concurrently, and waiting images are not read', async () => {
    const { makeForJob, makeForRequest, readHashes, openStore } = createClosedStore();
    const pendingThumbnails = Array.from({ length: 10 }, (_, index) => makeForJob(`${index}`, 320));
    const failedThumbnails = Promise.allSettled([320, 640].map((side) => makeForJob('bad', side)));
    const requestThumbnails = [320, 640].map((side) => makeForRequest('9', side));
    await setImmediate();
    const inspection = assert.rejects(inspectImage('/nowhere'), { code: 'ENOENT' });
    assert.deepEqual(readHashes, ['0', '1', '9']);
    assert.deepEqual([limitDecoding.activeCount, limitDecoding.pendingCount], [2, 11]);
    openStore();
    for (const thumbnail of await Promise.all(pendingThumbnails))
      assert.equal(await readWidth(thumbnail), 320);
    await Promise.all([inspection, ...requestThumbnails]);
    assert.ok((await failedThumbnails).every(({ status }) => status === 'rejected'));
  });

  test('Callers share a thumbnail that is being created, and later callers get the stored thumbnail', async () => {
    const { makeForJob, makeForRequest, storedThumbnails, readHashes, openStore } =
      createClosedStore();
    const pendingThumbnails = Array.from({ length: 30 }, () => makeForRequest('a', 320));
    const otherThumbnail = makeForRequest('a', 640);
    openStore();
    const thumbnails = await Promise.all(pendingThumbnails);
    assert.equal(new Set(thumbnails).size, 1);
    assert.equal(await readWidth(await otherThumbnail), 640);
    assert.deepEqual(await makeForJob('a', 320), thumbnails[0]);
    assert.equal(readHashes.length, 2);
    storedThumbnails.clear();
    await makeForJob('a', 320);
    assert.equal(readHashes.length, 3);
  });

  test('A thumbnail that cannot be stored is returned', async () => {
    const { makeForJob, errors, openStore, diskState } = createClosedStore();
    openStore();
    diskState.isFull = true;
    assert.equal(await readWidth(await makeForJob('a', 320)), 320);
    assert.equal(errors.length, 1);
  });

  test('A request behind 32 others is rejected, unless its thumbnail is stored or in progress', async () => {
    const { makeForJob, makeForRequest, store, openStore } = createClosedStore();
    await store.putThumbnail('known', 320, bytes);
    const pendingThumbnails = Array.from({ length: 32 }, (_, index) =>
      makeForRequest(`${index}`, 320),
    );
    const expected = { code: 'unavailable', status: 503, headers: { 'retry-after': '2' } };
    await assert.rejects(makeForRequest('one more', 320), expected);
    assert.deepEqual(await makeForRequest('known', 320), bytes);
    const otherThumbnails = [makeForRequest('31', 320), makeForJob('a job', 320)];
    openStore();
    await Promise.all([...pendingThumbnails, ...otherThumbnails]);
    await makeForRequest('one more', 320);
  });
});
