import { compilePattern } from './text.ts';

/** Cardinal numbers: a value, then its folded words in several grammatical cases. */
const CARDINALS: ReadonlyMap<string, number> = new Map(
  `1 один одна одне одну одного одной однієї одной одною one
2 два дві две двох двух двум двом двома two
3 три трьох трех трьом трем three
4 чотири чотирьох четыре четырех four
5 пять пяти five
6 шість шести шесть six
7 сім семи семь сьоми seven
8 вісім восьми восемь eight
9 девять девяти nine
10 десять десяти ten
11 одинадцять одинадцяти одиннадцать одиннадцати eleven
12 дванадцять дванадцяти двенадцать двенадцати twelve
13 тринадцять тринадцяти тринадцать тринадцати thirteen
14 чотирнадцять чотирнадцяти четырнадцать четырнадцати fourteen
15 пятнадцять пятнадцяти пятнадцать пятнадцати fifteen
16 шістнадцять шістнадцяти шестнадцать шестнадцати sixteen
17 сімнадцять сімнадцяти семнадцать семнадцати seventeen
18 вісімнадцять вісімнадцяти восемнадцать восемнадцати eighteen
19 девятнадцять девятнадцяти девятнадцать девятнадцати nineteen
20 двадцять двадцяти двадцать двадцати twenty
30 тридцять тридцяти тридцать тридцати thirty
40 сорок сорока forty
50 пятдесят пятдесяти пятьдесят пятидесяти fifty
60 шістдесят шістдесяти шестьдесят шестидесяти sixty
70 сімдесят сімдесяти семьдесят семидесяти seventy
80 вісімдесят вісімдесяти восемьдесят восьмидесяти eighty
90 девяносто девяноста ninety
100 сто ста hundred
200 двісті двохсот двести двухсот
300 триста трьохсот трехсот
400 чотириста чотирьохсот четыреста четырехсот
500 пятсот пятисот пятьсот
600 шістсот шестисот шестьсот
700 сімсот семисот семьсот
800 вісімсот восьмисот восемьсот
900 девятсот девятисот девятьсот
1000 тисяча тисячі тисяч тисячу тысяча тысячи тысяч тысячу thousand
1000000 мільйон мільйона мільйони мільйонів миллион миллиона миллионов million
1.5 півтора півтори полтора полторы
500000 півмільйона полмиллиона`
    .split('\n')
    .flatMap((line) => {
      const [value, ...words] = line.split(' ');
      return words.map((word): [string, number] => [word, Number(value)]);
    }),
);

const SCALES = new Set([1_000, 1_000_000]);
const WORD = [...CARDINALS.keys()].toSorted((a, b) => b.length - a.length).join('|');
const RUN = compilePattern(
  String.raw`(?<![\p{L}\p{N}])(?:${WORD})(?:[ -](?:and )?(?:${WORD})(?![\p{L}\p{N}])){0,12}(?![\p{L}\p{N}])`,
  'gu',
);

/** Returns whether `next` can be added to the number `current`: 100 + 20 and 20 + 5, but not 5 + 9. */
function canAppend(current: number, next: number): boolean {
  if (current === 0) return true;
  if (current % 100 === 0) return next < 100;
  return current % 10 === 0 && current % 100 >= 20 && next < 10;
}

/** Returns the numbers in a sequence of number words: usually one, but two for "three four". */
function parseNumberWords(words: string[]): number[] {
  const values: number[] = [];
  let total = 0;
  let current = 0;
  for (const word of words) {
    const value = CARDINALS.get(word);
    if (value === undefined) continue;
    if (SCALES.has(value)) {
      total += (current || 1) * value;
      current = 0;
    } else if (word === 'hundred') {
      current = (current || 1) * 100;
    } else if (canAppend(current, value)) {
      current += value;
    } else {
      values.push(total + current);
      total = 0;
      current = value;
    }
  }
  values.push(total + current);
  return values;
}

function replaceRun(run: string, offset: number, text: string): string {
  const words = run.split(/[ -]/u);
  // Keep the multiplier in "25 тисяч": the price rules parse the digits and the multiplier together.
  const isMultiplier =
    SCALES.has(CARDINALS.get(words[0] ?? '') ?? 0) &&
    /\d ?$/u.test(text.slice(Math.max(0, offset - 2), offset));
  return isMultiplier ? run : parseNumberWords(words).join(' ');
}

/** First parts of compound words such as "двокімнатна", in order of their value from 1. */
const COMPOUNDS =
  'одно|одной дво|двох|двух|двух- три|трьох|трех|трьо чотири|чотирьох|четырех|четыре пяти шести семи восьми'
    .concat(' девяти десяти')
    .concat(' одинадцяти|одиннадцати дванадцяти|двенадцати тринадцяти|тринадцати')
    .concat(' чотирнадцяти|четырнадцати пятнадцяти|пятнадцати шістнадцяти|шестнадцати')
    .split(' ')
    .map((stems, index): [RegExp, number] => [
      compilePattern(
        String.raw`(?<!\p{L})(?:${stems})(?=поверх|этаж|етаж|кімнат|комнат|кімн|комн)`,
        'gu',
      ),
      index + 1,
    ]);

/** Stems of ordinal numbers, in order of their value from 1. */
const ORDINAL_STEMS =
  'перш|перв друг|втор трет четверт пят шост|шест сьом|седьм восьм девят десят одинадцят|одиннадцат'
    .concat(' дванадцят|двенадцат тринадцят|тринадцат чотирнадцят|четырнадцат пятнадцят|пятнадцат')
    .concat(' шістнадцят|шестнадцат сімнадцят|семнадцат вісімнадцят|восемнадцат')
    .concat(' девятнадцят|девятнадцат двадцят|двадцат')
    .split(' ');
const ENGLISH_ORDINALS =
  'first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth'
    .concat(' fifteenth sixteenth seventeenth eighteenth nineteenth twentieth')
    .split(' ');

/** Contexts in which an ordinal is a floor: next to the word "floor", or before "of 9". */
const AFTER_FLOOR = String.raw`(?<=(?<!\p{L})(?:поверх|пов|этаж|етаж|эт)\.?[ :-]{1,3})`;
const BEFORE_FLOOR = String.raw`(?= (?:поверс|поверх|пов|этаж|етаж|эт|floor|storey|story|(?:з|із|зі|из|of) \d))`;
const ENDINGS = '(?:ий|ій|ый|ой|ому|ьому|ом|ем|ьем|ім|ого|ього|его|ьего)';

const ORDINALS = ORDINAL_STEMS.flatMap((stems, index): [RegExp, number][] => {
  const ordinal = String.raw`(?:([23]0) )?(?:${stems})${ENDINGS}`;
  const english = String.raw`(?:([23]0)[ -])?${ENGLISH_ORDINALS[index]}`;
  return [
    [compilePattern(String.raw`(?<!\p{L})${ordinal}${BEFORE_FLOOR}`, 'gu'), index + 1],
    [compilePattern(String.raw`${AFTER_FLOOR}${ordinal}(?!\p{L})`, 'gu'), index + 1],
    [compilePattern(String.raw`(?<!\p{L})${english}${BEFORE_FLOOR}`, 'gu'), index + 1],
  ];
});

/**
 * Replaces number words in a folded text by digits: cardinals ("сто двадцать тысяч" → "120000"), compounds for rooms
 * and floors ("двокімнатна" → "2-кімнатна") and ordinals of floors ("на п'ятому поверсі" → "на 5-й поверсі").
 */
export function replaceNumberWords(folded: string): string {
  let text = folded;
  for (const [pattern, value] of COMPOUNDS) text = text.replace(pattern, `${value}-`);
  text = text.replace(RUN, replaceRun);
  for (const [pattern, value] of ORDINALS) {
    text = text.replace(pattern, (_all, tens?: string) => `${Number(tens ?? 0) + value}-й`);
  }
  return text;
}
