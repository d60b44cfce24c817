/**
 * How the apostrophe inside a word is typed. Ukrainian text has all of them: the key on the keyboard,
 * what word processors make of it, the letter that Unicode recommends, and near misses.
 */
export const APOSTROPHES = "'\u2019\u02BC\u2018\u201B\u02B9\u02BB\u02BD\u2032\u0060\u00B4\uFF07";

/** Characters that are not seen: soft hyphens, zero-width spaces and joiners, byte order marks. */
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
 * Writes text as search knows it: lower-case words of letters and digits with one space between. The
 * same function prepares documents, queries and filter keys, so that whatever it folds is found
 * whichever way either side wrote it. It is idempotent and at most triples the length (which is what
 * Unicode allows composition to do). Contract 4, Search.
 *
 * - Upper case, ё, and stress marks (U+0300, U+0301) are folded; й and ї keep their marks.
 * - An apostrophe inside a word is dropped, "п'ять" → "пять": PostgreSQL's parser breaks words at
 *   U+0027 and U+2019 and not at U+02BC. Russian "пять" is found with it, which in mixed text helps.
 * - Everything else that is neither letter nor digit becomes a space. That is for the parser too: it
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
 * Writes the name of a kind in the one spelling that documents and filters share: lower case, and each of the ways in
 * which `normaliseText` knows a letter, an apostrophe or a hyphen to be typed as the plainest of them. Other than there
 * words stay as people read them, "1/2 дома" and "об'єкт": it is shown. It is idempotent. Contract 4, Search.
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
