import type { Facts } from './kinds.ts';
import type { Language } from './language.ts';

/** Keys of the words in `WORDS_BY_LANGUAGE`, in the same order. */
const WORD_KEYS =
  'sale|rent|daily_rent|apartment|house|room|land|commercial|garage|any|per_rent|per_daily_rent|price|rooms|floor|of|area';
const WORDS_BY_LANGUAGE: Record<Exclude<Language, 'mixed'>, string> = {
  uk: 'Продаж|Оренда|Подобова оренда|квартира|будинок|кімната|ділянка|комерційне приміщення|гараж|нерухомість| на місяць| за добу|Ціна|#-кімн. |# поверх| із |# м²',
  ru: 'Продажа|Аренда|Посуточная аренда|квартира|дом|комната|участок|коммерческое помещение|гараж|недвижимость| в месяц| в сутки|Цена|#-комн. |# этаж| из |# м²',
  en: 'For sale|For rent|For rent by the night|apartment|house|room|plot of land|commercial space|garage|property| per month| per night|Price|#-room |floor #| of |# m²',
};

const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const joinParts = (parts: readonly (string | null)[]): string => parts.filter(Boolean).join(', ');

/**
 * Composes a title ("2-кімн. квартира, Львів, 60 м²") and a summary in the language of a listing. The summary has a
 * sentence about the offer, and one about the price if it is known. For a mixed text, both are in Ukrainian.
 */
export function composeTexts(facts: Facts): { title: string; summary: string } {
  const {
    deal_type: deal,
    property_type: propertyType,
    price,
    currency,
    city,
    floors_total: floorCount,
  } = facts;
  const words = WORDS_BY_LANGUAGE[facts.language === 'mixed' ? 'uk' : facts.language].split('|');
  const formatWord = (key: string, value: number | null = 0): string =>
    value === null ? '' : (words[WORD_KEYS.split('|').indexOf(key)] ?? '').replace('#', `${value}`);
  const rooms = formatWord(
    'rooms',
    propertyType === 'apartment' || propertyType === 'house' ? facts.rooms : null,
  );
  const noun = rooms + formatWord(propertyType ?? 'any');
  const area = formatWord('area', facts.area_total);
  const floor =
    formatWord('floor', facts.floor) &&
    formatWord('floor', facts.floor) + formatWord('of', floorCount) + (floorCount ?? '');
  const offer = deal === null ? capitalize(noun) : `${formatWord(deal)}: ${noun}`;
  const sentence = `${joinParts([offer, city, facts.district, facts.address, area, floor])}.`;
  // 85000 → "85 000", with a non-breaking space.
  const amount = String(price).replace(/\B(?=(?:\d{3})+(?!\d))/gu, '\u00A0');
  const formattedPrice = [amount, currency].filter(Boolean).join(' ');
  return {
    title: capitalize(joinParts([noun, city, area])),
    summary:
      price === null
        ? sentence
        : `${sentence} ${formatWord('price')}: ${formattedPrice}${formatWord(`per_${deal}`)}.`,
  };
}

const MAX_TITLE_LENGTH = 120;

/** Attention-seeking words at the start of a title, such as "ТЕРМІНОВО!!!". */
const ATTENTION_WORDS =
  /^(?:(?:терміново|срочно|увага|внимание|urgent|hot|топ|vip|акція)[\s!.,:-]+)+/iu;

/**
 * Removes emoji and attention-seeking words from a title, and truncates it to 120 characters. Returns undefined if no
 * letter remains.
 */
export function cleanTitle(title: string): string | undefined {
  const cleanedTitle = title
    .replace(/[\p{Extended_Pictographic}\u{FE0F}\u{20E3}*_~|<>#=]+/gu, ' ')
    .replace(/([!?.,-])\1+/gu, '$1')
    .replace(/\s+/gu, ' ')
    .trim()
    .replace(ATTENTION_WORDS, '')
    .replace(/[\s!.,;:-]+$/u, '');
  if (!/\p{L}/u.test(cleanedTitle)) return undefined;
  return cleanedTitle.length > MAX_TITLE_LENGTH
    ? `${cleanedTitle.slice(0, MAX_TITLE_LENGTH - 1)}…`
    : cleanedTitle;
}
