import { hash } from 'node:crypto';
import { decodeHTMLStrict } from 'entities';
import { Parser } from 'htmlparser2';

/** Returns the SHA-256 of a string, in hexadecimal. */
export function sha256(text: string): string {
  return hash('sha256', text);
}

const MAX_MESSAGE_LENGTH = 1000;

/** Joins text into one line with single spaces, and removes or replaces characters that PostgreSQL rejects. */
export function cleanText(text: string): string {
  return text.replaceAll('\0', '').toWellFormed().replaceAll(/\s+/gu, ' ').trim();
}

/**
 * Truncates text to at most `maxLength` UTF-16 code units. Never splits a surrogate pair, because PostgreSQL rejects
 * half of a pair.
 */
export function truncateText(text: string, maxLength: number): string {
  const isPair = (text.codePointAt(maxLength - 1) ?? 0) > 0xffff;
  return text.slice(0, isPair ? maxLength - 1 : maxLength);
}

/** Cleans and truncates a message for storage. */
export function toStorableMessage(message: string): string {
  return truncateText(cleanText(message), MAX_MESSAGE_LENGTH);
}

/** Cleans the strings of a list. Drops other values, duplicates, empty and too long strings, and surplus items. */
export function cleanList(
  list: readonly unknown[],
  maxLength = Infinity,
  maxItems = Infinity,
): string[] {
  const texts = list.filter((value) => typeof value === 'string').map(cleanText);
  return [...new Set(texts)]
    .filter((text) => text !== '' && text.length <= maxLength)
    .slice(0, maxItems);
}

/** Apostrophes that Ukrainian texts use: keyboard and Unicode apostrophes, and look-alikes. */
export const APOSTROPHES = "'\u2019\u02BC\u2018\u201B\u02B9\u02BB\u02BD\u2032\u0060\u00B4\uFF07";

/** Character classes of invisible characters, such as soft hyphens, zero-width spaces and bidirectional controls. */
export const INVISIBLE_CHARACTERS = String.raw`\p{Cf}\p{Default_Ignorable_Code_Point}`;

const PATTERNS = {
  invisible: new RegExp(`[${INVISIBLE_CHARACTERS}]`, 'gu'),
  stress: /[\u0300\u0301]/gu,
  looseMark: /\p{M}/gu,
  innerApostrophe: new RegExp(`(?<=\\p{L})[${APOSTROPHES}]+(?=\\p{L})`, 'gu'),
  // Unicode counts some apostrophes as letters, but at the edge of a word they are separators.
  separator: new RegExp(`(?:[^\\p{L}\\p{Nd}]|[${APOSTROPHES}])+`, 'gu'),
};

/**
 * Normalizes text for search: lower-case words of letters and digits, separated by single spaces. Documents, queries
 * and filter keys all use this form. The function is idempotent and at most triples the length. Contract 4, Search.
 *
 * - Upper case, ё, and stress marks (U+0300, U+0301) are folded. й and ї keep their marks.
 * - Invisible characters and all other combining marks that NFC cannot compose are dropped.
 * - Apostrophes inside words are dropped, "п'ять" → "пять", because PostgreSQL's parser breaks words at some
 *   apostrophes and not at others.
 * - All other characters become spaces, because the parser reads "-5" as a number, "54.5" as one word but "54,5" as
 *   two, and "ok.example" as a host.
 * - "м²" becomes "м2", and "м³" becomes "м3".
 */
export function normalizeText(text: string): string {
  return (
    text
      .replaceAll(PATTERNS.invisible, '')
      .toLowerCase()
      // NFC composes ѐ, so the stress marks are removed from the decomposed form.
      .normalize('NFD')
      .replaceAll(PATTERNS.stress, '')
      .normalize('NFC')
      .replaceAll(PATTERNS.looseMark, '')
      .replaceAll('ё', 'е')
      .replaceAll('²', '2')
      .replaceAll('³', '3')
      .replaceAll(PATTERNS.innerApostrophe, '')
      .replaceAll(PATTERNS.separator, ' ')
      .trim()
  );
}

/** Inline elements. Every other element, except a table cell, begins and ends a line. */
const INLINE_ELEMENTS =
  'a abbr b big cite code em font i label mark q s small span strike strong sub sup time tt u'.split(
    ' ',
  );
const CELL_ELEMENTS = ['td', 'th'];
/** Elements whose content is not text. */
const HIDDEN_ELEMENTS = ['iframe', 'noscript', 'script', 'style', 'svg', 'template'];
const BLOCK_ELEMENTS =
  'article aside blockquote body br center dd div dl dt footer form h[1-6] head header hr html img li link main meta nav ol p pre section table tbody tfoot thead tr ul'.split(
    ' ',
  );

/** Pattern of an attribute. Values exclude `<`, which keeps matching linear. */
const ATTRIBUTE_PATTERN = String.raw`\s+[a-z][\w:-]*(?:\s*=\s*(?:"[^"<]*"|'[^'<]*'|[^\s"'<>]+))?`;
const ELEMENT_NAMES = [
  ...INLINE_ELEMENTS,
  ...CELL_ELEMENTS,
  ...HIDDEN_ELEMENTS,
  ...BLOCK_ELEMENTS,
].join('|');
const TAG_PATTERN = new RegExp(
  String.raw`<(?:/?(?:${ELEMENT_NAMES})(?:${ATTRIBUTE_PATTERN})*\s*/?>|!--|!doctype\b)`,
  'i',
);

/**
 * Converts possible HTML to plain text, with a line for each paragraph, list item and table row. Text is HTML if it has
 * a complete tag of a known element, a comment or a doctype, escaped or not. Other text is kept, such as
 * "площа < 50 м²" and "?a=1&copy=2"; only its entities with a semicolon are decoded.
 * @returns The plain text, or `text` if the plain text is empty.
 */
export function toPlainText(text: string): string {
  const html = TAG_PATTERN.test(text) ? text : decodeHTMLStrict(text);
  if (!TAG_PATTERN.test(html)) return html;
  return removeTags(html) || text;
}

function removeTags(html: string): string {
  const textParts: string[] = [];
  let hiddenDepth = 0;
  const addSeparator = (name: string): void => {
    if (!INLINE_ELEMENTS.includes(name)) textParts.push(CELL_ELEMENTS.includes(name) ? ' ' : '\n');
  };
  const parser = new Parser({
    onopentag(name) {
      if (HIDDEN_ELEMENTS.includes(name)) hiddenDepth += 1;
      addSeparator(name);
    },
    onclosetag(name) {
      if (HIDDEN_ELEMENTS.includes(name)) hiddenDepth -= 1;
      addSeparator(name);
    },
    ontext(text) {
      if (hiddenDepth === 0) textParts.push(text);
    },
  });
  parser.end(html);
  const lines = textParts.join('').split('\n');
  return lines
    .map((line) => line.replaceAll(/\s+/gu, ' ').trim())
    .filter((line) => line !== '')
    .join('\n');
}
