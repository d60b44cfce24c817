import { readFileSync } from 'node:fs';

/**
 * Text normalization and pattern tables for the rules of the mock model. Listings mix dashes, apostrophes and
 * alphabets. Folding reduces them to one spelling.
 */

const LATIN_LOOKALIKES = 'ABCEHIKMOPTXYaceikmoptxy';
const CYRILLIC_LOOKALIKES = 'АВСЕНІКМОРТХУасеікмортху';

/** Converts a word that mixes Latin and Cyrillic letters to the alphabet of most of its letters. */
function unmixAlphabets(word: string): string {
  const latinCount = word.match(/\p{Script=Latin}/gu)?.length ?? 0;
  const letterCount = word.match(/\p{L}/gu)?.length ?? 0;
  if (latinCount === 0 || latinCount === letterCount) return word;
  const [from, to] =
    latinCount * 2 > letterCount
      ? [CYRILLIC_LOOKALIKES, LATIN_LOOKALIKES]
      : [LATIN_LOOKALIKES, CYRILLIC_LOOKALIKES];
  return word.replace(/./gu, (letter) => to[from.indexOf(letter)] ?? letter);
}

/**
 * Normalizes text and truncates it to `limit` characters: one kind of dash, apostrophe and space, no invisible
 * characters, and one alphabet per word. Preserves case, which identifies names.
 */
export function clean(text: string, limit: number): string {
  return (
    text
      .slice(0, limit)
      .normalize('NFKC')
      .slice(0, limit)
      .replace(/\u0300|\u0301|[\u00AD\u200B-\u200F\u2060\uFEFF]/gu, '')
      .replace(/[\u2010-\u2015\u2212\u2043]/gu, '-')
      .replace(/[\u2018\u2019\u02BC\u02B9\u00B4\u2032`]/gu, "'")
      .replace(/\u2044/gu, '/')
      // The lower case of "İ" has two code points, and only the first is in the look-alike table.
      .replace(/\u0130/gu, 'I')
      .replace(/[^\S\n]+/gu, ' ')
      .replace(/\p{L}+(?:'\p{L}+)*/gu, unmixAlphabets)
  );
}

/** Returns cleaned text in lower case, with "е" for "ё" and without apostrophes inside words and numbers. */
export function fold(cleanedText: string): string {
  return cleanedText
    .toLowerCase()
    .replace(/ё/gu, 'е')
    .replace(/(?<=[\p{L}\p{N}])'(?=[\p{L}\p{N}])/gu, '');
}

/** Letters and digits. Compiling all patterns with full Unicode classes would take 0.3 s. */
const CHARACTER_RANGES: Record<string, string> = { L: 'A-Za-zªµºÀ-ÖØ-öø-ɏЀ-ҁҊ-ԯ', N: '0-9' };

/** Word boundaries. `\b` recognizes only ASCII letters. */
const WORD_BOUNDARIES: Record<string, string> = {
  '\\<': `(?<![${CHARACTER_RANGES['L']}${CHARACTER_RANGES['N']}])`,
  '\\>': `(?![${CHARACTER_RANGES['L']}${CHARACTER_RANGES['N']}])`,
};

function narrowClasses(text: string): string {
  return text.replace(/\\p\{([LN])\}/gu, (_, kind) => CHARACTER_RANGES[kind] ?? '');
}

/** Compiles a pattern for folded text. `\<` and `\>` stand for the start and the end of a word. */
export function compilePattern(source: string, flags = 'u'): RegExp {
  const narrowedSource = source.replace(
    /\[(?:\\p\{.\}|\\.|[^\]\\])*\]|\\p\{[LN]\}|\\./gu,
    (token) =>
      WORD_BOUNDARIES[token] ??
      (/^\\p.[LN].$/u.test(token) ? `[${narrowClasses(token)}]` : narrowClasses(token)),
  );
  return new RegExp(narrowedSource, flags);
}

/** Compiles a pattern that matches whole words. */
export const compileWords = (source: string, flags = 'u'): RegExp =>
  compilePattern(`\\<(?:${source})\\>`, flags);

/** Compiles a pattern that matches the beginnings of words, because Ukrainian and Russian words are inflected. */
export const compileStems = (source: string, flags = 'u'): RegExp =>
  compilePattern(`\\<(?:${source})`, flags);

/** Parses a table with one `name: pattern` per line. Lines that begin with `#` are comments. */
export function parseTable(table: string): [name: string, source: string][] {
  const lines = table.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#'));
  return lines.map((line) => {
    const separatorIndex = line.indexOf(': ');
    return [line.slice(0, separatorIndex), line.slice(separatorIndex + 2)];
  });
}

/** Reads a table from a file in this folder. */
export const readTable = (name: string): string =>
  readFileSync(new URL(`${name}.txt`, import.meta.url), 'utf8');

/** Compiles a table of patterns with the global flag. The caller guarantees the names. */
export function compileTable<Name extends string = string>(
  table: string,
  compile = compileStems,
): [Name, RegExp][] {
  return parseTable(table).map(([name, source]) => [name as Name, compile(source, 'gu')]);
}

/** Creates a function that tests text against the patterns with the given name in a table. */
export function createPatternTester(table: string): (name: string, text: string) => boolean {
  const patterns = parseTable(table).map(([name, form]) => ({ name, form: compilePattern(form) }));
  return (name, text) => patterns.some((rule) => rule.name === name && rule.form.test(text));
}

/** Parses a captured group as a number, or returns null. Accepts a decimal comma. */
export function parseCapture(match: RegExpMatchArray | null, group = 1): number | null {
  const value = Number(match?.[group]?.replace(',', '.') ?? Number.NaN);
  return Number.isFinite(value) ? value : null;
}

/** Creates a function that returns the first number within bounds that a named pattern of a table captures. */
export function createNumberReader(table: string) {
  const patterns = parseTable(table).map(([name, form]) => ({ name, form: compilePattern(form) }));
  return (name: string, text: string, min = -Infinity, max = Infinity): number | null => {
    for (const { form } of patterns.filter((pattern) => pattern.name === name)) {
      const value = parseCapture(text.match(form));
      if (value !== null && value >= min && value <= max) return value;
    }
    return null;
  };
}
