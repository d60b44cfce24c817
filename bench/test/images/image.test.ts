import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inflateSync } from 'node:zlib';
import { createImage } from '../../src/images/image.ts';

test('each name gives a different image, the same each time', () => {
  const images = ['/1/0', '/1/1', '/2/0', '/1/0'].map((name) => createImage(name).toString('hex'));
  assert.equal(new Set(images).size, 3);
  assert.equal(images[0], images[3]);
});

test('it is a PNG of 512 × 512 grey pixels', () => {
  const png = createImage('/');
  assert.equal(png.subarray(1, 4).toString(), 'PNG');
  assert.deepEqual(
    [png.readUInt32BE(16), png.readUInt32BE(20), png[24], png[25]],
    [512, 512, 8, 0],
  );
  const length = png.readUInt32BE(33);
  assert.equal(inflateSync(png.subarray(41, 41 + length)).length, 512 * 513);
});
