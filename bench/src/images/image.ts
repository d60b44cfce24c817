import { createHash } from 'node:crypto';
import { crc32, deflateSync } from 'node:zlib';

/** Number of squares on each side. */
const SQUARES = 8;
/** Side of a square in pixels. */
const SQUARE_PIXELS = 64;

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');

/** Returns a greyscale PNG image of 512 × 512 pixels, different for each name. */
export function createImage(name: string): Buffer {
  const greys = createHash('sha512').update(name).digest();
  const side = SQUARES * SQUARE_PIXELS;
  const header = Buffer.alloc(13);
  header.writeUInt32BE(side, 0);
  header.writeUInt32BE(side, 4);
  // Eight bits per pixel. The other fields stay 0, which means greyscale without interlacing.
  header.writeUInt8(8, 8);
  const rows = Array.from({ length: SQUARES }, (_, y) => createLines(greys.subarray(y * SQUARES)));
  return Buffer.concat([
    SIGNATURE,
    createChunk('IHDR', header),
    createChunk('IDAT', deflateSync(Buffer.concat(rows), { level: 1 })),
    createChunk('IEND', Buffer.alloc(0)),
  ]);
}

/** Returns the pixel lines of one row of squares, each preceded by a zero byte, which means "no filter". */
function createLines(greys: Buffer): Buffer {
  const squares = Array.from({ length: SQUARES }, (_, x) => Buffer.alloc(SQUARE_PIXELS, greys[x]));
  const line = Buffer.concat([Buffer.alloc(1), ...squares]);
  return Buffer.concat(Array<Buffer>(SQUARE_PIXELS).fill(line));
}

/** Returns a PNG chunk: length, type, content and checksum (PNG, Third Edition, §5.3). */
function createChunk(type: string, content: Buffer): Buffer {
  const typeAndContent = Buffer.concat([Buffer.from(type), content]);
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(content.length);
  checksum.writeUInt32BE(crc32(typeAndContent));
  return Buffer.concat([length, typeAndContent, checksum]);
}
