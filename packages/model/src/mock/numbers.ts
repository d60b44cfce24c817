import { compilePattern, parseTable, readTable } from './text.ts';

const CARDINAL_VALUES: ReadonlyMap<string, number> = new Map(
  parseTable(readTable('numbers')).flatMap(([value, words]) =>
    words.split(' ').map((word): [string, number] => [word, Number(value)]),
  ),
);

const SCALE_VALUES = new Set([1_000, 1_000_000]);
const NUMBER_WORD_SOURCE = [...CARDINAL_VALUES.keys()]
  .toSorted((a, b) => b.length - a.length)
  .join('|');
const NUMBER_WORDS_PATTERN = compilePattern(
  String.raw`\<(?:${NUMBER_WORD_SOURCE})(?:[ -](?:and )?(?:${NUMBER_WORD_SOURCE})\>){0,12}\>`,
  'gu',
);

/** Returns the numbers in a sequence of number words: usually one, but two for "three four". */
function parseNumberWords(words: string[]): number[] {
  const values: number[] = [];
  let total = 0;
  let groupValue = 0;
  for (const word of words) {
    const value = CARDINAL_VALUES.get(word);
    if (value === undefined) continue;
    // 20 and 5 add up, as do 100 and 25. 5 and 9 are two numbers.
    const isSum =
      groupValue % 100 === 0
        ? value < 100 || groupValue === 0
        : groupValue % 10 === 0 && value < 10;
    if (SCALE_VALUES.has(value)) {
      total += (groupValue || 1) * value;
      groupValue = 0;
    } else if (word === 'hundred') {
      groupValue = (groupValue || 1) * 100;
    } else if (isSum) {
      groupValue += value;
    } else {
      values.push(total + groupValue);
      total = 0;
      groupValue = value;
    }
  }
  return [...values, total + groupValue];
}

function replaceNumberSequence(sequence: string, offset: number, text: string): string {
  const words = sequence.split(/[ -]/u);
  // The price rules parse the multiplier of "25 тисяч" together with its digits.
  const isMultiplier =
    SCALE_VALUES.has(CARDINAL_VALUES.get(words[0] ?? '') ?? 0) &&
    /\d ?$/u.test(text.slice(Math.max(0, offset - 2), offset));
  return isMultiplier ? sequence : parseNumberWords(words).join(' ');
}

/** Maps each stem of a list to its 1-based position. */
const mapStemsToNumbers = (list: string): Map<string, number> =>
  new Map(
    list
      .split(/\s+/u)
      .flatMap((stems, index) =>
        stems.split('|').map((stem): [string, number] => [stem, index + 1]),
      ),
  );

/** First parts of compound words such as "двокімнатна". */
const COMPOUND_VALUES = mapStemsToNumbers(
  `одно|одной дво|двох|двух|двух- три|трьох|трех|трьо чотири|чотирьох|четырех|четыре пяти шести семи восьми девяти десяти
одинадцяти|одиннадцати дванадцяти|двенадцати тринадцяти|тринадцати чотирнадцяти|четырнадцати пятнадцяти|пятнадцати шістнадцяти|шестнадцати`,
);
const COMPOUND_PATTERN = compilePattern(
  String.raw`\<(${[...COMPOUND_VALUES.keys()].join('|')})(?=поверх|этаж|етаж|кімнат|комнат|кімн|комн)`,
  'gu',
);

/** Stems of ordinal numbers. English ones are whole words. */
const ORDINAL_VALUES = mapStemsToNumbers(
  `перш|перв|first друг|втор|second трет|third четверт|fourth пят|fifth шост|шест|sixth сьом|седьм|seventh восьм|eighth
девят|ninth десят|tenth одинадцят|одиннадцат|eleventh дванадцят|двенадцат|twelfth тринадцят|тринадцат|thirteenth
чотирнадцят|четырнадцат|fourteenth пятнадцят|пятнадцат|fifteenth шістнадцят|шестнадцат|sixteenth`,
);
const ORDINAL_PATTERN = String.raw`(?:([23]0)[ -])?(${[...ORDINAL_VALUES.keys()].join('|')})(?:ий|ій|ый|ой|ому|ьому|ом|ем|ьем|ім|ого|ього|его|ьего)?`;

/** Ordinals of floors: before or after the word "floor", or before "of 9". */
const FLOOR_ORDINAL_PATTERNS = [
  String.raw`\<${ORDINAL_PATTERN}(?= (?:поверс|поверх|пов|этаж|етаж|эт|floor|storey|story|(?:з|із|зі|из|of) \d))`,
  String.raw`(?<=\<(?:поверх|пов|этаж|етаж|эт)\.?[ :-]{1,3})${ORDINAL_PATTERN}\>`,
].map((source) => compilePattern(source, 'gu'));

/**
 * Replaces number words in folded text with digits. These are cardinals ("сто двадцать тысяч" → "120000"), compounds
 * for rooms and floors ("двокімнатна" → "2-кімнатна"), and floor ordinals ("на п'ятому поверсі" → "на 5-й поверсі").
 */
export function replaceNumberWords(foldedText: string): string {
  const text = foldedText
    .replace(COMPOUND_PATTERN, (_, stem: string) => `${COMPOUND_VALUES.get(stem)}-`)
    .replace(NUMBER_WORDS_PATTERN, replaceNumberSequence);
  return FLOOR_ORDINAL_PATTERNS.reduce(
    (partialText, pattern) =>
      partialText.replace(
        pattern,
        (_, tens: string | undefined, stem: string) =>
          `${Number(tens ?? 0) + (ORDINAL_VALUES.get(stem) ?? 0)}-й`,
      ),
    text,
  );
}
