/**
 * The engine of the mock's rules: text in one spelling, and patterns in tables. Listings mix dashes, apostrophes and
 * alphabets; after folding there is one spelling of each, so that the rules need not repeat themselves.
 */

const LATIN = 'ABCEHIKMOPTXYaceikmoptxy';
const CYRILLIC = 'АВСЕНІКМОРТХУасеікмортху';

const lookAlikes = (from: string, to: string): Map<string, string> =>
  new Map(Array.from(from, (letter, at) => [letter, to.charAt(at)]));

const TO_CYRILLIC = lookAlikes(LATIN, CYRILLIC);
const TO_LATIN = lookAlikes(CYRILLIC, LATIN);

/** Puts a word with letters of both alphabets into the one that most of it is written in. */
function unmixAlphabets(word: string): string {
  const latin = word.match(/\p{Script=Latin}/gu)?.length ?? 0;
  const all = word.match(/\p{L}/gu)?.length ?? 0;
  if (latin === 0 || latin === all) return word;
  const letters = latin * 2 > all ? TO_LATIN : TO_CYRILLIC;
  return word.replace(/./gu, (letter) => letters.get(letter) ?? letter);
}

/**
 * Returns at most `limit` characters of a text with one form of each sign (NFKC; one dash, one apostrophe, plain
 * spaces), without soft hyphens, stress marks and zero-width signs, and with look-alike letters in one alphabet. Case
 * stays, so that names can be told from other words.
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
      // Its small letter would be two signs, of which only the first has a look-alike.
      .replace(/\u0130/gu, 'I')
      .replace(/[^\S\n]+/gu, ' ')
      .replace(/\p{L}+(?:'\p{L}+)*/gu, unmixAlphabets)
  );
}

/** Returns cleaned text in lower case, with ё as е and without apostrophes inside words and numbers. */
export function fold(cleaned: string): string {
  return cleaned
    .toLowerCase()
    .replace(/ё/gu, 'е')
    .replace(/(?<=[\p{L}\p{N}])'(?=[\p{L}\p{N}])/gu, '');
}

/** Letters and digits for `\p{L}` and `\p{N}`; all of Unicode would cost each process a third of a second to compile. */
const KNOWN = { L: 'A-Za-zªµºÀ-ÖØ-öø-ɏЀ-ҁҊ-ԯ', N: '0-9' };

/** Edges of words: `\b` knows only ASCII letters. */
const EDGES: Record<string, string> = {
  '\\<': `(?<![${KNOWN.L}${KNOWN.N}])`,
  '\\>': `(?![${KNOWN.L}${KNOWN.N}])`,
};

/**
 * Compiles a pattern for folded text, hence without a case flag. Sources are written with `String.raw`; `\<` and `\>`
 * are the edges of a word.
 */
export function rule(source: string, flags = 'u'): RegExp {
  let isInClass = false;
  const narrowed = source.replace(
    /\\p\{([LN])\}|\\.|[[\]]/gu,
    (token, kind: 'L' | 'N' | undefined) => {
      if (kind !== undefined) return isInClass ? KNOWN[kind] : `[${KNOWN[kind]}]`;
      if (EDGES[token] !== undefined) return EDGES[token];
      if (token === '[') isInClass = true;
      if (token === ']') isInClass = false;
      return token;
    },
  );
  return new RegExp(narrowed, flags);
}

/** Compiles a pattern for whole words. */
export const whole = (source: string, flags = 'u'): RegExp => rule(`\\<(?:${source})\\>`, flags);

/** Compiles a pattern for the beginnings of words, for inflected languages. */
export const stem = (source: string, flags = 'u'): RegExp => rule(`\\<(?:${source})`, flags);

/** Reads a table of patterns: a line for each, `name: pattern`. Lines with `#` are comments. */
export function rows(table: string): [name: string, source: string][] {
  const lines = table.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#'));
  return lines.map((line) => {
    const at = line.indexOf(': ');
    return [line.slice(0, at).trim(), line.slice(at + 2)];
  });
}

/** Compiles a table of patterns, global ones. */
export function patterns<Name extends string = string>(
  table: string,
  compile = stem,
): [Name, RegExp][] {
  // The names of a table are those that its reader expects.
  return rows(table).map(([name, source]) => [name as Name, compile(source, 'gu')]);
}

/**
 * Compiles a table of patterns.
 * @returns A function that tests a text by the name of a pattern. @throws Error for an unknown name.
 */
export function tester(table: string): (name: string, text: string) => boolean {
  const known = new Map(rows(table).map(([name, source]) => [name, rule(source)]));
  return (name, text) => {
    const pattern = known.get(name);
    if (pattern === undefined) throw new Error(`There is no pattern ${name}.`);
    return pattern.test(text);
  };
}

/** Returns the number of a capture, null for none; a decimal comma is understood. */
export function captured(match: RegExpMatchArray | null, group = 1): number | null {
  const value = Number(match?.[group]?.replace(',', '.') ?? Number.NaN);
  return Number.isFinite(value) ? value : null;
}

/** Reads numbers by the names of a table. */
export type NumberReader = {
  /** Returns the first number within bounds that a pattern of that name captures. */
  read(name: string, text: string, bounds?: readonly [min: number, max: number]): number | null;
  /** Returns the text without the first match of each pattern of that name. */
  remove(name: string, text: string): string;
};

/** Compiles a table of patterns that capture a number each. Several may have one name, the most telling first. */
export function numberReader(table: string): NumberReader {
  const named = Map.groupBy(rows(table), ([name]) => name);
  const compiled = new Map(
    [...named].map(([name, entries]) => [name, entries.map(([, source]) => rule(source))]),
  );
  return {
    read(name, text, [min, max] = [-Infinity, Infinity]) {
      for (const pattern of compiled.get(name) ?? []) {
        const value = captured(text.match(pattern));
        if (value !== null && value >= min && value <= max) return value;
      }
      return null;
    },
    remove: (name, text) =>
      (compiled.get(name) ?? []).reduce((rest, pattern) => rest.replace(pattern, ' '), text),
  };
}
