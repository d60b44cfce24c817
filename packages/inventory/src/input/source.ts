import { createReadStream } from 'node:fs';
import { CHUNK_BYTES } from '../limits.ts';

/** What an inventory can be read from. Strings are read as their UTF-8 bytes. */
export type InventorySource =
  | string
  | Uint8Array
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>
  | { path: string };

/**
 * Gives the bytes of a source in pieces of at most {@link CHUNK_BYTES}.
 * Throws what the file or the stream throws, and a TypeError for chunks that are no bytes.
 */
export async function* readChunks(source: InventorySource): AsyncGenerator<Buffer> {
  if (typeof source === 'string') {
    yield* encodeInSlices(source);
  } else if (source instanceof Uint8Array) {
    yield* cut(source);
  } else if ('path' in source) {
    // A stream's own iterator destroys it on an early return, so the file is always closed.
    yield* createReadStream(source.path, { highWaterMark: CHUNK_BYTES });
  } else {
    for await (const chunk of source) {
      if (!(chunk instanceof Uint8Array)) {
        throw new TypeError('an inventory is read from bytes: give chunks as Uint8Array');
      }
      yield* cut(chunk);
    }
  }
}

function* cut(bytes: Uint8Array): Generator<Buffer> {
  for (let from = 0; from < bytes.length; from += CHUNK_BYTES) {
    const length = Math.min(CHUNK_BYTES, bytes.length - from);
    yield Buffer.from(bytes.buffer, bytes.byteOffset + from, length);
  }
}

/** Encodes slice by slice, so that a long string is never in memory twice. */
function* encodeInSlices(text: string): Generator<Buffer> {
  // One UTF-16 code unit takes at most three bytes.
  const unitsPerSlice = Math.floor(CHUNK_BYTES / 3);
  let from = 0;
  while (from < text.length) {
    let to = Math.min(from + unitsPerSlice, text.length);
    if (to < text.length && isHighSurrogate(text.charCodeAt(to - 1))) to -= 1;
    yield Buffer.from(text.slice(from, to));
    from = to;
  }
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
