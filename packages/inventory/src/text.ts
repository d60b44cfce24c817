import { findCredentials, replaceRanges, maskCredentials, maskId } from './credentials.ts';
import type { Excerpt } from './finding.ts';

// Maximum lengths in UTF-16 code units.
const MAX_SHOWN_LENGTH = 60;
const MAX_SCANNED = 1024;

/** Masks credentials and shortens a long text with an ellipsis. */
export function shorten(text: string, mask: (text: string) => string = maskCredentials): string {
  const isTruncated = text.length > MAX_SCANNED;
  const masked = mask(isTruncated ? removeCutEnd(text.slice(0, MAX_SCANNED)) : text);
  const characters = Array.from(masked.slice(0, 2 * MAX_SHOWN_LENGTH + 2));
  if (characters.length <= MAX_SHOWN_LENGTH && !isTruncated) return masked;
  return `${characters.slice(0, MAX_SHOWN_LENGTH).join('')}…`;
}

/** Quotes a text for a message. */
export function quoteText(text: string): string {
  return JSON.stringify(shorten(text));
}

/** Quotes the ID of a record for a message. */
export function quoteId(id: string): string {
  return JSON.stringify(shorten(id, maskId));
}

/**
 * Returns the part of the line around an offset, with credentials masked.
 * @param cut Whether the text is cut at its beginning or end.
 */
export function getExcerpt(
  text: string,
  offset: number,
  cut = { isCutBefore: false, isCutAfter: false },
): Excerpt {
  const from = Math.max(0, offset - MAX_SCANNED);
  let read = text.slice(from, offset + MAX_SCANNED);
  let at = offset - from;
  // A cut word may be part of a password.
  if (from > 0 || cut.isCutBefore) {
    const { length } = /^[^\s"<>]*/.exec(read)?.[0] ?? '';
    read = read.slice(length);
    at = Math.max(0, at - length);
  }
  if (offset + MAX_SCANNED < text.length || cut.isCutAfter) read = removeCutEnd(read);
  const ranges = findCredentials(read);
  const left = ranges.filter(({ start }) => start < at);
  const right = ranges.filter(({ end }) => end > at);
  const clipped = left.map(({ start, end }) => ({ start, end: Math.min(end, at) }));
  const moved = right.map(({ start, end }) => ({ start: Math.max(start, at) - at, end: end - at }));
  const before = replaceRanges(read.slice(0, at), clipped).slice(-MAX_SHOWN_LENGTH).toWellFormed();
  const after = replaceRanges(read.slice(at), moved).slice(0, MAX_SHOWN_LENGTH).toWellFormed();
  const head = before.slice(before.lastIndexOf('\n') + 1);
  const [tail = ''] = after.split(/\r?\n/, 1);
  return { text: head + tail, column: Array.from(head).length + 1 };
}

/** Removes a cut word at the end, because it may contain an incomplete password. */
function removeCutEnd(text: string): string {
  const [word = ''] = /[^\s"<>]*$/.exec(text) ?? [];
  return /\/\/|[^:]:/.test(word) ? text.slice(0, text.length - word.length) : text;
}

// Control characters, lone surrogates, line separators, and format characters, which reorder or hide text.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
// Line ends, tabs, and the joiners of Persian words and of emoji are harmless on a page.
const NOT_PAGE_SPACE = /[^\n\r\t\u200C\u200D]+/g;
// Fast path: nearly all texts are printable ASCII.
const SPECIAL = /[^ -~]/;

/** Replaces characters that would affect a terminal with JSON escapes. */
export function escapeInvisible(text: string): string {
  return SPECIAL.test(text) ? text.replace(INVISIBLE, escape) : text;
}

/** Replaces invisible characters for a page or table, but keeps line ends, tabs and joiners. */
export function escapeInvisibleOnPage(text: string): string {
  return SPECIAL.test(text) ? text.replace(NOT_PAGE_SPACE, escapeInvisible) : text;
}

/** Formats a value as JSON (RFC 8259) that is safe to print. */
export function formatJson(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, null, indent);
  if (!SPECIAL.test(text)) return text;
  return text.replace(INVISIBLE, (found) => (found === '\n' ? found : escape(found)));
}

/** Formats a list as JSON with an indent of two spaces, piece by piece. Each line begins with `margin`. */
export function* formatJsonList(values: Iterable<unknown>, margin = ''): Generator<string> {
  let separator = '[';
  for (const value of values) {
    const text = formatJson(value, 2).replaceAll('\n', `\n${margin}  `);
    yield `${separator}\n${margin}  ${text}`;
    separator = ',';
  }
  yield separator === '[' ? '[]' : `\n${margin}]`;
}

function escape(character: string): string {
  const units = Array.from({ length: character.length }, (_, nth) => character.charCodeAt(nth));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}

/** Masks a text and escapes it for a cell of a Markdown table. */
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
