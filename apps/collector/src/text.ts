import { hash } from 'node:crypto';
import { decodeHTMLStrict } from 'entities';
import { Parser } from 'htmlparser2';

/** Returns the SHA-256 of a text, in hexadecimal. */
export function sha256(text: string): string {
  return hash('sha256', text);
}

/** Longest stored message of a model or a server. */
const MAX_MESSAGE = 1000;

/**
 * Returns a short text on one line: with single spaces between its words, none around it, and without what
 * PostgreSQL cannot store. Sources and models write line breaks and NUL characters into any field.
 */
export function cleanText(text: string): string {
  return text.replaceAll('\0', '').toWellFormed().replaceAll(/\s+/gu, ' ').trim();
}

/**
 * Returns the beginning of a text, at most `maxLength` UTF-16 code units: one less where that would cut a character in
 * two, since PostgreSQL stores no half of one.
 */
export function cutText(text: string, maxLength: number): string {
  const isPair = (text.codePointAt(maxLength - 1) ?? 0) > 0xffff;
  return text.slice(0, isPair ? maxLength - 1 : maxLength);
}

/** Returns a message of a model or a server, which may be of any length, as it can be stored. */
export function storableMessage(message: string): string {
  return cutText(cleanText(message), MAX_MESSAGE);
}

/** Returns the cleaned texts of a list, each once, without empty ones, too long ones and those past the bound. */
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

/**
 * The ways to type the apostrophe inside a word. Ukrainian text has all of them: the key on the keyboard, the typographic
 * one of word processors, the letter that Unicode recommends, and look-alikes.
 */
export const APOSTROPHES = "'\u2019\u02BC\u2018\u201B\u02B9\u02BB\u02BD\u2032\u0060\u00B4\uFF07";

/** Invisible characters: soft hyphens, zero-width spaces and joiners, byte order marks. */
export const INVISIBLE = String.raw`\p{Cf}\p{Default_Ignorable_Code_Point}`;

const PATTERNS = {
  invisible: new RegExp(`[${INVISIBLE}]`, 'gu'),
  stress: /[\u0300\u0301]/gu,
  looseMark: /\p{M}/gu,
  innerApostrophe: new RegExp(`(?<=\\p{L})[${APOSTROPHES}]+(?=\\p{L})`, 'gu'),
  // The apostrophes that Unicode counts as letters separate words when they stand at a word's edge.
  separator: new RegExp(`(?:[^\\p{L}\\p{Nd}]|[${APOSTROPHES}])+`, 'gu'),
  /** Over Cyrillic letters alone: in Latin script they make another letter. */
  cyrillicStress: /(?<=\p{Script=Cyrillic}\p{M}*)[\u0300\u0301]/gu,
  decomposedYo: /(?<=е)\u0308/gu,
  hyphen: /[\p{Pd}\u2212]/gu,
  space: /\s+/gu,
};

/**
 * Normalises text for search: lower-case words of letters and digits with one space between. Documents, queries and
 * filter keys all use it, so that every spelling finds every other. It is idempotent and at most triples the length,
 * which is what Unicode allows composition to do. Contract 4, Search.
 *
 * - Upper case, ё, and stress marks (U+0300, U+0301) are folded; й and ї keep their marks.
 * - An apostrophe inside a word is dropped, "п'ять" → "пять": PostgreSQL's parser breaks words at
 *   U+0027 and U+2019 and not at U+02BC. Russian "пять" is found with it, which in mixed text helps.
 * - Everything else that is neither letter nor digit becomes a space. That is for the parser too, which
 *   reads "-5" as a number, "івано-франківськ" as a compound that "івано франківськ" does not match,
 *   "54.5" as one word but "54,5" as two, and "ok.example" as a host.
 * - "м²" is "м2", as it is often typed.
 */
export function normaliseText(text: string): string {
  return (
    text
      .replaceAll(PATTERNS.invisible, '')
      .toLowerCase()
      // Decomposed, a stress mark is always a character of its own: NFC alone has one letter for ѐ.
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

/**
 * Returns a property type in the one spelling that documents and filters share: lower case, with the plainest form of
 * each letter, apostrophe and hyphen. Unlike `normaliseText` it keeps words readable, as "1/2 дома" and "об'єкт". It is
 * idempotent. Contract 4, Search.
 */
export function spellAlike(text: string): string {
  return text
    .replaceAll(PATTERNS.invisible, '')
    .toLowerCase()
    .normalize('NFD')
    .replaceAll(PATTERNS.cyrillicStress, '')
    .replaceAll(PATTERNS.decomposedYo, '')
    .normalize('NFC')
    .replaceAll(PATTERNS.innerApostrophe, "'")
    .replaceAll(PATTERNS.hyphen, '-')
    .replaceAll(PATTERNS.space, ' ')
    .trim();
}

/** HTML elements within a line; every other element begins and ends a line. */
const INLINE =
  'a abbr b big cite code em font i label mark q s small span strike strong sub sup time tt u'.split(
    ' ',
  );
const CELLS = ['td', 'th'];
/** Elements whose content is for browsers. */
const HIDDEN = ['iframe', 'noscript', 'script', 'style', 'svg', 'template'];
const OTHERS =
  'article aside blockquote body br center dd div dl dt footer form h[1-6] head header hr html img li link main meta nav ol p pre section table tbody tfoot thead tr ul'.split(
    ' ',
  );

/** A value excludes `<`, so that matching stays linear in the length of the text. */
const ATTRIBUTE = String.raw`\s+[a-z][\w:-]*(?:\s*=\s*(?:"[^"<]*"|'[^'<]*'|[^\s"'<>]+))?`;
const NAME = [...INLINE, ...CELLS, ...HIDDEN, ...OTHERS].join('|');
const TAG = new RegExp(String.raw`<(?:/?(?:${NAME})(?:${ATTRIBUTE})*\s*/?>|!--|!doctype\b)`, 'i');

/**
 * Converts possible HTML to plain text, with a line for each paragraph, list item and table row. A text is HTML if it
 * has a whole tag of a known element, or a comment, escaped or not. In other texts only entities with a semicolon are
 * decoded, so that "площа < 50 м²" and "?a=1&copy=2" stay.
 * @returns The plain text; `text` itself if that would be empty, as for a lone image.
 */
export function plainText(text: string): string {
  const unescaped = TAG.test(text) ? text : decodeHTMLStrict(text);
  if (!TAG.test(unescaped)) return unescaped;
  return withoutTags(unescaped) || text;
}

function withoutTags(html: string): string {
  const parts: string[] = [];
  let hidden = 0;
  const separate = (name: string): void => {
    if (!INLINE.includes(name)) parts.push(CELLS.includes(name) ? ' ' : '\n');
  };
  const parser = new Parser({
    onopentag(name) {
      if (HIDDEN.includes(name)) hidden += 1;
      separate(name);
    },
    onclosetag(name) {
      if (HIDDEN.includes(name)) hidden -= 1;
      separate(name);
    },
    ontext(text) {
      if (hidden === 0) parts.push(text);
    },
  });
  parser.end(html);
  const lines = parts.join('').split('\n');
  const written = lines.map((line) => line.replaceAll(/\s+/gu, ' ').trim());
  return written.filter((line) => line !== '').join('\n');
}
