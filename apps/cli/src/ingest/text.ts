import { CommandError } from '../command.ts';
import { peek } from './row.ts';

const ENCODING_SAMPLE_BYTES = 64;

/** Minimum number of non-ASCII characters to detect UTF-8. Fewer may be valid UTF-8 by chance. */
const MIN_UTF8_CHARACTERS = 8;

/** Number of bytes read so far, and the length of their text in UTF-8. */
export type ByteCounts = { bytes: number; utf8Bytes: number };

/**
 * Decodes a byte stream and removes the byte order mark.
 * @param options.name The file's name, for error messages.
 * @param options.encoding A label of the Encoding Standard, such as `windows-1251`.
 * @param byteCounts Counters that grow as bytes are read.
 * @throws CommandError if the first bytes have another encoding, and with the line if bytes are invalid in this one,
 *   because a wrong encoding garbles the text.
 */
export async function* decodeText(
  bytes: AsyncIterable<Uint8Array>,
  { name, encoding }: { name: string; encoding: string },
  byteCounts: ByteCounts,
): AsyncGenerator<string> {
  const decoder = new TextDecoder(encoding, { fatal: true });
  const { head, allItems: allChunks } = await peek(bytes, (chunks) => {
    return chunks.reduce((length, chunk) => length + chunk.length, 0) >= ENCODING_SAMPLE_BYTES;
  });
  const advice = getEncodingAdvice(Buffer.concat(head), decoder.encoding);
  if (advice !== undefined) throw new CommandError(`${name} ${advice}`);
  let line = 1;
  for await (const chunk of allChunks) {
    const text = decode(chunk);
    line += countLines(text);
    byteCounts.bytes += chunk.length;
    byteCounts.utf8Bytes += Buffer.byteLength(text);
    yield text;
  }
  yield decode();

  function decode(chunk?: Uint8Array): string {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch (cause) {
      // A lenient decoder replaces the invalid bytes with U+FFFD.
      const [validText = ''] = new TextDecoder(encoding).decode(chunk).split('\uFFFD', 1);
      const [label, remedy] =
        decoder.encoding === 'utf-8'
          ? ['UTF-8', 'save it as UTF-8, or name its encoding, such as --encoding windows-1251']
          : [decoder.encoding, 'name another with --encoding'];
      throw new CommandError(
        `${name} is not ${label} text (line ${line + countLines(validText)}): ${remedy}`,
        { cause },
      );
    }
  }
}

/** Returns advice if the first bytes are not in the chosen encoding. Otherwise returns undefined. */
function getEncodingAdvice(head: Buffer, encoding: string): string | undefined {
  const utf16 = detectUtf16(head);
  if (encoding.startsWith('utf-16')) {
    if (utf16 === encoding || head.length < ENCODING_SAMPLE_BYTES) return undefined;
    return `is not ${encoding} text: omit --encoding for UTF-8, or name a different one`;
  }
  if (utf16 !== undefined) return `is UTF-16 text: add --encoding ${utf16}`;
  return encoding !== 'utf-8' && isUtf8(head) ? 'is UTF-8 text: omit --encoding' : undefined;
}

/** Detects UTF-16 by its byte order mark or by a zero byte, which text in other encodings does not contain. */
function detectUtf16(head: Buffer): string | undefined {
  const byteOrderMark = head.toString('hex', 0, 2);
  const firstZero = head.indexOf(0);
  if (byteOrderMark === 'fffe' || (byteOrderMark !== 'feff' && firstZero % 2 === 1))
    return 'utf-16le';
  return byteOrderMark === 'feff' || firstZero !== -1 ? 'utf-16be' : undefined;
}

function isUtf8(head: Buffer): boolean {
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
