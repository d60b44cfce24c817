import type { DealType, Language, PropertyType } from './types.ts';

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
type Written = Exclude<Language, 'mixed'>;

type Words = {
  deal: Record<DealType, string>;
  property: Record<PropertyType, string>;
  rooms: (count: number, property: string) => string;
  floor: (floor: number, total: number | null) => string;
  per: Record<DealType, string>;
  price: string;
  squareMetres: string;
  any: string;
};

const WORDS: Record<Written, Words> = {
  uk: {
    deal: { sale: 'Продаж', rent: 'Оренда', daily_rent: 'Подобова оренда' },
    property: {
      apartment: 'квартира',
      house: 'будинок',
      room: 'кімната',
      land: 'ділянка',
      commercial: 'комерційне приміщення',
      garage: 'гараж',
    },
    rooms: (count, property) => `${count}-кімн. ${property}`,
    floor: (floor, total) => (total === null ? `${floor} поверх` : `${floor} поверх із ${total}`),
    per: { sale: '', rent: ' на місяць', daily_rent: ' за добу' },
    price: 'Ціна',
    squareMetres: 'м²',
    any: 'нерухомість',
  },
  ru: {
    deal: { sale: 'Продажа', rent: 'Аренда', daily_rent: 'Посуточная аренда' },
    property: {
      apartment: 'квартира',
      house: 'дом',
      room: 'комната',
      land: 'участок',
      commercial: 'коммерческое помещение',
      garage: 'гараж',
    },
    rooms: (count, property) => `${count}-комн. ${property}`,
    floor: (floor, total) => (total === null ? `${floor} этаж` : `${floor} этаж из ${total}`),
    per: { sale: '', rent: ' в месяц', daily_rent: ' в сутки' },
    price: 'Цена',
    squareMetres: 'м²',
    any: 'недвижимость',
  },
  en: {
    deal: { sale: 'For sale', rent: 'For rent', daily_rent: 'For rent by the night' },
    property: {
      apartment: 'apartment',
      house: 'house',
      room: 'room',
      land: 'plot of land',
      commercial: 'commercial space',
      garage: 'garage',
    },
    rooms: (count, property) => `${count}-room ${property}`,
    floor: (floor, total) => (total === null ? `floor ${floor}` : `floor ${floor} of ${total}`),
    per: { sale: '', rent: ' per month', daily_rent: ' per night' },
    price: 'Price',
    squareMetres: 'm²',
    any: 'property',
  },
};

/** The language sentences are made in: a mixed text gets Ukrainian ones. */
const wordsFor = (language: Language): Words => WORDS[language === 'mixed' ? 'uk' : language];

/** 85000 → "85 000", with a no-break space. */
const grouped = (value: number): string =>
  String(value).replace(/\B(?=(?:\d{3})+(?!\d))/gu, '\u00A0');

function noun(facts: Facts, words: Words): string {
  const property = facts.property_type === null ? words.any : words.property[facts.property_type];
  const counted = facts.property_type === 'apartment' || facts.property_type === 'house';
  return counted && facts.rooms !== null ? words.rooms(facts.rooms, property) : property;
}

function capitalise(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A title made from the facts: "2-кімн. квартира, Львів, 60 м²". */
export function composeTitle(facts: Facts): string {
  const words = wordsFor(facts.language);
  const area = facts.area_total === null ? null : `${facts.area_total} ${words.squareMetres}`;
  return capitalise(
    [noun(facts, words), facts.city, area].filter((part) => part !== null).join(', '),
  );
}

/** What is offered and where in one sentence, and its price in a second when there is one. */
export function composeSummary(facts: Facts): string {
  const words = wordsFor(facts.language);
  const what = noun(facts, words);
  const offer =
    facts.deal_type === null ? capitalise(what) : `${words.deal[facts.deal_type]}: ${what}`;
  const area = facts.area_total === null ? null : `${facts.area_total} ${words.squareMetres}`;
  const floor = facts.floor === null ? null : words.floor(facts.floor, facts.floors_total);
  const parts = [offer, facts.city, facts.district, facts.address, area, floor];
  const sentence = `${parts.filter((part) => part !== null).join(', ')}.`;
  if (facts.price === null) return sentence;
  const period = facts.deal_type === null ? '' : words.per[facts.deal_type];
  const money = [grouped(facts.price), facts.currency].filter((part) => part !== null).join(' ');
  return `${sentence} ${words.price}: ${money}${period}.`;
}
