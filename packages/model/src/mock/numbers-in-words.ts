import { rule } from './patterns.ts';
/**
 * Numbers written as words, in Ukrainian, Russian and English, become digits before any other rule
 * reads the text, so that "двадцять п'ять тисяч" needs no rule of its own.
 */

/** Words without apostrophes, as folded text has them; the same number in several cases. */
const CARDINALS: Record<string, number> = {};

function define(value: number, words: string): void {
  for (const word of words.split(' ')) CARDINALS[word] = value;
}

define(1, 'один одна одне одну одного одной однієї одной одною one');
define(2, 'два дві две двох двух двум двом двома two');
define(3, 'три трьох трех трьом трем three');
define(4, 'чотири чотирьох четыре четырех four');
define(5, 'пять пяти five');
define(6, 'шість шести шесть six');
define(7, 'сім семи семь сьоми seven');
define(8, 'вісім восьми восемь eight');
define(9, 'девять девяти nine');
define(10, 'десять десяти ten');
define(11, 'одинадцять одинадцяти одиннадцать одиннадцати eleven');
define(12, 'дванадцять дванадцяти двенадцать двенадцати twelve');
define(13, 'тринадцять тринадцяти тринадцать тринадцати thirteen');
define(14, 'чотирнадцять чотирнадцяти четырнадцать четырнадцати fourteen');
define(15, 'пятнадцять пятнадцяти пятнадцать пятнадцати fifteen');
define(16, 'шістнадцять шістнадцяти шестнадцать шестнадцати sixteen');
define(17, 'сімнадцять сімнадцяти семнадцать семнадцати seventeen');
define(18, 'вісімнадцять вісімнадцяти восемнадцать восемнадцати eighteen');
define(19, 'девятнадцять девятнадцяти девятнадцать девятнадцати nineteen');
define(20, 'двадцять двадцяти двадцать двадцати twenty');
define(30, 'тридцять тридцяти тридцать тридцати thirty');
define(40, 'сорок сорока forty');
define(50, 'пятдесят пятдесяти пятьдесят пятидесяти fifty');
define(60, 'шістдесят шістдесяти шестьдесят шестидесяти sixty');
define(70, 'сімдесят сімдесяти семьдесят семидесяти seventy');
define(80, 'вісімдесят вісімдесяти восемьдесят восьмидесяти eighty');
define(90, 'девяносто девяноста ninety');
define(100, 'сто ста hundred');
define(200, 'двісті двохсот двести двухсот');
define(300, 'триста трьохсот трехсот');
define(400, 'чотириста чотирьохсот четыреста четырехсот');
define(500, 'пятсот пятисот пятьсот');
define(600, 'шістсот шестисот шестьсот');
define(700, 'сімсот семисот семьсот');
define(800, 'вісімсот восьмисот восемьсот');
define(900, 'девятсот девятисот девятьсот');
define(1_000, 'тисяча тисячі тисяч тисячу тысяча тысячи тысяч тысячу thousand');
define(1_000_000, 'мільйон мільйона мільйони мільйонів миллион миллиона миллионов million');
define(1.5, 'півтора півтори полтора полторы');
define(500_000, 'півмільйона полмиллиона');

const SCALES = new Set([1_000, 1_000_000]);
const HUNDRED = 'hundred';

const byLength = (words: string[]): string =>
  words.toSorted((a, b) => b.length - a.length).join('|');

const WORD = byLength(Object.keys(CARDINALS));
const RUN = rule(
  String.raw`(?<![\p{L}\p{N}])(?:${WORD})(?:[ -](?:and )?(?:${WORD})(?![\p{L}\p{N}])){0,12}(?![\p{L}\p{N}])`,
  'gu',
);

/** Whether `next` continues a number that stands at `current`: 100 + 20, 20 + 5, but not 5 + 9. */
function continues(current: number, next: number): boolean {
  if (current === 0) return true;
  if (current % 100 === 0) return next < 100;
  return current % 10 === 0 && current % 100 >= 20 && next < 10;
}

/** The numbers a run of words names: usually one, two for "three four". */
function valuesOf(words: string[]): number[] {
  const values: number[] = [];
  let total = 0;
  let current = 0;
  for (const word of words) {
    const value = CARDINALS[word];
    if (value === undefined) continue;
    if (SCALES.has(value)) {
      total += (current || 1) * value;
      current = 0;
    } else if (word === HUNDRED) {
      current = (current || 1) * 100;
    } else if (continues(current, value)) {
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

function spellCardinals(text: string): string {
  return text.replace(RUN, (run: string, offset: number) => {
    const words = run.split(/[ -]/u);
    // "25 тисяч" is a number with its multiplier: the price rules read those together.
    const isMultiplier =
      SCALES.has(CARDINALS[words[0] ?? ''] ?? 0) &&
      /\d ?$/u.test(text.slice(Math.max(0, offset - 2), offset));
    return isMultiplier ? run : valuesOf(words).join(' ');
  });
}

const COMPOUND_STEMS: [string, number][] = [
  ['одно|одной', 1],
  ['дво|двох|двух|двух-', 2],
  ['три|трьох|трех|трьо', 3],
  ['чотири|чотирьох|четырех|четыре', 4],
  ['пяти', 5],
  ['шести', 6],
  ['семи', 7],
  ['восьми', 8],
  ['девяти', 9],
  ['десяти', 10],
  ['одинадцяти|одиннадцати', 11],
  ['дванадцяти|двенадцати', 12],
  ['чотирнадцяти|четырнадцати', 14],
  ['шістнадцяти|шестнадцати', 16],
];

const COMPOUNDS = COMPOUND_STEMS.map(([stems, value]): [RegExp, string] => [
  rule(String.raw`(?<!\p{L})(?:${stems})(?=поверх|этаж|етаж|кімнат|комнат|кімн|комн)`, 'gu'),
  `${value}-`,
]);

const ORDINAL_STEMS: [string, number][] = [
  ['перш|перв', 1],
  ['друг|втор', 2],
  ['трет', 3],
  ['четверт', 4],
  ['пят', 5],
  ['шост|шест', 6],
  ['сьом|седьм', 7],
  ['восьм', 8],
  ['девят', 9],
  ['десят', 10],
  ['одинадцят|одиннадцат', 11],
  ['дванадцят|двенадцат', 12],
  ['тринадцят|тринадцат', 13],
  ['чотирнадцят|четырнадцат', 14],
  ['пятнадцят|пятнадцат', 15],
  ['шістнадцят|шестнадцат', 16],
  ['сімнадцят|семнадцат', 17],
  ['вісімнадцят|восемнадцат', 18],
  ['девятнадцят|девятнадцат', 19],
  ['двадцят|двадцат', 20],
];

const ENGLISH_ORDINALS =
  'first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth'.split(
    ' ',
  );

/** Only beside a floor, or before "з 9": elsewhere "перший" is about something else. */
const AFTER_FLOOR = String.raw`(?<=(?<!\p{L})(?:поверх|пов|этаж|етаж|эт)\.?[ :-]{1,3})`;
const BEFORE_FLOOR = String.raw`(?= (?:поверс|поверх|пов|этаж|етаж|эт|floor|storey|story|(?:з|із|зі|из|of) \d))`;

const ENDINGS = '(?:ий|ій|ый|ой|ому|ьому|ом|ем|ьем|ім|ого|ього|его|ьего)';

const ORDINALS = [
  ...ORDINAL_STEMS.flatMap(([stems, value]): [RegExp, number][] => {
    const ordinal = String.raw`(?:([23]0) )?(?:${stems})${ENDINGS}`;
    return [
      [rule(String.raw`(?<!\p{L})${ordinal}${BEFORE_FLOOR}`, 'gu'), value],
      [rule(String.raw`${AFTER_FLOOR}${ordinal}(?!\p{L})`, 'gu'), value],
    ];
  }),
  ...ENGLISH_ORDINALS.map((word, at): [RegExp, number] => [
    rule(String.raw`(?<!\p{L})(?:([23]0)[ -])?${word}${BEFORE_FLOOR}`, 'gu'),
    at + 1,
  ]),
];

/**
 * Folded text with its number words as digits: cardinals ("сто двадцать тысяч" → "120000"), the
 * compounds of rooms and floors ("двокімнатна" → "2-кімнатна") and the ordinals of floors
 * ("на п'ятому поверсі" → "на 5-й поверсі").
 */
export function spellOutNumbers(folded: string): string {
  let text = folded;
  for (const [pattern, digits] of COMPOUNDS) text = text.replace(pattern, digits);
  text = spellCardinals(text);
  for (const [pattern, value] of ORDINALS) {
    text = text.replace(pattern, (_all, tens?: string) => `${Number(tens ?? 0) + value}-й`);
  }
  return text;
}
