import { normalizeText } from '../text.ts';

/** Terms of the facts that part of a normalized text states, such as `@rooms2` for "двокімнатна". */
export type FactMatch = { start: number; end: number; terms: string[] };

/** Facts of a listing have terms that begin with `@`, which no word of a text can. */
export const createFactTerm = (name: string, value: string | number = '') => `@${name}${value}`;

/** Numbers up to ten by the beginnings of their words. */
export const NUMERALS = new Map(
  Object.entries({
    1: 'одно одн один одна одну однієї однокімнатн one single',
    2: 'двох дво двух два дві две two double',
    3: 'трьох трех три тре three triple',
    4: 'чотирьох чотири четырех четыре four',
    5: 'пяти пять five',
    6: 'шести шість шесть six',
    7: 'семи сім семь seven',
    8: 'восьми вісім восемь eight',
    9: 'девяти девять nine',
    10: 'десяти десять ten',
  }).flatMap(([count, words]) => words.split(' ').map((word) => [word, Number(count)] as const)),
);
const ORDINALS = new Map(
  Object.entries({
    1: 'перш перв first persh perv',
    2: 'друг втор second druh vtor',
    3: 'трет third tret',
    4: 'четверт fourth',
    5: 'пят fifth',
    6: 'шост шест sixth',
    7: 'сьом седьм seventh',
    8: 'восьм eighth',
    9: 'девят ninth',
    10: 'десят tenth',
  }).flatMap(([floor, words]) => words.split(' ').map((word) => [word, Number(floor)] as const)),
);
const SLANG_ROOMS = new Map([
  ['однушк', 1],
  ['двушк', 2],
  ['двошк', 2],
  ['трешк', 3],
  ['трьошк', 3],
  ['odnushk', 1],
  ['dvushk', 2],
  ['treshk', 3],
]);

/** Returns the source of a pattern for any of the words, the longest first. */
export const anyOf = (words: Iterable<string>) =>
  [...words].toSorted((a, b) => b.length - a.length).join('|');

const NUMERAL = anyOf(NUMERALS.keys());
/** Sources of patterns for nouns and endings after numbers, which limits of queries have too. */
export const ROOM_NOUN =
  '(?:(?:кімнат|комнат|kimnat|komnat)\\p{L}*|кімн?|комн?|кк?|kk?|bedrooms?|bed|br|rooms?|roomed)';
export const FLOOR_NOUN =
  '(?:поверх(?:у|ом|і)?|поверсі|пов|этаж(?:е|у|ом)?|эт|floor|poverkh?|poversi|etazhe?)';
const FLOORS_NOUN =
  '(?:поверхів|поверхи|поверхов\\p{L}*|поверхівк\\p{L}*|поверхівц\\p{L}*|этажей|этажа|этажн\\p{L}*|этажк\\p{L}*|floors|stor(?:ey|y|eys|ies|eyed)|poverkh?iv|etazhe[ij])';
export const ORDINAL_ENDING = '(?:й|ий|ій|ого|му|м|ом|ому|я|th|st|nd|rd)';
const SQUARE_METRES =
  '(?:м2|м кв|кв м(?:етр\\p{L}*)?|метр\\p{L}*|квадрат\\p{L}*|м|m2|sqm|sq m(?:et(?:er|re)s?)?|sq|square met(?:er|re)s?)';
const ARES = '(?:сот(?:ка|ки|ок|ках)?|sot(?:ok|ky|ki))';
const HECTARES = '(?:га|гектар\\p{L}*|hectares?|ha)';

const toNumber = (digits: string | undefined) => Number(digits?.replace('d', '.'));

/** A listing has the whole numbers around its area, so that "54 м2" and "54,5 м2" are both found. */
export const createAreaTerms = (area: number) =>
  [...new Set([Math.floor(area), Math.ceil(area)])].map((number) => createFactTerm('area', number));

type Groups = Record<string, string | undefined>;

/** Round areas of queries mean areas near them. */
const ROUND_AREA_STEP = 10;
const MAX_ROUND_AREA = 300;
const AREA_TOLERANCE = 0.05;

/** Returns the terms of the area that a query names. */
export function createNearAreaTerms(area: number): string[] {
  if (area % ROUND_AREA_STEP > 0 || area > MAX_ROUND_AREA) return createAreaTerms(area);
  const tolerance = Math.floor(area * AREA_TOLERANCE);
  return Array.from({ length: 2 * tolerance + 1 }, (_, index) =>
    createFactTerm('area', area - tolerance + index),
  );
}

/** Patterns in normalized text with the terms of their matches. The first that matches at a position applies. */
const FACT_PATTERNS: readonly [pattern: string, createTerms: (groups: Groups) => string[]][] = [
  [
    String.raw`(?<rooms>[1-9])(?: або (?<otherRooms>[1-9]))? ?(?:(?:х|ти|и|а|но|x) )?${ROOM_NOUN}`,
    ({ rooms, otherRooms }) =>
      [rooms, otherRooms].flatMap((count) =>
        count === undefined ? [] : createFactTerm('rooms', count),
      ),
  ],
  [
    `(?<roomNumeral>${NUMERAL}) ?${ROOM_NOUN}`,
    ({ roomNumeral }) => [createFactTerm('rooms', NUMERALS.get(roomNumeral ?? ''))],
  ],
  [
    String.raw`(?<slang>${anyOf(SLANG_ROOMS.keys())})\p{L}*`,
    ({ slang }) => [createFactTerm('rooms', SLANG_ROOMS.get(slang ?? ''))],
  ],
  [
    String.raw`(?:${FLOOR_NOUN} )?(?<floorOf>\d{1,2}) ?(?:${ORDINAL_ENDING} )?(?:${FLOOR_NOUN} )?(?:із|з|из|of) (?<floorsOf>\d{1,2})(?: ?${FLOORS_NOUN})?`,
    ({ floorOf, floorsOf }) => [
      createFactTerm('floor', floorOf),
      createFactTerm('floors', floorsOf),
    ],
  ],
  [
    String.raw`(?<floors>\d{1,2}) ?(?:(?:ти|х|и) )?${FLOORS_NOUN}`,
    ({ floors }) => [createFactTerm('floors', floors)],
  ],
  [
    `(?<floorsNumeral>${NUMERAL}) ?${FLOORS_NOUN}`,
    ({ floorsNumeral }) => [createFactTerm('floors', NUMERALS.get(floorsNumeral ?? ''))],
  ],
  [
    String.raw`(?<floor>\d{1,2}) ?(?:${ORDINAL_ENDING} )?${FLOOR_NOUN}`,
    ({ floor }) => [createFactTerm('floor', floor)],
  ],
  [
    String.raw`${FLOOR_NOUN} (?<floorAfter>\d{1,2})`,
    ({ floorAfter }) => [createFactTerm('floor', floorAfter)],
  ],
  [
    String.raw`(?<ordinal>${anyOf(ORDINALS.keys())})\p{L}{0,3} ${FLOOR_NOUN}`,
    ({ ordinal }) => [createFactTerm('floor', ORDINALS.get(ordinal ?? ''))],
  ],
  [
    String.raw`(?<last>(?:останн|последн|верхн|ostann|posledn)\p{L}* ${FLOOR_NOUN}|(?:top|last) floor)`,
    () => [createFactTerm('last_floor')],
  ],
  [
    String.raw`(?<area>\d{1,6}(?:d\d+)?) ?${SQUARE_METRES}`,
    ({ area }) => createAreaTerms(toNumber(area)),
  ],
  [
    String.raw`(?<ares>\d{1,4}(?:d\d+)?) ?(?:ти |х )?${ARES}`,
    ({ ares }) => createAreaTerms(toNumber(ares) * 100),
  ],
  [
    String.raw`(?<hectares>\d{1,4}(?:d\d+)?) ?${HECTARES}`,
    ({ hectares }) => createAreaTerms(toNumber(hectares) * 10_000),
  ],
];
const FACT_PATTERN = new RegExp(
  String.raw`(?<![\p{L}\d])(?:${FACT_PATTERNS.map(([pattern]) => pattern).join('|')})(?![\p{L}\d])`,
  'gu',
);
const CREATE_TERMS = FACT_PATTERNS.map(([pattern, createTerms]) => ({
  groupName: /\(\?<(\w+)>/.exec(pattern)?.[1] ?? '',
  createTerms,
}));

/** Finds the facts that a text from `normalizeNumbers` states. */
export function findFacts(normalizedText: string): FactMatch[] {
  return Array.from(normalizedText.matchAll(FACT_PATTERN), ({ 0: match, index, groups = {} }) => {
    const fact = CREATE_TERMS.find(({ groupName }) => groups[groupName] !== undefined);
    return { start: index, end: index + match.length, terms: fact?.createTerms(groups) ?? [] };
  });
}

/**
 * Normalizes a text, and keeps the meaning of the characters between its numbers: "12 000" becomes "12000", "54,5"
 * becomes "54d5", "45/30/9" becomes "45 м2 30 9" (areas), "3/9" becomes "3 із 9" (floors), and "2-3 кімнати" becomes
 * "2 або 3 кімнати".
 */
export function normalizeNumbers(text: string): string {
  return normalizeText(
    text
      .replaceAll(
        /(?<![\d/.,])(\d{2,3}(?:[.,]\d)?) ?\/ ?(\d{1,3}(?:[.,]\d)?) ?\/ ?(\d{1,2}(?:[.,]\d)?)(?![\d/])(?: ?(?:кв\.? ?)?[мm](?:[2²]|\.? ?кв)?(?!\p{L}))?/gu,
        '$1 м2 $2 $3',
      )
      .replaceAll(/(?<![\d/]|\d[.,])(\d{1,2}) ?[/\\] ?(\d{1,2})(?!\d|[.,]\d| ?[/\\])/g, '$1 із $2')
      .replaceAll(/(?<!\d)([1-9]) ?[-–—,] ?([1-9])(?=[ -]?(?:к|k|br|bed|room))/gi, '$1 або $2')
      .replaceAll(/(?<![\d.,])(\d{1,3})(?:[ \u00A0\u202F.,'’]\d{3})+(?!\d|[.,]\d)/g, (number) =>
        number.replaceAll(/\D/g, ''),
      )
      .replaceAll(/(?<![\d.,])(\d+)[.,](\d{1,2})(?![\d.,]*\d)/g, '$1d$2'),
  );
}

/** Runs of digits with the separators of phone numbers. */
const PHONE_PATTERN = /(?<![\d.,])\+?(?:\d[ ()\-–.]{0,2}){9,12}(?!\d)/g;
/** Local phone number, without the code of a network or a city. */
const LOCAL_PHONE_PATTERN = /(?<!\d)\d{3}-\d{2}-\d{2}(?!\d)/g;
const PHONE_DIGITS = 9;
const LOCAL_PHONE_DIGITS = 7;

/** Returns the terms of a phone number in any format: with its code, and without. */
export function createPhoneTerms(phone: string): string[] {
  const digits = phone.replaceAll(/\D/g, '');
  return [PHONE_DIGITS, LOCAL_PHONE_DIGITS]
    .filter((length) => digits.length >= length)
    .map((length) => createFactTerm('phone', digits.slice(-length)));
}

/** Takes the phone numbers out of a text. */
export function extractPhones(text: string): { phones: string[]; rest: string } {
  const phones: string[] = [];
  const takePhone = (phone: string): string => {
    phones.push(phone);
    return ' ; ';
  };
  const rest = text.replaceAll(PHONE_PATTERN, takePhone).replaceAll(LOCAL_PHONE_PATTERN, takePhone);
  return { phones, rest };
}
