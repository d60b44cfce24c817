import { isUtf8 } from 'node:buffer';

/** What the bytes of a file show about its encoding. */
export type EncodingNotice =
  | { code: 'encoding/bom'; message: string }
  | { code: 'encoding/utf-16'; message: string }
  | { code: 'encoding/utf-8'; message: string };

const BOM_MESSAGE = 'the file begins with a byte order mark, which is skipped; save it without one';

/**
 * Passes UTF-8 on, cut between characters. A byte order mark is taken away and noted. The first
 * bytes that are no UTF-8 are noted too, after everything that stands before them, and end it.
 */
export async function* readUtf8(
  chunks: AsyncIterable<Buffer>,
): AsyncGenerator<Buffer | EncodingNotice> {
  let carried = Buffer.alloc(0);
  let offset = 0;
  let isFirst = true;

  for await (const chunk of withWholeHead(chunks)) {
    let bytes = carried.length === 0 ? chunk : Buffer.concat([carried, chunk]);
    const notice = isFirst ? sniff(bytes) : null;
    isFirst = false;
    if (notice !== null) {
      yield notice;
      if (notice.code === 'encoding/utf-16') return;
      bytes = bytes.subarray(3);
      offset = 3;
    }
    const end = bytes.length - unfinishedTail(bytes);
    const complete = bytes.subarray(0, end);
    if (!isUtf8(complete)) {
      yield* untilInvalid(complete, offset);
      return;
    }
    if (end > 0) yield complete;
    // The source may use its buffer again, so what is kept is copied.
    carried = Buffer.from(bytes.subarray(end));
    offset += end;
  }
  if (carried.length > 0) yield* untilInvalid(carried, offset);
}

/** Joins the first chunks until there are the four bytes that tell every encoding apart. */
async function* withWholeHead(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let head = Buffer.alloc(0);
  for await (const chunk of chunks) {
    if (head.length >= 4) {
      yield chunk;
      continue;
    }
    head = Buffer.concat([head, chunk]);
    if (head.length >= 4) yield head;
  }
  if (head.length > 0 && head.length < 4) yield head;
}

/** The valid bytes before the first invalid one, and the notice about it. */
function* untilInvalid(bytes: Buffer, offset: number): Generator<Buffer | EncodingNotice> {
  const at = firstInvalid(bytes);
  if (at > 0) yield bytes.subarray(0, at);
  const value = `0x${(bytes[at] ?? 0).toString(16).toUpperCase()}`;
  const message =
    bytes.length - at <= unfinishedTail(bytes)
      ? `the file ends inside a UTF-8 character that begins at byte ${offset + at}; fetch it again, or remove what is cut`
      : `byte ${offset + at} (${value}) is not valid UTF-8; save the file as UTF-8`;
  yield { code: 'encoding/utf-8', message };
}

function firstInvalid(bytes: Buffer): number {
  let at = 0;
  while (at < bytes.length) {
    const length = sequenceLength(bytes[at]);
    if (at + length > bytes.length || !isUtf8(bytes.subarray(at, at + length))) return at;
    at += length;
  }
  return at;
}

/** How many bytes the character that begins with this byte has; 1 for what begins none. */
function sequenceLength(lead = 0): number {
  if (lead < 0xc2 || lead > 0xf4) return 1;
  if (lead < 0xe0) return 2;
  return lead < 0xf0 ? 3 : 4;
}

/** How many bytes at the end belong to a character that goes on in the next chunk. */
function unfinishedTail(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    const continues = byte >= 0x80 && byte < 0xc0;
    if (!continues) return sequenceLength(byte) > back ? back : 0;
  }
  return 0;
}

/** Byte order marks, and the pattern of zero bytes that ASCII leaves in UTF-16 and UTF-32. */
function sniff(head: Buffer): EncodingNotice | null {
  const [a, b, c, d] = head;
  const starts = (...bytes: number[]) => bytes.every((byte, index) => head[index] === byte);
  if (starts(0xef, 0xbb, 0xbf)) return { code: 'encoding/bom', message: BOM_MESSAGE };

  if (starts(0, 0, 0xfe, 0xff) || (starts(0, 0, 0) && d)) return wide('UTF-32 (big-endian)');
  if (starts(0xff, 0xfe, 0, 0) || (a && b === 0 && c === 0 && d === 0)) {
    return wide('UTF-32 (little-endian)');
  }
  // Two characters of ASCII, since one zero byte alone is only out of place.
  if (starts(0xfe, 0xff) || (a === 0 && b && c === 0 && d)) return wide('UTF-16 (big-endian)');
  if (starts(0xff, 0xfe) || (a && b === 0 && c && d === 0)) return wide('UTF-16 (little-endian)');
  return null;
}

function wide(name: string): EncodingNotice {
  return { code: 'encoding/utf-16', message: `the file is ${name}; save it as UTF-8` };
}
