import { DEAL_TYPES } from '../listing/fields.ts';
import { findPlaces, type Place } from '../places/gazetteer.ts';
import { normalizeText } from '../text.ts';
import {
  type Concept,
  createPhrases,
  findConcept,
  MAX_PHRASE_WORDS,
  quote,
  TYPE_OPERANDS,
} from './concepts.ts';
import {
  createFactTerm,
  createNearAreaTerms,
  createPhoneTerms,
  extractPhones,
  findFacts,
  normalizeNumbers,
} from './fact-terms.ts';
import { extractLimits, type QueryLimits, spellOutAmounts } from './query-limits.ts';
import { STOP_WORDS, stemKey, stemQueryWord } from './stems.ts';

/** Alternative terms of one word or phrase of a query. A listing matches the group if it has one of them. */
export type TermGroup = {
  /** Words of the query, normalized. */
  text: string;
  /** Operands of a `tsquery`: quoted terms, and phrases of them. */
  operands: readonly string[];
  /** Operands that a match must not have. */
  excluded: readonly string[];
  /** Stems to look up in the vocabulary; empty if the group is a fact or has synonyms. */
  stems: readonly string[];
  /** Beginning of words in the vocabulary, if the user may still be typing the word. */
  prefix: string | undefined;
  /** Matches of the group are ranked higher. Listings that do not match are found too. */
  isPreference?: boolean;
  /** The group is a property type or place, which matters more than other words. */
  isDecisive?: boolean;
};

/** Analysis of a query: its words and limits. */
export type QueryAnalysis = {
  /** A listing that matches all groups is meant. Empty if the query has no words. */
  groups: TermGroup[];
  limits: QueryLimits;
};

/** Words of a query that say nothing of the home itself. */
const VAGUE_WORDS = new Set(
  (
    'хочу хочемо хотим шукаю шукаємо ищу ищем потрібна потрібен потрібно потрібні нужна нужен нужно нужны треба надо мені мне нам ' +
    'я ми мы щоб чтобы що что який яка яке яку які якому какой какая какие який котрий де где куди куда там тут є есть був бути быть ' +
    'свій своїм своя свою свои своє свой своей дуже очень більш более самой самый самий лише тільки только вже уже ще еще без ' +
    'коли когда якщо если через між между перед після после про над всі все весь вся усі тому поки пока майже почти разом вместе всередині усередині внутри ' +
    'відразу одразу сразу завжди всегда взяти взять робити делать працює працюють работает работают оставить залишити поставити поставить ' +
    'варіант варианты варіанти вариант пропозиція предложение обява объявление місце место вікна окна вікно окно ' +
    'рік року роки год года году молодий молодої молодая молодой людина людини людей человек осіб друзі друзів друзья друзей місто міста ' +
    'ціна цена ціну цену ціні вартість стоимость оплата бюджет дешево недорого недорога недорогу недорогий недорогая недорогую недорогой ' +
    'дешева дешевая дешевый дешевий дешеву дешевую бюджетно бюджетний бюджетный гарна гарну гарний хорошая хорошую хороший зручний удобный ' +
    'cheap cheaply inexpensive affordable budget price cost payment pay good nice great young people persons friends without no ' +
    'i we me my its our is are be that which who what it this there has have can could would will should may do does get works work ' +
    'through during while when if not all over about into than also just more most other only already always own some any ' +
    'looking look need want wanted wanting find searching search something somewhere anywhere open where space place places spot location ' +
    'window windows year city town ' +
    'хто кто хоч хотя хоча навіть даже також тоже аби має мати мають буде будет будут було була підійде підходить підходящий подойдет подходит подходящий ' +
    'знайти найти знайдіть найдите підібрати подобрать покажіть покажите порадьте посоветуйте бажано желательно обовязково обязательно приблизно примерно ' +
    'орієнтовно ориентировочно можливо возможно нормальний нормальный комфортний комфортный ідеально идеально швидко быстро вигідно выгодно дорого ' +
    'економ эконом найдешевший щось такий такой район районі районе хвилин минут пішки пешком стан состояние повністю полностью громадський общественный ' +
    'he she they them us you your am was were been being had him her his where when why how prefer preferably ideally suitable suit suits ideal perfect lovely ' +
    'comfortable decent please show give tell help someone anyone everyone minutes walk walking distance away district area neighborhood neighbourhood ' +
    'fully completely really quickly fast approximately approx roughly cheapest possible rather enough public stable стабільний стабильный'
  ).split(' '),
);

const VAGUE_STEMS = new Set([...VAGUE_WORDS].flatMap(stemQueryWord));

/** Shortest word that is vague in all its forms: short words have the stems of others. */
const MIN_VAGUE_LENGTH = 5;

/** Returns whether a word, or a word with the same stem, says nothing. Words with synonyms have no stems to look up. */
const isVague = ({ text, stems, prefix }: TermGroup) =>
  VAGUE_WORDS.has(text) ||
  (text.length >= MIN_VAGUE_LENGTH &&
    prefix === undefined &&
    stems.some((stem) => VAGUE_STEMS.has(stem)));

/** Words before a place that mean its surroundings, and words between them and the place. */
const NEAR_WORDS = new Set(
  'під под біля поблизу поблизости поруч поряд неподалік неподалеку коло недалеко близько близко возле около рядом вблизи near nearby outside around close far next bilya pid pod nepodalik nedaleko vozle okolo'.split(
    ' ',
  ),
);
/** Words for the surroundings of the place after them, which are also a wish of their own. */
const SUBURB_WORDS = new Set(
  'передмістя передмісті пригород пригороде околиця околиці околицях окрестности окрестностях suburb suburbs outskirts'.split(
    ' ',
  ),
);
const NEAR_LINKS = new Set('від до з із от до с to from of vid ot z s'.split(' '));

/**
 * Analyzes a query: words and phrases with their synonyms in three languages, places, facts such as rooms and floors,
 * phones, and limits such as those of price and area.
 */
export function analyzeQuery(query: string): QueryAnalysis {
  const { phones, rest } = extractPhones(query);
  const { excludedFloors, rest: restOfFloors } = extractFloors(
    normalizeNumbers(spellOutAmounts(rest)).replaceAll(DISTANCE_PATTERN, ' '),
  );
  const { limits, rest: restOfLimits } = extractLimits(restOfFloors);
  const groups: TermGroup[] = phones.map((phone) =>
    createFactGroup(phone, createPhoneTerms(phone).slice(0, 1)),
  );
  let position = 0;
  const addWords = (text: string, isEnd: boolean): void => {
    const words = text.split(' ').filter((word) => word !== '');
    const lastWord = isEnd && /[\p{L}\p{Nd}]$/u.test(query) ? words.at(-1) : undefined;
    groups.push(...createWordGroups(words, lastWord, limits));
  };
  for (const { start, end, terms } of findFacts(restOfLimits)) {
    addWords(restOfLimits.slice(position, start), false);
    groups.push(createFactGroup(restOfLimits.slice(start, end), terms.flatMap(widenArea)));
    position = end;
  }
  addWords(restOfLimits.slice(position), true);
  const wordGroups = keepFirstType(groups).filter(
    ({ text }) => !STOP_WORDS.has(text) && !NEAR_WORDS.has(text),
  );
  const meaningfulGroups = wordGroups.filter((group) => !isVague(group));
  const chosenGroups = meaningfulGroups.length > 0 ? meaningfulGroups : wordGroups;
  const preferences = [
    ...(excludedFloors.length > 0 ? [createPreference(excludedFloors)] : []),
    ...createDealPreference(chosenGroups, limits),
  ];
  return { groups: chosenGroups.length > 0 ? [...chosenGroups, ...preferences] : [], limits };
}

const isTypeOperand = (operand: string) => TYPE_OPERANDS.includes(operand);

/** Leaves the type to the first word for one: a house with a garage is no garage. */
function keepFirstType(groups: readonly TermGroup[]): TermGroup[] {
  const first = groups.findIndex(({ operands }) => operands.some(isTypeOperand));
  return groups.map((group, index) =>
    index <= first || !group.operands.some(isTypeOperand)
      ? group
      : {
          ...group,
          operands: group.operands.filter((operand) => !isTypeOperand(operand)),
          isDecisive: false,
        },
  );
}

const AREA_TERM_PATTERN = /^@area(\d+)$/;

function widenArea(term: string): string[] {
  const area = AREA_TERM_PATTERN.exec(term)?.[1];
  return area === undefined ? [term] : createNearAreaTerms(Number(area));
}

const createFactGroup = (text: string, terms: readonly string[]): TermGroup => ({
  text,
  operands: terms.map(quote),
  excluded: [],
  stems: [],
  prefix: undefined,
});

const createPreference = (excluded: readonly string[]): TermGroup => ({
  ...createFactGroup('', []),
  excluded: excluded.map(quote),
  isPreference: true,
});

/** Words after "to" and "from" that are no place. */
const NOT_PLACE = 'the owner|owner|develop|rent|let|buy|live|власн|госп|хаз|собств|хоз|забуд|застр';
/** Ways to a place: "5 хвилин пішки", "до моря 300 м", "500 м від метро". They are no area of the home. */
const DISTANCE_PATTERN = new RegExp(
  String.raw`(?<![\p{L}\d])\d{1,4}(?:d\d)? ?(?:(?:хв|хвилин\p{L}*|мин|минут\p{L}*|min|minutes?)|(?:к?м|k?m|метр\p{L}*|met(?:er|re)s?)` +
    String.raw`(?:(?<=(?<!\p{L})до \p{L}{3,} \d{1,4} ?\p{L}+)|(?= (?:до|від|от|to|from) (?!${NOT_PLACE})\p{L})))(?![\p{L}\d])`,
  'gu',
);

const EXCLUDED_FLOOR = String.raw`(?:(?:на|on|the) )*(?:перш|перв|first|ground|остан|послед|last|top|крайн)\p{L}*(?: (?:поверх|этаж|floor)\p{L}*)?`;
const EXCLUDED_FLOOR_PATTERN = new RegExp(
  String.raw`(?<!\p{L}|не )(?:не|ні|ни|not|neither|nor|крім|окрім|кроме|except|вище|выше|above) ${EXCLUDED_FLOOR}` +
    String.raw`(?: (?:(?:і|й|та|и|або|or|and|nor|не|ні|ни|not) ){1,2}${EXCLUDED_FLOOR})?`,
  'gu',
);

/** Takes out the floors that a query excludes: "не перший і не останній поверх", "кроме первого". */
function extractFloors(text: string): { excludedFloors: string[]; rest: string } {
  const excludedFloors = [...text.matchAll(EXCLUDED_FLOOR_PATTERN)].flatMap(([phrase]) => [
    ...(/перш|перв|first|ground|крайн/.test(phrase) ? [createFactTerm('floor', 1)] : []),
    ...(/остан|послед|last|top|крайн/.test(phrase) ? [createFactTerm('last_floor')] : []),
  ]);
  return { excludedFloors, rest: text.replaceAll(EXCLUDED_FLOOR_PATTERN, ' ') };
}

type DealType = (typeof DEAL_TYPES)[number];

/** Prices that are more likely monthly rents than daily rents or those of sales, and smallest price of a likely sale. */
const DEAL_PRICES: Record<string, { minRent: number; maxRent: number; minSale: number }> = {
  UAH: { minRent: 2500, maxRent: 100_000, minSale: 300_000 },
  USD: { minRent: 80, maxRent: 2500, minSale: 6000 },
  EUR: { minRent: 80, maxRent: 2500, minSale: 6000 },
  PLN: { minRent: 600, maxRent: 15_000, minSale: 50_000 },
};

/** Types that are sold for the price of a rent. */
const CHEAP_TYPES = [createFactTerm('garage'), createFactTerm('land')].map(quote);
/** Types whose prices do not tell a rent from a sale. */
const TYPES_OF_ANY_PRICE = [...CHEAP_TYPES, quote(createFactTerm('commercial'))];

/** Smallest monthly rent in hryvnias, and smallest price without a deal that is more likely a sale in dollars. */
const MIN_HRYVNIA_RENT = 1500;
const MIN_DOLLAR_SALE = 30_000;

/** Returns whether a price without a currency is likely in dollars. */
const isInDollars = (price: number, deals: readonly DealType[]) =>
  !deals.includes('daily_rent') &&
  (price < MIN_HRYVNIA_RENT || (deals.length === 0 && price >= MIN_DOLLAR_SALE));

/** Prefers listings of the deal that the words or the price mean. Monthly rents are no daily ones. */
function createDealPreference(groups: readonly TermGroup[], limits: QueryLimits): TermGroup[] {
  const namedDeals = DEAL_TYPES.filter((deal) =>
    groups.some(({ operands }) => operands.includes(quote(createFactTerm(deal)))),
  );
  const price = limits.price_max ?? limits.price_min;
  const hasType = (types: readonly string[]) =>
    groups.some(({ operands }) => types.some((type) => operands.includes(type)));
  // Homes are sold for dollars. Rents are in hryvnias, the default of searches.
  if (
    price !== undefined &&
    (namedDeals.includes('sale') ||
      (!hasType(TYPES_OF_ANY_PRICE) && isInDollars(price, namedDeals)))
  )
    limits.currency ??= 'USD';
  const impliedDeals = hasType(CHEAP_TYPES) ? [] : guessDeals(price, limits.currency);
  const deals = namedDeals.length > 0 ? namedDeals : impliedDeals;
  const otherDeals = DEAL_TYPES.filter((deal) => !deals.includes(deal));
  return deals.length === 0 || otherDeals.length === 0
    ? []
    : [createPreference(otherDeals.map((deal) => createFactTerm(deal)))];
}

function guessDeals(price: number | undefined, currency = 'UAH'): DealType[] {
  const prices = DEAL_PRICES[currency];
  if (price === undefined || prices === undefined) return [];
  if (price >= prices.minSale) return ['sale'];
  return price >= prices.minRent && price <= prices.maxRent ? ['rent'] : [];
}

function createWordGroups(
  words: readonly string[],
  lastWord: string | undefined,
  limits: QueryLimits,
): TermGroup[] {
  const groups: TermGroup[] = [];
  for (let index = 0; index < words.length;) {
    const rest = words.slice(index, index + MAX_PHRASE_WORDS);
    const word = rest[0] ?? '';
    const concept = findConcept(rest);
    const place = findPlace(rest);
    const length = Math.max(1, concept.length, place.length);
    const { operands: synonyms, excluded }: Concept =
      concept.length === length ? concept : { operands: [], excluded: [] };
    const places = place.length === length ? place.places : [];
    const placeOperands = places.flatMap(createPlaceOperands);
    const stems = length === 1 ? stemQueryWord(word) : [];
    index += length;
    const surroundings =
      synonyms.length === 0 && isNear(words, index - length) ? findSurroundings(places) : undefined;
    if (surroundings !== undefined) {
      limits.near = surroundings;
      continue;
    }
    const isRepeated = groups.some(
      ({ operands }) =>
        synonyms.length > 0 && synonyms.every((operand) => operands.includes(operand)),
    );
    if (isRepeated) continue;
    groups.push({
      text: rest.slice(0, length).join(' '),
      operands: [...new Set([...placeOperands, ...stems.map(quote), ...synonyms])],
      excluded,
      stems: placeOperands.length + synonyms.length === 0 ? stems : [],
      // Many words are also the name of a village.
      isDecisive:
        synonyms.length === 0
          ? placeOperands.length > 0
          : TYPE_OPERANDS.some((type) => synonyms.includes(type)),
      prefix: word === lastWord && index === words.length ? stemKey(word) : undefined,
    });
  }
  return groups;
}

/** Returns whether the words before an index mean the surroundings of the place there. */
function isNear(words: readonly string[], index: number): boolean {
  const [last = '', beforeLast = ''] = [words[index - 1], words[index - 2]];
  return meansNear(last) || (NEAR_LINKS.has(last) && meansNear(beforeLast));
}

const meansNear = (word: string): boolean => NEAR_WORDS.has(word) || SUBURB_WORDS.has(word);

/** Radius of the surroundings of a city, in metres, by its smallest population. */
const RADII: readonly [minPopulation: number, radius: number][] = [
  [500_000, 40_000],
  [50_000, 20_000],
  [5000, 10_000],
];

/** Returns the circle around the largest city among places. Undefined if all are smaller: villages have the names of things. */
function findSurroundings(places: readonly Place[]): QueryLimits['near'] {
  const [city] = places
    .filter(({ kind }) => kind === 'city')
    .toSorted((a, b) => (b.population ?? 0) - (a.population ?? 0));
  const [, radius_m] =
    RADII.find(([minPopulation]) => (city?.population ?? 0) >= minPopulation) ?? [];
  return city && radius_m
    ? { latitude: city.latitude, longitude: city.longitude, radius_m }
    : undefined;
}

/** A listing may name a place in its text alone, in any language. */
export function createPlaceOperands({ id, names }: Place): string[] {
  const words = Object.values(names).map((name) => normalizeText(name).split(' '));
  return [
    quote(createFactTerm('place', id)),
    ...words.filter(({ length }) => length <= MAX_PHRASE_WORDS).flatMap(createPhrases),
  ];
}

/** Shorter words are more often the beginning of another word. */
const MIN_PLACE_LENGTH = 4;

/** Finds the longest place name at the beginning of the words. */
function findPlace(words: readonly string[]): { length: number; places: Place[] } {
  for (let length = words.length; length > 0; length -= 1) {
    const name = words.slice(0, length).join(' ');
    const isName =
      name.length >= MIN_PLACE_LENGTH &&
      !/\d/.test(name) &&
      !STOP_WORDS.has(words[0] ?? '') &&
      !STOP_WORDS.has(words[length - 1] ?? '');
    const places = isName ? findPlaces(name) : [];
    if (places.length > 0) return { length, places };
  }
  return { length: 0, places: [] };
}
