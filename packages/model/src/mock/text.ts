/**
 * Text normalization and pattern tables for the rules of the mock. Listings mix several dashes, apostrophes and
 * alphabets. Folding reduces them to one spelling, so that each rule needs only one pattern.
 */

const LATIN = 'ABCEHIKMOPTXYaceikmoptxy';
const CYRILLIC = 'АВСЕНІКМОРТХУасеікмортху';

const mapLookAlikes = (from: string, to: string): Map<string, string> =>
  new Map(Array.from(from, (letter, at) => [letter, to.charAt(at)]));

const TO_CYRILLIC = mapLookAlikes(LATIN, CYRILLIC);
const TO_LATIN = mapLookAlikes(CYRILLIC, LATIN);

/** Converts a word that mixes Latin and Cyrillic letters to the alphabet of most of its letters. */
function unmixAlphabets(word: string): string {
  const latin = word.match(/\p{Script=Latin}/gu)?.length ?? 0;
  const all = word.match(/\p{L}/gu)?.length ?? 0;
  if (latin === 0 || latin === all) return word;
  const letters = latin * 2 > all ? TO_LATIN : TO_CYRILLIC;
  return word.replace(/./gu, (letter) => letters.get(letter) ?? letter);
}

/**
 * Normalizes a text and cuts it to `limit` characters: NFKC, one kind of dash, apostrophe and space, no soft hyphens,
 * stress marks or zero-width characters, and one alphabet per word. Preserves case, which identifies names.
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

/** Returns a cleaned text in lower case, with "е" for "ё" and without apostrophes inside words and numbers. */
export function fold(cleaned: string): string {
  return cleaned
    .toLowerCase()
    .replace(/ё/gu, 'е')
    .replace(/(?<=[\p{L}\p{N}])'(?=[\p{L}\p{N}])/gu, '');
}

/** Character ranges for `\p{L}` and `\p{N}`. Compiling the patterns with full Unicode classes would take 0.3 s. */
const CHARACTER_RANGES = { L: 'A-Za-zªµºÀ-ÖØ-öø-ɏЀ-ҁҊ-ԯ', N: '0-9' };

/** Word boundaries. `\b` recognizes only ASCII letters. */
const WORD_BOUNDARIES: Record<string, string> = {
  '\\<': `(?<![${CHARACTER_RANGES.L}${CHARACTER_RANGES.N}])`,
  '\\>': `(?![${CHARACTER_RANGES.L}${CHARACTER_RANGES.N}])`,
};

/**
 * Compiles a pattern for folded text. `\<` and `\>` stand for the start and the end of a word. The pattern is case
 * sensitive, because folded text is in lower case.
 */
export function compilePattern(source: string, flags = 'u'): RegExp {
  let isInClass = false;
  const narrowed = source.replace(
    /\\p\{([LN])\}|\\.|[[\]]/gu,
    (token, kind: 'L' | 'N' | undefined) => {
      if (kind !== undefined)
        return isInClass ? CHARACTER_RANGES[kind] : `[${CHARACTER_RANGES[kind]}]`;
      if (WORD_BOUNDARIES[token] !== undefined) return WORD_BOUNDARIES[token];
      if (token === '[') isInClass = true;
      if (token === ']') isInClass = false;
      return token;
    },
  );
  return new RegExp(narrowed, flags);
}

/** Compiles a pattern that matches whole words. */
export const compileWholeWords = (source: string, flags = 'u'): RegExp =>
  compilePattern(`\\<(?:${source})\\>`, flags);

/** Compiles a pattern that matches the beginnings of words, because Ukrainian and Russian words are inflected. */
export const compileStems = (source: string, flags = 'u'): RegExp =>
  compilePattern(`\\<(?:${source})`, flags);

/** Parses a table with one `name: pattern` per line. Lines that begin with `#` are comments. */
export function parseTable(table: string): [name: string, source: string][] {
  const lines = table.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#'));
  return lines.map((line) => {
    const at = line.indexOf(': ');
    return [line.slice(0, at).trim(), line.slice(at + 2)];
  });
}

/** Compiles a table of patterns with the global flag. */
export function compileTable<Name extends string = string>(
  table: string,
  compile = compileStems,
): [Name, RegExp][] {
  // The caller guarantees that the table has only names of this type.
  return parseTable(table).map(([name, source]) => [name as Name, compile(source, 'gu')]);
}

/**
 * Compiles a table of patterns.
 * @returns A function that tests a text against the pattern with a name. It throws an Error for an unknown name.
 */
export function createPatternTester(table: string): (name: string, text: string) => boolean {
  const known = new Map(parseTable(table).map(([name, source]) => [name, compilePattern(source)]));
  return (name, text) => {
    const pattern = known.get(name);
    if (pattern === undefined) throw new Error(`There is no pattern ${name}.`);
    return pattern.test(text);
  };
}

/** Parses a captured group as a number, or returns null. Accepts a decimal comma. */
export function parseCapture(match: RegExpMatchArray | null, group = 1): number | null {
  const value = Number(match?.[group]?.replace(',', '.') ?? Number.NaN);
  return Number.isFinite(value) ? value : null;
}

/** Reads numbers with the named patterns of a table. */
export type NumberReader = {
  /** Returns the first number within the bounds that a pattern with this name captures, or null. */
  read(name: string, text: string, bounds?: readonly [min: number, max: number]): number | null;
  /** Returns the text without the first match of each pattern with this name. */
  remove(name: string, text: string): string;
};

/** Compiles a table of patterns that each capture one number. Patterns with the same name are tried in order. */
export function createNumberReader(table: string): NumberReader {
  const named = Map.groupBy(parseTable(table), ([name]) => name);
  const compiled = new Map(
    [...named].map(([name, entries]) => [
      name,
      entries.map(([, source]) => compilePattern(source)),
    ]),
  );
  return {
    read(name, text, [min, max] = [-Infinity, Infinity]) {
      for (const pattern of compiled.get(name) ?? []) {
        const value = parseCapture(text.match(pattern));
        if (value !== null && value >= min && value <= max) return value;
      }
      return null;
    },
    remove: (name, text) =>
      (compiled.get(name) ?? []).reduce((rest, pattern) => rest.replace(pattern, ' '), text),
  };
}
