import type { Language } from './language.ts';
import { compileTable, compileWords, createPatternTester } from './text.ts';

/** Sale, rent by the month, or rent by the night. */
export type DealType = 'sale' | 'rent' | 'daily_rent';

export type PropertyType = 'apartment' | 'house' | 'room' | 'land' | 'commercial' | 'garage';

/** Facts of a listing; null if its texts do not contain them. A known city has its Ukrainian name in the nominative. */
export type Facts = Record<'price' | 'price_per_m2' | 'rooms' | 'floor', number | null> &
  Record<'floors_total' | 'area_total' | 'area_living' | 'area_kitchen', number | null> &
  Record<'currency' | 'city' | 'district' | 'address', string | null> & {
    language: Language;
    deal_type: DealType | null;
    property_type: PropertyType | null;
  };

/** Keywords that offer a deal explicitly. The first match determines the deal. */
const OFFER_PATTERNS = compileTable<'sale' | 'rent'>(
  String.raw`
sale: прода(?:м|ю|є|єця|єтся|еться|ємо|емо|ем|ються|ється|еться|ется|ются|ж|жа|жу|жи|же|єм|ємся|но|дим)|на продаж|пропонується до продажу|(?:for|on) sale|selling|sale|to sell|we sell
rent: зда(?:м|ю|єця|еця|єтся|ється|еться|ємо|емо|єм|но|ються|сться)|сда(?:м|ю|ется|ем|ется|ются|ётся|єтся|єм|еться)|оренда|оренду|оренди|оренді|аренда|аренду|аренды|аренде|(?:for|to) (?:rent|let)|rent(?:al|als|ing)?|to let|lease|long[- ]term|sublet(?:ting)?|довгострок\p{L}+|довготривал\p{L}+|долгосроч\p{L}+|(?:на )?(?:тривалий термін|длительный срок)|помісячно|помесячно
`,
  compileWords,
);

const matchesPattern = createPatternTester(String.raw`
daily: \<(?:подобов\p{L}*|посуточн\p{L}*|щодоб\p{L}*|на добу|за добу|в добу|доба|на сутки|за сутки|в сутки|сутки|сут|per night|nightly|a night|by the night|(?<=/ ?)(?:night|day|ніч|ночь|добу|сут)|per day|daily (?:rent|rental|let)|short[- ](?:term|stays?|let|lets)|за ніч|на ніч|за ночь|на ночь|почасово)\>
monthly: \<(?:(?<=/ ?)(?:міс|мес|mo|month)|(?:на|в|за|у|per|a) (?:місяць|міс|месяц|мес|month)|pcm|monthly|щомісяч\p{L}*|ежемесячн\p{L}*)\>
byMonth: \<(?:помісячно|помесячно|місяць|месяц)
# The property is sold with its current tenant, so the words for rent are not an offer.
letAlready: \<(?:(?:з|із|с) (?:орендар\p{L}*|арендатор\p{L}*)|with (?:a )?(?:sitting )?tenants?)\>
# "4800 + комуналка": only tenants pay extra for utilities.
plusUtilities: (?:\+|плюс|plus) ?(?:комун|коммун|ком(?!\p{L})|к/п|світло|свет(?!л)|лічильник|счетчик|utilit|bills)
# Payment terms that only a sale has.
paidForGood: \<(?:розстроч|розтерм|рассроч|іпотек|ипотек|єоселя|еоселя|mortgage|instal?lments?)
# Text before a noun that is not on offer: a place nearby, a part of the property, or an exchange.
aside: (?:^|[^\p{L}])(?:в|у|во|до|від|от|біля|поруч|рядом|возле|з|із|с|со|на|під|под|для|та|і|и|є|есть|плюс|and|with|near|in|in a|in the|of the|the whole|to|for|or|або|или|чи|окрема|окремий|отдельная|новий|новый|цегляний|кирпичный|панельний|панельный|монолітний|монолитный|утеплений|сам|весь|the|our|has|including|всі|все|кожна|кожну|each|every|per|обмін на|обмен на)\s+(?:(?:[\p{L}-]+(?:ий|ый|ой|ому|ом|ій|их|ых)) )?$
exchanged: (?:обмін|обмен|обміняю|обменяю|exchange)[^.\n]{0,20}(?:на|for) (?:\S+ )?$
# Text before "кімната" that counts the rooms of a flat.
counted: [2-9] ?-? ?$|\d-$
`);

const DAILY_DENIAL_PATTERN = compileWords(
  String.raw`(?:не|без|no|not|крім|кроме) (?:зда\p{L}+ |сда\p{L}+ |for |a )?(?:подобов\p{L}*|посуточн\p{L}*|на добу|на сутки|daily|short[- ]\p{L}+|nightly|почасово)`,
  'gu',
);

function findOffer(text: string): 'sale' | 'rent' | undefined {
  const occurrences = OFFER_PATTERNS.map(([deal, pattern]) => ({
    deal,
    position: text.search(pattern),
  }));
  return occurrences
    .filter(({ position }) => position >= 0)
    .toSorted((a, b) => a.position - b.position)[0]?.deal;
}

/** Reads the deal type from keywords, or returns null. The title takes precedence. */
export function readDealType(foldedTitle: string, foldedText: string): DealType | null {
  const offer = findOffer(foldedTitle) ?? findOffer(foldedText);
  if (offer === 'sale') return 'sale';
  if (matchesPattern('daily', foldedText.replace(DAILY_DENIAL_PATTERN, ' '))) return 'daily_rent';
  if (offer !== undefined) return offer;
  if (matchesPattern('letAlready', foldedText)) return 'sale';
  if (matchesPattern('monthly', foldedText) || matchesPattern('plusUtilities', foldedText))
    return 'rent';
  return matchesPattern('paidForGood', foldedText) ? 'sale' : null;
}

/** Returns whether a text names both a sale and a rent. */
export const offersSaleAndRent = (foldedText: string): boolean =>
  OFFER_PATTERNS.every(([, pattern]) => foldedText.search(pattern) >= 0);

/** Returns whether a text names both a rent by the night and a rent by the month. */
export const offersNightsAndMonths = (foldedText: string): boolean =>
  matchesPattern('daily', foldedText.replace(DAILY_DENIAL_PATTERN, ' ')) &&
  (matchesPattern('monthly', foldedText) || matchesPattern('byMonth', foldedText));

/** Price bounds by currency: lower prices are monthly rents, higher ones are sales. Prices between are ambiguous. */
const PRICE_BOUNDS: Record<string, { rentBelow: number; saleFrom: number }> = {
  USD: { rentBelow: 4_000, saleFrom: 8_000 },
  EUR: { rentBelow: 4_000, saleFrom: 8_000 },
  UAH: { rentBelow: 90_000, saleFrom: 250_000 },
};

/** Guesses the deal type from a price and its currency, or returns null if the price is ambiguous. */
export function guessDealType(price: number | null, currency: string | null): DealType | null {
  const bounds = PRICE_BOUNDS[currency ?? ''];
  if (price === null || bounds === undefined) return null;
  if (price >= bounds.saleFrom) return 'sale';
  return price < bounds.rentBelow ? 'rent' : null;
}

/**
 * Nouns in the cases that an offered property takes: nominative, accusative, and genitive after "продаж" and "оренда".
 * The locative ("у новому будинку") is excluded, because it describes the building of a flat.
 */
const NOUN_PATTERNS = compileTable<PropertyType>(
  String.raw`
apartment: (?:квартир|кватир|квартер|кв[ао]ртир|квартирк|апартамент|апартмент|апарт|студі|студи|смарт|гостинк|полуторк|полторушк|півторк|півторушк|малосімейк|малосемейк|пентхаус|пентхауз)\p{L}*|(?:одн|дв|тр|четвер|чотир)[уоеьи]{0,2}шк[аиуо]й?|трьошк[ау]|трешк[ау]|однокімнатн\p{L}*|\d ?-? ?(?:х |х-|х|ох|ьох|ти|и|но)? ?-?(?:(?:кімнатн|комнатн|кімн|комн)\p{L}*|кім|ком)\.? ?(?:кв)?|\d ?-? ?х? ?[кk]\.? ?(?:кв|кварт\p{L}*)|(?<!\d[.,])\dк{1,2}(?! ?\$| ?грн| ?у| ?usd)|flats?|apartments?|apts?|appartments?|apartement|condo|studio|penthouse|loft|\d ?-? ?(?:br|bdr|bed|bedrooms?)
house: будинок|будиночок|дім|дом|домик|дач(?:а|у|і|и|ка|ку)|хат[аиу]|(?:продаж|продажа|оренда|аренда)\p{L}* (?:\p{L}+ )?(?:будинку|дома|будиночка|домика)|(?:половин|частин|част|пів|пол)\p{L}* ?(?:будинку|дома)|півбудинку|полдома|(?:котедж|коттедж|таунхаус|таунхауз|дуплекс|вілл|вилл|особняк|садиб|усадьб|маєт)\p{L}*|house|cottage|townhouse|villa|duplex|bungalow
room: (?:кімнат[ауи]|комнат[ауы]|койко ?-?\p{L}+|ліжко[ -]?місц\p{L}|міс(?:це|ця) (?:в|у) кімнаті|мест[оа] в комнате|підселення|подселение)|(?<!living |dining |bath|bed|bath |bed |laundry |storage |one )room(?! (?:apartment|flat|house))
land: (?:ділянк|участк|землі|земл)\p{L}*|участок|земельн\p{L}*|plot|land plot|plot of land|(?<!no )land|acreage
commercial: офіс|офис|(?:продаж|продажа|оренда|аренда)\p{L}* (?:\p{L}+ )?(?:офіс[уа]|офиса|склад[уа]|магазин[уа]|салон[уа]|ангар[уа]|готелю|отеля|будівлі|здания|ресторан[уа])|(?:приміщенн|помещени)\p{L}*|магазин|склад|кафе|кавярня|ресторан|салон|шоурум|готель|отель|гостиниц\p{L}|хостел|пансіонат|пансионат|баз[ауи] (?:відпочинку|отдыха)|будівл[яю]|здание|(?:комерційн|коммерческ)\p{L}*|ангар|office|retail|warehouse|shop|commercial|showroom|workshop|coworking
garage: гараж|гаража|гаражний|гаражный|(?:паркомісц|машиномісц|машиномест|паркомест)\p{L}*|garage|parking (?:space|spot|place)
`,
  compileWords,
);

/**
 * Returns the first property type in the text. Skips nouns for a part or neighbour of the property, or for a property
 * that is wanted in exchange.
 */
function findPropertyType(text: string): PropertyType | undefined {
  const occurrences = NOUN_PATTERNS.flatMap(([type, pattern]) =>
    Array.from(text.matchAll(pattern), ({ index: position }) => ({ type, position })),
  );
  return occurrences
    .toSorted((a, b) => a.position - b.position)
    .find(({ type, position }) => {
      const precedingText = text.slice(Math.max(0, position - 40), position);
      if (
        matchesPattern('exchanged', precedingText) ||
        (type === 'room' && matchesPattern('counted', precedingText))
      )
        return false;
      return type === 'apartment' || !matchesPattern('aside', precedingText);
    })?.type;
}

/** Reads the type of the offered property. The title takes precedence. */
export function readPropertyType(foldedTitle: string, foldedText: string): PropertyType | null {
  return findPropertyType(foldedTitle) ?? findPropertyType(foldedText) ?? null;
}
