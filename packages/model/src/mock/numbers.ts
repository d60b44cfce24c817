import { compilePattern, parseTable, readTable } from './text.ts';

const CARDINALS: ReadonlyMap<string, number> = new Map(
  parseTable(readTable('numbers')).flatMap(([value, words]) =>
    words.split(' ').map((word): [string, number] => [word, Number(value)]),
  ),
);

const SCALES = new Set([1_000, 1_000_000]);
const WORD = [...CARDINALS.keys()].toSorted((a, b) => b.length - a.length).join('|');
const RUN = compilePattern(String.raw`\<(?:${WORD})(?:[ -](?:and )?(?:${WORD})\>){0,12}\>`, 'gu');

/** Returns the numbers in a sequence of number words: usually one, but two for "three four". */
function parseNumberWords(words: string[]): number[] {
  const values: number[] = [];
  let total = 0;
  let current = 0;
  for (const word of words) {
    const value = CARDINALS.get(word);
    if (value === undefined) continue;
    // 20 and 5 add up, and so do 100 and 25, but not 5 and 9.
    const isSum =
      current % 100 === 0 ? value < 100 || current === 0 : current % 10 === 0 && value < 10;
    if (SCALES.has(value)) {
      total += (current || 1) * value;
      current = 0;
    } else if (word === 'hundred') {
      current = (current || 1) * 100;
    } else if (isSum) {
      current += value;
    } else {
      values.push(total + current);
      total = 0;
      current = value;
    }
  }
  return [...values, total + current];
}

function replaceRun(run: string, offset: number, text: string): string {
  const words = run.split(/[ -]/u);
  // The price rules parse the multiplier of "25 тисяч" together with its digits.
  const isMultiplier =
    SCALES.has(CARDINALS.get(words[0] ?? '') ?? 0) &&
    /\d ?$/u.test(text.slice(Math.max(0, offset - 2), offset));
  return isMultiplier ? run : parseNumberWords(words).join(' ');
}

/** Maps each stem of a list to its position, counted from 1. */
const countStems = (list: string): Map<string, number> =>
  new Map(
    list
      .split(/\s+/u)
      .flatMap((stems, index) =>
        stems.split('|').map((stem): [string, number] => [stem, index + 1]),
      ),
  );

/** First parts of compound words such as "двокімнатна". */
const COMPOUNDS = countStems(
  `одно|одной дво|двох|двух|двух- три|трьох|трех|трьо чотири|чотирьох|четырех|четыре пяти шести семи восьми девяти десяти
одинадцяти|одиннадцати дванадцяти|двенадцати тринадцяти|тринадцати чотирнадцяти|четырнадцати пятнадцяти|пятнадцати шістнадцяти|шестнадцати`,
);
const COMPOUND = compilePattern(
  String.raw`\<(${[...COMPOUNDS.keys()].join('|')})(?=поверх|этаж|етаж|кімнат|комнат|кімн|комн)`,
  'gu',
);

/** Stems of ordinal numbers. English ones are whole words. */
const ORDINALS = countStems(
  `перш|перв|first друг|втор|second трет|third четверт|fourth пят|fifth шост|шест|sixth сьом|седьм|seventh восьм|eighth
девят|ninth десят|tenth одинадцят|одиннадцат|eleventh дванадцят|двенадцат|twelfth тринадцят|тринадцат|thirteenth
чотирнадцят|четырнадцат|fourteenth пятнадцят|пятнадцат|fifteenth шістнадцят|шестнадцат|sixteenth`,
);
const ORDINAL = String.raw`(?:([23]0)[ -])?(${[...ORDINALS.keys()].join('|')})(?:ий|ій|ый|ой|ому|ьому|ом|ем|ьем|ім|ого|ього|его|ьего)?`;

/** Ordinals of floors: before or after the word "floor", or before "of 9". */
const FLOORS = [
  String.raw`\<${ORDINAL}(?= (?:поверс|поверх|пов|этаж|етаж|эт|floor|storey|story|(?:з|із|зі|из|of) \d))`,
  String.raw`(?<=\<(?:поверх|пов|этаж|етаж|эт)\.?[ :-]{1,3})${ORDINAL}\>`,
].map((source) => compilePattern(source, 'gu'));

/**
 * Replaces number words in a folded text by digits: cardinals ("сто двадцать тысяч" → "120000"), compounds for rooms
 * and floors ("двокімнатна" → "2-кімнатна") and ordinals of floors ("на п'ятому поверсі" → "на 5-й поверсі").
 */
export function replaceNumberWords(folded: string): string {
  const text = folded
    .replace(COMPOUND, (_, stem: string) => `${COMPOUNDS.get(stem)}-`)
    .replace(RUN, replaceRun);
  return FLOORS.reduce(
    (rest, pattern) =>
      rest.replace(
        pattern,
        (_, tens: string | undefined, stem: string) =>
          `${Number(tens ?? 0) + (ORDINALS.get(stem) ?? 0)}-й`,
      ),
    text,
  );
}
