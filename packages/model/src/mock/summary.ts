import type { DealType, PropertyType } from './kinds.ts';
import type { Language } from './language.ts';

type Facts = {
  language: Language;
  deal_type: DealType | null;
  property_type: PropertyType | null;
  price: number | null;
  currency: string | null;
  city: string | null;
  district: string | null;
  address: string | null;
  rooms: number | null;
  area_total: number | null;
  floor: number | null;
  floors_total: number | null;
};

/** Keys of the words in `WORDS`, in the same order. */
const KEYS =
  'sale|rent|daily_rent|apartment|house|room|land|commercial|garage|any|per_rent|per_daily_rent|price|rooms|floor|of|area';
const WORDS: Record<Exclude<Language, 'mixed'>, string> = {
  uk: 'Продаж|Оренда|Подобова оренда|квартира|будинок|кімната|ділянка|комерційне приміщення|гараж|нерухомість| на місяць| за добу|Ціна|# -кімн. |# поверх| із |м²',
  ru: 'Продажа|Аренда|Посуточная аренда|квартира|дом|комната|участок|коммерческое помещение|гараж|недвижимость| в месяц| в сутки|Цена|# -комн. |# этаж| из |м²',
  en: 'For sale|For rent|For rent by the night|apartment|house|room|plot of land|commercial space|garage|property| per month| per night|Price|# -room |floor #| of |m²',
};

/** Returns the parts of a title or summary in the language of the listing. A mixed text gets Ukrainian ones. */
function composeParts(facts: Facts) {
  const words = WORDS[facts.language === 'mixed' ? 'uk' : facts.language].split('|');
  const say = (key: string): string => words[KEYS.split('|').indexOf(key)] ?? '';
  const counted = facts.property_type === 'apartment' || facts.property_type === 'house';
  const rooms = counted && facts.rooms !== null ? say('rooms').replace('# ', `${facts.rooms}`) : '';
  const floors = facts.floors_total === null ? '' : `${say('of')}${facts.floors_total}`;
  return {
    say,
    noun: `${rooms}${say(facts.property_type ?? 'any')}`,
    area: facts.area_total === null ? null : `${facts.area_total} ${say('area')}`,
    floor: facts.floor === null ? null : `${say('floor').replace('#', `${facts.floor}`)}${floors}`,
  };
}

const capitalise = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const join = (parts: readonly (string | null)[]): string =>
  parts.filter((part) => part !== null).join(', ');

/** Composes a title from facts: "2-кімн. квартира, Львів, 60 м²". */
export function composeTitle(facts: Facts): string {
  const { noun, area } = composeParts(facts);
  return capitalise(join([noun, facts.city, area]));
}

/** Composes a summary: a sentence about the offer and its place, and a sentence about the price if it is known. */
export function composeSummary(facts: Facts): string {
  const { deal_type: deal, city, district, address, price, currency } = facts;
  const { say, noun, area, floor } = composeParts(facts);
  const offer = deal === null ? capitalise(noun) : `${say(deal)}: ${noun}`;
  const sentence = `${join([offer, city, district, address, area, floor])}.`;
  if (price === null) return sentence;
  // 85000 → "85 000", with a non-breaking space.
  const amount = String(price).replace(/\B(?=(?:\d{3})+(?!\d))/gu, '\u00A0');
  const money = [amount, currency].filter((part) => part !== null).join(' ');
  return `${sentence} ${say('price')}: ${money}${say(`per_${deal}`)}.`;
}

const MAX_TITLE_LENGTH = 120;

/** Decorative characters, such as emoji. */
const DECORATION = /[\p{Extended_Pictographic}\u{FE0F}\u{20E3}*_~|<>#=]+/gu;

/** Attention-seeking words at the start of a title, such as "ТЕРМІНОВО!!!". */
const ATTENTION_WORDS =
  /^(?:(?:терміново|срочно|увага|внимание|urgent|hot|топ|vip|акція)[\s!.,:-]+)+/iu;

/** Cleans a title of decoration and attention-seeking words. Returns at most 120 characters, or null if none remain. */
export function cleanTitle(title: string): string | null {
  const calm = title
    .replace(DECORATION, ' ')
    .replace(/([!?.,-])\1+/gu, '$1')
    .replace(/\s+/gu, ' ')
    .trim()
    .replace(ATTENTION_WORDS, '')
    .replace(/[\s!.,;:-]+$/u, '');
  if (!/\p{L}/u.test(calm)) return null;
  if (calm.length <= MAX_TITLE_LENGTH) return calm;
  const cut = calm.slice(0, MAX_TITLE_LENGTH);
  const lastSpace = cut.lastIndexOf(' ');
  return `${cut.slice(0, lastSpace > 0 ? lastSpace : MAX_TITLE_LENGTH - 1).trimEnd()}…`;
}
