import { createHash } from 'node:crypto';
import { crc32, deflateSync } from 'node:zlib';

/** Squares on each side, and pixels of each square. */
const SQUARES = 8;
const SQUARE = 64;

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');

/** Returns a grey image of 512 × 512 pixels as PNG, different for each name. */
export function createImage(name: string): Buffer {
  const greys = createHash('sha512').update(name).digest();
  const side = SQUARES * SQUARE;
  const header = Buffer.alloc(13);
  header.writeUInt32BE(side, 0);
  header.writeUInt32BE(side, 4);
  // Eight bits a pixel; the rest is 0: grey, and the only ways there are to compress, filter and lace.
  header.writeUInt8(8, 8);
  const rows = Array.from({ length: SQUARES }, (_, y) => rowsOf(greys.subarray(y * SQUARES)));
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.concat(rows), { level: 1 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

/** The lines of pixels of one row of squares, each after the number of its filter: none. */
function rowsOf(greys: Buffer): Buffer {
  const squares = Array.from({ length: SQUARES }, (_, x) => Buffer.alloc(SQUARE, greys[x]));
  const line = Buffer.concat([Buffer.alloc(1), ...squares]);
  return Buffer.concat(Array<Buffer>(SQUARE).fill(line));
}

/** Length, type, content and checksum (PNG, Third Edition, §5.3). */
function chunk(type: string, content: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type), content]);
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(content.length);
  checksum.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, checksum]);
}
