import { findCredentials, replaceRanges, maskCredentials, maskId } from './credentials.ts';
import type { Excerpt } from './finding.ts';

// Maximum lengths in UTF-16 code units. `shorten` counts the shown text in code points.
const MAX_SHOWN_LENGTH = 60;
const MAX_SCANNED_LENGTH = 1024;

/** Masks credentials, and truncates long text with an ellipsis. */
export function shorten(text: string, mask: (text: string) => string = maskCredentials): string {
  const isTruncated = text.length > MAX_SCANNED_LENGTH;
  const maskedText = mask(
    isTruncated ? removeTruncatedWord(text.slice(0, MAX_SCANNED_LENGTH)) : text,
  );
  const characters = Array.from(maskedText.slice(0, 2 * MAX_SHOWN_LENGTH + 2));
  if (characters.length <= MAX_SHOWN_LENGTH && !isTruncated) return maskedText;
  return `${characters.slice(0, MAX_SHOWN_LENGTH).join('')}…`;
}

/** Masks, shortens and quotes text for a message. */
export function quoteText(text: string): string {
  return JSON.stringify(shorten(text));
}

/** Masks, shortens and quotes a record ID for a message. */
export function quoteId(id: string): string {
  return JSON.stringify(shorten(id, maskId));
}

/**
 * Returns the part of the line around an offset, with credentials masked.
 * @param truncation Whether the text is truncated at its beginning or end.
 */
export function getExcerpt(
  text: string,
  offset: number,
  truncation = { isTruncatedBefore: false, isTruncatedAfter: false },
): Excerpt {
  const scanStart = Math.max(0, offset - MAX_SCANNED_LENGTH);
  let scannedText = text.slice(scanStart, offset + MAX_SCANNED_LENGTH);
  let position = offset - scanStart;
  // A truncated word may be part of a password.
  if (scanStart > 0 || truncation.isTruncatedBefore) {
    const { length } = /^[^\s"<>]*/.exec(scannedText)?.[0] ?? '';
    scannedText = scannedText.slice(length);
    position = Math.max(0, position - length);
  }
  if (offset + MAX_SCANNED_LENGTH < text.length || truncation.isTruncatedAfter)
    scannedText = removeTruncatedWord(scannedText);
  const ranges = findCredentials(scannedText);
  const maskPart = (from: number, to: number) => {
    const partRanges = ranges
      .map(({ start, end }) => ({ start: Math.max(start, from), end: Math.min(end, to) }))
      .filter(({ start, end }) => start < end)
      .map(({ start, end }) => ({ start: start - from, end: end - from }));
    return replaceRanges(scannedText.slice(from, to), partRanges);
  };
  const textBefore = maskPart(0, position).slice(-MAX_SHOWN_LENGTH).toWellFormed();
  const textAfter = maskPart(position, Infinity).slice(0, MAX_SHOWN_LENGTH).toWellFormed();
  const head = textBefore.slice(textBefore.lastIndexOf('\n') + 1);
  const [tail = ''] = textAfter.split(/\r?\n/, 1);
  return { text: head + tail, column: Array.from(head).length + 1 };
}

/** Removes a truncated word at the end, because it may contain part of a password. */
function removeTruncatedWord(text: string): string {
  const [word = ''] = /[^\s"<>]*$/.exec(text) ?? [];
  return /\/\/|[^:]:/.test(word) ? text.slice(0, text.length - word.length) : text;
}

// Control characters, lone surrogates, line separators, and format characters, which reorder or hide text.
const INVISIBLE_CHARACTER_PATTERN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
// Line ends, tabs, and the zero-width characters of Persian text and emoji are harmless on a page.
const TEXT_WITHOUT_PAGE_SPACE_PATTERN = /[^\n\r\t\u200C\u200D]+/g;
// Fast path: nearly all text is printable ASCII.
const NON_PRINTABLE_ASCII_PATTERN = /[^ -~]/;

/** Replaces characters that would affect a terminal with JSON escapes. */
export function escapeInvisible(text: string): string {
  return NON_PRINTABLE_ASCII_PATTERN.test(text)
    ? text.replace(INVISIBLE_CHARACTER_PATTERN, escapeUnits)
    : text;
}

/** Replaces invisible characters for a page or table. Keeps line ends, tabs and joiners. */
export function escapeInvisibleOnPage(text: string): string {
  return NON_PRINTABLE_ASCII_PATTERN.test(text)
    ? text.replace(TEXT_WITHOUT_PAGE_SPACE_PATTERN, escapeInvisible)
    : text;
}

/** Formats a value as JSON (RFC 8259) that is safe to print. */
export function formatJson(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, null, indent);
  if (!NON_PRINTABLE_ASCII_PATTERN.test(text)) return text;
  return text.replace(INVISIBLE_CHARACTER_PATTERN, (character) =>
    character === '\n' ? character : escapeUnits(character),
  );
}

/** Yields a list as JSON in chunks, with an indent of two spaces. Each line after the first begins with `margin`. */
export function* formatJsonList(values: Iterable<unknown>, margin = ''): Generator<string> {
  let separator = '[';
  for (const value of values) {
    const text = formatJson(value, 2).replaceAll('\n', `\n${margin}  `);
    yield `${separator}\n${margin}  ${text}`;
    separator = ',';
  }
  yield separator === '[' ? '[]' : `\n${margin}]`;
}

function escapeUnits(character: string): string {
  const units = Array.from({ length: character.length }, (_, index) => character.charCodeAt(index));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}

/** Masks text and escapes it for a Markdown table cell. */
export function formatMarkdownCell(
  text: string,
  mask: (text: string) => string = maskCredentials,
): string {
  return (
    escapeInvisible(mask(text))
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll(/[\\`*_{}[\]()#+!|~]/g, String.raw`\$&`)
      // The comment prevents GitHub mentions.
      .replaceAll('@', '@<!-- -->')
  );
}

/** Formats a number with its noun in the singular or plural. */
export function formatCount(number: number, noun: string, nouns = `${noun}s`): string {
  return `${number} ${number === 1 ? noun : nouns}`;
}
