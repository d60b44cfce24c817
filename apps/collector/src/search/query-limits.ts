import { anyOf, FLOOR_NOUN, NUMERALS, ORDINAL_ENDING, ROOM_NOUN } from './fact-terms.ts';
import type { SearchFilters } from './filter-schemas.ts';

/** Limits that a query names: "до 15 000 грн", "от 40 м2", "up to $500", "near Lviv". Prices without a currency have none. */
export type QueryLimits = Pick<SearchFilters, 'currency' | 'near' | `${RangeName}_${Side}`>;

type RangeName = 'price' | 'price_per_m2' | 'area' | 'rooms' | 'floor';
type Side = 'min' | 'max';

const CURRENCIES: Record<string, string> = {
  UAH: 'грн гривень гривні гривня гривен гривны гривнях uah hrn hryven hryvnia hryvnias',
  USD: 'usd дол долл доларів долари долларов доллара доллар dol dollars dollar bucks баксів баксов уе',
  EUR: 'eur євро евро euro euros yevro',
  PLN: 'pln злотих злотых zł zl zloty zlotych',
  CZK: 'czk крон kč kc korun',
  HUF: 'huf форинтів форинтов forint forints',
  RON: 'ron лей lei',
  MDL: 'mdl',
  GBP: 'gbp',
};
const CURRENCY_BY_WORD = new Map(
  Object.entries(CURRENCIES).flatMap(([currency, words]) =>
    words.split(' ').map((word) => [word, currency] as const),
  ),
);
const SIGNS: Record<string, string> = { $: 'usd', '€': 'eur', '₴': 'uah', '£': 'gbp' };

const MULTIPLIERS: Record<string, number> = {
  к: 1e3,
  k: 1e3,
  т: 1e3,
  тис: 1e3,
  тыс: 1e3,
  тисяч: 1e3,
  тисячі: 1e3,
  тысяч: 1e3,
  тысячи: 1e3,
  тыщ: 1e3,
  tys: 1e3,
  tysiach: 1e3,
  tysyach: 1e3,
  thousand: 1e3,
  млн: 1e6,
  мільйон: 1e6,
  мільйона: 1e6,
  мільйонів: 1e6,
  миллион: 1e6,
  миллиона: 1e6,
  миллионов: 1e6,
  mln: 1e6,
  million: 1e6,
  m: 1e6,
};
const AREA_UNITS =
  '(?:м2|м|кв м(?:етр\\p{L}*)?|кв|квадрат\\p{L}*|метр\\p{L}*|sqm|sq m(?:et(?:er|re)s?)?|sq|m2|квм)(?: кв)?';
const LAND_UNITS = '(?:сот(?:ка|ки|ок)?|sotok|sotky)';
const HECTARES = '(?:га|гектар\\p{L}*|hectares?|ha)';

const LIMIT_WORDS = {
  max: 'до|не дорожче|не дороже|дешевше|дешевле|менше|меньше|макс|максимум|не більше|не больше|не более|не вище|не выше|[ув] межах|в пределах|бюджет(?:ом)?|budget|under|up to|to|below|within|less than|cheaper than|no more than|at most|max|maximum|do|maks',
  min: 'від|от|більше|больше|более|понад|свыше|вище|выше|не менше|не меньше|не менее|не нижче|не ниже|over|from|above|more than|larger than|bigger than|at least|мін|мин|мінімум|минимум|min|minimum|vid|ot|od',
};
const CURRENCY = anyOf(CURRENCY_BY_WORD.keys());
const M2 = '(?:м2|м кв|кв м|кв|метр|квадрат|m2|sqm|sq m|square met(?:er|re))';
const PER_M2 = `(?:за|per|a)? ?${M2}`;
const ROOMS = `(?:(?:х|ти|и) )?${ROOM_NOUN}`;
const FLOOR = `(?:${ORDINAL_ENDING} )?(?:${FLOOR_NOUN}|этажа)`;
const AMOUNT_PATTERN = new RegExp(
  String.raw`(?<![\p{L}\d])(?:(?<perM2Before>(?:за|per) ${M2}) )?(?:(?:(?<max>${LIMIT_WORDS.max})|(?<min>${LIMIT_WORDS.min})) (?:(?:за|ніж|чем) )?)?` +
    String.raw`(?:(?<sign>${CURRENCY}) )?(?<number>\d+(?:d\d+)?) ?(?<multiplier>${anyOf(Object.keys(MULTIPLIERS))})?` +
    String.raw`(?: ?(?:(?<currency>${CURRENCY})(?: ?(?<perM2>${PER_M2}))?|(?<rooms>${ROOMS})|(?<floor>${FLOOR})|(?<area>${AREA_UNITS})|(?<land>${LAND_UNITS})|(?<hectares>${HECTARES})))?(?![\p{L}\d])`,
  'gu',
);
/** Smallest number without a unit that is a limit of the price, and that is a price by itself. */
const MIN_PLAIN_LIMIT = 100;
const MIN_PLAIN_PRICE = 3000;
const MAX_PRICE = 1e14;
/** A price without "up to" or the like means prices near it. */
const PRICE_TOLERANCE = 0.15;

type Unit = RangeName | 'ares' | 'hectares';
const SQUARE_METRES = { ares: 100, hectares: 10_000 };
type Amount = {
  start: number;
  end: number;
  side?: Side;
  value: number;
  multiplier?: number;
  currency?: string | undefined;
  unit?: Unit;
};

const DIGITS = String.raw`(?:\d{1,3}(?:[ \u00A0]\d{3})+(?!\d)|\d{1,7}(?:[.,]\d{1,2})?)`;
/** Single digits are a range before some units alone: "2-3" may be rooms or a house. */
const RANGE_PATTERN = new RegExp(
  String.raw`(?<![\d/.,-])([$€₴£]?) ?(${DIGITS}) ?[$€₴£]? ?[-–—] ?[$€₴£]? ?` +
    String.raw`((?=\d{2}|\d[ \u00A0]\d{3}|\d(?:[.,]\d+)? ?(?:тис|тыс|млн|mln|сот|sot|га(?!\p{L})|поверх(?![иі])|этаж(?!е[ий])|floor(?!s)))${DIGITS})(?![\d-])`,
  'giu',
);
const BETWEEN_PATTERN = new RegExp(
  String.raw`(?<!\p{L})(?:між|между|between) ([$€₴£]? ?${DIGITS}) (?:і|й|та|и|and) (?=[$€₴£]? ?\d)`,
  'giu',
);

/** "60 m" is an area, "$1.5m" and "15m UAH" are prices. */
const METRES_PATTERN = new RegExp(
  String.raw`(?<![$€₴£] ?[\d., ]*|[.,]\d*)(?<=\d{2}) ?m(?![\p{L}\d²])(?! ?(?:${CURRENCY}|[$€₴£]))`,
  'giu',
);

/** Replaces what `normalizeNumbers` would drop: signs of currencies, and those of ranges and limits. */
export function spellOutAmounts(query: string): string {
  return query
    .replaceAll(BETWEEN_PATTERN, 'від $1 до ')
    .replaceAll(RANGE_PATTERN, ' від $1 $2 до $1 $3')
    .replaceAll(METRES_PATTERN, ' м')
    .replaceAll(/[<≤](?= ?[$€₴£]? ?\d)/g, ' до ')
    .replaceAll(/[>≥](?= ?[$€₴£]? ?\d)/g, ' від ')
    .replaceAll(/[$€₴£]/g, (sign) => ` ${SIGNS[sign]} `)
    .replaceAll(/у\. ?[ео]\.?/giu, 'уе')
    .replaceAll(/(?<!\p{L})(?:півтор[аи]|пол(?:у)?тор[аы])(?!\p{L})/giu, '1,5')
    .replaceAll(/(?<!\p{L})(?:півмільйона|полмиллиона|half a million)(?!\p{L})/giu, '500000')
    .replaceAll(/(?<![\d+])(\d{1,4})\+(?![\dkк])/g, 'від $1 ');
}

/** Source of a pattern for any unit. */
const ANY_UNIT = `(?:${anyOf(Object.keys(MULTIPLIERS))}|${CURRENCY}|${AREA_UNITS}|${LAND_UNITS}|${HECTARES})`;

/** Beginnings of the words for multiples of 2 to 9, and other numerals. */
const NUMERAL_STARTS = 'дв тр ч[ое]т[иы]р пят ш[іе]ст с[іе]м в[оі]с[іеь]?м девят'.split(' ');
const OTHER_NUMERALS: Record<string, number> = {
  пять: 5,
  сорок: 40,
  сорока: 40,
  девяносто: 90,
  сто: 100,
  twenty: 20,
  thirty: 30,
  forty: 40,
  fifty: 50,
};
const NUMERAL = String.raw`(?:${anyOf([...NUMERALS.keys(), ...Object.keys(OTHER_NUMERALS)])}|(?:${NUMERAL_STARTS.join('|')})\p{L}{0,3}(?:дц|десят|сот|ст[аіи])\p{L}{0,3})`;
const NUMERALS_PATTERN = new RegExp(
  String.raw`(?<![\p{L}\d])${NUMERAL}(?: ${NUMERAL}){0,3}(?= ${ANY_UNIT}(?!\p{L}))`,
  'gu',
);

function parseNumeral(word: string): number {
  const known = NUMERALS.get(word) ?? OTHER_NUMERALS[word];
  if (known !== undefined) return known;
  const digit = 2 + NUMERAL_STARTS.findIndex((start) => new RegExp(`^${start}`, 'u').test(word));
  if (word.includes('надц')) return 10 + digit;
  return digit * (/дц|десят/.test(word) ? 10 : 100);
}

/** Replaces the numerals before units: "двадцять п'ять тисяч" becomes "25 тисяч". */
const replaceNumerals = (text: string) =>
  text.replaceAll(NUMERALS_PATTERN, (numerals) =>
    String(
      numerals
        .split(' ')
        .map(parseNumeral)
        .reduce((sum, value) => sum + value, 0),
    ),
  );

/** Returns a pattern for one or two limits after their unit. */
function createUnitPattern(unit: string, digits: string): RegExp {
  const limit = String.raw`(?:${LIMIT_WORDS.max}|${LIMIT_WORDS.min}) ${digits}(?![\p{L}\d])`;
  return new RegExp(
    String.raw`(?<![\p{L}\d])${unit} (${limit}(?: ${limit})?)(?! ${ANY_UNIT}(?!\p{L}))`,
    'gu',
  );
}

/** Units before limits, such as "площа від 50 до 60", and the units to put behind them. */
const UNITS_BEFORE: readonly [pattern: RegExp, unit: string][] = [
  [
    createUnitPattern(String.raw`(?:площ\p{L}*|метраж\p{L}*|area)`, String.raw`\d{1,4}(?:d\d+)?`),
    'м2',
  ],
  [createUnitPattern(FLOOR_NOUN, String.raw`\d{1,2}`), 'поверх'],
];

const moveUnits = (text: string) =>
  UNITS_BEFORE.reduce((moved, [pattern, unit]) => moved.replaceAll(pattern, `$1 ${unit}`), text);

/**
 * Takes the limits out of a query.
 * @param query Query after `spellOutAmounts` and `normalizeNumbers`.
 * @returns The limits, and the query without them.
 */
export function extractLimits(query: string): { limits: QueryLimits; rest: string } {
  const text = moveUnits(replaceNumerals(query));
  const limits: QueryLimits = {};
  let rest = text;
  let next: Amount | undefined;
  // Backwards, because "from 50 to 60 m2" names the unit once.
  for (const match of [...text.matchAll(AMOUNT_PATTERN)].toReversed()) {
    const amount = readAmount(match);
    if (next !== undefined && text.slice(amount.end, next.start).trim() === '') {
      if (amount.unit === undefined && next.multiplier !== undefined && amount.value < next.value)
        amount.value *= next.multiplier;
      if (next.unit !== undefined) amount.unit ??= next.unit;
      amount.currency ??= next.currency;
    }
    if (!addLimit(limits, amount)) continue;
    next = amount.side === 'min' ? undefined : amount;
    rest = `${rest.slice(0, amount.start)} ${rest.slice(amount.end)}`;
  }
  return { limits, rest: rest.replaceAll(/ +/g, ' ').trim() };
}

/** "2к" means two rooms, "8к" 8,000. */
const MIN_SHORT_THOUSANDS = 6;

function readAmount({ 0: phrase, index, groups = {} }: RegExpExecArray): Amount {
  const { max, min, sign, number = '', currency, area, rooms, floor } = groups;
  const { land, hectares, perM2, perM2Before } = groups;
  const multiplier = MULTIPLIERS[groups['multiplier'] ?? ''];
  const isShort = groups['multiplier']?.length === 1 && Number(number) < MIN_SHORT_THOUSANDS;
  const hasCurrency = (currency ?? sign) !== undefined;
  const units: [unit: Unit, isMeant: boolean][] = [
    ['price_per_m2', (perM2 ?? perM2Before) !== undefined],
    ['rooms', rooms !== undefined || (isShort && !hasCurrency)],
    ['floor', floor !== undefined],
    ['area', area !== undefined],
    ['ares', land !== undefined],
    ['hectares', hectares !== undefined],
    ['price', multiplier !== undefined],
  ];
  const [unit] = units.find(([, isMeant]) => isMeant) ?? [];
  return {
    start: index,
    end: index + phrase.length,
    ...(max !== undefined ? { side: 'max' } : min !== undefined ? { side: 'min' } : {}),
    value: Number(number.replace('d', '.')) * (unit === 'rooms' ? 1 : (multiplier ?? 1)),
    ...(multiplier !== undefined && { multiplier }),
    ...(unit !== undefined && { unit }),
    ...(hasCurrency && { currency: CURRENCY_BY_WORD.get(currency ?? sign ?? '') }),
  };
}

/** Adds an amount to the limits, unless it is neither a price nor a limit. */
function addLimit(limits: QueryLimits, { side, value, unit, currency }: Amount): boolean {
  if (unit !== undefined && unit !== 'price' && unit !== 'price_per_m2') {
    if (side === undefined) return false;
    if (unit === 'ares' || unit === 'hectares')
      limits[`area_${side}`] = value * SQUARE_METRES[unit];
    else limits[`${unit}_${side}`] = value;
    return true;
  }
  const isYear = value >= 1900 && value <= 2100 && currency === undefined && unit === undefined;
  const minPrice =
    currency !== undefined
      ? 0
      : side !== undefined || unit !== undefined
        ? MIN_PLAIN_LIMIT
        : MIN_PLAIN_PRICE;
  if (isYear || value < minPrice || value > MAX_PRICE) return false;
  const name = unit ?? 'price';
  if (side === undefined) {
    limits[`${name}_min`] ??= Math.round(value * (1 - PRICE_TOLERANCE));
    limits[`${name}_max`] ??= Math.round(value * (1 + PRICE_TOLERANCE));
  } else limits[`${name}_${side}`] = value;
  if (currency !== undefined) limits.currency = currency;
  return true;
}
