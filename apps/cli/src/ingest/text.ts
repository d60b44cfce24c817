import { CommandError } from '../command-error.ts';
import { describeMismatch, HEAD_BYTES } from './encoding.ts';

/** What to read as text, and how. */
export type TextOptions = {
  /** The file's name, for error messages. */
  name: string;
  /** A label of the Encoding Standard, such as `utf-8` or `windows-1251`. */
  encoding: string;
};

/** How many bytes have been read, and how many those are as UTF-8. */
export type ReadBytes = { bytes: number; utf8Bytes: number };

/**
 * Decodes bytes as they come; a byte order mark is left out.
 * @param read Is counted up.
 * @throws CommandError where the beginning is plainly of another encoding, or at the first byte that is not of this
 *   one, with its line: text that is read by the wrong encoding would be stored as nonsense.
 */
export async function* decodeText(
  bytes: AsyncIterable<Uint8Array>,
  { name, encoding }: TextOptions,
  read: ReadBytes,
): AsyncGenerator<string> {
  const decoder = new TextDecoder(encoding, { fatal: true });
  let line = 1;
  let last: Uint8Array = new Uint8Array();
  function decode(chunk?: Uint8Array): string {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch (cause) {
      throw new CommandError(notText(name, encoding, line + linesBeforeFault(last, encoding)), {
        cause,
      });
    }
  }
  for await (const chunk of withWholeHead(bytes)) {
    const mismatch = read.bytes === 0 ? describeMismatch(chunk, decoder.encoding) : undefined;
    if (mismatch !== undefined) throw new CommandError(`${name} ${mismatch}`);
    last = chunk;
    const text = decode(chunk);
    line += countLines(text);
    read.bytes += chunk.length;
    read.utf8Bytes += Buffer.byteLength(text);
    if (text !== '') yield text;
  }
  last = new Uint8Array();
  const rest = decode();
  if (rest !== '') yield rest;
}

/** Joins the first chunks until there is enough to tell the encoding. */
async function* withWholeHead(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let head = Buffer.alloc(0);
  let isWhole = false;
  for await (const chunk of chunks) {
    if (isWhole) {
      yield chunk;
      continue;
    }
    head = Buffer.concat([head, chunk]);
    isWhole = head.length >= HEAD_BYTES;
    if (isWhole) yield head;
  }
  if (!isWhole && head.length > 0) yield head;
}

function notText(name: string, encoding: string, line: number): string {
  const known = new TextDecoder(encoding).encoding;
  const advice =
    known === 'utf-8'
      ? 'save it as UTF-8, or name its encoding, such as --encoding windows-1251'
      : 'name another with --encoding';
  return `${name} is not ${known === 'utf-8' ? 'UTF-8' : known} text (line ${line}): ${advice}`;
}

/** What cannot be decoded becomes U+FFFD where nobody forbids it. */
function linesBeforeFault(chunk: Uint8Array, encoding: string): number {
  const text = new TextDecoder(encoding).decode(chunk);
  const fault = text.indexOf('\uFFFD');
  return countLines(fault === -1 ? text : text.slice(0, fault));
}

function countLines(text: string): number {
  let count = 0;
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) count += 1;
  return count;
}
