/** How many of the first bytes are examined. */
export const HEAD_BYTES = 64;

/** Fewer characters beyond ASCII may be valid UTF-8 by chance. */
const MIN_UTF8_CHARACTERS = 8;

/** ASCII in UTF-16 has a zero byte for each character: the share of these in a text of other letters. */
const MIN_ZERO_SHARE = 0.02;

/**
 * Compares the first bytes of a text with the encoding that was chosen for it.
 * @param encoding As `TextDecoder` names it, such as `windows-1251`.
 * @returns The likely encoding and what to do; undefined when the bytes fit the chosen one.
 */
export function describeMismatch(head: Uint8Array, encoding: string): string | undefined {
  const found = utf16Of(head);
  if (found !== undefined) {
    return found === encoding ? undefined : `is UTF-16 text: add --encoding ${found}`;
  }
  if (encoding === 'utf-8') return undefined;
  if (encoding.startsWith('utf-16') && head.length >= HEAD_BYTES && !head.includes(0)) {
    return `is not ${encoding} text: leave --encoding out for UTF-8, or name another`;
  }
  return isUtf8(head) ? 'is UTF-8 text: leave --encoding out' : undefined;
}

/** Recognizes UTF-16 by its byte order mark, or by zero bytes on one side of each pair. */
function utf16Of(head: Uint8Array): string | undefined {
  if (head[0] === 0xff && head[1] === 0xfe) return 'utf-16le';
  if (head[0] === 0xfe && head[1] === 0xff) return 'utf-16be';
  const zeros = head.reduce<number[]>((found, byte, index) => {
    if (byte === 0) found.push(index % 2);
    return found;
  }, []);
  const [first = 0] = zeros;
  const isPlain = zeros.every((side) => side === first);
  if (!isPlain || zeros.length < 2 || zeros.length < head.length * MIN_ZERO_SHARE) return undefined;
  return first === 1 ? 'utf-16le' : 'utf-16be';
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
