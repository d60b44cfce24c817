import { isUtf8 } from 'node:buffer';
import { createReadStream } from 'node:fs';
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { CHUNK_BYTES } from '../limits.ts';

/** Inventory source. Strings are encoded as UTF-8. */
export type InventorySource =
  | string
  | Uint8Array
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>
  | { path: string };

/** Inventory formats: a JSON array, one JSON record per line, or a YAML list. */
export const INVENTORY_FORMATS = ['json', 'jsonl', 'yaml'] as const;
export type InventoryFormat = (typeof INVENTORY_FORMATS)[number];

/** Infers the format from a file name. Returns `json` for unknown extensions. */
export function inferFormat(name: string): InventoryFormat {
  if (/\.ya?ml(\.gz)?$/i.test(name)) return 'yaml';
  return /\.(jsonl|ndjson)(\.gz)?$/i.test(name) ? 'jsonl' : 'json';
}

/**
 * Yields the bytes of a source in chunks of at most {@link CHUNK_BYTES}.
 * @throws Source errors, and a TypeError for chunks that are not bytes.
 */
export async function* readChunks(source: InventorySource): AsyncGenerator<Buffer> {
  if (typeof source === 'string') yield* splitBytes(Buffer.from(source));
  else if (source instanceof Uint8Array) yield* splitBytes(source);
  else if ('path' in source) {
    yield* createReadStream(source.path, { highWaterMark: CHUNK_BYTES });
  } else {
    for await (const chunk of source) {
      if (!(chunk instanceof Uint8Array)) {
        throw new TypeError('an inventory is read from bytes: pass chunks as Uint8Array');
      }
      yield* splitBytes(chunk);
    }
  }
}

function* splitBytes(bytes: Uint8Array): Generator<Buffer> {
  for (let offset = 0; offset < bytes.length; offset += CHUNK_BYTES) {
    const length = Math.min(CHUNK_BYTES, bytes.length - offset);
    yield Buffer.from(bytes.buffer, bytes.byteOffset + offset, length);
  }
}

/** Returns whether bytes begin with a gzip header (RFC 1952 §2.3.1). */
export function isGzip(head: Uint8Array): boolean {
  return head[0] === 0x1f && head[1] === 0x8b;
}

/** Decompresses gzip and passes other bytes through. @throws zlib errors, such as Z_DATA_ERROR. */
export async function* gunzip(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const chunksWithHead = withWholeHead(chunks);
  const { value: head, done } = await chunksWithHead.next();
  if (done) return;
  const allChunks = prepend(head, chunksWithHead);
  if (isGzip(head)) yield* pipeline(Readable.from(allChunks), createGunzip(), () => undefined);
  else yield* allChunks;
}

async function* prepend(
  head: Buffer,
  remainingChunks: AsyncGenerator<Buffer>,
): AsyncGenerator<Buffer> {
  try {
    yield head;
    yield* remainingChunks;
  } finally {
    await remainingChunks.return(undefined);
  }
}

/** Joins the first chunks until they contain the four bytes needed to detect the encoding. */
async function* withWholeHead(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let head = Buffer.alloc(0);
  for await (const chunk of chunks) {
    if (head.length >= 4) yield chunk;
    else {
      head = Buffer.concat([head, chunk]);
      if (head.length >= 4) yield head;
    }
  }
  if (head.length > 0 && head.length < 4) yield head;
}

type EncodingNotice = {
  code: 'encoding/bom' | 'encoding/utf-16' | 'encoding/utf-8';
  message: string;
};

/**
 * Passes UTF-8 through in chunks of complete characters. Removes a byte order mark and yields a notice. Ends with a
 * notice at the first invalid bytes, or at once if the text is UTF-16 or UTF-32.
 */
export async function* readUtf8(
  chunks: AsyncIterable<Buffer>,
): AsyncGenerator<Buffer | EncodingNotice> {
  let carriedBytes = Buffer.alloc(0);
  let offset = 0;
  let isFirst = true;
  for await (const chunk of withWholeHead(chunks)) {
    let bytes = carriedBytes.length === 0 ? chunk : Buffer.concat([carriedBytes, chunk]);
    const notice = isFirst ? detectEncoding(bytes) : null;
    isFirst = false;
    if (notice !== null) {
      yield notice;
      if (notice.code === 'encoding/utf-16') return;
      bytes = bytes.subarray(3);
      offset = 3;
    }
    const end = bytes.length - countUnfinishedBytes(bytes);
    const completeBytes = bytes.subarray(0, end);
    if (!isUtf8(completeBytes)) {
      yield* readUntilInvalid(completeBytes, offset);
      return;
    }
    if (end > 0) yield completeBytes;
    // The source may reuse its buffer.
    carriedBytes = Buffer.from(bytes.subarray(end));
    offset += end;
  }
  if (carriedBytes.length > 0) yield* readUntilInvalid(carriedBytes, offset);
}

/** Yields the valid bytes before the first invalid byte, and a notice about the invalid byte. */
function* readUntilInvalid(bytes: Buffer, offset: number): Generator<Buffer | EncodingNotice> {
  let index = 0;
  for (;;) {
    const length = getSequenceLength(bytes[index]);
    if (index + length > bytes.length || !isUtf8(bytes.subarray(index, index + length))) break;
    index += length;
  }
  if (index > 0) yield bytes.subarray(0, index);
  const hexByte = `0x${(bytes[index] ?? 0).toString(16).toUpperCase()}`;
  const message =
    bytes.length - index <= countUnfinishedBytes(bytes)
      ? `the file ends inside a UTF-8 character that begins at byte ${offset + index}; fetch it again, or remove the incomplete character`
      : `byte ${offset + index} (${hexByte}) is not valid UTF-8; save the file as UTF-8`;
  yield { code: 'encoding/utf-8', message };
}

/** Returns the length in bytes of a UTF-8 character, derived from its first byte. Returns 1 for invalid first bytes. */
function getSequenceLength(leadByte = 0): number {
  if (leadByte < 0xc2 || leadByte > 0xf4) return 1;
  if (leadByte < 0xe0) return 2;
  return leadByte < 0xf0 ? 3 : 4;
}

function countUnfinishedBytes(bytes: Buffer): number {
  for (let distance = 1; distance <= Math.min(3, bytes.length); distance += 1) {
    const byte = bytes[bytes.length - distance] ?? 0;
    const isContinuation = byte >= 0x80 && byte < 0xc0;
    if (!isContinuation) return getSequenceLength(byte) > distance ? distance : 0;
  }
  return 0;
}

/** Encodings by the first bytes of a text: a byte order mark, or ASCII characters padded with zero bytes. */
const ENCODINGS: [name: string, pattern: RegExp][] = [
  ['UTF-32 (big-endian)', /^\0\0(?:\xfe\xff|\0[^\0])/],
  ['UTF-32 (little-endian)', /^(?:\xff\xfe|[^\0]\0)\0\0/],
  // Two characters are required, because a single zero byte may be a stray byte.
  ['UTF-16 (big-endian)', /^(?:\xfe\xff|\0[^\0]\0[^\0])/],
  ['UTF-16 (little-endian)', /^(?:\xff\xfe|[^\0]\0[^\0]\0)/],
];

function detectEncoding(bytes: Buffer): EncodingNotice | null {
  const head = bytes.toString('latin1', 0, 4);
  if (head.startsWith('\xef\xbb\xbf')) {
    const message = 'the file begins with a byte order mark, which is skipped; save it without one';
    return { code: 'encoding/bom', message };
  }
  const [name] = ENCODINGS.find(([, pattern]) => pattern.test(head)) ?? [];
  if (name === undefined) return null;
  return { code: 'encoding/utf-16', message: `the file is ${name}; save it as UTF-8` };
}
