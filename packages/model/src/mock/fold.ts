/**
 * Text as the rules read it. Listings mix dashes, apostrophes and alphabets; after folding there is
 * one spelling of each, so that the rules need not repeat themselves.
 */

const LATIN = 'ABCEHIKMOPTXYaceikmoptxy';
const CYRILLIC = 'АВСЕНІКМОРТХУасеікмортху';

const lookAlikes = (from: string, to: string): Map<string, string> =>
  new Map(Array.from(from, (letter, at) => [letter, to.charAt(at)]));

const TO_CYRILLIC = lookAlikes(LATIN, CYRILLIC);
const TO_LATIN = lookAlikes(CYRILLIC, LATIN);

/** A word with letters of both alphabets is put into the one that most of it is written in. */
function unmixAlphabets(word: string): string {
  const latin = word.match(/\p{Script=Latin}/gu)?.length ?? 0;
  if (latin === 0 || latin === word.length) return word;
  const letters = latin * 2 > word.length ? TO_LATIN : TO_CYRILLIC;
  return word.replace(/./gu, (letter) => letters.get(letter) ?? letter);
}

/**
 * The text with one form of each sign (NFKC; one dash, one apostrophe, plain spaces), without soft
 * hyphens, stress marks and zero-width signs, and with look-alike letters put into one alphabet.
 * Case stays, so names can still be told from other words.
 *
 * @param limit At most this many characters of the text are read.
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
      .replace(/\p{L}+/gu, unmixAlphabets)
  );
}

/** Cleaned text in lower case, with ё as е and without the apostrophes inside words and numbers. */
export function fold(cleaned: string): string {
  return cleaned
    .toLowerCase()
    .replace(/ё/gu, 'е')
    .replace(/(?<=[\p{L}\p{N}])'(?=[\p{L}\p{N}])/gu, '');
}
