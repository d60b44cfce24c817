import { CommandError } from '../command.ts';

/** Number of bytes used to detect the encoding. */
const HEAD_BYTES = 64;

/** A few non-ASCII characters may be valid UTF-8 by chance. */
const MIN_UTF8_CHARACTERS = 8;

/** Number of bytes read so far, and their length in UTF-8. */
export type ByteCounts = { bytes: number; utf8Bytes: number };

/**
 * Decodes a byte stream and removes the byte order mark.
 * @param options.name The file's name, for error messages.
 * @param options.encoding A label of the Encoding Standard, such as `windows-1251`.
 * @param read Counters that are increased during the reading.
 * @throws CommandError with the line if the bytes are invalid in this encoding. A wrong encoding would store
 *   garbled text.
 */
export async function* decodeText(
  bytes: AsyncIterable<Uint8Array>,
  { name, encoding }: { name: string; encoding: string },
  read: ByteCounts,
): AsyncGenerator<string> {
  const decoder = new TextDecoder(encoding, { fatal: true });
  let line = 1;
  for await (const chunk of withWholeHead(bytes)) {
    const mismatch = read.bytes === 0 ? mismatchOf(chunk, decoder.encoding) : undefined;
    if (mismatch !== undefined) throw new CommandError(`${name} ${mismatch}`);
    const text = decode(chunk);
    line += countLines(text);
    read.bytes += chunk.length;
    read.utf8Bytes += Buffer.byteLength(text);
    yield text;
  }
  yield decode();

  function decode(chunk?: Uint8Array): string {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch (cause) {
      // A lenient decoder replaces the invalid bytes by U+FFFD.
      const [before = ''] = new TextDecoder(encoding).decode(chunk).split('\uFFFD', 1);
      const [label, advice] =
        decoder.encoding === 'utf-8'
          ? ['UTF-8', 'save it as UTF-8, or name its encoding, such as --encoding windows-1251']
          : [decoder.encoding, 'name another with --encoding'];
      throw new CommandError(
        `${name} is not ${label} text (line ${line + countLines(before)}): ${advice}`,
        { cause },
      );
    }
  }
}

/** Joins the first chunks until their size suffices to detect the encoding. */
async function* withWholeHead(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let head: Buffer | undefined = Buffer.alloc(0);
  for await (const chunk of chunks) {
    if (head === undefined) {
      yield chunk;
    } else {
      head = Buffer.concat([head, chunk]);
      if (head.length < HEAD_BYTES) continue;
      yield head;
      head = undefined;
    }
  }
  if (head !== undefined && head.length > 0) yield head;
}

/** Returns advice about the likely encoding. Undefined if the first bytes match the chosen encoding. */
function mismatchOf(head: Uint8Array, encoding: string): string | undefined {
  const firstZero = head.indexOf(0);
  const utf16 =
    head[0] === 0xff && head[1] === 0xfe
      ? 'utf-16le'
      : head[0] === 0xfe && head[1] === 0xff
        ? 'utf-16be'
        : firstZero === -1
          ? undefined
          : `utf-16${firstZero % 2 === 1 ? 'le' : 'be'}`;
  if (encoding.startsWith('utf-16')) {
    if (utf16 === encoding || head.length < HEAD_BYTES) return undefined;
    return `is not ${encoding} text: leave --encoding out for UTF-8, or name another`;
  }
  if (utf16 !== undefined) return `is UTF-16 text: add --encoding ${utf16}`;
  return encoding !== 'utf-8' && isUtf8(head) ? 'is UTF-8 text: leave --encoding out' : undefined;
}

function isUtf8(head: Uint8Array): boolean {
  try {
    // The last character may be incomplete.
    const text = new TextDecoder('utf-8', { fatal: true }).decode(head, { stream: true });
    return (text.match(/[^\p{ASCII}]/gu) ?? []).length >= MIN_UTF8_CHARACTERS;
  } catch {
    return false;
  }
}

function countLines(text: string): number {
  return text.split('\n').length - 1;
}
