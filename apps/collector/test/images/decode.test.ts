import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { crc32, deflateSync } from 'node:zlib';
import sharp from 'sharp';
import { inspectImage, toJpeg } from '../../src/images/decode.ts';
import { FORMATS, picture } from './pictures.ts';

const folder = await mkdtemp(join(tmpdir(), 'oselya-decode-'));
after(() => rm(folder, { recursive: true }));

async function inspect(bytes: Buffer) {
  const path = join(folder, 'file.jpg');
  await writeFile(path, bytes);
  return inspectImage(path);
}

/** Pixels that no compression makes small, so that half of the file is half of the picture. */
function noise(side: number) {
  const pixels = Buffer.alloc(side * side * 3);
  for (let index = 0, value = 1; index < pixels.length; index += 1) {
    value = (value * 1_103_515_245 + 12_345) % 2 ** 31;
    pixels[index] = value >> 16;
  }
  return sharp(pixels, { raw: { width: side, height: side, channels: 3 } });
}

for (const format of FORMATS) {
  test(`${format} is told by its content, whatever it is called`, async () => {
    const { fingerprint: _fingerprint, ...seen } = await inspect(await picture(format));
    assert.deepEqual(seen, { mediaType: `image/${format}`, width: 64, height: 48 });
  });

  test(`${format} that ends half-way is broken`, async () => {
    const whole = await noise(128).toFormat(format).toBuffer();
    await assert.rejects(inspect(whole.subarray(0, whole.length / 2)), {
      name: 'ImageError',
      message: /broken/,
    });
  });
}

test('AVIF is told by the brands that it is compatible with, too', async () => {
  const content = await picture('avif');
  content.write('mif1', 8, 'latin1');
  assert.equal((await inspect(content)).mediaType, 'image/avif');
});

test('a file that vanishes is no broken picture', async () => {
  const path = join(folder, 'vanishing.png');
  const content = await picture('png');
  // Removed a little later each time: before it is opened, while it is read, after it was.
  for (let turns = 0; turns < 60; turns += 1) {
    await writeFile(path, content);
    const end = inspectImage(path).then(
      ({ mediaType }) => mediaType,
      ({ code }: NodeJS.ErrnoException) => code,
    );
    for (let turn = 0; turn < turns; turn += 1) await setImmediate();
    rmSync(path, { force: true });
    const seen = await end;
    assert.ok(seen === 'image/png' || seen === 'ENOENT', `${turns} turns: ${seen}`);
  }
});

test('the sides are those of the upright picture', async () => {
  const { width, height } = await inspect(await picture('jpeg', { orientation: 6 }));
  assert.deepEqual([width, height], [48, 64]);
});

const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect/></svg>';
const others: [string, () => Promise<Buffer>][] = [
  ['HTML', async () => Buffer.from('<!doctype html><title>Not found</title>')],
  ['SVG', async () => Buffer.from(svg)],
  ['TIFF', () => noise(8).tiff().toBuffer()],
  ['nothing', async () => Buffer.alloc(0)],
  ['three bytes', async () => Buffer.from([0xff, 0xd8])],
  [
    'AVIF after its brands',
    async () => Buffer.from('\0\0\0\x14ftypheic\0\0\0\0heicavif', 'latin1'),
  ],
  ['HEVC in HEIF', async () => Buffer.from('\0\0\0\x18ftypheic\0\0\0\0heicmif1', 'latin1')],
];
for (const [name, make] of others) {
  test(`${name} is no picture of a known type`, async () => {
    await assert.rejects(inspect(await make()), { message: /no JPEG, PNG, WebP, AVIF or GIF/ });
  });
}

function pngChunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}

/**
 * A PNG of few bytes that says it is so large, in black and white.
 * @param lines How many are there.
 */
function hugePng(width: number, height: number, lines = 1): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([1, 0], 8);
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    pngChunk('IHDR', header),
    pngChunk('IDAT', deflateSync(Buffer.alloc(lines * (1 + Math.ceil(width / 8))))),
    pngChunk('IEND', Buffer.alloc(0)),
  ]);
}

test('a small file of four gigapixels is refused before it is unpacked', async () => {
  const started = process.memoryUsage.rss();
  await assert.rejects(inspect(hugePng(65_000, 65_000)), { message: /more than 50 megapixels/ });
  assert.ok(process.memoryUsage.rss() - started < 100 * 1024 * 1024);
});

test('50 megapixels are read, and a line more is not', async () => {
  const [width, height] = [10_000, 5000];
  const seen = await inspect(hugePng(width, height, height));
  assert.deepEqual([seen.mediaType, seen.width, seen.height], ['image/png', width, height]);
  await assert.rejects(inspect(hugePng(width, height + 1, height + 1)), {
    message: /more than 50 megapixels/,
  });
});

test('a copy that cannot be made is held against the picture only where that cannot be read', async () => {
  const whole = await picture('jpeg');
  await assert.rejects(toJpeg(whole.subarray(0, whole.length / 2), 1024), { name: 'ImageError' });
  await assert.rejects(toJpeg(whole, -1), ({ name }: Error) => name !== 'ImageError');
});

test('of an animation only the first frame is read', async () => {
  const frames = await sharp(await noise(32).resize(32, 96).png().toBuffer())
    .gif({ delay: [10, 10, 10] })
    .toBuffer();
  const { height } = await inspect(frames);
  assert.equal((await sharp(await toJpeg(frames, 1024)).metadata()).height, height);
});

test('the copy is upright, no larger than asked, on white, without metadata', async () => {
  const wide = await picture('jpeg', { width: 3000, height: 1500, orientation: 6 });
  const { format, width, height, exif, orientation } = await sharp(
    await toJpeg(wide, 1024),
  ).metadata();
  assert.deepEqual(
    [format, width, height, exif, orientation],
    ['jpeg', 512, 1024, undefined, undefined],
  );

  const small = await sharp(await toJpeg(await picture('webp'), 1024)).metadata();
  assert.deepEqual([small.width, small.height], [64, 48]);

  const clear = sharp({ create: { width: 8, height: 8, channels: 4, background: '#0000' } });
  const { dominant } = await sharp(await toJpeg(await clear.png().toBuffer(), 320)).stats();
  assert.ok(dominant.r > 240 && dominant.g > 240 && dominant.b > 240);
});
