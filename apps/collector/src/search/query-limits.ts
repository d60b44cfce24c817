import { anyOf, FLOOR_NOUN, ORDINAL_ENDING, ROOM_NOUN } from './fact-terms.ts';
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
  tys: 1e3,
  tysiach: 1e3,
  tysyach: 1e3,
  thousand: 1e3,
  млн: 1e6,
  мільйон: 1e6,
  мільйонів: 1e6,
  миллион: 1e6,
  миллионов: 1e6,
  mln: 1e6,
  million: 1e6,
  m: 1e6,
};
const AREA_UNITS =
  '(?:м2|м|кв м(?:етр\\p{L}*)?|кв|квадрат\\p{L}*|метр\\p{L}*|sqm|sq m(?:et(?:er|re)s?)?|sq|m2|квм)(?: кв)?';
const LAND_UNITS = '(?:сот(?:ка|ки|ок)?|sotok|sotky)';

const LIMIT_WORDS = {
  max: 'до|не дорожче|не дороже|дешевше|дешевле|менше|меньше|макс|максимум|не більше|не больше|не вище|не выше|бюджет|budget|under|up to|to|below|less than|no more than|max|maximum|do|maks',
  min: 'від|от|більше|больше|понад|свыше|вище|выше|не менше|не меньше|не нижче|не ниже|over|from|above|more than|at least|мін|мин|мінімум|минимум|min|minimum|vid|ot|od',
};
const CURRENCY = anyOf(CURRENCY_BY_WORD.keys());
const M2 = '(?:м2|м кв|кв м|кв|метр|квадрат|m2|sqm|sq m|square met(?:er|re))';
const PER_M2 = `(?:за|per|a)? ?${M2}`;
const ROOMS = `(?:(?:х|ти|и) )?${ROOM_NOUN}`;
const FLOOR = `(?:${ORDINAL_ENDING} )?(?:${FLOOR_NOUN}|этажа)`;
const AMOUNT_PATTERN = new RegExp(
  String.raw`(?<![\p{L}\d])(?:(?<perM2Before>(?:за|per) ${M2}) )?(?:(?:(?<max>${LIMIT_WORDS.max})|(?<min>${LIMIT_WORDS.min})) )?` +
    String.raw`(?:(?<sign>${CURRENCY}) )?(?<number>\d+(?:d\d+)?) ?(?<multiplier>${anyOf(Object.keys(MULTIPLIERS))})?` +
    String.raw`(?: ?(?:(?<currency>${CURRENCY})(?: ?(?<perM2>${PER_M2}))?|(?<rooms>${ROOMS})|(?<floor>${FLOOR})|(?<area>${AREA_UNITS})|(?<land>${LAND_UNITS})))?(?![\p{L}\d])`,
  'gu',
);
/** Smallest number without a unit that is a limit of the price, and that is a price by itself. */
const MIN_PLAIN_LIMIT = 100;
const MIN_PLAIN_PRICE = 3000;
const MAX_PRICE = 1e14;
/** A price without "up to" or the like means prices near it. */
const PRICE_TOLERANCE = 0.15;

type Unit = RangeName | 'ares';
type Amount = {
  start: number;
  end: number;
  side?: Side;
  value: number;
  multiplier?: number;
  currency?: string | undefined;
  unit?: Unit;
};

/** Replaces what `normalizeNumbers` would drop: signs of currencies, and the hyphens of ranges. */
export function spellOutAmounts(query: string): string {
  return query
    .replaceAll(/[$€₴£]/g, (sign) => ` ${SIGNS[sign]} `)
    .replaceAll(/у\. ?[ео]\.?/giu, 'уе')
    .replaceAll(/(?<![\d+])(\d{1,4})\+(?![\dkк])/g, 'від $1 ')
    .replaceAll(
      /(?<![\d/.-])(\d{1,7}) ?[-–—] ?(\d{2,7}(?![\d-])|\d(?= ?(?:тис|тыс|млн|mln|поверх(?![иі])|этаж(?!е[ий])|floor(?!s))))/giu,
      'від $1 до $2',
    );
}

/**
 * Takes the limits out of a query.
 * @param text Query after `spellOutAmounts` and `normalizeNumbers`.
 * @returns The limits, and the query without them.
 */
export function extractLimits(text: string): { limits: QueryLimits; rest: string } {
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

/** "2к" means two rooms, "20к" 20,000. */
const MIN_SHORT_THOUSANDS = 10;

function readAmount({ 0: phrase, index, groups = {} }: RegExpExecArray): Amount {
  const { max, min, sign, number = '', currency, area, land, rooms, floor } = groups;
  const { perM2, perM2Before } = groups;
  const multiplier = MULTIPLIERS[groups['multiplier'] ?? ''];
  const isShort = groups['multiplier']?.length === 1 && Number(number) < MIN_SHORT_THOUSANDS;
  const hasCurrency = (currency ?? sign) !== undefined;
  const units: [unit: Unit, isMeant: boolean][] = [
    ['price_per_m2', (perM2 ?? perM2Before) !== undefined],
    ['rooms', rooms !== undefined || (isShort && !hasCurrency)],
    ['floor', floor !== undefined],
    ['area', area !== undefined],
    ['ares', land !== undefined],
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
  if (unit === 'ares' || unit === 'area' || unit === 'rooms' || unit === 'floor') {
    if (side === undefined) return false;
    if (unit === 'ares') limits[`area_${side}`] = value * 100;
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
